use core::ptr::{null, null_mut};
use std::ffi::CString;

use super::*;

#[cfg(unix)]
mod edges;
mod scaled;

fn defaults() -> lanecast_options {
    lanecast_options::from(&CastOptions::new())
}

/// `lanecast_cast` of whole slices.
fn cast(from: u8, src: &[u8], to: u8, dst: &mut [u8], n: usize, o: *const lanecast_options) -> i32 {
    // SAFETY: every test passes buffers of the size that `n` elements need, or a call that must fail before
    // it touches them; `o` is NULL or points to a whole structure.
    unsafe { lanecast_cast(from, src.as_ptr().cast(), to, dst.as_mut_ptr().cast(), n, o) }
}

/// The constants of the header that begin so, and their codes: the rest of their names, in lower case.
fn constants(prefix: &str) -> Vec<(String, u8)> {
    let lines = include_str!("../include/lanecast.h").lines();
    let found = lines
        .filter_map(|line| line.strip_prefix("#define LANECAST_")?.strip_prefix(prefix)?.split_once(' '));
    found.map(|(name, code)| (name.to_lowercase(), code.parse().expect("a number"))).collect()
}

#[test]
fn the_header_has_every_dtype_with_its_code() {
    let expected: Vec<_> = DType::ALL.iter().map(|t| (t.name().to_owned(), t.code())).collect();
    assert_eq!(constants("DTYPE_"), expected);
}

/// Every value of every option has a constant of its name.
#[test]
fn the_header_names_the_codes_of_options() {
    use rust::scaled::{NonFinite, Profile, ScaleLayout, ScaleRule};
    fn named<T: Copy + ToString>(prefix: &str, zero: Option<&str>, values: &[T]) {
        let names = zero.map(str::to_owned).into_iter().chain(values.iter().map(T::to_string));
        assert_eq!(constants(prefix), names.zip(0..).collect::<Vec<_>>(), "{prefix}");
    }
    named("ROUNDING_", None, &Rounding::ALL);
    named("SATURATE_", None, &Saturation::ALL);
    named("FLOAT_TO_INT_", None, &Overflow::ALL);
    // (Whose default, which is 0, is to wrap.)
    named("INT_TO_INT_", None, &[Overflow::Wrap, Overflow::Saturate]);
    named("NAN_TO_FINITE_", None, &NanToFinite::ALL);
    named("E8M0_ROUNDING_", None, &E8m0Rounding::ALL);
    named("ISA_", Some("best"), &Isa::ALL);
    named("PACKING_", None, &Packing::ALL);
    named("ORDER_", None, &ByteOrder::ALL);
    named("PROFILE_", None, &Profile::ALL);
    named("RULE_", Some("default"), &ScaleRule::ALL);
    named("NONFINITE_", None, &NonFinite::ALL);
    named("SCALE_LAYOUT_", None, &ScaleLayout::ALL);
    named("TENSOR_SCALE_", None, &["none", "multiply", "divide", "compute_multiply", "compute_divide"]);
}

#[test]
fn names_and_widths_round_trip() {
    for dtype in DType::ALL {
        let name = lanecast_dtype_name(dtype.code());
        // SAFETY: a code that exists has a name, which is a C string.
        assert_eq!(unsafe { CStr::from_ptr(name) }.to_str(), Ok(dtype.name()));
        let mut code = 0xFF;
        // SAFETY: a C string and a variable.
        assert_eq!(unsafe { lanecast_dtype_from_name(name, &mut code) }, LANECAST_OK);
        assert_eq!(code, dtype.code());
        assert_eq!(lanecast_dtype_bits(code), dtype.bits());
    }
    for bad in [DType::ALL.len() as u8, 128, 255] {
        assert!(lanecast_dtype_name(bad).is_null());
        assert_eq!(lanecast_dtype_bits(bad), 0);
    }
    let mut code = 0xFF;
    // SAFETY: C strings or NULL, a variable or NULL.
    unsafe {
        assert_eq!(lanecast_dtype_from_name(null(), &mut code), LANECAST_ERR_NULL);
        assert_eq!(lanecast_dtype_from_name(c"bool".as_ptr(), null_mut()), LANECAST_ERR_NULL);
        for wrong in [c"", c"Bool", c"float8", c"\xFF"] {
            assert_eq!(lanecast_dtype_from_name(wrong.as_ptr(), &mut code), LANECAST_ERR_NAME);
        }
    }
    assert_eq!(code, 0xFF, "written on error");
}

#[test]
fn options_round_trip_through_every_profile() {
    let profiles = [
        (c"onnx", CastOptions::onnx()),
        (c"numpy", CastOptions::numpy()),
        (c"torch", CastOptions::torch()),
        (c"ml_dtypes", CastOptions::ml_dtypes()),
        (c"rust_as", CastOptions::rust_as()),
    ];
    let mut o = defaults();
    for (name, options) in profiles {
        // SAFETY: a variable and a C string.
        assert_eq!(unsafe { lanecast_options_profile(&mut o, name.as_ptr()) }, LANECAST_OK);
        assert_eq!(CastOptions::try_from(&o), Ok(options), "{name:?}");
    }
    // SAFETY: a variable or NULL, C strings or NULL.
    unsafe {
        assert_eq!(lanecast_options_profile(&mut o, c"tensorflow".as_ptr()), LANECAST_ERR_NAME);
        assert_eq!(lanecast_options_profile(&mut o, null()), LANECAST_ERR_NULL);
        assert_eq!(lanecast_options_profile(null_mut(), c"onnx".as_ptr()), LANECAST_ERR_NULL);
        assert_eq!(lanecast_options_init(null_mut()), LANECAST_ERR_NULL);
        assert_eq!(lanecast_options_init(&mut o), LANECAST_OK);
    }
    assert_eq!(CastOptions::try_from(&o), Ok(CastOptions::new()));
    assert_eq!(o.size, 20);
}

