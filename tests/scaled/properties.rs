//! Properties of every scaled cast: error bounds, codes that survive a round trip, views, no access outside of buffers, and reported losses.

use std::time::{Duration, Instant};

use lanecast::parallel::Parallel;
use lanecast::scaled::{Dequantizer, Losses, NonFinite, Profile, Quantizer, Requantizer, ScaleRule, Scaling};
use lanecast::views::{StridedView, StridedViewMut};
use lanecast::{CastOptions, DType, Isa, Packing};

use crate::bridge::{self, Suite};

pub(crate) fn tests(suite: &mut Suite) {
    suite.test("within the bound, and codes that stay", bounds);
    suite.test("losses", losses);
    suite.test("losses of what cannot be", lost_specials);
    suite.test("losses of int8 under powers of two", lost_integers);
    suite.test("losses of what is halfway beyond", lost_ties);
    suite.test("views", views);
    suite.test("views on threads", large_views);
    suite.test("contiguous views", contiguous_views);
    suite.test("chunks that begin and end within rows", chunks_within_rows);
    #[cfg(unix)]
    suite.test("guard pages", guards);
}

const PAIRS: [(Scaling, DType); 10] = [
    (Scaling::mx(), DType::F8E4M3FN),
    (Scaling::mx().rule(ScaleRule::RoundUp), DType::F4E2M1),
    (Scaling::mx().rule(ScaleRule::Even), DType::F6E3M2),
    (Scaling::mx(), DType::I8),
    (Scaling::nvfp4(), DType::F4E2M1),
    (Scaling::nvfp4().scale(DType::F8UE5M3), DType::F4E2M1),
    (Scaling::deepseek(), DType::F8E4M3FN),
    (Scaling::per_axis(0), DType::I8),
    (Scaling::per_tensor(DType::BF16), DType::I4),
    (Scaling::along_axis(0, 3, DType::F16), DType::F8E5M2),
];
const SHAPE: [usize; 2] = [9, 75];
const N: usize = SHAPE[0] * SHAPE[1];

/// Returns floats of several magnitudes.
fn data() -> Vec<f32> {
    let mut word = bridge::words();
    let mut float = || {
        let bits = word();
        let mantissa = 1.0 + (bits >> 41) as f32 / (1 << 23) as f32;
        let value = mantissa * 2f32.powi((bits % 7) as i32 - 3);
        if bits & 128 == 0 { value } else { -value }
    };
    (0..N).map(|_| float()).collect()
}

fn bytes(data: &[f32]) -> Vec<u8> {
    data.iter().flat_map(|x| x.to_ne_bytes()).collect()
}

struct Cast {
    q: Quantizer,
    d: Dequantizer,
    codes: Vec<u8>,
    scales: Vec<u8>,
}

impl Cast {
    fn new(isa: Isa, scaling: &Scaling, to: DType, data: &[f32]) -> Self {
        let options = CastOptions::new().isa(isa);
        let q = Quantizer::new(DType::F32, to, scaling, &options).expect("a pair");
        let d = Dequantizer::new(to, DType::F64, scaling, &options).expect("a pair");
        let mut codes = vec![0; q.code_bytes(&SHAPE).expect("a size")];
        let mut scales = vec![0; q.scale_bytes(&SHAPE).expect("a size")];
        q.quantize(&bytes(data), &SHAPE, &mut codes, &mut scales).expect("sizes that fit");
        Self { q, d, codes, scales }
    }

    /// Returns the values that the codes stand for.
    fn back(&self) -> Vec<f64> {
        let mut back = vec![0; 8 * N];
        self.d.dequantize(&self.codes, &SHAPE, &self.scales, None, &mut back).expect("sizes that fit");
        back.as_chunks().0.iter().map(|&x| f64::from_ne_bytes(x)).collect()
    }

    /// Returns the scale of each element, as a number.
    fn scale_of_each(&self) -> Vec<f64> {
        // The code 1 of int16 stands for the scale.
        let d =
            Dequantizer::new(DType::I16, DType::F64, self.q.scaling(), &CastOptions::new()).expect("a pair");
        let mut back = vec![0; 8 * N];
        let codes = 1i16.to_ne_bytes().repeat(N);
        d.dequantize(&codes, &SHAPE, &self.scales, None, &mut back).expect("sizes that fit");
        back.as_chunks().0.iter().map(|&x| f64::from_ne_bytes(x)).collect()
    }
}

