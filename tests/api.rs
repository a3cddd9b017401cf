//! The public functions: what they refuse, what they do not write, and that all of them agree.

use core::mem::MaybeUninit;
use core::num::FpCategory;
use std::process::Command;

use lanecast::{bits::*, *};

/// The dtypes and the types of narrow floats, by the list from which the library makes them.
#[path = "../src/formats/list.rs"]
#[allow(unused, reason = "not all of the lists")]
mod list;
use list::{dtypes, narrow_floats};

/// Returns all pairs or, under Miri, which takes a hundred times as long, some pairs of every source and of every target.
fn pairs() -> impl Iterator<Item = (DType, DType)> {
    let pairs = DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|to| (from, to)));
    pairs.step_by(if cfg!(miri) { 34 } else { 1 })
}

#[test]
fn every_dtype_has_one_element_type_of_its_size() {
    let mut seen = Vec::new();
    macro_rules! note {
        ($($variant:ident = $code:literal, $name:literal, $t:ty, $kind:expr;)*) => {$({
            assert_eq!(size_of::<$t>(), (<$t as Element>::DTYPE.bits() as usize).div_ceil(8));
            seen.push(<$t as Element>::DTYPE);
        })*};
    }
    dtypes!(note);
    assert_eq!(seen, DType::ALL);
}

/// `convert`, `cast_slice`, `cast_slice_uninit_with` and `cast_vec` give the same elements: every source to one
/// target, one source to every target, and pairs of other sizes. Not all pairs, since each is compiled separately.
#[test]
fn all_entries_agree() {
    fn agree<S: Element, D: Element + core::fmt::Debug>() {
        let options = CastOptions::ml_dtypes();
        let values = [-3.0, 0.0, 0.3, 1.0, 1.5, 6.0, 300.0, 1e30, f32::NAN, f32::INFINITY];
        let src: [S; 10] = cast_vec(&values).unwrap().try_into().ok().unwrap();
        let default = format!("{:?}", src.map(|x| convert_with::<S, D>(x, &CastOptions::new())));
        assert_eq!(format!("{:?}", src.map(convert::<S, D>)), default, "{} -> {}", S::DTYPE, D::DTYPE);
        let each = src.map(|x| convert_with::<S, D>(x, &options));
        let same = |entry: &str, got: &[D]| {
            assert_eq!(format!("{got:?}"), format!("{each:?}"), "{entry}: {} -> {}", S::DTYPE, D::DTYPE);
        };
        let mut vec: Vec<D> = cast_vec_with(&src, &options).unwrap();
        same("cast_vec_with", &vec);
        cast_slice_with(&src, &mut vec, &options).unwrap();
        same("cast_slice_with", &vec);
        let mut memory = [MaybeUninit::uninit(); 10];
        same("cast_slice_uninit", cast_slice_uninit_with::<S, D>(&src, &mut memory, &options).unwrap());
    }
    macro_rules! both_ways {
        ($($variant:ident = $code:literal, $name:literal, $t:ty, $kind:expr;)*) => {$(
            agree::<$t, F8E4M3FN>();
            agree::<f64, $t>();
        )*};
    }
    dtypes!(both_ways);
    agree::<bool, Complex<f32>>();
    agree::<Complex<f64>, u8>();
    agree::<U4, i64>();
}

/// Returns what casts a pair on an instruction set, as `Debug` prints it.
fn by(isa: Isa, from: DType, to: DType, options: &CastOptions) -> String {
    let caster = Caster::new(from, to, &options.isa(isa)).unwrap();
    let debug = format!("{caster:?}");
    debug.split_once(" by: ").unwrap().1.split_once(", ").unwrap().0.to_owned()
}

/// Prints the table of what each instruction set has: `cargo test --test api support -- --ignored --nocapture`.
#[test]
#[ignore = "it prints a table"]
fn support() {
    for &isa in Isa::available() {
        println!(
            "{isa}: rows are sources, columns targets in the same order; 1..: kernels, c: copy, r: reference"
        );
        for from in DType::ALL {
            let row = DType::ALL.map(|to| match &by(isa, from, to, &CastOptions::new())[..] {
                "Copy" => "c".to_owned(),
                "Reference" => "r".to_owned(),
                kernels => kernels.trim_matches(|c: char| !c.is_ascii_digit()).to_owned(),
            });
            println!("{from:>20} {}", row.concat());
        }
    }
}