/// The codes of the header, each by its effect.
#[test]
fn every_option_code_means_what_the_header_says() {
    type Case = (fn(&mut lanecast_options, u8), u8, f32, &'static [u8]);
    let cases: &[Case] = &[
        (|o, v| o.rounding = v, LANECAST_DTYPE_FLOAT8_E5M2, -1.125, &[0xBC, 0xBD, 0xBC, 0xBC, 0xBD]),
        (|o, v| o.int_rounding = v, LANECAST_DTYPE_INT8, -2.5, &[0xFE, 0xFD, 0xFE, 0xFE, 0xFD]),
        (|o, v| o.saturate = v, LANECAST_DTYPE_FLOAT8_E4M3FN, 1e9, &[0x7F, 0x7E, 0x7E, 0x7E]),
        (|o, v| o.saturate = v, LANECAST_DTYPE_FLOAT8_E4M3FNUZ, 1e9, &[0x80, 0x7F, 0x80, 0x7F]),
        (|o, v| o.saturate = v, LANECAST_DTYPE_FLOAT8_E5M2, 1e9, &[0x7C, 0x7B, 0x7C, 0x7C]),
        (|o, v| o.float_to_int = v, LANECAST_DTYPE_UINT8, 257.0, &[0xFF, 0x01]),
        (|o, v| o.nan_to_finite = v, LANECAST_DTYPE_FLOAT6_E2M3FN, f32::NAN, &[0x20, 0x1F, 0x00]),
        (|o, v| o.e8m0_rounding = v, LANECAST_DTYPE_FLOAT8_E8M0FNU, 1.25, &[0x80, 0x7F, 0x7F]),
        (|o, v| o.narrow_int_rounding = v, LANECAST_DTYPE_INT4, -2.5, &[0xE, 0xE, 0xD, 0xE, 0xE, 0xD]),
        (|o, v| o.narrow_float_to_int = v, LANECAST_DTYPE_UINT4, 17.0, &[0xF, 0xF, 0x1]),
        (|o, v| o.isa = v, LANECAST_DTYPE_BOOL, 1.0, &[1, 1]),
    ];
    for (i, &(set, to, x, expected)) in cases.iter().enumerate() {
        for (code, &expected) in expected.iter().enumerate() {
            let mut o = defaults();
            set(&mut o, code as u8);
            let mut out = [0xA5];
            let status = cast(LANECAST_DTYPE_FLOAT32, &x.to_ne_bytes(), to, &mut out, 1, &o);
            assert_eq!((status, out[0]), (LANECAST_OK, expected), "case {i}, code {code}");
        }
    }
    let mut o = defaults();
    let mut out = [0];
    for (code, expected) in [(0, 0xC8), (1, 0x7F)] {
        o.int_to_int = code;
        cast(LANECAST_DTYPE_INT16, &200i16.to_ne_bytes(), LANECAST_DTYPE_INT8, &mut out, 1, &o);
        assert_eq!(out[0], expected);
    }
}

#[test]
fn layouts_are_honoured_on_both_sides() {
    let mut o = defaults();
    for (packing, bytes) in [(0, &[0x21, 0x03][..]), (1, &[1, 2, 3]), (2, &[0x12, 0x30])] {
        (o.dst_packing, o.src_packing) = (packing, 0);
        let mut out = vec![0xA5; bytes.len()];
        assert_eq!(cast(LANECAST_DTYPE_INT8, &[1, 2, 3], LANECAST_DTYPE_INT4, &mut out, 3, &o), LANECAST_OK);
        assert_eq!(out, bytes);
        (o.dst_packing, o.src_packing) = (0, packing);
        let mut back = [0; 3];
        assert_eq!(cast(LANECAST_DTYPE_INT4, bytes, LANECAST_DTYPE_INT8, &mut back, 3, &o), LANECAST_OK);
        assert_eq!(back, [1, 2, 3]);
    }
    let mut o = defaults();
    let orders = [1f32.to_ne_bytes(), 1f32.to_le_bytes(), 1f32.to_be_bytes()];
    for (src_order, src) in (0..).zip(&orders) {
        for (dst_order, dst) in (0..).zip(&orders) {
            (o.src_order, o.dst_order) = (src_order, dst_order);
            let mut out = [0; 4];
            assert_eq!(
                cast(LANECAST_DTYPE_FLOAT32, src, LANECAST_DTYPE_FLOAT32, &mut out, 1, &o),
                LANECAST_OK
            );
            assert_eq!(&out, dst);
        }
    }
}

#[test]
fn misuse_is_an_error_and_writes_nothing() {
    let src = [0u8; 64];
    let mut dst = [0xA5u8; 64];
    let good = defaults();
    assert_eq!(cast(255, &src, 5, &mut dst, 4, &good), LANECAST_ERR_DTYPE);
    assert_eq!(cast(5, &src, 255, &mut dst, 4, &good), LANECAST_ERR_DTYPE);

    // Every field out of its range, one at a time. The size is at bytes 0..4.
    let limits = [5, 5, 4, 2, 2, 3, 3, 6, 3, 3, 3, 3, 6, 3, 1, 1];
    for (i, limit) in limits.into_iter().enumerate() {
        for value in [limit, limit + 1, 255] {
            let mut o = good;
            // SAFETY: byte 4 + i of a structure of 20 bytes that are all integers.
            unsafe { (&raw mut o).cast::<u8>().add(4 + i).write(value) };
            assert_eq!(cast(5, &src, 6, &mut dst, 4, &o), LANECAST_ERR_OPTIONS, "byte {}, {value}", 4 + i);
        }
    }
    for size in [0, 4, 19] {
        let o = lanecast_options { size, ..good };
        assert_eq!(cast(5, &src, 6, &mut dst, 4, &o), LANECAST_ERR_OPTIONS, "size {size}");
    }
    for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
        let o = lanecast_options { isa: isa as u8, ..good };
        assert_eq!(cast(5, &src, 6, &mut dst, 4, &o), LANECAST_ERR_ISA, "{isa}");
        assert_eq!(lanecast_isa_available(isa as u8), 0);
    }

    // SAFETY: every call must fail before it touches a buffer.
    unsafe {
        let (s, d) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
        assert_eq!(lanecast_cast(5, null(), 6, d, 1, &good), LANECAST_ERR_NULL);
        assert_eq!(lanecast_cast(5, s, 6, null_mut(), 1, &good), LANECAST_ERR_NULL);
        let huge = [usize::MAX, usize::MAX / 2, usize::MAX / 16 + 1, isize::MAX as usize];
        for n in huge {
            assert_eq!(lanecast_cast(29, s, 29, d, n, &good), LANECAST_ERR_SIZE, "{n}");
        }
        assert_eq!(lanecast_cast(5, s, 5, d, usize::MAX, &good), LANECAST_ERR_SIZE);
    }
    assert_eq!(dst, [0xA5; 64]);
}

#[test]
fn overlap_is_an_error_and_neighbours_are_not() {
    let mut buffer = [0u8; 64];
    let base = buffer.as_mut_ptr();
    // 8 elements: 8 bytes of source at 16, 16 bytes of destination.
    for offset in 0..48 {
        // SAFETY: both ranges are in the buffer, which nothing else uses meanwhile.
        let status = unsafe {
            lanecast_cast(
                LANECAST_DTYPE_UINT8,
                base.add(16).cast(),
                LANECAST_DTYPE_UINT16,
                base.add(offset).cast(),
                8,
                null(),
            )
        };
        let overlaps = offset < 24 && offset + 16 > 16;
        assert_eq!(status, if overlaps { LANECAST_ERR_OVERLAP } else { LANECAST_OK }, "offset {offset}");
    }
}

