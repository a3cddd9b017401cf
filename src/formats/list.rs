//! The lists of the dtypes: each is a line of the first list and, if Rust has no element type for it, a line of
//! the second or the third. The tests include this file, too, so it contains nothing but these macros.

/// `dtypes!(m)` calls `m!` with every dtype, in the order of the stable codes: `Variant = code, "canonical name", ElementType, Kind
/// expression;`. A new one has the next free code.
macro_rules! dtypes {
    ($apply:ident) => {
        $apply! {
            Bool         = 0,  "bool",                bool,          Kind::Bool;
            U2           = 1,  "uint2",               U2,            Kind::Int(IntFormat::unsigned(2));
            I2           = 2,  "int2",                I2,            Kind::Int(IntFormat::signed(2));
            U4           = 3,  "uint4",               U4,            Kind::Int(IntFormat::unsigned(4));
            I4           = 4,  "int4",                I4,            Kind::Int(IntFormat::signed(4));
            U8           = 5,  "uint8",               u8,            Kind::Int(IntFormat::unsigned(8));
            I8           = 6,  "int8",                i8,            Kind::Int(IntFormat::signed(8));
            U16          = 7,  "uint16",              u16,           Kind::Int(IntFormat::unsigned(16));
            I16          = 8,  "int16",               i16,           Kind::Int(IntFormat::signed(16));
            U32          = 9,  "uint32",              u32,           Kind::Int(IntFormat::unsigned(32));
            I32          = 10, "int32",               i32,           Kind::Int(IntFormat::signed(32));
            U64          = 11, "uint64",              u64,           Kind::Int(IntFormat::unsigned(64));
            I64          = 12, "int64",               i64,           Kind::Int(IntFormat::signed(64));
            F4E2M1       = 13, "float4_e2m1fn",       F4E2M1,        Kind::Float(FloatFormat::finite(2, 1, 1));
            F6E2M3       = 14, "float6_e2m3fn",       F6E2M3,        Kind::Float(FloatFormat::finite(2, 3, 1));
            F6E3M2       = 15, "float6_e3m2fn",       F6E3M2,        Kind::Float(FloatFormat::finite(3, 2, 3));
            F8E3M4       = 16, "float8_e3m4",         F8E3M4,        Kind::Float(FloatFormat::ieee(3, 4));
            F8E4M3       = 17, "float8_e4m3",         F8E4M3,        Kind::Float(FloatFormat::ieee(4, 3));
            F8E4M3FN     = 18, "float8_e4m3fn",       F8E4M3FN,      Kind::Float(FloatFormat::fn_(4, 3, 7));
            F8E4M3FNUZ   = 19, "float8_e4m3fnuz",     F8E4M3FNUZ,    Kind::Float(FloatFormat::fnuz(4, 3, 8));
            F8E4M3B11FNUZ = 20, "float8_e4m3b11fnuz", F8E4M3B11FNUZ, Kind::Float(FloatFormat::fnuz(4, 3, 11));
            F8E5M2       = 21, "float8_e5m2",         F8E5M2,        Kind::Float(FloatFormat::ieee(5, 2));
            F8E5M2FNUZ   = 22, "float8_e5m2fnuz",     F8E5M2FNUZ,    Kind::Float(FloatFormat::fnuz(5, 2, 16));
            F8E8M0       = 23, "float8_e8m0fnu",      F8E8M0,        Kind::Float(FloatFormat::E8M0);
            F16          = 24, "float16",             f16,           Kind::Float(FloatFormat::ieee(5, 10));
            BF16         = 25, "bfloat16",            bf16,          Kind::Float(FloatFormat::ieee(8, 7));
            F32          = 26, "float32",             f32,           Kind::Float(FloatFormat::ieee(8, 23));
            F64          = 27, "float64",             f64,           Kind::Float(FloatFormat::ieee(11, 52));
            C64          = 28, "complex64",           Complex<f32>,  Kind::Complex(FloatFormat::ieee(8, 23));
            C128         = 29, "complex128",          Complex<f64>,  Kind::Complex(FloatFormat::ieee(11, 52));
            U1           = 30, "uint1",               U1,            Kind::Int(IntFormat::unsigned(1));
            I1           = 31, "int1",                I1,            Kind::Int(IntFormat::signed(1));
            F8UE5M3      = 32, "float8_ue5m3",        F8UE5M3,       Kind::Float(FloatFormat::unsigned(5, 3));
            C32          = 33, "complex32",           Complex<f16>,  Kind::Complex(FloatFormat::ieee(5, 10));
            BC32         = 34, "bcomplex32",          Complex<bf16>, Kind::Complex(FloatFormat::ieee(8, 7));
        }
    };
}

/// The element types of narrow floats: `Name, code of an example, its value, [constants that not all have], "what it is";`.
macro_rules! narrow_floats {
    ($apply:ident) => {
        $apply! {
            F4E2M1, 0x3, 1.5, [zero negative], "float4_e2m1fn: 4 bits, ±6, no Inf, no NaN";
            F6E2M3, 0xC, 1.5, [zero negative], "float6_e2m3fn: 6 bits, ±7.5, no Inf, no NaN";
            F6E3M2, 0xE, 1.5, [zero negative], "float6_e3m2fn: 6 bits, ±28, no Inf, no NaN";
            F8E3M4, 0x38, 1.5, [zero negative inf minus_inf nan], "float8_e3m4: ±15.5, Inf, NaN";
            F8E4M3, 0x3C, 1.5, [zero negative inf minus_inf nan], "float8_e4m3: ±240, Inf, NaN";
            F8E4M3FN, 0x3C, 1.5, [zero negative nan], "float8_e4m3fn: ±448, no Inf, one NaN of each sign";
            F8E4M3FNUZ, 0x44, 1.5, [zero nan], "float8_e4m3fnuz: ±240, no Inf, one NaN, no −0";
            F8E4M3B11FNUZ, 0x5C, 1.5, [zero nan], "float8_e4m3b11fnuz: ±30, no Inf, one NaN, no −0";
            F8E5M2, 0x3E, 1.5, [zero negative inf minus_inf nan], "float8_e5m2: ±57344, Inf, NaN";
            F8E5M2FNUZ, 0x42, 1.5, [zero nan], "float8_e5m2fnuz: ±57344, no Inf, one NaN, no −0";
            F8UE5M3, 0x7C, 1.5, [zero nan], "float8_ue5m3: 0 to 114688, no sign, no Inf, one NaN";
            F8E8M0, 0x7E, 0.5, [nan], "float8_e8m0fnu: the powers of two from 2^-127 to 2^127, and NaN";
        }
    };
}

/// The element types of narrow integers: `Name, primitive type, code of an example, its value, "what it is";`.
macro_rules! narrow_ints {
    ($apply:ident) => {
        $apply! {
            U1, u8, 0x1, 1, "uint1: 0 and 1";
            I1, i8, 0x1, -1, "int1: −1 and 0";
            U2, u8, 0x3, 3, "uint2: 0 to 3";
            I2, i8, 0x3, -1, "int2: −2 to 1";
            U4, u8, 0xF, 15, "uint4: 0 to 15";
            I4, i8, 0xF, -1, "int4: −8 to 7";
        }
    };
}

pub(crate) use {dtypes, narrow_floats, narrow_ints};