/// Returns half the distance of the two codes around a value, in units of the scale.
fn half_a_step(dtype: DType, scaling: &Scaling, value: f64) -> f64 {
    match dtype.float_format() {
        None if scaling.scale_dtype == DType::F8E8M0 => 1.0 / 128.0,
        None => 0.5,
        Some(format) => {
            let least = 1 - format.bias();
            let exponent = if value == 0.0 { least } else { (value.abs().log2().floor() as i32).max(least) };
            0.5 * 2f64.powi(exponent - format.mantissa_bits() as i32)
        }
    }
}

/// Elements that do not saturate come back within half a step; and the values that came back get the same codes under the same scales.
fn bounds(isa: Isa) {
    let data = data();
    for (scaling, to) in PAIRS {
        let cast = Cast::new(isa, &scaling, to, &data);
        let (back, scales) = (cast.back(), cast.scale_of_each());
        let max = back.iter().zip(&scales).map(|(v, s)| (v / s).abs()).fold(0.0, f64::max);
        let mut compared = 0;
        for ((&x, &v), &s) in data.iter().zip(&back).zip(&scales) {
            if (v / s).abs() < max {
                let bound = s * half_a_step(to, &scaling, f64::from(x) / s);
                assert!((f64::from(x) - v).abs() <= bound, "{to} {scaling:?}: {x} became {v} by {s}");
                compared += 1;
            }
        }
        assert!(compared > N / 2, "{to} {scaling:?}: {compared}");
        let q = Quantizer::new(DType::F64, to, &scaling, &CastOptions::new().isa(isa)).expect("a pair");
        let again: Vec<u8> = back.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let mut codes = vec![0; cast.codes.len()];
        q.quantize_given(&again, &SHAPE, &cast.scales, None, &mut codes).expect("sizes that fit");
        assert_eq!(codes, cast.codes, "{to} {scaling:?}");
    }
}

