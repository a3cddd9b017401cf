use core::ffi::{CStr, c_void};
use core::mem::offset_of;
use core::ptr::{null, null_mut};

use super::super::*;
use super::message;

fn scaling(name: &CStr) -> lanecast_scaling {
    let mut s = core::mem::MaybeUninit::uninit();
    // SAFETY: writable, and a C string; initialised if that went well.
    unsafe {
        assert_eq!(lanecast_scaling_init(s.as_mut_ptr(), name.as_ptr()), LANECAST_OK);
        s.assume_init()
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_ne_bytes()).collect()
}

/// `lanecast_quantize` of whole slices, on the calling thread.
#[expect(clippy::too_many_arguments, reason = "those of the function")]
fn quantize(
    src: &[u8],
    to: u8,
    dst: &mut [u8],
    shape: &[usize],
    s: &lanecast_scaling,
    scales: &mut [u8],
    zeros: Option<&mut [u8]>,
    compute: u8,
) -> (i32, f32) {
    let mut factor = -1.0;
    let zeros = zeros.map_or(null_mut(), |zeros| zeros.as_mut_ptr().cast::<c_void>());
    // SAFETY: every test passes buffers of the size that the shape needs, or a call that must fail before it touches them.
    let status = unsafe {
        lanecast_quantize(
            LANECAST_DTYPE_FLOAT32,
            src.as_ptr().cast(),
            to,
            dst.as_mut_ptr().cast(),
            shape.as_ptr(),
            shape.len() as u32,
            s,
            scales.as_mut_ptr().cast(),
            zeros,
            compute,
            &mut factor,
            null(),
            null(),
        )
    };
    (status, factor)
}

#[test]
fn the_structure_has_the_layout_of_the_header() {
    assert_eq!(offset_of!(lanecast_scaling, tensor_scale), 12);
    assert_eq!(offset_of!(lanecast_scaling, block), 24);
    assert_eq!(
        size_of::<lanecast_scaling>(),
        24 + 10 * size_of::<usize>().max(4) - if size_of::<usize>() < 8 { 4 } else { 0 }
    );
}

#[test]
fn quantize_and_back() {
    let s = scaling(c"mx");
    let data = bytes(&[1.0, -6.0, 0.4, 3.0]);
    let (mut codes, mut scales) = ([0xA5; 2], [0xA5; 1]);
    let (status, factor) =
        quantize(&data, LANECAST_DTYPE_FLOAT4_E2M1FN, &mut codes, &[4], &s, &mut scales, None, 1);
    assert_eq!((status, factor, codes, scales), (LANECAST_OK, -1.0, [0xF2, 0x51], [127]));
    let mut back = [0u8; 16];
    let shape = [4usize];
    // SAFETY: buffers of the sizes of four elements and one scale.
    let status = unsafe {
        lanecast_dequantize(
            LANECAST_DTYPE_FLOAT4_E2M1FN,
            codes.as_ptr().cast(),
            LANECAST_DTYPE_FLOAT32,
            back.as_mut_ptr().cast(),
            shape.as_ptr(),
            1,
            &s,
            scales.as_ptr().cast(),
            null(),
            null(),
            null(),
        )
    };
    assert_eq!((status, &back[..]), (LANECAST_OK, &bytes(&[1.0, -6.0, 0.5, 3.0])[..]));
    // Into int8 with one scale for all.
    let (to, mut ints, mut scale) = (scaling(c"per_tensor"), [0u8; 4], [0u8; 4]);
    // SAFETY: as above.
    let status = unsafe {
        lanecast_requantize(
            LANECAST_DTYPE_FLOAT4_E2M1FN,
            codes.as_ptr().cast(),
            &s,
            scales.as_ptr().cast(),
            null(),
            LANECAST_DTYPE_INT8,
            ints.as_mut_ptr().cast(),
            &to,
            scale.as_mut_ptr().cast(),
            shape.as_ptr(),
            1,
            null_mut(),
            null(),
            null(),
        )
    };
    assert_eq!((status, ints.map(|x| x as i8)), (LANECAST_OK, [21, -127, 11, 64]));
    assert_eq!(f32::from_ne_bytes(scale), 6.0 / 127.0);
}