#[test]
fn no_elements_need_no_buffers() {
    for from in DType::ALL.map(DType::code) {
        for to in DType::ALL.map(DType::code) {
            // SAFETY: nothing is touched.
            assert_eq!(unsafe { lanecast_cast(from, null(), to, null_mut(), 0, null()) }, LANECAST_OK);
        }
    }
    // Bad arguments are still errors.
    // SAFETY: nothing is touched.
    assert_eq!(unsafe { lanecast_cast(255, null(), 0, null_mut(), 0, null()) }, LANECAST_ERR_DTYPE);
}

#[test]
fn unaligned_buffers_are_fine() {
    let mut src = [0u8; 64];
    let mut dst = [0u8; 64];
    for (s, d) in [(0, 1), (1, 0), (3, 5), (7, 7)] {
        src[s..s + 8].copy_from_slice(&1.5f64.to_ne_bytes());
        src[s + 8..s + 16].copy_from_slice(&(-2.5f64).to_ne_bytes());
        let status =
            cast(LANECAST_DTYPE_FLOAT64, &src[s..], LANECAST_DTYPE_FLOAT32, &mut dst[d..], 2, null());
        assert_eq!(status, LANECAST_OK);
        assert_eq!(dst[d..d + 8], [1.5f32.to_ne_bytes(), (-2.5f32).to_ne_bytes()].concat());
    }
}

/// A caller built against a later header: the part we do not know must be zero.
#[test]
fn longer_options_are_taken_while_the_rest_is_zero() {
    #[repr(C)]
    struct Later {
        ours: lanecast_options,
        theirs: [u8; 12],
    }
    let mut later = Later { ours: lanecast_options { size: 60, rounding: 3, ..defaults() }, theirs: [0; 12] };
    let src = 1.0000001f64.to_ne_bytes();
    let mut dst = [0; 2];
    let mut call = |later: &Later| {
        cast(LANECAST_DTYPE_FLOAT64, &src, LANECAST_DTYPE_FLOAT16, &mut dst, 1, (&raw const *later).cast())
    };
    assert_eq!(call(&later), LANECAST_OK);
    for i in 0..12 {
        later.theirs[i] = 1;
        assert_eq!(call(&later), LANECAST_ERR_OPTIONS, "byte {i}");
        later.theirs[i] = 0;
    }
    assert_eq!(dst, 0x3C01u16.to_ne_bytes());
}

#[test]
fn every_status_has_its_own_text() {
    let texts: Vec<&CStr> =
        // SAFETY: the answer is a C string for every status.
        (-15..=1).map(|status| unsafe { CStr::from_ptr(lanecast_strerror(status)) }).collect();
    let unknown = texts[0];
    assert_eq!(texts.iter().filter(|text| **text == unknown).count(), 2); // -15 and 1
    assert!(texts.iter().all(|text| !text.is_empty()));
}

/// What the last call of this thread that failed says.
pub(super) fn message() -> String {
    // SAFETY: a C string until the next call of this thread fails.
    unsafe { CStr::from_ptr(lanecast_error_message()) }.to_str().expect("UTF-8").to_owned()
}