/// The reported losses are those of the elements, computed independently.
fn losses(isa: Isa) {
    let mut data = data();
    // Some elements are too small or too large for the scales below.
    for (i, x) in data.iter_mut().enumerate() {
        *x *= [1.0, 1e-4, 40.0][i % 3];
    }
    for (scaling, to) in PAIRS {
        let mut cast = Cast::new(isa, &scaling, to, &data);
        // Under smaller scales, some elements saturate.
        let small: Vec<f32> = data.iter().map(|x| x / 5.0).collect();
        cast.scales = Cast::new(isa, &scaling, to, &small).scales;
        let src = bytes(&data);
        cast.q.quantize_given(&src, &SHAPE, &cast.scales, None, &mut cast.codes).expect("sizes that fit");
        let count = cast.q.scale_shape(&SHAPE).expect("a shape").iter().product();
        let mut blocks = vec![Losses::default(); count];
        let all = cast
            .q
            .losses(&src, &SHAPE, &cast.codes, &cast.scales, None, Some(&mut blocks))
            .expect("sizes that fit");
        let (back, scales) = (cast.back(), cast.scale_of_each());
        let pairs = || data.iter().map(|&x| f64::from(x)).zip(&back);
        assert_eq!(all.underflowed, pairs().filter(|&(x, &v)| x != 0.0 && v == 0.0).count(), "{to}");
        let errors: Vec<f64> = pairs().map(|(x, v)| (x - v).abs()).collect();
        assert_eq!(all.max_error, errors.iter().copied().fold(0.0, f64::max), "{to}");
        assert_eq!(all.total_error, errors.iter().sum::<f64>(), "{to}");
        // Elements beyond the largest code by more than half a step saturate.
        let max = back.iter().zip(&scales).map(|(v, s)| (v / s).abs()).fold(0.0, f64::max);
        let beyond = |x: f64, s: f64| match (to, scaling.scale_dtype) {
            (DType::I8, DType::F8E8M0) => !(-127.0..=127.0).contains(&(x / s * 64.0).round_ties_even()),
            (DType::I8, _) => !(-128.0..=127.0).contains(&(x / s).round_ties_even()),
            (DType::I4, _) => !(-8.0..=7.0).contains(&(x / s).round_ties_even()),
            _ => (x / s).abs() >= max + half_a_step(to, &scaling, max),
        };
        let saturated = pairs().zip(&scales).filter(|&((x, _), &s)| beyond(x, s)).count();
        assert_eq!(all.saturated, saturated, "{to}: {all:?}");
        assert!(saturated > 10, "{to}: {all:?}");
        assert_eq!((all.elements, all.compared, all.made_nan, all.lost_nan), (N, N, 0, 0));
        let sum = |of: fn(&Losses) -> usize| blocks.iter().map(of).sum::<usize>();
        assert_eq!(sum(|b| b.elements), N);
        assert_eq!(sum(|b| b.saturated), all.saturated, "{to}");
        assert_eq!(sum(|b| b.underflowed), all.underflowed, "{to}");
        let total: f64 = blocks.iter().map(|b| b.total_error).sum();
        assert!((total - all.total_error).abs() <= total * 1e-12, "{to}: {total} of {all:?}");
        assert_eq!(blocks.iter().map(|b| b.max_error).fold(0.0, f64::max), all.max_error, "{to}");
        let few = cast.q.losses(&src, &SHAPE, &cast.codes, &cast.scales, None, Some(&mut blocks[1..]));
        assert!(few.is_err());
        // The old contents of `blocks` are not added to, and stay if a size is wrong.
        let counted = blocks.clone();
        let wrong = cast.q.losses(&src, &SHAPE, &cast.codes, &cast.scales[1..], None, Some(&mut blocks));
        assert!(wrong.is_err() && blocks == counted, "{to}");
        cast.q
            .losses(&src, &SHAPE, &cast.codes, &cast.scales, None, Some(&mut blocks))
            .expect("sizes that fit");
        assert!(blocks == counted, "{to}");
        cast.q
            .quantize_given_losses(&src, &SHAPE, &cast.scales, None, &mut cast.codes, Some(&mut blocks))
            .expect("sizes that fit");
        assert!(blocks == counted, "{to}");
        // The losses of a requantisation are relative to the exact values of the source.
        let (mx, options) = (Scaling::mx(), CastOptions::new().isa(isa));
        let r = Requantizer::new((to, &scaling), (DType::F4E2M1, &mx), &options).expect("a pair");
        let mut codes = vec![0; N.div_ceil(2)];
        let mut scales = vec![0; mx.scale_bytes(&SHAPE).expect("a size")];
        r.requantize(&cast.codes, &SHAPE, &cast.scales, None, &mut codes, &mut scales)
            .expect("sizes that fit");
        let lost = r
            .losses(&cast.codes, &SHAPE, &cast.scales, None, (&codes, &scales), None)
            .expect("sizes that fit");
        let (mut codes_too, mut scales_too) = (vec![0; codes.len()], vec![0; scales.len()]);
        let made = (&mut codes_too[..], &mut scales_too[..]);
        let (_, at_once) =
            r.requantize_losses(&cast.codes, &SHAPE, &cast.scales, None, made, None).expect("sizes that fit");
        assert_eq!((at_once, &codes_too, &scales_too), (lost, &codes, &scales), "{to}");
        let again = Dequantizer::new(DType::F4E2M1, DType::F64, &mx, &options).expect("a pair");
        let mut bytes = vec![0; 8 * N];
        again.dequantize(&codes, &SHAPE, &scales, None, &mut bytes).expect("sizes that fit");
        let became = bytes.as_chunks().0.iter().map(|&x| f64::from_ne_bytes(x));
        let errors: Vec<f64> = back.iter().zip(became).map(|(x, v)| (x - v).abs()).collect();
        assert_eq!(lost.max_error, errors.iter().copied().fold(0.0, f64::max), "{to}");
    }
}