#[test]
fn scales_and_zero_points_that_are_given_or_found() {
    let s = scaling(c"per_tensor");
    let mut scale = 0.5f32.to_ne_bytes();
    let mut codes = [0u8; 2];
    let (status, _) = quantize(
        &bytes(&[1.5, -3.0]),
        LANECAST_DTYPE_UINT8,
        &mut codes,
        &[2],
        &s,
        &mut scale,
        Some(&mut [128]),
        0,
    );
    assert_eq!((status, codes), (LANECAST_OK, [131, 122]));
    let compressed = lanecast_scaling { profile: 5, ..scaling(c"per_row") };
    let (mut codes, mut zeros) = ([0u8; 1], [0u8; 1]);
    let (status, _) = quantize(
        &bytes(&[0.0, 15.0]),
        LANECAST_DTYPE_INT4,
        &mut codes,
        &[1, 2],
        &compressed,
        &mut scale,
        Some(&mut zeros),
        1,
    );
    assert_eq!((status, codes, zeros, f32::from_ne_bytes(scale)), (LANECAST_OK, [0x78], [0x08], 1.0));
    let computed = lanecast_scaling { tensor_form: 3, ..scaling(c"nvfp4") };
    let (status, factor) = quantize(
        &bytes(&[2688.0]),
        LANECAST_DTYPE_FLOAT4_E2M1FN,
        &mut codes,
        &[1],
        &computed,
        &mut [0],
        None,
        1,
    );
    assert_eq!((status, factor, codes), (LANECAST_OK, 1.0, [0x07]));
    // A factor that is given is the factor, whether scales are found or given.
    let given = lanecast_scaling { tensor_form: 2, tensor_scale: 0.5, ..computed };
    for compute in [0, 1] {
        let data = bytes(&[2688.0]);
        let (status, factor) = quantize(
            &data,
            LANECAST_DTYPE_FLOAT4_E2M1FN,
            &mut codes,
            &[1],
            &given,
            &mut [0x7E],
            None,
            compute,
        );
        assert_eq!((status, factor), (LANECAST_OK, 0.5));
    }
}

#[test]
fn shapes_of_scales() {
    let (shape, s) = ([3usize, 500, 7168], scaling(c"deepseek"));
    let (mut out, mut size) = ([0usize; 3], 0usize);
    // SAFETY: arrays of three numbers, and a variable.
    let status = unsafe { lanecast_scale_shape(shape.as_ptr(), 3, &s, out.as_mut_ptr(), &mut size) };
    assert_eq!((status, out, size), (LANECAST_OK, [3, 4, 56], 4 * 3 * 4 * 56));
    // SAFETY: the same; NULL is allowed for what is written.
    let few = unsafe { lanecast_scale_shape(shape.as_ptr(), 1, &s, null_mut(), null_mut()) };
    assert_eq!(few, LANECAST_ERR_SHAPE);
    // Who asks for the size is told that there are no such scales, and not that they take no bytes.
    for dtype in DType::ALL {
        let s = lanecast_scaling { scale_dtype: dtype.code(), ..s };
        // SAFETY: as above.
        let status = unsafe { lanecast_scale_shape(shape.as_ptr(), 3, &s, null_mut(), &mut size) };
        let mut out = [0; 4];
        let (data, mut scales) = (bytes(&[1.0]), vec![0; dtype.bits().div_ceil(8) as usize]);
        let one = lanecast_scaling { ndim: 0, rule: 0, ..s };
        let (cast, _) = quantize(&data, LANECAST_DTYPE_INT8, &mut out[..1], &[1], &one, &mut scales, None, 0);
        let same = if status == LANECAST_OK { cast == LANECAST_OK } else { cast == status };
        assert!(same, "{dtype}: {status}, {cast}");
    }
}