/// Every pair has kernels on every instruction set but the reference, in every mode and every layout. A cast to the same
/// dtype in the same layout is a copy, except of bools, whose bytes are normalised.
#[test]
fn nothing_is_left_to_the_reference() {
    let swapped = if cfg!(target_endian = "big") { ByteOrder::Little } else { ByteOrder::Big };
    let default = CastOptions::new();
    let options = [
        default,
        default.saturate(false).float_to_int(Overflow::Wrap).int_to_int(Overflow::Saturate),
        default.rounding(Rounding::Up).int_rounding(Rounding::NearestAway),
        default.rounding(Rounding::NearestAway).int_rounding(Rounding::NearestEven),
        default.src_packing(Packing::OnePerByte).dst_order(swapped),
        default.dst_packing(Packing::HighFirst).src_order(swapped),
    ];
    for (&isa, (from, to)) in Isa::available().iter().flat_map(|isa| pairs().map(move |pair| (isa, pair))) {
        for options in &options {
            let by = by(isa, from, to, options);
            let as_it_lies = match from.bits() {
                ..8 => options.src_packing == options.dst_packing,
                8 => true,
                _ => options.src_order == options.dst_order,
            };
            let expected = match isa {
                _ if from == to && from != DType::Bool && as_it_lies => "Copy",
                Isa::Scalar => "Reference",
                _ => "Kernels",
            };
            assert_eq!(by.split('(').next(), Some(expected), "{isa}: {from} -> {to}, {options:?}");
        }
    }
}

#[test]
fn the_identity_keeps_every_bit() {
    let signalling = f32::from_bits(0x7F80_0001);
    assert_eq!(convert::<f32, f32>(signalling).to_bits(), 0x7F80_0001);
    assert_eq!(convert::<f32, Complex<f32>>(signalling).re.to_bits(), 0x7F80_0001);
    assert_eq!(convert::<Complex<f32>, f32>(Complex::new(signalling, 1.0)).to_bits(), 0x7F80_0001);
    assert_eq!(convert::<f32, Complex<f64>>(signalling).re.to_bits(), 0x7FF8_0000_2000_0000);
    assert_eq!(convert::<F8E5M2, F8E5M2>(F8E5M2::from_bits(0x7D)).to_bits(), 0x7D);
}

#[test]
fn slices_of_different_lengths_are_refused_and_nothing_is_written() {
    let mut out = [7u8; 3];
    let error = Error::LengthMismatch { source: 2, destination: 3 };
    assert_eq!(cast_slice(&[1.0f32; 2], &mut out), Err(error));
    assert_eq!(out, [7; 3]);
    let mut memory = [MaybeUninit::<u8>::uninit(); 3];
    let error = cast_slice_uninit_with(&[1u8; 4], &mut memory, &CastOptions::new()).unwrap_err();
    assert_eq!(error, Error::LengthMismatch { source: 4, destination: 3 });
}

#[test]
fn buffers_of_the_wrong_size_are_refused_and_nothing_is_written() {
    let options = CastOptions::new();
    for (from, to) in pairs() {
        let caster = Caster::new(from, to, &options).unwrap();
        for n in [1, 3, 8, 100] {
            let needed = |t: DType| t.byte_len(n, Packing::LowFirst).unwrap();
            let (s, d) = (needed(from), needed(to));
            for (source, destination) in [(s - 1, d), (s + 1, d), (s, d - 1), (s, d + 1), (0, d), (s, 0)] {
                let mut dst = vec![0xC5; destination];
                let error = caster.cast(&vec![0; source], &mut dst, n).unwrap_err();
                let expected = if source != s {
                    let side = Side::Source;
                    Error::BufferSize { side, dtype: from, elements: n, needed: s, given: source }
                } else {
                    let side = Side::Destination;
                    Error::BufferSize { side, dtype: to, elements: n, needed: d, given: destination }
                };
                assert_eq!(error, expected);
                assert!(dst.iter().all(|&b| b == 0xC5));
            }
        }
    }
}