/// Losses of NaN and Inf, and with zero points.
fn lost_specials(isa: Isa) {
    let data = [f32::NAN, f32::INFINITY, -1.0, 0.0, 300.0, 1e-9];
    let src = bytes(&data);
    let run = |to: DType, scaling: Scaling, options: CastOptions, scale: &[u8], zero: Option<&[u8]>| {
        let q = Quantizer::new(DType::F32, to, &scaling, &options.isa(isa)).expect("a pair");
        let mut codes = vec![0; q.code_bytes(&[6]).expect("a size")];
        q.quantize_given(&src, &[6], scale, zero, &mut codes).expect("sizes that fit");
        q.losses(&src, &[6], &codes, scale, zero, None).expect("sizes that fit")
    };
    let counts = |l: Losses| [l.saturated, l.underflowed, l.made_nan, l.lost_nan, l.compared];
    let (one, tensor) = (1f32.to_ne_bytes(), Scaling::per_tensor(DType::F32));
    assert_eq!(counts(run(DType::I8, tensor, CastOptions::new(), &one, None)), [1, 1, 0, 1, 4]);
    assert_eq!(counts(run(DType::U8, tensor, CastOptions::new(), &one, Some(&[1]))), [1, 1, 0, 1, 4]);
    assert_eq!(counts(run(DType::U8, tensor, CastOptions::new(), &one, None)), [2, 2, 0, 1, 4]);
    let mx = Scaling::mx().nonfinite(NonFinite::Ignore);
    assert_eq!(counts(run(DType::F4E2M1, mx, CastOptions::new(), &[127], None)), [1, 1, 0, 1, 4]);
    let open = CastOptions::new().saturate(false);
    assert_eq!(counts(run(DType::F8E4M3FN, mx, open, &[126], None)), [1, 1, 2, 0, 3]);
    assert_eq!(counts(run(DType::F8E5M2, mx, open, &[127 - 8], None)), [1, 1, 0, 0, 3]);
    // Under a scale that is NaN.
    assert_eq!(counts(run(DType::F8E5M2, mx, open, &[255], None)), [0, 0, 5, 0, 0]);
}

/// int8 counts 1/64 under float8_e8m0fnu scales by lanecast's own rule, and 1 by ONNX's.
fn lost_integers(isa: Isa) {
    let data: Vec<f32> = (0..96).map(|i| (i as f32 - 40.0) * 0.75).collect();
    let src = bytes(&data);
    for (profile, unit) in [(Profile::Lanecast, 1.0 / 64.0), (Profile::Onnx, 1.0)] {
        let scaling = Scaling::mx().profile(profile);
        let q =
            Quantizer::new(DType::F32, DType::I8, &scaling, &CastOptions::new().isa(isa)).expect("a pair");
        let mut codes = vec![0; 96];
        let scales = [127, 126, 128];
        let lost =
            q.quantize_given_losses(&src, &[96], &scales, None, &mut codes, None).expect("sizes that fit");
        let became = |i: usize| f64::from(codes[i] as i8) * unit * [1.0, 0.5, 2.0][i / 32];
        let errors: Vec<f64> =
            data.iter().enumerate().map(|(i, x)| (f64::from(*x) - became(i)).abs()).collect();
        let most = errors.iter().copied().fold(0.0, f64::max);
        assert_eq!((lost.max_error, lost.total_error), (most, errors.iter().sum()), "{profile}");
    }
}

/// 7 is halfway between 6, the largest float4, and 8: it saturates where ties go to even, and is rounded to 6 where they go
/// toward zero.
fn lost_ties(isa: Isa) {
    let src = bytes(&[7.0, -7.0, 7.0f32.next_up(), 6.5, 8.0, -7.5, f32::INFINITY]);
    for (profile, saturated) in [(Profile::Lanecast, 5), (Profile::Modelopt, 3)] {
        let scaling = Scaling::mx().profile(profile);
        let options = CastOptions::new().isa(isa);
        let q = Quantizer::new(DType::F32, DType::F4E2M1, &scaling, &options).expect("a pair");
        let mut codes = [0; 4];
        let lost =
            q.quantize_given_losses(&src, &[7], &[127], None, &mut codes, None).expect("sizes that fit");
        assert_eq!((lost.saturated, codes), (saturated, [0xF7, 0x77, 0xF7, 0x07]), "{profile}");
    }
}