#[test]
fn what_is_wrong_is_said_and_nothing_written() {
    let mx = scaling(c"mx");
    let (data, fp4) = (bytes(&[1.0; 2]), LANECAST_DTYPE_FLOAT4_E2M1FN);
    let run = |to, s: &lanecast_scaling, compute| {
        let (mut dst, mut scales) = ([0xA5], [0xA5; 4]);
        let (status, _) = quantize(&data, to, &mut dst, &[2], s, &mut scales, None, compute);
        assert_eq!((dst, scales), ([0xA5], [0xA5; 4]), "{s:?}");
        status
    };
    let fails = |to, s: &lanecast_scaling, compute, status, text: &str| {
        assert_eq!(run(to, s, compute), status, "{s:?}");
        assert!(message().contains(text), "{text}: {}", message());
    };
    fails(LANECAST_DTYPE_BOOL, &mx, 1, LANECAST_ERR_DTYPE, "cannot quantize from float32 to bool");
    fails(99, &mx, 1, LANECAST_ERR_DTYPE, "no dtype has the code 99");
    fails(fp4, &mx, 2, LANECAST_ERR_OPTIONS, "compute is 2; the codes are 0 to 1");
    for (wrong, text) in [
        (lanecast_scaling { size: 20, ..mx }, " (the init functions set it)"),
        (lanecast_scaling { profile: 11, ..mx }, "profile is 11; the codes are 0 to 10"),
        (lanecast_scaling { profile: 8, ..mx }, "the profile gpt_oss"),
        (lanecast_scaling { rule: 6, ..mx }, "rule is 6; the codes are 0 to 5"),
        (lanecast_scaling { rule: 1, ..mx }, "float8_e8m0fnu"),
        (lanecast_scaling { nonfinite: 2, ..mx }, "nonfinite is 2; the codes are 0 to 1"),
        (lanecast_scaling { scale_layout: 3, ..mx }, "scale_layout is 3; the codes are 0 to 2"),
        (lanecast_scaling { tensor_form: 5, ..mx }, "tensor_form is 5; the codes are 0 to 4"),
        (lanecast_scaling { tensor_form: 1, tensor_scale: f32::NAN, ..mx }, "it is NaN"),
        (lanecast_scaling { int_rounding: 5, ..mx }, "int_rounding is 5; the codes are 0 to 4"),
        (lanecast_scaling { precision: 1, ..mx }, "precision"),
        (lanecast_scaling { ndim: 9, ..mx }, "ndim is 9; a block has at most 8 dimensions"),
    ] {
        fails(fp4, &wrong, 1, LANECAST_ERR_OPTIONS, text);
    }
    let of_ints = lanecast_scaling { scale_dtype: LANECAST_DTYPE_INT8, ..mx };
    fails(fp4, &of_ints, 1, LANECAST_ERR_DTYPE, "scales cannot be of int8");
    let short = lanecast_scaling { row_bytes: 1, ..mx };
    fails(
        LANECAST_DTYPE_FLOAT8_E5M2,
        &short,
        1,
        LANECAST_ERR_SHAPE,
        "a row of elements takes 2 bytes, but rows begin only 1 bytes apart",
    );
    let deep = lanecast_scaling { ndim: 2, ..mx };
    fails(fp4, &deep, 1, LANECAST_ERR_SHAPE, "have more dimensions than data of shape [2]");
    let mut both = [0u8; 12];
    let (src, dst) = (both.as_ptr(), both.as_mut_ptr());
    let shape = [2usize];
    // SAFETY: it fails before it touches them.
    let status = unsafe {
        lanecast_quantize(
            LANECAST_DTYPE_FLOAT32,
            src.cast(),
            fp4,
            dst.add(7).cast(),
            shape.as_ptr(),
            1,
            &mx,
            dst.add(9).cast(),
            null_mut(),
            1,
            null_mut(),
            null(),
            null(),
        )
    };
    assert_eq!(status, LANECAST_ERR_OVERLAP);
    // SAFETY: NULL is an error.
    unsafe {
        assert_eq!(lanecast_scaling_init(null_mut(), c"mx".as_ptr()), LANECAST_ERR_NULL);
        assert_eq!(lanecast_scaling_init(&mut { mx }, c"gguf".as_ptr()), LANECAST_ERR_NAME);
        assert!(
            message().starts_with(r#"no scaling is named "gguf"; the names are mx, nvfp4, "#),
            "{}",
            message()
        );
        // Each of them is a name.
        for name in message().rsplit_once(" are ").unwrap().1.split(", ") {
            let name = std::ffi::CString::new(name).unwrap();
            assert_eq!(lanecast_scaling_init(&mut { mx }, name.as_ptr()), LANECAST_OK, "{name:?}");
        }
        assert_eq!(
            lanecast_scale_shape(shape.as_ptr(), 1, null(), null_mut(), null_mut()),
            LANECAST_ERR_NULL
        );
    }
}

#[test]
fn losses_are_those_of_the_library() {
    let data = bytes(&[7.5, 2.2, 0.1, f32::NAN, -300.0, 0.0]);
    let s = lanecast_scaling { ndim: 1, block: [3, 0, 0, 0, 0, 0, 0, 0], ..scaling(c"mx") };
    let (mut codes, mut scales) = ([0; 3], [0; 2]);
    let fp4 = LANECAST_DTYPE_FLOAT4_E2M1FN;
    let (status, _) = quantize(&data, fp4, &mut codes, &[6], &s, &mut scales, None, 1);
    assert_eq!(status, LANECAST_OK);
    let run = |s: &lanecast_scaling, all: *mut lanecast_losses, blocks: *mut lanecast_losses| {
        let shape = [6usize];
        // SAFETY: six elements, their codes and the scales of two blocks, for which there is room.
        unsafe {
            lanecast_quantize_losses(
                LANECAST_DTYPE_FLOAT32,
                data.as_ptr().cast(),
                fp4,
                codes.as_ptr().cast(),
                shape.as_ptr(),
                1,
                s,
                scales.as_ptr().cast(),
                null(),
                null(),
                all,
                blocks,
            )
        }
    };
    let none: lanecast_losses = rust::scaled::Losses::default().into();
    let (mut all, mut blocks) = (none, [none; 2]);
    assert_eq!(run(&s, &mut all, blocks.as_mut_ptr()), LANECAST_OK);
    let block = rust::scaled::Scaling::blocks(&[3], DType::F8E8M0);
    let q =
        rust::scaled::Quantizer::new(DType::F32, DType::F4E2M1, &block, &CastOptions::new()).expect("a pair");
    let mut of_blocks = [rust::scaled::Losses::default(); 2];
    let expected =
        q.losses(&data, &[6], &codes, &scales, None, Some(&mut of_blocks)).expect("sizes that fit");
    assert_eq!(all, expected.into());
    assert_eq!(blocks, of_blocks.map(lanecast_losses::from));
    assert_eq!((blocks[0].saturated, blocks[0].underflowed, blocks[1].lost_nan), (1, 1, 0));
    assert_eq!(blocks[1].made_nan, 2, "a NaN poisons its block: {blocks:?}");
    assert_eq!(run(&s, null_mut(), null_mut()), LANECAST_OK);
    let computed = lanecast_scaling { tensor_form: 3, ..scaling(c"nvfp4") };
    assert_eq!(run(&computed, &mut all, null_mut()), LANECAST_ERR_OPTIONS);
}

/// Cast and compared in one go, or one after the other.
#[test]
fn losses_in_one_go_are_those_of_two() {
    let values: Vec<f32> = (0..96).map(|i| (i * i % 89) as f32 * 0.71 - 20.0).collect();
    let data = bytes(&values);
    let shape = [3usize, 32];
    let none: lanecast_losses = rust::scaled::Losses::default().into();
    let int8 = LANECAST_DTYPE_INT8;
    let rows = lanecast_scaling { ndim: 2, block: [1, 0, 0, 0, 0, 0, 0, 0], ..scaling(c"per_tensor") };
    let run = |s: &lanecast_scaling,
               to: lanecast_dtype,
               codes: &mut [u8],
               scales: &mut [u8],
               zeros: *const u8,
               compute: u8,
               lost: (*mut lanecast_losses, *mut lanecast_losses)| {
        let mut factor = 0f32;
        // SAFETY: the buffers are of the sizes that the shape needs.
        let status = unsafe {
            lanecast_quantize_with_losses(
                LANECAST_DTYPE_FLOAT32,
                data.as_ptr().cast(),
                to,
                codes.as_mut_ptr().cast(),
                shape.as_ptr(),
                2,
                s,
                scales.as_mut_ptr().cast(),
                zeros.cast(),
                compute,
                &mut factor,
                null(),
                lost.0,
                lost.1,
            )
        };
        (status, factor)
    };
    let after = |s: &lanecast_scaling,
                 to: lanecast_dtype,
                 codes: &[u8],
                 scales: &[u8],
                 zeros: *const u8,
                 n: usize| {
        let (mut all, mut blocks) = (none, vec![none; n]);
        // SAFETY: as above.
        let status = unsafe {
            lanecast_quantize_losses(
                LANECAST_DTYPE_FLOAT32,
                data.as_ptr().cast(),
                to,
                codes.as_ptr().cast(),
                shape.as_ptr(),
                2,
                s,
                scales.as_ptr().cast(),
                zeros.cast(),
                null(),
                &mut all,
                blocks.as_mut_ptr(),
            )
        };
        assert_eq!(status, LANECAST_OK);
        (all, blocks)
    };
    // Scales that are given, with zero points and without.
    let points = [5u8, 0, 251];
    for zeros in [null(), points.as_ptr()] {
        let (mut codes, mut scales) = ([0xA5; 96], bytes(&[0.11, 0.3, 0.9]));
        let (mut all, mut blocks) = (none, [none; 3]);
        let lost = (&raw mut all, blocks.as_mut_ptr());
        assert_eq!(run(&rows, int8, &mut codes, &mut scales, zeros, 0, lost), (LANECAST_OK, 0.0));
        let mut plain = [0; 96];
        let mut points = [5u8, 0, 251];
        let given = (!zeros.is_null()).then_some(&mut points[..]);
        let (status, _) = quantize(&data, int8, &mut plain, &shape, &rows, &mut scales, given, 0);
        assert_eq!((status, codes), (LANECAST_OK, plain));
        assert_eq!((all, blocks.to_vec()), after(&rows, int8, &codes, &scales, zeros, 3));
        assert!(all.saturated > 0 && all.elements == 96, "{all:?}");
    }
    // Found, with a factor that is computed: for the second look it must be said.
    let fp4 = LANECAST_DTYPE_FLOAT4_E2M1FN;
    let computed = lanecast_scaling { tensor_form: 3, ..scaling(c"nvfp4") };
    let (mut codes, mut scales) = ([0xA5; 48], [0xA5; 6]);
    let (mut all, mut blocks) = (none, [none; 6]);
    let (status, g) =
        run(&computed, fp4, &mut codes, &mut scales, null(), 1, (&mut all, blocks.as_mut_ptr()));
    assert!(status == LANECAST_OK && g > 0.0, "{status:?} {g}");
    let known = lanecast_scaling { tensor_form: 1, tensor_scale: g, ..computed };
    assert_eq!((all, blocks.to_vec()), after(&known, fp4, &codes, &scales, null(), 6));
    // Nobody need want to know.
    assert_eq!(
        run(&computed, fp4, &mut codes, &mut scales, null(), 1, (null_mut(), null_mut())).0,
        LANECAST_OK
    );
    for (compute, zeros, wrong) in [
        (2, null(), LANECAST_ERR_OPTIONS),
        (1, points.as_ptr(), LANECAST_ERR_OPTIONS),
        (0, null(), LANECAST_ERR_OPTIONS),
    ] {
        let status = run(&computed, fp4, &mut codes, &mut scales, zeros, compute, (&mut all, null_mut())).0;
        assert_eq!(status, wrong, "{compute}");
    }
}

/// The dtype of ONNX's division decides bits.
#[test]
fn the_precision_is_that_of_the_library() {
    let values: Vec<f32> = (0..200).map(|i| 0.37 + i as f32 / 7.0).collect();
    let (data, mut scale) = (bytes(&values), 0.0703f32.to_ne_bytes());
    let run = |precision: u8, scale: &mut [u8]| {
        let s = lanecast_scaling { precision, ..scaling(c"onnx") };
        let mut codes = vec![0; 200];
        let (status, _) = quantize(&data, LANECAST_DTYPE_INT16, &mut codes, &[100], &s, scale, None, 0);
        (status, codes)
    };
    let by = |precision: Option<DType>| {
        let scaling = rust::scaled::Scaling::per_tensor(DType::F32).profile(rust::scaled::Profile::Onnx);
        let scaling = precision.map_or(scaling, |precision| scaling.precision(precision));
        let q = rust::scaled::Quantizer::new(DType::F32, DType::I16, &scaling, &CastOptions::new())
            .expect("a pair");
        let mut codes = vec![0; 200];
        let scale = 0.0703f32.to_ne_bytes();
        q.quantize_given(&data[..400], &[100], &scale, None, &mut codes).expect("sizes that fit");
        codes
    };
    let default = run(0, &mut scale);
    assert_eq!(default, (LANECAST_OK, by(None)));
    let narrow = run(LANECAST_DTYPE_BFLOAT16, &mut scale);
    assert_eq!(narrow, (LANECAST_OK, by(Some(DType::BF16))));
    assert_ne!(narrow, default);
    assert_eq!(run(99, &mut scale).0, LANECAST_ERR_DTYPE);
}

/// With zero points that are found, too.
#[test]
fn a_callback_stops_what_is_quantised() {
    unsafe extern "C" fn stop(_: *mut c_void, _: usize, _: usize) -> i32 {
        1
    }
    let mut how = core::mem::MaybeUninit::uninit();
    // SAFETY: room for the structure, which the call fills.
    let mut how = unsafe {
        assert_eq!(lanecast_parallel_init(how.as_mut_ptr()), LANECAST_OK);
        how.assume_init()
    };
    how.progress = Some(stop);
    let s = lanecast_scaling { profile: 5, ..scaling(c"per_row") };
    let shape = [64usize, 65536];
    let src = vec![0u8; 4 * shape[0] * shape[1]];
    let (mut dst, mut scales, mut zeros) = (vec![0u8; shape[0] * shape[1]], [0f32; 64], [0u8; 64]);
    for zeros in [null_mut(), zeros.as_mut_ptr()] {
        // SAFETY: buffers of the sizes that the shape needs.
        let status = unsafe {
            lanecast_quantize(
                LANECAST_DTYPE_FLOAT32,
                src.as_ptr().cast(),
                LANECAST_DTYPE_INT8,
                dst.as_mut_ptr().cast(),
                shape.as_ptr(),
                2,
                &s,
                scales.as_mut_ptr().cast(),
                zeros.cast(),
                1,
                null_mut(),
                null(),
                &how,
            )
        };
        assert_eq!(status, LANECAST_ERR_CANCELLED, "{zeros:?}");
    }
}

/// What is refused for its profile, its zero points or its factor leaves every buffer as it was.
#[test]
fn what_an_argument_forbids_touches_no_buffer() {
    let (int8, fp8) = (LANECAST_DTYPE_INT8, LANECAST_DTYPE_FLOAT8_E4M3FN);
    let (data, shape) = (bytes(&[1.0, 2.0, 3.0, 448.0]), [4usize]);
    let (onnx, one) = (scaling(c"onnx"), scaling(c"per_tensor"));
    let computed = lanecast_scaling { tensor_form: 3, ..scaling(c"nvfp4") };
    let (codes, scale, zero) = ([0xA5u8; 4], 2f32.to_ne_bytes(), [3u8]);
    for (to, s, zeros, compute, text) in [
        (int8, &onnx, None, 1, "the profile onnx finds no scales"),
        (int8, &onnx, Some(zero), 1, "the profile onnx finds no zero points"),
        (int8, &one, Some(zero), 1, "the profile lanecast finds no zero points"),
        (fp8, &one, Some(zero), 0, "floats have no zero point"),
        (LANECAST_DTYPE_FLOAT4_E2M1FN, &computed, None, 0, "the tensor scale must be given as a number"),
    ] {
        for losses in [false, true] {
            let (mut to_codes, mut to_scale, mut to_zero) = (codes, scale, zeros);
            let status = if losses {
                let zeros = to_zero.as_ref().map_or(null(), |zero| zero.as_ptr().cast());
                // SAFETY: buffers of what four elements, one scale and one zero point take at most.
                unsafe {
                    lanecast_quantize_with_losses(
                        LANECAST_DTYPE_FLOAT32,
                        data.as_ptr().cast(),
                        to,
                        to_codes.as_mut_ptr().cast(),
                        shape.as_ptr(),
                        1,
                        s,
                        to_scale.as_mut_ptr().cast(),
                        zeros,
                        compute,
                        null_mut(),
                        null(),
                        null_mut(),
                        null_mut(),
                    )
                }
            } else {
                let zeros = to_zero.as_mut().map(|zero| &mut zero[..]);
                quantize(&data, to, &mut to_codes, &shape, s, &mut to_scale, zeros, compute).0
            };
            assert_eq!(status, LANECAST_ERR_OPTIONS, "{text}");
            let text = if losses && zeros.is_some() && compute == 1 { "not found here" } else { text };
            assert!(message().contains(text), "{text}: {}", message());
            assert_eq!((to_codes, to_scale, to_zero), (codes, scale, zeros), "{text}, with losses: {losses}");
        }
    }
    let none = lanecast_parallel {
        size: 3,
        threads: 0,
        chunk: 0,
        parallel_for: None,
        parallel_for_context: null_mut(),
        progress: None,
        progress_context: null_mut(),
    };
    for (zeros, how, text) in [
        (zero.as_ptr(), null(), "floats have no zero point"),
        (null(), &raw const none, " (the init functions set it)"),
    ] {
        let (mut to_codes, mut to_scale) = (codes, scale);
        // SAFETY: as above.
        let status = unsafe {
            lanecast_requantize(
                fp8,
                [0u8; 4].as_ptr().cast(),
                &one,
                scale.as_ptr().cast(),
                zeros.cast(),
                int8,
                to_codes.as_mut_ptr().cast(),
                &one,
                to_scale.as_mut_ptr().cast(),
                shape.as_ptr(),
                1,
                null_mut(),
                null(),
                how,
            )
        };
        assert_eq!((status, to_codes, to_scale), (LANECAST_ERR_OPTIONS, codes, scale), "{text}");
        assert!(message().contains(text), "{text}: {}", message());
    }
}