#[test]
fn sizes_that_overflow_are_refused() {
    let error = cast_bytes_with(&[], DType::C128, &mut [], DType::Bool, usize::MAX, &CastOptions::new());
    let side = Side::Source;
    assert_eq!(error, Err(Error::SizeOverflow { side, dtype: DType::C128, elements: usize::MAX }));
    let error = cast_bytes_with(&[], DType::U2, &mut [], DType::F64, usize::MAX / 2, &CastOptions::new());
    assert!(matches!(error, Err(Error::BufferSize { side: Side::Source, .. })), "{error:?}");
}

#[test]
fn no_elements_are_fine() {
    for (from, to) in pairs() {
        assert_eq!(cast_bytes_with(&[], from, &mut [], to, 0, &CastOptions::new()), Ok(()));
    }
    assert_eq!(cast_vec::<f32, F4E2M1>(&[]), Ok(vec![]));
}

#[test]
fn typed_slices_hold_one_narrow_element_per_byte_whatever_the_packing() {
    for packing in [Packing::LowFirst, Packing::OnePerByte, Packing::HighFirst] {
        let options = CastOptions::new().src_packing(packing).dst_packing(packing);
        let out: Vec<I4> = cast_vec_with(&[1i8, -1, 9], &options).unwrap();
        assert_eq!(out.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [0x1, 0xF, 0x9]);
        assert_eq!(cast_vec_with::<I4, i32>(&out, &options).unwrap(), [1, -1, -7]);
    }
}

#[cfg(feature = "bytemuck")]
#[test]
fn dirty_bits_of_reinterpreted_newtypes_are_ignored() {
    let dirty: [I4; 2] = bytemuck::cast([0xA1u8, 0x5Fu8]);
    assert_eq!((dirty[0].value(), dirty[0].to_bits()), (1, 0x1));
    assert_eq!(dirty[1], I4::from_bits(0xF));
    assert_eq!(
        cast_vec::<I4, I4>(&dirty).map(|v| bytemuck::cast_slice::<I4, u8>(&v).to_vec()),
        Ok(vec![1, 15])
    );
    let float: F6E2M3 = bytemuck::cast(0xC8u8);
    assert_eq!((float.to_bits(), float.to_f32()), (0x08, 1.0));
}

#[test]
fn newtypes_print_and_compare_as_numbers() {
    assert_eq!(
        format!("{} {:?} {:.3}", F8E4M3FN::from_bits(0x7E), F8E5M2::from_bits(0x7C), F4E2M1::from_bits(9)),
        "448 inf -0.500"
    );
    assert_ne!(F8E4M3FN::from_bits(0x7F), F8E4M3FN::from_bits(0x7F));
    assert_eq!(F8E4M3FN::from_bits(0x80), F8E4M3FN::from_bits(0x00));
    assert!(F8E5M2FNUZ::from_f32(-1.0) < F8E5M2FNUZ::from_f32(0.5));
    assert!(I2::from_bits(2) < I2::from_bits(1));
}

#[test]
fn casters_can_be_shared() {
    fn is<T: Copy + Send + Sync + 'static>(_: &T) {}
    let caster = Caster::new(DType::F32, DType::U4, &CastOptions::new()).unwrap();
    is(&caster);
    let threads: Vec<_> = (0..4u8)
        .map(|i| {
            std::thread::spawn(move || {
                let mut out = [0];
                caster.cast(&f32::from(i).to_ne_bytes(), &mut out, 1).unwrap();
                out[0]
            })
        })
        .collect();
    let results: Vec<u8> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    assert_eq!(results, [0, 1, 2, 3]);
}