/// Casts of views give the bits that casts of their elements in order give.
fn views(isa: Isa) {
    let data = bytes(&data());
    let single =
        CastOptions::new().isa(isa).dst_packing(Packing::OnePerByte).src_packing(Packing::OnePerByte);
    for (scaling, to) in PAIRS {
        let q = Quantizer::new(DType::F32, to, &scaling, &single).expect("a pair");
        let (rows, columns) = (SHAPE[0], SHAPE[1]);
        let mut codes = vec![0; N];
        let mut scales = vec![0; q.scale_bytes(&SHAPE).expect("a size")];
        q.quantize(&data, &SHAPE, &mut codes, &mut scales).expect("sizes that fit");
        // The data by columns, and the codes backwards, with gaps.
        let mut turned = vec![0; data.len()];
        for (i, x) in data.chunks(4).enumerate() {
            turned[4 * (i % columns * rows + i / columns)..][..4].copy_from_slice(x);
        }
        let by_columns = [4, 4 * rows as isize];
        let from = StridedView::new(&turned, 0, &SHAPE, &by_columns);
        let backwards = [-(2 * columns as isize), -2];
        let (mut out, mut found) = (vec![0xC5; 2 * N], vec![0; scales.len()]);
        let last = 2 * N - 1;
        let mut view = StridedViewMut::new(&mut out, last, &SHAPE, &backwards);
        q.quantize_strided(&from, &mut view, &mut found, &Parallel::new()).expect("views");
        assert_eq!(found, scales, "{to} {scaling:?}");
        assert!((0..N).all(|i| out[last - 2 * i] == codes[i] && out[2 * i] == 0xC5), "{to} {scaling:?}");
        out.fill(0xC5);
        let mut view = StridedViewMut::new(&mut out, last, &SHAPE, &backwards);
        q.quantize_strided_with(&from, &scales, None, &mut view, &Parallel::new()).expect("views");
        assert!((0..N).all(|i| out[last - 2 * i] == codes[i] && out[2 * i] == 0xC5), "{to} {scaling:?}");
        // Dequantise from such a view.
        let d = Dequantizer::new(to, DType::F32, &scaling, &single).expect("a pair");
        let mut back = vec![0; 4 * N];
        d.dequantize(&codes, &SHAPE, &scales, None, &mut back).expect("sizes that fit");
        let mut columns_back = vec![0; 4 * N];
        let codes_back = StridedView::new(&out, last, &SHAPE, &backwards);
        let mut view = StridedViewMut::new(&mut columns_back, 0, &SHAPE, &by_columns);
        d.dequantize_strided(&codes_back, &scales, None, &mut view, &Parallel::new()).expect("views");
        for (i, x) in back.chunks(4).enumerate() {
            assert_eq!(columns_back[4 * (i % columns * rows + i / columns)..][..4], *x, "{to} {scaling:?}");
        }
        // An error for a view that does not fit comes before anything is written.
        let mut few = [0xC5; 10];
        let mut view = StridedViewMut::new(&mut few, 0, &SHAPE, &[75, 1]);
        found.fill(0xC5);
        assert!(q.quantize_strided(&from, &mut view, &mut found, &Parallel::new()).is_err());
        let mut view = StridedViewMut::new(&mut few, 0, &[2, 2], &[1, 2]);
        let packed =
            Quantizer::new(DType::F32, DType::F4E2M1, &Scaling::per_tensor(DType::F32), &CastOptions::new());
        let from = StridedView::new(&[0; 16], 0, &[2, 2], &[8, 4]);
        let error =
            packed.unwrap().quantize_strided(&from, &mut view, &mut [0; 4], &Parallel::new()).unwrap_err();
        let text = "the view of the destination has packed elements of float4_e2m1fn; they must lie one per byte (option dst_packing)";
        assert_eq!(error.to_string(), text);
        assert!(few == [0xC5; 10] && found.iter().all(|byte| *byte == 0xC5));
    }
    // Without elements a pointer may be null.
    let q =
        Quantizer::new(DType::F32, DType::I8, &Scaling::per_tensor(DType::F32), &CastOptions::new()).unwrap();
    // SAFETY: there are no elements.
    let from = unsafe { StridedView::from_ptr(core::ptr::null(), &[2, 0], &[0, 4]) };
    let mut view = StridedViewMut::new(&mut [], 0, &[2, 0], &[0, 1]);
    q.quantize_strided_with(&from, &[], None, &mut view, &Parallel::new()).expect("views");
    // Without elements, the other lengths may be of any size.
    let d = Dequantizer::new(DType::I8, DType::F32, &Scaling::per_tensor(DType::F32), &CastOptions::new())
        .unwrap();
    let shape = [0, usize::MAX];
    let from = StridedView::new(&[], 0, &shape, &[0, 1]);
    let mut view = StridedViewMut::new(&mut [], 0, &shape, &[0, 4]);
    d.dequantize_strided(&from, &[], None, &mut view, &Parallel::new()).expect("no elements");
    // With elements they may not, even if their product wraps to 0.
    let shape = [3, 1 << (usize::BITS / 2), 1 << (usize::BITS / 2)];
    let from = StridedView::new(&[0], 0, &shape, &[0, 0, 0]);
    let mut view = StridedViewMut::new(&mut [], 0, &shape, &[0, 0, 4]);
    let error = d.dequantize_strided(&from, &[0; 4], None, &mut view, &Parallel::new()).unwrap_err();
    assert!(matches!(error, lanecast::scaled::Error::ShapeOverflow { .. }), "{error}");
}