/// A call that fails says what was given.
#[test]
fn failures_say_what_was_given() {
    let (src, mut dst) = ([0; 4], [0; 4]);
    let with = |set: fn(&mut lanecast_options)| {
        let mut o = defaults();
        set(&mut o);
        o
    };
    let f32 = LANECAST_DTYPE_FLOAT32;
    for (status, text, o) in [
        (LANECAST_ERR_OPTIONS, "rounding is 9; the codes are 0 to 4", with(|o| o.rounding = 9)),
        (LANECAST_ERR_OPTIONS, "isa is 6; the codes are 0 to 5", with(|o| o.isa = 6)),
        (
            LANECAST_ERR_OPTIONS,
            "the reserved fields of the options must be zero",
            with(|o| o.reserved[1] = 1),
        ),
        (
            LANECAST_ERR_OPTIONS,
            "the size of o is 1; it must be at least 20 (the init functions set it)",
            with(|o| o.size = 1),
        ),
    ] {
        assert_eq!(cast(f32, &src, f32, &mut dst, 1, &o), status);
        assert!(message().contains(text), "{}", message());
    }
    assert_eq!(cast(200, &src, f32, &mut dst, 1, null()), LANECAST_ERR_DTYPE);
    assert_eq!(message(), "no dtype has the code 200");
    // It stays while calls succeed.
    assert_eq!(cast(f32, &src, f32, &mut dst, 1, null()), LANECAST_OK);
    assert_eq!(message(), "no dtype has the code 200");
    let (mut code, mut o) = (0, defaults());
    // SAFETY: C strings, and variables.
    unsafe {
        assert_eq!(lanecast_dtype_from_name(c"fp8".as_ptr(), &mut code), LANECAST_ERR_NAME);
        assert!(message().starts_with(r#"no dtype is named "fp8"; the names are bool, "#), "{}", message());
        let last = DType::ALL.last().map_or("", |dtype| dtype.name());
        assert!(message().ends_with(&format!(", {last}")), "there is room for all: {}", message());
        assert_eq!(lanecast_options_profile(&mut o, c"jax".as_ptr()), LANECAST_ERR_NAME);
        assert_eq!(
            message(),
            r#"no profile is named "jax"; the names are onnx, numpy, torch, ml_dtypes, rust_as"#
        );
        assert_eq!(lanecast_dtype_from_name(c"\xFF".as_ptr(), &mut code), LANECAST_ERR_NAME);
        assert_eq!(message(), r#"name is "\xff", which is not UTF-8, and names nothing"#);
        let operands = [LANECAST_DTYPE_FLOAT8_E4M3FN, LANECAST_DTYPE_FLOAT8_E5M2];
        let status = lanecast_promote(c"numpy".as_ptr(), operands.as_ptr(), 2, &mut code);
        assert_eq!(status, LANECAST_ERR_UNDEFINED);
        assert!(message().starts_with("numpy has no float8_e4m3fn; it has bool, uint8"), "{}", message());
    }
    #[repr(C)]
    struct Later(lanecast_options, [u8; 12]);
    let later = Later(lanecast_options { size: 60, ..defaults() }, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(cast(f32, &src, f32, &mut dst, 1, (&raw const later).cast()), LANECAST_ERR_OPTIONS);
    assert_eq!(message(), "byte 53 of o is not zero; this library knows only the first 48 of its 60 bytes");
}

/// A call with a pointer that is wrong says which.
#[test]
fn failures_name_the_pointer() {
    let f32 = LANECAST_DTYPE_FLOAT32;
    let (mut a, mut b) = ([0f32; 64], [0f32; 64]);
    let (src, dst) = (a.as_mut_ptr().cast::<c_void>(), b.as_mut_ptr().cast::<c_void>());
    let (shape, stride) = (8usize, 4isize);
    let mut scaling = MaybeUninit::uninit();
    // SAFETY: every call must fail before it touches a buffer.
    unsafe {
        let fails = |status: lanecast_status, expected: lanecast_status, text: &str| {
            assert_eq!((status, &message()[..]), (expected, text));
        };
        let null_is = |status, what: &str| {
            fails(status, LANECAST_ERR_NULL, &format!("{what} must not be NULL"));
        };
        null_is(lanecast_cast(f32, null(), f32, dst, 1, null()), "src");
        null_is(lanecast_cast(f32, src, f32, null_mut(), 1, null()), "dst");
        null_is(lanecast_cast_in_place(f32, f32, null_mut(), 4, 1, null()), "buf");
        null_is(lanecast_cast_parallel_with(f32, src, f32, dst, 1, null(), null()), "how");
        null_is(lanecast_options_init(null_mut()), "o");
        null_is(lanecast_parallel_init(null_mut()), "p");
        null_is(lanecast_scaling_init(null_mut(), c"mx".as_ptr()), "s");
        null_is(lanecast_scaling_init(scaling.as_mut_ptr(), null()), "name");
        null_is(lanecast_can_cast(f32, f32, null(), null_mut()), "level");
        null_is(lanecast_can_cast(f32, f32, c"safe".as_ptr(), null_mut()), "out");
        null_is(lanecast_promote(null(), null(), 0, null_mut()), "rules");
        let strided =
            |src, from, dst, to, shape| lanecast_cast_strided(f32, src, from, f32, dst, to, shape, 1, null());
        null_is(strided(null(), &stride, dst, &stride, &shape), "src");
        null_is(strided(src, &stride, null_mut(), &stride, &shape), "dst");
        null_is(strided(src, null(), dst, &stride, &shape), "src_strides");
        null_is(strided(src, &stride, dst, null(), &shape), "dst_strides");
        null_is(strided(src, &stride, dst, &stride, null()), "shape");

        fails(lanecast_cast(f32, src, f32, src, 8, null()), LANECAST_ERR_OVERLAP, "src and dst overlap");
        let checked = |bits| lanecast_cast_checked(f32, src, f32, dst, 8, null(), null_mut(), bits);
        fails(checked(src.cast()), LANECAST_ERR_OVERLAP, "validity and src overlap");
        fails(checked(dst.cast()), LANECAST_ERR_OVERLAP, "validity and dst overlap");

        let size = LANECAST_ERR_SIZE;
        fails(
            lanecast_cast_from(f32, src, usize::MAX, f32, dst, 1, null()),
            size,
            &format!("offset + n is {} + 1, more than a size_t holds", usize::MAX),
        );
        fails(
            lanecast_cast(f32, src, f32, dst, usize::MAX, null()),
            size,
            "src does not fit into the address space",
        );
        fails(
            lanecast_cast_in_place(f32, f32, src, 4, 0, null()),
            size,
            "the buffer has 4 bytes; 0 elements of float32 need exactly 0",
        );
        // One buffer is neither source nor destination; its size is that of the wider elements.
        let u8 = LANECAST_DTYPE_UINT8;
        for [from, to] in [[f32, u8], [u8, f32]] {
            fails(
                lanecast_cast_in_place(from, to, src, 5, 2, null()),
                size,
                "the buffer has 5 bytes; 2 elements of float32 need exactly 8",
            );
            fails(
                lanecast_cast_in_place(from, to, src, 5, usize::MAX / 2, null()),
                size,
                &format!(
                    "a buffer of {} elements of float32 would extend beyond the address space",
                    usize::MAX / 2
                ),
            );
        }
        let odd = (&raw const shape).byte_add(1);
        assert_eq!(strided(src, &stride, dst, &stride, odd), size);
        assert!(
            message().starts_with("shape is at the address 0x") && message().contains("not a multiple of "),
            "{}",
            message()
        );

        let mut quantize = |dst, scales| {
            lanecast_scaling_init(scaling.as_mut_ptr(), c"mx".as_ptr());
            let (s, tensor_scale) = (scaling.as_ptr(), null_mut());
            lanecast_quantize(
                f32,
                src,
                LANECAST_DTYPE_INT8,
                dst,
                &shape,
                1,
                s,
                scales,
                null_mut(),
                1,
                tensor_scale,
                null(),
                null(),
            )
        };
        fails(quantize(src, dst), LANECAST_ERR_OVERLAP, "src and dst overlap");
        fails(quantize(dst, dst), LANECAST_ERR_OVERLAP, "dst and scales overlap");
        null_is(quantize(dst, null_mut()), "scales");
    }
}

/// Every ruleset and pair as the Rust library has it, and three operands at once.
#[test]
fn promotion_is_that_of_the_rulesets() {
    let promote = |rules: &CStr, operands: &[u8]| {
        let mut out = 0xFF;
        // SAFETY: a C string, a slice and a variable.
        let status = unsafe { lanecast_promote(rules.as_ptr(), operands.as_ptr(), operands.len(), &mut out) };
        assert!(status == LANECAST_OK || out == 0xFF, "written on error");
        (status, out)
    };
    for rules in Rules::ALL {
        let name = CString::new(rules.name()).unwrap();
        for a in DType::ALL {
            for b in DType::ALL {
                let expected =
                    rules.promote(a, b).map_or((LANECAST_ERR_UNDEFINED, 0xFF), |t| (LANECAST_OK, t.code()));
                assert_eq!(promote(&name, &[a.code(), b.code()]), expected, "{name:?} {a} {b}");
            }
        }
    }
    use DType::*;
    assert_eq!(promote(c"numpy", &[I8, U16, F32].map(DType::code)), (LANECAST_OK, F32.code()));
    assert_eq!(promote(c"numpy", &[F64.code()]), (LANECAST_OK, F64.code()));
    assert_eq!(promote(c"numpy", &[]), (LANECAST_ERR_UNDEFINED, 0xFF));
    assert_eq!(promote(c"numpy", &[F32.code(), 255]), (LANECAST_ERR_DTYPE, 0xFF));
    assert_eq!(promote(c"NumPy", &[F32.code()]), (LANECAST_ERR_NAME, 0xFF));
    let mut out = 0xFF;
    // SAFETY: C strings or NULL, an array or NULL, a variable or NULL.
    unsafe {
        assert_eq!(lanecast_promote(null(), [5].as_ptr(), 1, &mut out), LANECAST_ERR_NULL);
        assert_eq!(lanecast_promote(c"numpy".as_ptr(), null(), 1, &mut out), LANECAST_ERR_NULL);
        assert_eq!(lanecast_promote(c"numpy".as_ptr(), null(), 0, &mut out), LANECAST_ERR_UNDEFINED);
        assert_eq!(lanecast_promote(c"numpy".as_ptr(), [5].as_ptr(), 1, null_mut()), LANECAST_ERR_NULL);
        assert_eq!(
            lanecast_promote(c"numpy".as_ptr(), [5].as_ptr(), usize::MAX, &mut out),
            LANECAST_ERR_SIZE
        );
    }
    assert_eq!(out, 0xFF, "written on error");
}

#[test]
fn can_cast_is_that_of_the_levels() {
    let levels = [c"no", c"equiv", c"safe", c"same_kind", c"same_value", c"unsafe"];
    for (level, name) in Casting::ALL.into_iter().zip(levels) {
        for from in DType::ALL {
            for to in DType::ALL {
                let mut out = -1;
                // SAFETY: a C string and a variable.
                let status = unsafe { lanecast_can_cast(from.code(), to.code(), name.as_ptr(), &mut out) };
                assert_eq!(
                    (status, out),
                    (LANECAST_OK, from.can_cast(to, level).into()),
                    "{from} {to} {level}"
                );
            }
        }
    }
    let mut out = -1;
    // SAFETY: C strings or NULL, a variable or NULL.
    unsafe {
        assert_eq!(lanecast_can_cast(255, 0, c"safe".as_ptr(), &mut out), LANECAST_ERR_DTYPE);
        assert_eq!(lanecast_can_cast(0, 255, c"safe".as_ptr(), &mut out), LANECAST_ERR_DTYPE);
        assert_eq!(lanecast_can_cast(0, 0, c"Safe".as_ptr(), &mut out), LANECAST_ERR_NAME);
        assert_eq!(lanecast_can_cast(0, 0, null(), &mut out), LANECAST_ERR_NULL);
        assert_eq!(lanecast_can_cast(0, 0, c"safe".as_ptr(), null_mut()), LANECAST_ERR_NULL);
    }
    assert_eq!(out, -1, "written on error");
}

const LOSSLESS: lanecast_report = lanecast_report {
    elements: 0,
    above: 0,
    below: 0,
    nan: 0,
    inf: 0,
    imaginary: 0,
    inexact: 0,
    first: u64::MAX,
    first_inexact: u64::MAX,
};

#[test]
fn checked_casts_count_mark_and_cast_all_the_same() {
    let src: Vec<u8> = [1.5f32, 300.0, -1.0, f32::NAN, f32::INFINITY, 255.5, 7.0, -0.0, 1e30]
        .iter()
        .flat_map(|x| x.to_ne_bytes())
        .collect();
    let (mut dst, mut plain) = ([0xA5u8; 10], [0xA5u8; 10]);
    let (mut bits, mut report) = ([0xA5u8; 3], LOSSLESS);
    let mut checked = |report: *mut lanecast_report, bits: *mut u8| {
        let (s, d) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
        // SAFETY: nine elements on both sides, and a bitmap of two bytes; a variable or NULL.
        let status = unsafe { lanecast_cast_checked(26, s, 5, d, 9, null(), report, bits) };
        (status, dst)
    };
    assert_eq!(cast(26, &src, 5, &mut plain, 9, null()), LANECAST_OK);
    assert_eq!(checked(&mut report, bits.as_mut_ptr()), (LANECAST_ERR_LOSSY, plain));
    let expected = lanecast_report {
        elements: 9,
        above: 2,
        below: 1,
        nan: 1,
        inf: 1,
        inexact: 2,
        first: 1,
        first_inexact: 0,
        ..LOSSLESS
    };
    assert_eq!(report, expected);
    assert_eq!(bits, [0b1110_0001, 0, 0xA5]);
    // Neither the report nor the bitmap need be there.
    assert_eq!(checked(null_mut(), null_mut()), (LANECAST_ERR_LOSSY, plain));
    assert_eq!(checked(&mut report, null_mut()), (LANECAST_ERR_LOSSY, plain));
    assert_eq!((report, plain[9]), (expected, 0xA5));
    // Without a cast, and on threads.
    let s = src.as_ptr().cast();
    let mut how = core::mem::MaybeUninit::uninit();
    for report in [&raw mut report, null_mut()] {
        // SAFETY: nine elements, and variables or NULL.
        let (looked, done) = unsafe {
            lanecast_parallel_init(how.as_mut_ptr());
            let how: *mut lanecast_parallel = how.as_mut_ptr();
            ((*how).chunk, (*how).threads) = (2, 3);
            let looked = lanecast_check(26, s, 5, 9, null(), report);
            let d = dst.as_mut_ptr().cast();
            (looked, lanecast_cast_checked_parallel(26, s, 5, d, 9, null(), how, report))
        };
        assert_eq!((looked, done, dst), (LANECAST_ERR_LOSSY, LANECAST_ERR_LOSSY, plain));
    }
    assert_eq!(report, expected);
    let mut looked = LOSSLESS;
    // SAFETY: as above.
    assert_eq!(unsafe { lanecast_check(26, s, 5, 9, null(), &mut looked) }, LANECAST_ERR_LOSSY);
    assert_eq!((looked, &message()[..]), (expected, "the cast loses elements"));
    // SAFETY: nothing is touched but the variable.
    unsafe {
        assert_eq!(lanecast_check(26, null(), 5, 0, null(), &mut looked), LANECAST_OK);
        assert_eq!(looked, LOSSLESS);
        assert_eq!(lanecast_check(26, null(), 5, 1, null(), null_mut()), LANECAST_ERR_NULL);
        assert_eq!(lanecast_check(26, s, 5, usize::MAX, null(), null_mut()), LANECAST_ERR_SIZE);
        let none = lanecast_cast_checked_parallel(26, s, 5, null_mut(), 9, null(), null(), null_mut());
        assert_eq!(none, LANECAST_ERR_NULL);
    }

    // What is rounded is not lost, and what is not lost is LANECAST_OK.
    let src = [0.1f64, 1.0].map(f64::to_ne_bytes).concat();
    let mut dst = [0u8; 8];
    let (s, d) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
    // SAFETY: two elements on both sides, a variable, and a bitmap.
    let status = unsafe { lanecast_cast_checked(27, s, 26, d, 2, null(), &mut report, bits.as_mut_ptr()) };
    let expected = lanecast_report { elements: 2, inexact: 1, first_inexact: 0, ..LOSSLESS };
    assert_eq!((status, report, bits[0]), (LANECAST_OK, expected, 0b11));
    // SAFETY: nothing is touched but the variable.
    let status =
        unsafe { lanecast_cast_checked(27, null(), 26, null_mut(), 0, null(), &mut report, null_mut()) };
    assert_eq!((status, report), (LANECAST_OK, LOSSLESS));
}

#[test]
fn misuse_of_checked_casts_is_an_error_and_writes_nothing() {
    let mut buffer = [0xA5u8; 64];
    let base = buffer.as_mut_ptr();
    let mut report = LOSSLESS;
    report.elements = 77;
    let mut refused =
        |from, src: *const u8, to, dst: *mut u8, n, o: *const lanecast_options, bits: *mut u8| {
            // SAFETY: every call must fail before it touches a buffer.
            unsafe { lanecast_cast_checked(from, src.cast(), to, dst.cast(), n, o, &mut report, bits) }
        };
    let at = |i: usize| base.wrapping_add(i);
    let bad = lanecast_options { rounding: 9, ..defaults() };
    assert_eq!(refused(255, at(0), 5, at(32), 8, null(), null_mut()), LANECAST_ERR_DTYPE);
    assert_eq!(refused(5, at(0), 255, at(32), 8, null(), null_mut()), LANECAST_ERR_DTYPE);
    assert_eq!(refused(5, null(), 6, at(32), 8, null(), null_mut()), LANECAST_ERR_NULL);
    assert_eq!(refused(5, at(0), 6, null_mut(), 8, null(), null_mut()), LANECAST_ERR_NULL);
    assert_eq!(refused(5, at(0), 6, at(32), 8, &bad, null_mut()), LANECAST_ERR_OPTIONS);
    assert_eq!(refused(29, at(0), 6, at(32), usize::MAX / 8, null(), null_mut()), LANECAST_ERR_SIZE);
    // Source and destination; the bitmap and either.
    assert_eq!(refused(5, at(0), 6, at(7), 8, null(), at(60)), LANECAST_ERR_OVERLAP);
    assert_eq!(refused(5, at(0), 6, at(32), 9, null(), at(8)), LANECAST_ERR_OVERLAP);
    assert_eq!(refused(5, at(0), 6, at(32), 9, null(), at(31)), LANECAST_ERR_OVERLAP);
    assert_eq!(report.elements, 77, "written on error");
    assert_eq!(buffer, [0xA5; 64]);
}

#[test]
fn scalar_is_always_available() {
    assert_eq!(lanecast_isa_available(0), 1);
    assert_eq!(lanecast_isa_available(1), 1);
    assert_eq!(lanecast_isa_available(200), 0);
}

#[test]
fn isa_best_is_that_of_the_crate() {
    let best = lanecast_isa_best();
    assert_eq!(best, Isa::best().expect("LANECAST_ISA names what is available") as i32);
    assert_eq!(lanecast_isa_available(best as u8), 1);
}

/// Options for one narrow element per byte.
fn bytes() -> lanecast_options {
    lanecast_options { src_packing: 1, dst_packing: 1, ..defaults() }
}

#[test]
fn threads_give_the_same_and_say_when_something_is_wrong() {
    let n = 1 << 20;
    let src: Vec<u8> = (0..n).map(|i| i as u8).collect();
    let (mut expected, mut dst) = (vec![0; 4 * n], vec![0; 4 * n]);
    assert_eq!(
        cast(LANECAST_DTYPE_UINT8, &src, LANECAST_DTYPE_FLOAT32, &mut expected, n, null()),
        LANECAST_OK
    );
    let (s, d) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
    for threads in [0, 1, 2, 7, u32::MAX] {
        // SAFETY: buffers of `n` elements.
        let status = unsafe {
            lanecast_cast_parallel(LANECAST_DTYPE_UINT8, s, LANECAST_DTYPE_FLOAT32, d, n, null(), threads)
        };
        assert_eq!(status, LANECAST_OK);
        assert!(dst == expected);
        dst.fill(0);
    }
    // SAFETY: calls that must fail before they touch a buffer, and one without elements.
    unsafe {
        let call = |from, s, to, d, n| lanecast_cast_parallel(from, s, to, d, n, null(), 2);
        assert_eq!(call(255, s, 0, d, n), LANECAST_ERR_DTYPE);
        assert_eq!(call(0, null(), 0, d, n), LANECAST_ERR_NULL);
        assert_eq!(call(0, s, 0, s.cast_mut(), n), LANECAST_ERR_OVERLAP);
        assert_eq!(call(LANECAST_DTYPE_INT16, s, 0, d, usize::MAX), LANECAST_ERR_SIZE);
        assert_eq!(call(0, null(), 0, null_mut(), 0), LANECAST_OK);
    }
    assert!(dst.iter().all(|&b| b == 0), "written on error");
}

#[test]
fn a_host_runs_the_tasks_and_may_stop_them() {
    /// Every second task, on two threads.
    unsafe extern "C" fn parallel_for(
        context: *mut c_void,
        tasks: usize,
        task: lanecast_task,
        job: *mut c_void,
    ) {
        // SAFETY: the test passes a counter.
        unsafe { *context.cast::<usize>() += tasks };
        let (task, job) = (task.unwrap(), job.expose_provenance());
        std::thread::scope(|scope| {
            for first in [0, 1] {
                scope.spawn(move || {
                    for i in (first..tasks).step_by(4) {
                        // SAFETY: the job of this task, while the loop runs.
                        unsafe { task(core::ptr::with_exposed_provenance_mut(job), i) };
                    }
                });
            }
        });
    }
    unsafe extern "C" fn progress(context: *mut c_void, done: usize, total: usize) -> c_int {
        // SAFETY: the test passes the number at which to stop.
        let stop = unsafe { *context.cast::<usize>() };
        assert!(done <= total);
        (done >= stop).into()
    }
    let n = 10_000;
    let src: Vec<u8> = (0..n).map(|i| i as u8).collect();
    let (mut dst, mut tasks, mut stop) = (vec![0; n], 0usize, usize::MAX);
    let mut how = core::mem::MaybeUninit::uninit();
    // SAFETY: a variable or NULL.
    let mut how = unsafe {
        assert_eq!(lanecast_parallel_init(null_mut()), LANECAST_ERR_NULL);
        assert_eq!(lanecast_parallel_init(how.as_mut_ptr()), LANECAST_OK);
        how.assume_init()
    };
    let call = |dst: &mut [u8], how: *const lanecast_parallel| {
        let (s, d) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
        // SAFETY: buffers of `n` elements, and callbacks that do what they should.
        unsafe {
            lanecast_cast_parallel_with(LANECAST_DTYPE_UINT8, s, LANECAST_DTYPE_INT8, d, n, null(), how)
        }
    };
    assert_eq!(call(&mut dst, &how), LANECAST_OK, "the defaults");
    assert!(dst == src);
    dst.fill(0);
    (how.chunk, how.threads) = (100, 3);
    how.parallel_for = Some(parallel_for);
    how.parallel_for_context = (&raw mut tasks).cast();
    how.progress = Some(progress);
    how.progress_context = (&raw mut stop).cast();
    assert_eq!(call(&mut dst, &how), LANECAST_OK);
    assert!(dst == src && tasks == 100);
    dst.fill(0);
    stop = 5000;
    how.progress_context = (&raw mut stop).cast();
    assert_eq!(call(&mut dst, &how), LANECAST_ERR_CANCELLED);
    assert!(dst != src);
    dst.fill(0);
    for size in [0, how.size - 1] {
        assert_eq!(call(&mut dst, &lanecast_parallel { size, ..how }), LANECAST_ERR_OPTIONS);
    }
    assert_eq!(call(&mut dst, null()), LANECAST_ERR_NULL);
    assert!(dst.iter().all(|&b| b == 0), "written on error");
}

#[test]
fn one_buffer_is_enough() {
    let mut buffer = [1.5f32, 300.0, -1.0].map(f32::to_ne_bytes).concat();
    // SAFETY: three elements, in a buffer of as many bytes as the calls say, or a call that must fail before it
    // touches it.
    let call = |from, to, buffer: &mut [u8], n| unsafe {
        lanecast_cast_in_place(from, to, buffer.as_mut_ptr().cast(), buffer.len(), n, null())
    };
    assert_eq!(call(LANECAST_DTYPE_FLOAT32, LANECAST_DTYPE_UINT8, &mut buffer, 3), LANECAST_OK);
    assert_eq!(buffer[..3], [1, 255, 0]);
    assert_eq!(call(LANECAST_DTYPE_UINT8, LANECAST_DTYPE_INT32, &mut buffer, 3), LANECAST_OK);
    assert_eq!(buffer, [1i32, 255, 0].map(i32::to_ne_bytes).concat());
    assert_eq!(call(LANECAST_DTYPE_UINT8, LANECAST_DTYPE_INT32, &mut buffer, 4), LANECAST_ERR_SIZE);
    assert_eq!(call(LANECAST_DTYPE_UINT8, LANECAST_DTYPE_INT32, &mut buffer, usize::MAX), LANECAST_ERR_SIZE);
    assert_eq!(call(LANECAST_DTYPE_UINT8, 255, &mut buffer, 3), LANECAST_ERR_DTYPE);
    // SAFETY: no elements; and calls that must fail.
    unsafe {
        assert_eq!(lanecast_cast_in_place(0, 1, null_mut(), 0, 0, null()), LANECAST_OK);
        assert_eq!(lanecast_cast_in_place(0, 1, null_mut(), 7, 7, null()), LANECAST_ERR_NULL);
        let end = core::ptr::without_provenance_mut(usize::MAX - 2);
        assert_eq!(lanecast_cast_in_place(0, 0, end, 7, 7, null()), LANECAST_ERR_SIZE);
    }
    assert_eq!(buffer, [1i32, 255, 0].map(i32::to_ne_bytes).concat(), "written on error");
}

#[test]
fn views_go_where_their_strides_lead() {
    let src = [1u8, 2, 3, 4, 5, 6];
    let mut dst = [0xEEu8; 8];
    let (shape, rows, columns) = ([3usize, 2], [1isize, 3], [2isize, 1]);
    let call =
        |from, s: *const u8, ss: &[isize], to, d: *mut u8, ds: &[isize], o: *const lanecast_options| {
            let (s, d) = (s.cast(), d.cast());
            // SAFETY: views in the buffers above, or a call that must fail before it touches them.
            unsafe { lanecast_cast_strided(from, s, ss.as_ptr(), to, d, ds.as_ptr(), shape.as_ptr(), 2, o) }
        };
    let (u8_, i8_) = (LANECAST_DTYPE_UINT8, LANECAST_DTYPE_INT8);
    let (s, d) = (src.as_ptr(), dst.as_mut_ptr());
    assert_eq!(call(u8_, s, &rows, i8_, d, &columns, null()), LANECAST_OK);
    assert_eq!(dst, [1, 4, 2, 5, 3, 6, 0xEE, 0xEE]);
    // Backwards in both dimensions, from the last element.
    let d = dst.as_mut_ptr();
    assert_eq!(call(u8_, s.wrapping_add(5), &[-1, -3], i8_, d, &columns, null()), LANECAST_OK);
    assert_eq!(dst, [6, 3, 5, 2, 4, 1, 0xEE, 0xEE]);
    // Narrow elements lie one per byte, or not at all.
    let d = dst.as_mut_ptr();
    assert_eq!(call(LANECAST_DTYPE_INT4, s, &rows, i8_, d, &columns, null()), LANECAST_ERR_PACKED);
    assert_eq!(call(LANECAST_DTYPE_INT4, s, &rows, i8_, d, &columns, &bytes()), LANECAST_OK);
    let before = [1, 4, 2, 5, 3, 6, 0xEE, 0xEE];
    assert_eq!(dst, before);
    let d = dst.as_mut_ptr();
    assert_eq!(call(u8_, s, &rows, i8_, d, &[2, 0], null()), LANECAST_ERR_OVERLAP);
    assert_eq!(call(u8_, d, &rows, i8_, d.wrapping_add(1), &columns, null()), LANECAST_ERR_OVERLAP);
    assert_eq!(call(u8_, s, &[isize::MAX, 1], i8_, d, &columns, null()), LANECAST_ERR_SIZE);
    assert_eq!(call(u8_, s, &rows, i8_, d, &[isize::MIN, 1], null()), LANECAST_ERR_SIZE);
    assert_eq!(call(u8_, null(), &rows, i8_, d, &columns, null()), LANECAST_ERR_NULL);
    assert_eq!(call(u8_, s, &rows, 255, d, &columns, null()), LANECAST_ERR_DTYPE);
    // SAFETY: calls that must fail, one without elements, and one without dimensions.
    unsafe {
        let (s, d) = (s.cast(), d.cast());
        let (none, one) = ([0usize, 9], rows.as_ptr());
        let call =
            |shape, ndim, s, ss, ds| lanecast_cast_strided(u8_, s, ss, i8_, d, ds, shape, ndim, null());
        assert_eq!(call(null(), 2, s, one, one), LANECAST_ERR_NULL);
        assert_eq!(call(shape.as_ptr(), 2, s, null(), one), LANECAST_ERR_NULL);
        assert_eq!(call(shape.as_ptr(), 2, s, one, null()), LANECAST_ERR_NULL);
        assert_eq!(call(none.as_ptr(), 2, null(), one, one), LANECAST_OK);
        assert_eq!(call(shape.as_ptr(), usize::MAX, s, one, one), LANECAST_ERR_SIZE);
        assert_eq!(dst, before, "written on error");
        assert_eq!(call(null(), 0, s, null(), null()), LANECAST_OK);
    }
    assert_eq!(dst[..2], [1, 4]);
}

#[test]
fn views_on_threads_and_checked() {
    let src: Vec<u8> = (0..5000i16).flat_map(|x| (x * 6 - 300).to_ne_bytes()).collect();
    let (shape, rows, columns) = ([100usize, 50], [2isize, 200], [50isize, 1]);
    let (int16, int8) = (LANECAST_DTYPE_INT16, LANECAST_DTYPE_INT8);
    let [mut plain, mut shared, mut checked] = [(); 3].map(|()| vec![0u8; 5000]);
    let s = src.as_ptr().cast();
    let (shape, rows, columns) = (shape.as_ptr(), rows.as_ptr(), columns.as_ptr());
    let mut how = core::mem::MaybeUninit::uninit();
    // SAFETY: a structure, which is written.
    let mut how = unsafe {
        assert_eq!(lanecast_parallel_init(how.as_mut_ptr()), LANECAST_OK);
        how.assume_init()
    };
    (how.threads, how.chunk) = (2, 600);
    let [mut report, mut looked] = [core::mem::MaybeUninit::<lanecast_report>::zeroed(); 2];
    // SAFETY: views in the buffers above.
    unsafe {
        let d = plain.as_mut_ptr().cast();
        assert_eq!(lanecast_cast_strided(int16, s, rows, int8, d, columns, shape, 2, null()), LANECAST_OK);
        let d = shared.as_mut_ptr().cast();
        let on =
            |how| lanecast_cast_strided_parallel(int16, s, rows, int8, d, columns, shape, 2, null(), how);
        assert_eq!((on(null()), on(&how)), (LANECAST_ERR_NULL, LANECAST_OK));
        let d = checked.as_mut_ptr().cast();
        let check = |to, report| {
            lanecast_cast_strided_checked(int16, s, rows, to, d, columns, shape, 2, null(), report)
        };
        assert_eq!(check(200, null_mut()), LANECAST_ERR_DTYPE);
        assert_eq!(check(int8, null_mut()), LANECAST_ERR_LOSSY);
        assert_eq!(check(int8, report.as_mut_ptr()), LANECAST_ERR_LOSSY);
        let look = |src, to, report| lanecast_check_strided(int16, src, rows, to, shape, 2, null(), report);
        assert_eq!(look(s, 200, null_mut()), LANECAST_ERR_DTYPE);
        assert_eq!(look(s, LANECAST_DTYPE_INT4, null_mut()), LANECAST_ERR_LOSSY);
        assert_eq!(look(null(), int8, null_mut()), LANECAST_ERR_NULL);
        assert_eq!(look(s, int16, looked.as_mut_ptr()), LANECAST_OK);
        assert_eq!(looked.assume_init().elements, 5000);
        assert_eq!(look(s, int8, looked.as_mut_ptr()), LANECAST_ERR_LOSSY);
        assert_eq!(looked.assume_init(), report.assume_init());
    }
    assert!(shared == plain && checked == plain);
    // Element [i, j] of the shape is number i + 100 * j of the source.
    let value = |i: usize| (i / 50 + 100 * (i % 50)) as i16 * 6 - 300;
    let count = |is: &dyn Fn(i16) -> bool| (0..5000).filter(|&i| is(value(i))).count() as u64;
    // SAFETY: it was written.
    let report = unsafe { report.assume_init() };
    assert_eq!((report.elements, report.below, report.first), (5000, count(&|x| x < -128), 0));
    assert_eq!((report.above, report.inexact), (count(&|x| x > 127), 0));
}

/// The options behind the first block: as the Rust library has them, for callers who have room for them.
#[test]
fn stochastic_options() {
    let mut o = lanecast_options { seed: 1, first: 2, stochastic: 9, reserved2: [3; 11], ..defaults() };
    // SAFETY: a whole structure.
    unsafe {
        assert_eq!(lanecast_options_init(&mut o), LANECAST_OK);
        assert_eq!((o.size, o.stochastic, o.seed), (20, 9, 1), "the first block alone is written");
        assert_eq!(lanecast_options_stochastic(null_mut(), 5, 6), LANECAST_ERR_NULL);
        assert_eq!(lanecast_options_stochastic(&mut o, 5, 6), LANECAST_OK);
    }
    assert_eq!((o.size, o.stochastic, o.reserved2, o.seed, o.first), (48, 1, [0; 11], 5, 6));
    let src: Vec<u8> = (0..100).flat_map(|i| (1.0 + i as f32 / 100.0).to_ne_bytes()).collect();
    let run = |o: &lanecast_options| {
        let mut dst = vec![0; 200];
        let status = cast(LANECAST_DTYPE_FLOAT32, &src, LANECAST_DTYPE_BFLOAT16, &mut dst, 100, o);
        (status, dst)
    };
    let mut expected = vec![0; 200];
    let chance = CastOptions::new().stochastic(5, 6);
    rust::cast_bytes_with(&src, DType::F32, &mut expected, DType::BF16, 100, &chance)
        .expect("sizes that fit");
    assert_eq!(run(&o), (LANECAST_OK, expected));
    assert_eq!(lanecast_options::from(&chance).seed, 5);
    // A caller who knows the first block alone, or some of what is behind it.
    let nearest = run(&defaults());
    assert_eq!(nearest.0, LANECAST_OK);
    for size in [20, 21, 32, 48] {
        let o = lanecast_options { size, stochastic: u8::from(size == 20), ..defaults() };
        assert_eq!(run(&o), nearest, "{size}");
    }
    for bad in [
        lanecast_options { stochastic: 2, ..o },
        lanecast_options { reserved2: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], ..o },
    ] {
        assert_eq!(run(&bad).0, LANECAST_ERR_OPTIONS);
    }
}

#[test]
fn casts_begin_at_any_element() {
    // A bitmap of Arrow, and the same bits from the most significant one of each byte.
    let bitmap: Vec<u8> = (0..40u8).map(|i| i.wrapping_mul(73) ^ 0xA5).collect();
    let mut high_first = defaults();
    high_first.src_packing = 2;
    let [uint1, boolean] = [DType::U1, DType::Bool].map(DType::code);
    let cast_from = |first: usize, dst: &mut [u8], n: usize, o: &lanecast_options| {
        let (src, dst) = (bitmap.as_ptr().cast(), dst.as_mut_ptr().cast());
        // SAFETY: of `first + n` bits and `n` bytes, or a call that must fail before it touches them.
        unsafe { lanecast_cast_from(uint1, src, first, boolean, dst, n, o) }
    };
    for first in [0, 1, 5, 8, 13, 64, 311] {
        for n in [0, 1, 7, 9].into_iter().filter(|n| first + n <= 320) {
            for (options, is_high) in [(defaults(), false), (high_first, true)] {
                let mut out = vec![0xEE; n];
                assert_eq!(cast_from(first, &mut out, n, &options), LANECAST_OK);
                for (i, &found) in out.iter().enumerate() {
                    let (byte, bit) = ((first + i) / 8, (first + i) % 8);
                    let shift = if is_high { 7 - bit } else { bit };
                    assert_eq!(found, bitmap[byte] >> shift & 1, "{first} + {i}, high first: {is_high}");
                }
            }
        }
    }
    let mut out = [0xEE; 8];
    assert_eq!(cast_from(usize::MAX, &mut out, 8, &defaults()), LANECAST_ERR_SIZE);
    assert_eq!(out, [0xEE; 8]);
    // SAFETY: calls that must fail, and one of no elements.
    unsafe {
        let d = out.as_mut_ptr().cast();
        assert_eq!(lanecast_cast_from(uint1, null(), 3, boolean, d, 1, null()), LANECAST_ERR_NULL);
        assert_eq!(lanecast_cast_from(uint1, null(), 3, boolean, null_mut(), 0, null()), LANECAST_OK);
        // The first elements, which are not cast, are the source's all the same.
        assert_eq!(lanecast_cast_from(uint1, d, 8, boolean, d, 1, null()), LANECAST_ERR_OVERLAP);
    }
}