#[test]
fn an_instruction_set_that_is_missing_is_an_error() {
    let caster = Caster::new(DType::F32, DType::F16, &CastOptions::new()).unwrap();
    for isa in Isa::ALL {
        let options = CastOptions::new().isa(isa);
        if isa.is_available() {
            assert_eq!(Caster::new(DType::F32, DType::F16, &options).unwrap().isa(), isa);
            assert_eq!(caster.with_isa(isa).unwrap().isa(), isa);
        } else {
            let error = Error::IsaUnavailable { isa };
            assert_eq!(Caster::new(DType::F32, DType::F16, &options).unwrap_err(), error);
            assert_eq!(caster.with_isa(isa).unwrap_err(), error);
            assert!(
                error.to_string().starts_with(&format!("{isa} is not available here; available: scalar"))
            );
        }
    }
}

/// `LANECAST_ISA` is read once per process, so this test runs itself in a new process for each value.
#[test]
fn the_environment_variable_chooses_the_instruction_set() {
    const CHILD: &str = "LANECAST_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let caster = Caster::new(DType::F32, DType::F16, &CastOptions::new());
        println!("best {:?}", Isa::best());
        println!("caster {:?}", caster.map(|c| c.isa()));
        println!("slice {:?}", cast_slice(&[1.0f32], &mut [0u8]));
        println!(
            "named {:?}",
            Caster::new(DType::F32, DType::F16, &CastOptions::new().isa(Isa::Scalar)).map(|c| c.isa())
        );
        return;
    }
    let child = |value: &str| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_environment_variable_chooses_the_instruction_set", "--nocapture"])
            .env(CHILD, "1")
            .env("LANECAST_ISA", value)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for isa in Isa::available() {
        let out = child(isa.name());
        assert!(
            out.contains(&format!("best Ok({isa:?})")) && out.contains(&format!("caster Ok({isa:?})")),
            "{out}"
        );
    }
    for wrong in ["sse9", "SCALAR"] {
        let out = child(wrong);
        for line in ["best", "caster", "slice"] {
            assert!(out.contains(&format!("{line} Err(IsaOverride {{ value: {wrong:?} }})")), "{out}");
        }
        assert!(out.contains("named Ok(Scalar)"), "{out}");
    }
    assert!(child("").contains("best Ok"), "an empty variable is none");
}

/// What the methods of a type return for a code.
struct Said {
    value: f32,
    wide: f64,
    back: u8,
    is: [bool; 6],
    class: FpCategory,
}

/// The constants of a type.
struct Constants {
    max: f64,
    min: f64,
    min_positive_subnormal: f64,
    min_positive: f64,
    one: f64,
    epsilon: f64,
}

/// Compares constants and methods with the format of a dtype and with the values of its codes.
fn holds(dtype: DType, constants: &Constants, codes: &[Said]) {
    let format = dtype.float_format().unwrap();
    assert_eq!(codes.len(), 1 << format.bits());
    let finite = || codes.iter().map(|x| x.wide).filter(|x| x.is_finite());
    let positive = || finite().filter(|&x| x > 0.0);
    assert_eq!(constants.max, finite().fold(f64::MIN, f64::max), "{dtype}");
    assert_eq!(constants.min, finite().fold(f64::MAX, f64::min), "{dtype}");
    assert_eq!(constants.min_positive_subnormal, positive().fold(f64::MAX, f64::min), "{dtype}");
    assert_eq!(constants.one, 1.0, "{dtype}");
    let above_one = positive().filter(|&x| x > 1.0).fold(f64::MAX, f64::min);
    assert_eq!(1.0 + constants.epsilon, above_one, "{dtype}");
    // The smallest normal value. A format without zero (e8m0) has no subnormal ones.
    let smallest_exponent = if format.has_zero() { 1 } else { 0 } - format.bias();
    assert_eq!(constants.min_positive, 2f64.powi(smallest_exponent), "{dtype}");
    for (code, x) in codes.iter().enumerate() {
        let name = format!("{dtype}: {code:#x}");
        // RISC-V makes every NaN the same one, so no `f64::from` for NaN.
        let wide = if x.value.is_nan() { convert(x.value) } else { f64::from(x.value) };
        assert_eq!(x.wide.to_bits(), wide.to_bits(), "{name}");
        let class = match f64::from(x.value).abs() {
            v if v.is_nan() => FpCategory::Nan,
            f64::INFINITY => FpCategory::Infinite,
            0.0 => FpCategory::Zero,
            v if v < constants.min_positive => FpCategory::Subnormal,
            _ => FpCategory::Normal,
        };
        assert_eq!(x.class, class, "{name}");
        let value = x.value;
        let expected = [
            value.is_nan(),
            value.is_infinite(),
            value.is_finite(),
            class == FpCategory::Normal,
            value.is_sign_negative(),
            value.is_sign_positive(),
        ];
        assert_eq!(x.is, expected, "{name}");
        assert!(!value.is_finite() || usize::from(x.back) == code, "{name}: {:#x}", x.back);
    }
}