/// A contiguous destination is written directly, even if dimensions of one element have odd strides, but gives the same if it overlaps its
/// source.
fn contiguous_views(isa: Isa) {
    let data = bytes(&data());
    let options = CastOptions::new().isa(isa);
    let (shape, how) = ([SHAPE[0], 1, SHAPE[1]], Parallel::new());
    let strides = |size: usize| [(size * SHAPE[1]) as isize, -7, size as isize];
    for (scaling, to) in PAIRS.into_iter().filter(|(_, to)| to.bits() == 8) {
        let q = Quantizer::new(DType::F32, to, &scaling, &options).expect("a pair");
        let d = Dequantizer::new(to, DType::F32, &scaling, &options).expect("a pair");
        let (mut codes, mut back) = (vec![0; N], vec![0; 4 * N]);
        let mut scales = vec![0; q.scale_bytes(&shape).expect("a size")];
        q.quantize(&data, &shape, &mut codes, &mut scales).expect("sizes that fit");
        d.dequantize(&codes, &shape, &scales, None, &mut back).expect("sizes that fit");
        let wide = strides(4);
        let one = strides(1);
        let from = StridedView::new(&data, 0, &shape, &wide);
        let (mut out, mut found) = (vec![0xC5; N + 2], vec![0; scales.len()]);
        let mut view = StridedViewMut::new(&mut out, 1, &shape, &one);
        q.quantize_strided(&from, &mut view, &mut found, &how).expect("views");
        assert_eq!((&out[1..=N], &found), (&codes[..], &scales), "{to} {scaling:?}");
        assert_eq!((out[0], out[N + 1]), (0xC5, 0xC5), "{to} {scaling:?}");
        let mut results = Vec::with_capacity(4 * N);
        let room = results.spare_capacity_mut();
        let mut view = StridedViewMut::uninit(&mut room[..4 * N], 0, &shape, &wide);
        let from = StridedView::new(&out, 1, &shape, &one);
        d.dequantize_strided(&from, &scales, None, &mut view, &how).expect("views");
        // SAFETY: these are the elements of the view.
        unsafe { results.set_len(4 * N) };
        assert!(results == back, "{to} {scaling:?}");
        // A destination that overlaps its source, from the source's middle on.
        let mut both = vec![0; 4 * N + 2 * N];
        both[N..2 * N].copy_from_slice(&codes);
        let first = both.as_mut_ptr();
        // SAFETY: both views' elements lie in one vector, which nothing else accesses.
        let (from, mut view) = unsafe {
            (
                StridedView::from_ptr(first.add(N), &shape, &one),
                StridedViewMut::from_ptr(first.add(N + N / 2), &shape, &wide),
            )
        };
        d.dequantize_strided(&from, &scales, None, &mut view, &how).expect("views");
        assert!(both[N + N / 2..][..4 * N] == back, "{to} {scaling:?}");
    }
    // A wrong destination is refused before memory is allocated for all the elements of a source with stride 0.
    let d = Dequantizer::new(DType::I8, DType::F32, &Scaling::per_tensor(DType::F32), &CastOptions::new())
        .unwrap();
    let many = [usize::MAX / 32];
    let mut few = [0; 8];
    let mut view = StridedViewMut::new(&mut few, 0, &many, &[4]);
    let from = StridedView::new(&[1], 0, &many, &[0]);
    let error = d.dequantize_strided(&from, &[0; 4], None, &mut view, &how).unwrap_err();
    assert!(error.to_string().ends_with("of a buffer of 8 bytes"), "{error}");
}