/// The constants and classes of every narrow float, against its format and the values of its codes.
#[test]
fn narrow_floats_have_the_constants_and_classes_of_their_formats() {
    macro_rules! narrow {
        ($($name:ident, $example:literal, $value:literal, [$($special:ident)*], $what:literal;)*) => {$({
            let said = |code: u8| {
                let x = $name::from_bits(code);
                let is = [
                    x.is_nan(), x.is_infinite(), x.is_finite(), x.is_normal(), x.is_sign_negative(), x.is_sign_positive(),
                ];
                let back = $name::from_f64(x.to_f64()).to_bits();
                Said { value: x.to_f32(), wide: x.to_f64(), back, is, class: x.classify() }
            };
            let last = u8::MAX >> (8 - $name::DTYPE.float_format().unwrap().bits());
            let constants = Constants {
                max: $name::MAX.to_f64(),
                min: $name::MIN.to_f64(),
                min_positive_subnormal: $name::MIN_POSITIVE_SUBNORMAL.to_f64(),
                min_positive: $name::MIN_POSITIVE.to_f64(),
                one: $name::ONE.to_f64(),
                epsilon: $name::EPSILON.to_f64(),
            };
            holds($name::DTYPE, &constants, &(0..=last).map(said).collect::<Vec<_>>());
        })*};
    }
    narrow_floats!(narrow);
    // Rounded once: by way of an f32 this would be a tie, and be rounded down.
    assert_eq!(F8E4M3FN::from_f64(1.0625 + 2f64.powi(-40)).to_f32(), 1.125);
    assert!(F8E5M2::NAN.is_nan() && F8E8M0::NAN.is_nan() && F8E4M3FNUZ::NAN.to_bits() == 0x80);
    assert_eq!((F8E4M3::INFINITY.to_bits(), F8E4M3::NEG_INFINITY.to_bits()), (0x78, 0xF8));
    assert_eq!((F4E2M1::NEG_ZERO.to_bits(), F4E2M1::ZERO.to_bits()), (0x8, 0x0));
}