/// Views so large that several threads gather and scatter their elements; for smaller ones, the calling thread does.
/// Work is cut into chunks of 2^18 elements, whatever the width of rows is. The bits are those of pieces of few rows, and rows that do not
/// divide a chunk take as long as those that do.
fn chunks_within_rows(isa: Isa) {
    let scaling = Scaling::per_axis(1);
    let options = CastOptions::new().isa(isa);
    let q = Quantizer::new(DType::F32, DType::I8, &scaling, &options).expect("a pair");
    let d = Dequantizer::new(DType::I8, DType::F32, &scaling, &options).expect("a pair");
    let mut took = Vec::new();
    for width in [8, 3, 7, 100] {
        let shape = [600_000 / width, width];
        let n = shape[0] * width;
        let data: Vec<u8> =
            (0..n).flat_map(|i| ((i * 7919 % 2003) as f32 / 9.0 - 111.0).to_ne_bytes()).collect();
        let scales: Vec<u8> = (0..width).flat_map(|i| (1.0 + i as f32 / 64.0).to_ne_bytes()).collect();
        let (mut codes, mut back) = (vec![0; n], vec![0; 4 * n]);
        let mut best = [Duration::MAX; 2];
        for _ in 0..if isa == Isa::Scalar { 1 } else { 5 } {
            let start = Instant::now();
            q.quantize_given(&data, &shape, &scales, None, &mut codes).expect("sizes that fit");
            let middle = Instant::now();
            d.dequantize(&codes, &shape, &scales, None, &mut back).expect("sizes that fit");
            best = [best[0].min(middle - start), best[1].min(middle.elapsed())];
        }
        took.push(best);
        let few = 1000;
        let (mut some, mut some_back) = (vec![0; few * width], vec![0; 4 * few * width]);
        for row in (0..shape[0]).step_by(few) {
            let rows = few.min(shape[0] - row);
            let (from, len) = (row * width, rows * width);
            let piece = &data[4 * from..4 * (from + len)];
            q.quantize_given(piece, &[rows, width], &scales, None, &mut some[..len]).expect("sizes that fit");
            assert_eq!(some[..len], codes[from..from + len], "{width} columns, row {row}");
            d.dequantize(&some[..len], &[rows, width], &scales, None, &mut some_back[..4 * len])
                .expect("sizes that fit");
            assert_eq!(some_back[..4 * len], back[4 * from..4 * (from + len)], "{width} columns, row {row}");
        }
    }
    // They took 4 to 100 times as long when each row of a chunk with a part of a row was a call of its own.
    let is_slow = |best: &[Duration; 2]| (0..2).any(|i| best[i] > 15 * took[0][i]);
    assert!(cfg!(debug_assertions) || isa == Isa::Scalar || !took[1..].iter().any(is_slow), "{took:?}");
}

fn large_views(isa: Isa) {
    // Copying the codes, of one byte each, reads and writes 4 MiB; 256 KiB on the reference, which is slow.
    let shape = if isa == Isa::Scalar { [272, 512] } else { [2080, 1024] };
    let [rows, columns] = shape;
    let n = rows * columns;
    let data: Vec<u8> = (0..n).flat_map(|i| ((i * 7919 % 2003) as f32 - 999.5).to_ne_bytes()).collect();
    let mut turned = vec![0; data.len()];
    for (i, x) in data.chunks(4).enumerate() {
        turned[4 * (i % columns * rows + i / columns)..][..4].copy_from_slice(x);
    }
    let by_columns = [4, 4 * rows as isize];
    let options =
        CastOptions::new().isa(isa).dst_packing(Packing::OnePerByte).src_packing(Packing::OnePerByte);
    let how = Parallel::new();
    for (scaling, to) in [(Scaling::mx(), DType::F4E2M1), (Scaling::per_axis(0), DType::I8)] {
        let q = Quantizer::new(DType::F32, to, &scaling, &options).expect("a pair");
        let (mut codes, mut scales) = (vec![0; n], vec![0; q.scale_bytes(&shape).expect("a size")]);
        q.quantize(&data, &shape, &mut codes, &mut scales).expect("sizes that fit");
        let from = StridedView::new(&turned, 0, &shape, &by_columns);
        let (mut out, mut found) = (vec![0xC5; 2 * n], vec![0; scales.len()]);
        let apart = [2 * columns as isize, 2];
        let mut view = StridedViewMut::new(&mut out, 0, &shape, &apart);
        q.quantize_strided(&from, &mut view, &mut found, &how).expect("views");
        assert_eq!(found, scales, "{to} {scaling:?}");
        assert!((0..n).all(|i| out[2 * i] == codes[i] && out[2 * i + 1] == 0xC5), "{to} {scaling:?}");
        let d = Dequantizer::new(to, DType::F32, &scaling, &options).expect("a pair");
        let (mut back, mut turned_back) = (vec![0; 4 * n], vec![0; 4 * n]);
        d.dequantize(&codes, &shape, &scales, None, &mut back).expect("sizes that fit");
        let mut view = StridedViewMut::new(&mut turned_back, 0, &shape, &by_columns);
        d.dequantize_strided(&StridedView::new(&out, 0, &shape, &apart), &scales, None, &mut view, &how)
            .expect("views");
        let is_back =
            |(i, x): (usize, &[u8])| turned_back[4 * (i % columns * rows + i / columns)..][..4] == *x;
        assert!(back.chunks(4).enumerate().all(is_back), "{to} {scaling:?}");
    }
}

/// Rows of bfloat16s that end within a block and within a group, with so many elements that these are looked up in tables, in each way that
/// kernels have for that.
#[cfg(unix)]
const LOOKED_UP: [(Scaling, DType, [usize; 2]); 7] = [
    // Products of all codes with a scale.
    (Scaling::nvfp4(), DType::F4E2M1, [9, 88]),
    // A table for each code of a scale.
    (Scaling::nvfp4(), DType::F4E2M1, [33, 1032]),
    (Scaling::mx(), DType::F4E2M1, [33, 2088]),
    // One table under powers of two; bfloat16s by mantissas.
    (Scaling::mx(), DType::F6E3M2, [9, 344]),
    (Scaling::mx(), DType::F8E4M3FN, [9, 344]),
    // A table for each scale, for rows that have the same scales, or for one row.
    (Scaling::deepseek(), DType::F8E4M3FN, [130, 300]),
    (Scaling::along_axis(1, 1024, DType::F32), DType::F4E2M1, [9, 2184]),
];

/// No byte outside of the buffers is touched: each buffer ends where a page that faults begins, or begins where one ends.
#[cfg(unix)]
fn guards(isa: Isa) {
    let data = bytes(&data());
    for (scaling, to) in PAIRS {
        guarded(isa, &scaling, to, DType::F32, &SHAPE, &data);
    }
    for (scaling, to, shape) in LOOKED_UP {
        let n = shape.iter().product();
        let data: Vec<u8> = data.chunks(4).cycle().take(n).flat_map(high_half).collect();
        guarded(isa, &scaling, to, DType::BF16, &shape, &data);
    }
}

/// Returns the high half of a float32, a bfloat16.
#[cfg(unix)]
fn high_half(float: &[u8]) -> [u8; 2] {
    let float = f32::from_ne_bytes(float.try_into().expect("four bytes"));
    ((float.to_bits() >> 16) as u16).to_ne_bytes()
}

/// Quantises floats and dequantises the result, between guard pages, and compares with the same in ordinary memory.
#[cfg(unix)]
fn guarded(isa: Isa, scaling: &Scaling, to: DType, float: DType, shape: &[usize], data: &[u8]) {
    use crate::guarded::{CANARY, Guarded};
    let options = CastOptions::new().isa(isa);
    let q = Quantizer::new(float, to, scaling, &options).expect("a pair");
    let d = Dequantizer::new(to, float, scaling, &options).expect("a pair");
    let [code_bytes, scale_bytes] = [q.code_bytes(shape), q.scale_bytes(shape)].map(|n| n.expect("a size"));
    let (mut codes, mut scales, mut back) = (vec![0; code_bytes], vec![0; scale_bytes], vec![0; data.len()]);
    q.quantize(data, shape, &mut codes, &mut scales).expect("sizes that fit");
    d.dequantize(&codes, shape, &scales, None, &mut back).expect("sizes that fit");
    for at_end in [true, false] {
        let sizes = [data.len(), code_bytes, scale_bytes];
        let mut all = sizes.map(Guarded::new);
        let mut at = [0; 3];
        if at_end {
            for ((at, guarded), size) in at.iter_mut().zip(&all).zip(sizes) {
                *at = guarded.len - size;
            }
        }
        let [src, dst, found] = &mut all;
        let src = &mut src.bytes_mut()[at[0]..][..data.len()];
        let dst = &mut dst.bytes_mut()[at[1]..][..code_bytes];
        let found = &mut found.bytes_mut()[at[2]..][..scale_bytes];
        src.copy_from_slice(data);
        q.quantize(src, shape, dst, found).expect("sizes that fit");
        assert!(dst == codes && found == scales, "{to} {scaling:?}");
        dst.fill(0);
        q.quantize_given(src, shape, found, None, dst).expect("sizes that fit");
        assert!(dst == codes, "{to} {scaling:?}");
        d.dequantize(dst, shape, found, None, src).expect("sizes that fit");
        assert!(src == back, "{to} {scaling:?}");
        for ((guarded, at), size) in all.iter().zip(at).zip(sizes) {
            let mut around = guarded.bytes()[..at].iter().chain(&guarded.bytes()[at + size..]);
            assert!(around.all(|byte| *byte == CANARY), "{to} {scaling:?}");
        }
    }
}