#[cfg(feature = "serde")]
#[test]
fn what_is_serialised_comes_back() {
    for dtype in DType::ALL {
        let text = serde_json::to_string(&dtype).unwrap();
        assert_eq!(text, format!("\"{dtype}\""));
        assert_eq!(serde_json::from_str::<DType>(&text).unwrap(), dtype);
    }
    for rounding in Rounding::ALL {
        assert_eq!(serde_json::to_value(rounding).unwrap(), rounding.name());
    }
    assert_eq!(
        serde_json::to_value(Packing::ALL).unwrap(),
        serde_json::json!(Packing::ALL.map(Packing::name))
    );
    assert_eq!(
        serde_json::to_value(Saturation::ALL).unwrap(),
        serde_json::json!(Saturation::ALL.map(Saturation::name))
    );
    assert_eq!(
        serde_json::to_value(NanToFinite::ALL).unwrap(),
        serde_json::json!(NanToFinite::ALL.map(NanToFinite::name))
    );
    let error = serde_json::from_str::<DType>("\"float9\"").unwrap_err().to_string();
    assert!(error.starts_with("no dtype is named \"float9\"; the names are bool, "), "{error}");
    for options in
        [CastOptions::new(), CastOptions::onnx(), CastOptions::torch().isa(Isa::Scalar).stream_from(7)]
    {
        let text = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<CastOptions>(&text).unwrap(), options, "{text}");
    }
    // Missing fields have their defaults; unknown ones are an error.
    let some: CastOptions =
        serde_json::from_str(r#"{"rounding": "up", "dst_packing": "high_first"}"#).unwrap();
    assert_eq!(some, CastOptions::new().rounding(Rounding::Up).dst_packing(Packing::HighFirst));
    assert!(serde_json::from_str::<CastOptions>(r#"{"rounded": "Up"}"#).is_err());
    // Elements are written as their bits, NaN included; a number of more bits than the dtype has is an error.
    let bits = serde_json::to_string(&[F8E4M3FN::NAN, F8E4M3FN::MAX]).unwrap();
    assert_eq!(bits, "[127,126]");
    assert_eq!(serde_json::from_str::<[F8E4M3FN; 2]>(&bits).unwrap()[0].to_bits(), 0x7F);
    assert_eq!(serde_json::from_str::<I4>("15").unwrap().value(), -1);
    let error = serde_json::from_str::<F6E2M3>("64").unwrap_err().to_string();
    assert!(error.contains("the 6 bits of a float6_e2m3fn"), "{error}");
}

#[cfg(all(feature = "serde", feature = "scaled"))]
#[test]
fn scalings_come_back_from_what_is_serialised() {
    use lanecast::scaled::{NonFinite, Profile, ScaleLayout, ScaleRule, Scaling, TensorScale};
    for scaling in [
        Scaling::mx(),
        Scaling::nvfp4().tensor_scale(TensorScale::Divide(0.1)).profile(Profile::CompressedTensors),
        Scaling::nvfp4().tensor_scale(TensorScale::ComputeMultiply).layout(ScaleLayout::Swizzle32x4x4),
        Scaling::deepseek().nonfinite(NonFinite::Ignore).rule(ScaleRule::RoundUp),
        Scaling::blocks(&[], DType::F16),
        Scaling::blocks(&[0, 1, 2, 3, 4, 5, 6, 7], DType::F16),
        Scaling::blocks(&[1; 9], DType::F16),
        Scaling::per_tensor(DType::BF16).int_rounding(Rounding::NearestAway),
        Scaling::per_axis(1),
        Scaling::along_axis(0, 16, DType::F16).precision(DType::F32).row_bytes(40).scale_row_bytes(8),
        Scaling::along_axis(0, 1, DType::F16),
    ] {
        let text = serde_json::to_string(&scaling).unwrap();
        assert_eq!(serde_json::from_str::<Scaling>(&text).unwrap(), scaling, "{text}");
    }
    fn names<T: serde::Serialize + Copy>(all: &[T], name: fn(T) -> &'static str) {
        for &one in all {
            assert_eq!(serde_json::to_value(one).unwrap(), name(one));
        }
    }
    names(&ScaleRule::ALL, ScaleRule::name);
    names(&NonFinite::ALL, NonFinite::name);
    names(&Profile::ALL, Profile::name);
    names(&ScaleLayout::ALL, ScaleLayout::name);
    let few =
        r#"{"scale_dtype": "float32", "elements": {"along_axis": [1, 32]}, "tensor_scale": {"multiply": 2}}"#;
    let expected = Scaling::along_axis(1, 32, DType::F32).tensor_scale(TensorScale::Multiply(2.0));
    assert_eq!(serde_json::from_str::<Scaling>(few).unwrap(), expected);
    for (wrong, says) in [
        (r#"{"scale_dtype": "float32"}"#, "missing field `elements`"),
        (r#"{"scale_dtype": "f32", "elements": "per_tensor"}"#, "did you mean float32?"),
        (r#"{"scale_dtype": "float32", "elements": "per_tensor", "scaling": 1}"#, "unknown field `scaling`"),
        (r#"{"scale_dtype": "float32", "elements": "tensor"}"#, "unknown variant `tensor`"),
    ] {
        let error = serde_json::from_str::<Scaling>(wrong).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
