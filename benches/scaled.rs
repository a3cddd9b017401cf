//! Scaled casts beside the plain casts of the same dtypes: `cargo bench --bench scaled [-- FILTER]`.
//!
//! Each row has three ratios, of the times of one run in which all take turns: the time of the plain cast, of a copy of as many bytes as
//! are read and written, and of the roof, each divided by the time of the scaled cast, so that a greater ratio is a faster cast. The
//! roof loads and stores as the plain cast does and computes nothing, with ordinary or non-temporal stores, whichever are faster. A
//! time is the least of many, of the thread's CPU time where the system reports that.

#[path = "data/mod.rs"]
mod data;
#[path = "data/null.rs"]
mod null;

use std::time::{Duration, Instant};

use lanecast::scaled::{Dequantizer, Profile, Quantizer, Requantizer, ScaleRule, Scaling, TensorScale};
use lanecast::{CastOptions, Caster, DType, Isa};
use null::Null;

/// Returns the CPU time of this thread, which excludes what else the machine does meanwhile; on systems other than Unix, wall time.
fn clock() -> Duration {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `clock_gettime` writes a `timespec` to the pointer, which is valid for that.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    #[cfg(not(unix))]
    {
        static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        START.elapsed()
    }
}

/// Returns the least time of each of `runs`, which take turns until the budget is used up, at least five each.
fn race<const N: usize>(mut runs: [&mut dyn FnMut(); N], budget: Duration) -> [f64; N] {
    /// Seconds that calls timed together should take, because reading the clock takes time too.
    const LEAST: f64 = 50e-6;
    let mut least = [f64::INFINITY; N];
    let start = Instant::now();
    let mut turns = 0;
    while start.elapsed() < budget || turns < 5 {
        for (run, least) in runs.iter_mut().zip(&mut least) {
            run();
            let calls = (LEAST / *least).clamp(1.0, 100.0) as u32;
            let begin = clock();
            for _ in 0..calls {
                run();
            }
            *least = least.min((clock() - begin).as_secs_f64() / f64::from(calls));
        }
        turns += 1;
    }
    least
}

struct Kind {
    name: &'static str,
    element: DType,
    data: &'static [DType],
    scaling: Scaling,
    /// Whether quantisation with scales that are found is timed too.
    finds: bool,
    /// Whether scales have zero points, which are found with the scales if those are.
    zeros: bool,
    /// Elements in a row.
    width: usize,
}

/// Data of float64, which is timed in L2 alone.
const WIDE: &[DType] = &[DType::F64];

fn kinds() -> Vec<Kind> {
    use DType::{BF16, F4E2M1, F8E4M3FN, F8E5M2, F16, F32, I4, I8};
    let all = &[BF16, F32, F16][..];
    let kind = |name, element, data, scaling| Kind {
        name,
        element,
        data,
        scaling,
        finds: true,
        zeros: false,
        width: 1024,
    };
    let by =
        |name, element, profile, scaling: Scaling| kind(name, element, &all[..2], scaling.profile(profile));
    let with_zeros = |kind| Kind { finds: false, zeros: true, ..kind };
    let factor = TensorScale::Multiply(0.003);
    vec![
        kind("float8 per tensor", F8E4M3FN, all, Scaling::per_tensor(F32)),
        kind("float8 per row", F8E4M3FN, all, Scaling::per_axis(0)),
        kind("float8 per column", F8E4M3FN, &all[..1], Scaling::per_axis(1)),
        kind("float8 128 x 128", F8E4M3FN, all, Scaling::deepseek()),
        // Rows as long as those of weights: 128 of them do not stay in L2.
        Kind { width: 7168, ..kind("128 x 128, long rows", F8E4M3FN, all, Scaling::deepseek()) },
        kind("float8 1 x 128", F8E4M3FN, all, Scaling::blocks(&[128], F32)),
        kind("e5m2 per tensor", F8E5M2, all, Scaling::per_tensor(F32)),
        kind("e5m2 of 1 x 128", F8E5M2, all, Scaling::blocks(&[128], F32)),
        kind("float8 100 x 100", F8E4M3FN, all, Scaling::blocks(&[100, 100], F32)),
        Kind { width: 8, ..kind("float8 of 8 columns", F8E4M3FN, &all[..2], Scaling::per_axis(1)) },
        kind("MXFP8", F8E4M3FN, all, Scaling::mx()),
        kind("MXFP4", F4E2M1, all, Scaling::mx()),
        kind("MXFP6", DType::F6E2M3, &all[..1], Scaling::mx()),
        kind("NVFP4", F4E2M1, all, Scaling::nvfp4().tensor_scale(TensorScale::Multiply(0.003))),
        kind("int8 per row", I8, all, Scaling::per_axis(0)),
        kind("int8 per tensor", I8, all, Scaling::per_tensor(F32)),
        kind("int4 of 32", I4, all, Scaling::blocks(&[32], F16)),
        kind("int4 of 128", I4, all, Scaling::blocks(&[128], BF16)),
        kind("int4 of 128 rows", I4, all, Scaling::along_axis(0, 128, BF16)),
        kind("int4 of 4 columns", I4, all, Scaling::blocks(&[128, 4], BF16)),
        with_zeros(kind("uint4 of 32, zeros", DType::U4, all, Scaling::blocks(&[32], F16))),
        with_zeros(kind("uint4 of 128, zeros", DType::U4, all, Scaling::blocks(&[128], F16))),
        with_zeros(kind("int8 per row, zeros", I8, all, Scaling::per_axis(0))),
        kind("int8 of 16", I8, all, Scaling::blocks(&[16], F32)),
        kind("int8 of 64", I8, all, Scaling::blocks(&[64], F32)),
        by("torchao MXFP8", F8E4M3FN, Profile::Torchao, Scaling::mx().rule(ScaleRule::RoundUp)),
        by("torchao MXFP4", F4E2M1, Profile::Torchao, Scaling::mx()),
        by("torchao NVFP4", F4E2M1, Profile::Torchao, Scaling::nvfp4().tensor_scale(factor)),
        by("torchao 128 x 128", F8E4M3FN, Profile::Torchao, Scaling::deepseek()),
        by("ModelOpt NVFP4", F4E2M1, Profile::Modelopt, Scaling::nvfp4().tensor_scale(factor)),
        by("comp.-tensors row", F8E4M3FN, Profile::CompressedTensors, Scaling::per_axis(0).scale(BF16)),
        by("comp.-tensors int8", I8, Profile::CompressedTensors, Scaling::per_axis(0).scale(BF16)),
        by("comp.-tensors int4", I4, Profile::CompressedTensors, Scaling::blocks(&[128], BF16)),
        Kind {
            zeros: true,
            ..by("comp.-t. int8, zeros", I8, Profile::CompressedTensors, Scaling::per_axis(0).scale(BF16))
        },
        Kind {
            zeros: true,
            ..by("comp.-t. int4, zeros", I4, Profile::CompressedTensors, Scaling::blocks(&[128], BF16))
        },
        Kind {
            zeros: true,
            data: &all[1..2],
            ..by("ONNX uint8, zeros", DType::U8, Profile::Onnx, Scaling::per_tensor(F32))
        },
        by("comp.-tensors MX", F4E2M1, Profile::CompressedTensors, Scaling::mx()),
        by("HF 128 x 128", F8E4M3FN, Profile::HfFp8, Scaling::deepseek()),
        kind("NVFP4, divided", F4E2M1, &all[..2], Scaling::nvfp4().tensor_scale(TensorScale::Divide(2688.5))),
        // By way of float64.
        kind("float8 per row", F8E4M3FN, WIDE, Scaling::per_axis(0)),
        kind("float8 per column", F8E4M3FN, WIDE, Scaling::per_axis(1)),
        kind("float8 128 x 128", F8E4M3FN, WIDE, Scaling::deepseek()),
        kind("MXFP4", F4E2M1, WIDE, Scaling::mx()),
        kind("int8 per row", I8, WIDE, Scaling::per_axis(0)),
        kind("int16 per row", DType::I16, &all[..1], Scaling::per_axis(0)),
        kind("MXINT8", I8, &all[..1], Scaling::mx()),
        by("ModelOpt MXFP4", F4E2M1, Profile::Modelopt, Scaling::mx()),
    ]
}

fn main() {
    let filter: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let isas = Isa::available().iter().rev().filter(|&&isa| isa != Isa::Scalar);
    println!(
        "times of the plain cast, of a copy of as many bytes, and of the roof, to those of the scaled cast"
    );
    println!("{:<8}{:<21}{:<34}{:>8}{:>8}{:>8}{:>8}", "", "", "", "bytes", "plain", "copy", "roof");
    for &isa in isas {
        for (size, budget) in [(data::SMALL, 60), (data::LARGE, 700)] {
            for kind in kinds() {
                if kind.width > 1024 && size == data::SMALL || kind.data == WIDE && size == data::LARGE {
                    continue;
                }
                for &dtype in kind.data {
                    row(isa, size, Duration::from_millis(budget), &kind, dtype, &filter);
                }
            }
            again(isa, size, Duration::from_millis(budget), &filter);
            lost(isa, size, Duration::from_millis(budget), &filter);
        }
    }
}

/// Times quantisations that report their losses, in one call or in two, beside those that do not.
fn lost(isa: Isa, size: usize, budget: Duration, filter: &[String]) {
    use DType::{BF16, F4E2M1, F8E4M3FN, F32, I8};
    let options = CastOptions::new().isa(isa);
    let place = if size == data::SMALL { "L2" } else { "large" };
    println!("{:<63}{:>8}{:>8}{:>8}", "", "", "one go", "two");
    for (name, dtype, element, scaling) in [
        ("float8 128 x 128", BF16, F8E4M3FN, Scaling::deepseek()),
        ("float8 128 x 128", F32, F8E4M3FN, Scaling::deepseek()),
        ("float8 per tensor", BF16, F8E4M3FN, Scaling::per_tensor(F32)),
        ("float8 per column", BF16, F8E4M3FN, Scaling::per_axis(1)),
        ("uint8 per tensor", F32, DType::U8, Scaling::per_tensor(F32)),
        ("NVFP4, divided", BF16, F4E2M1, Scaling::nvfp4().tensor_scale(TensorScale::Divide(2688.5))),
        ("MXFP8", F32, F8E4M3FN, Scaling::mx()),
        ("MXFP4", BF16, F4E2M1, Scaling::mx()),
        ("int8 per row", BF16, I8, Scaling::per_axis(0)),
    ] {
        let what = format!("{dtype} -> {element}, and what is lost");
        let line = format!("{isa:<8}{name:<20}{what:<34}{place:>8}");
        if !filter.iter().all(|word| line.contains(word.as_str())) {
            continue;
        }
        let rows = (data::elements(element, dtype, size) / 1024).next_multiple_of(128);
        let shape = [rows, 1024];
        let values = data::source(dtype, rows * 1024);
        let q = Quantizer::new(dtype, element, &scaling, &options).expect("a quantisation");
        let mut codes = vec![0; q.code_bytes(&shape).expect("a size")];
        let mut scales = vec![0; q.scale_bytes(&shape).expect("a size")];
        let (mut once, mut twice) = (codes.clone(), codes.clone());
        let (mut once_scales, mut twice_scales) = (scales.clone(), scales.clone());
        let times = race(
            [
                &mut || {
                    q.quantize(&values, &shape, &mut codes, &mut scales).expect("sizes that fit");
                },
                &mut || {
                    q.quantize_losses(&values, &shape, &mut once, &mut once_scales, None).expect("sizes");
                },
                &mut || {
                    q.quantize(&values, &shape, &mut twice, &mut twice_scales).expect("sizes that fit");
                    q.losses(&values, &shape, &twice, &twice_scales, None, None).expect("sizes that fit");
                },
            ],
            budget,
        );
        println!("{line}{:>8.3}{:>8.3}", times[0] / times[1], times[0] / times[2]);
    }
}

/// Times requantisations, from one scaling to another, beside a copy; no plain cast compares.
fn again(isa: Isa, size: usize, budget: Duration, filter: &[String]) {
    use DType::{F4E2M1, F8E4M3FN};
    let options = CastOptions::new().isa(isa);
    let (blocks, mx, rows) = (Scaling::deepseek(), Scaling::mx(), Scaling::per_axis(0));
    let nv = Scaling::nvfp4().tensor_scale(TensorScale::Multiply(0.003));
    let divided = Scaling::nvfp4().tensor_scale(TensorScale::Divide(2688.5));
    let groups = Scaling::blocks(&[32], DType::F16);
    let place = if size == data::SMALL { "L2" } else { "large" };
    for (name, from, to) in [
        ("128 x 128 to MXFP4", (F8E4M3FN, &blocks), (F4E2M1, &mx)),
        ("128 x 128 to MXFP8", (F8E4M3FN, &blocks), (F8E4M3FN, &mx)),
        ("MXFP4 to NVFP4", (F4E2M1, &mx), (F4E2M1, &nv)),
        // By way of float64.
        ("128 x 128 to NVFP4", (F8E4M3FN, &blocks), (F4E2M1, &nv)),
        ("128 x 128 to int8", (F8E4M3FN, &blocks), (DType::I8, &rows)),
        // With a factor to divide by, as compressed-tensors has it.
        ("NVFP4 to 128 x 128", (F4E2M1, &divided), (F8E4M3FN, &blocks)),
        ("NVFP4 to NVFP4", (F4E2M1, &divided), (F4E2M1, &Scaling::nvfp4())),
        ("NVFP4 to int4 of 32", (F4E2M1, &divided), (DType::I4, &groups)),
    ] {
        let what = format!("{} -> {}, again", from.0, to.0);
        let line = format!("{isa:<8}{name:<20}{what:<34}");
        if !filter.iter().all(|word| format!("{line} {place}").contains(word.as_str())) {
            continue;
        }
        let shape = [size / 2 / 1024, 1024];
        let q = Quantizer::new(DType::BF16, from.0, from.1, &options).expect("a quantisation");
        let values = data::source(DType::BF16, shape[0] * shape[1]);
        let mut codes = vec![0; q.code_bytes(&shape).expect("a size")];
        let mut scales = vec![0; q.scale_bytes(&shape).expect("a size")];
        q.quantize(&values, &shape, &mut codes, &mut scales).expect("sizes that fit");
        let r = Requantizer::new(from, to, &options).expect("a requantisation");
        let sizes = Quantizer::new(DType::BF16, to.0, to.1, &options).expect("a quantisation");
        let mut made = vec![0; sizes.code_bytes(&shape).expect("a size")];
        let mut found = vec![0; sizes.scale_bytes(&shape).expect("a size")];
        let copied = vec![1u8; (codes.len() + made.len()) / 2];
        let mut copy = copied.clone();
        let times = race(
            [
                &mut || {
                    r.requantize(&codes, &shape, &scales, None, &mut made, &mut found)
                        .expect("sizes that fit");
                },
                &mut || copy.copy_from_slice(std::hint::black_box(&copied)),
            ],
            budget,
        );
        println!("{line}{place:>8}{:>8}{:>8.4}", "-", times[1] / times[0]);
    }
}

/// A buffer of zeros that begins at a cache line, as the tensors of most libraries do: its memory, and where it begins there.
struct Lines(Vec<u8>, usize);

impl Lines {
    fn new(n: usize) -> Self {
        let room = vec![0; n + 64];
        let first = room.as_ptr().align_offset(64);
        Self(room, first)
    }

    fn of(bytes: &[u8]) -> Self {
        let mut lines = Self::new(bytes.len());
        lines.all().copy_from_slice(bytes);
        lines
    }

    fn all(&mut self) -> &mut [u8] {
        let Self(room, first) = self;
        let n = room.len() - 64;
        &mut room[*first..][..n]
    }
}

fn row(isa: Isa, size: usize, budget: Duration, kind: &Kind, dtype: DType, filter: &[String]) {
    let options = CastOptions::new().isa(isa);
    let rows = (data::elements(kind.element, dtype, size) / kind.width).next_multiple_of(128);
    let shape = [rows, kind.width];
    let n = rows * kind.width;
    let values = data::source(dtype, n);
    let q = Quantizer::new(dtype, kind.element, &kind.scaling, &options).expect("a quantisation");
    let d = Dequantizer::new(kind.element, dtype, &kind.scaling, &options).expect("a dequantisation");
    let mut values = Lines::of(&values);
    let values = values.all();
    let mut codes = Lines::new(q.code_bytes(&shape).expect("a size"));
    let codes = codes.all();
    let mut scales = vec![0; q.scale_bytes(&shape).expect("a size")];
    let zero_points = kind.zeros.then(|| {
        let n = q.scale_shape(&shape).expect("a shape").iter().product();
        vec![0x11; kind.element.byte_len(n, options.src_packing).expect("a size")]
    });
    let mut found = zero_points.clone().unwrap_or_default();
    if kind.scaling.profile == Profile::Onnx {
        q.quantize_affine(values, &shape, codes, &mut scales, &mut found).expect("sizes that fit");
    } else {
        q.quantize(values, &shape, codes, &mut scales).expect("sizes that fit");
    }
    let zero_points = zero_points.as_deref();
    let (mut back, mut plain) = (Lines::new(values.len()), Lines::new(values.len()));
    let (back, plain) = (back.all(), plain.all());
    let place = if size == data::SMALL { "L2" } else { "large" };
    let print = |what: String, times: [f64; 5]| {
        let line = format!("{isa:<8}{:<21}{what:<34}", kind.name);
        let [plain, copy, roof] =
            [times[1], times[2], times[3].min(times[4])].map(|time| format!("{:.2}", time / times[0]));
        println!("{line}{place:>8}{plain:>8}{copy:>8}{roof:>8}");
    };
    let chosen = |what: &str| {
        filter.iter().all(|word| format!("{isa} {} {what} {place}", kind.name).contains(word.as_str()))
    };
    let half = (values.len() + codes.len()) / 2;
    let what = format!("{} -> {dtype}", kind.element);
    if chosen(&what) {
        let caster = Caster::new(kind.element, dtype, &options).expect("a cast");
        let copied = vec![1u8; half];
        let mut copy = vec![0u8; half];
        let null = Null::new(kind.element, dtype, isa).expect("registers");
        let (mut zeros, mut past) = (Lines::new(plain.len()), Lines::new(plain.len()));
        let (zeros, past) = (zeros.all(), past.all());
        let times = race(
            [
                &mut || d.dequantize(codes, &shape, &scales, zero_points, back).expect("sizes that fit"),
                &mut || caster.cast(codes, plain, n).expect("sizes that fit"),
                &mut || copy.copy_from_slice(std::hint::black_box(&copied)),
                &mut || null.run(codes, zeros, false),
                &mut || null.run(codes, past, true),
            ],
            budget,
        );
        print(what, times);
    }
    for is_found in [false, true].into_iter().filter(|&found| !found || kind.finds) {
        let what = format!("{dtype} -> {}, {}", kind.element, if is_found { "found" } else { "given" });
        if !chosen(&what) {
            continue;
        }
        let caster = Caster::new(dtype, kind.element, &options).expect("a cast");
        let null = Null::new(dtype, kind.element, isa).expect("registers");
        let [mut made, mut also, mut zeros, mut past] = [(); 4].map(|()| Lines::new(codes.len()));
        let (made, also, zeros, past) = (made.all(), also.all(), zeros.all(), past.all());
        let given = scales.clone();
        let copied = vec![1u8; half];
        let mut copy = vec![0u8; half];
        let times = race(
            [
                &mut || {
                    if is_found && kind.zeros {
                        q.quantize_affine(values, &shape, made, &mut scales, &mut found).expect("sizes");
                    } else if is_found {
                        q.quantize(values, &shape, made, &mut scales).expect("sizes that fit");
                    } else {
                        q.quantize_given(values, &shape, &given, zero_points, made).expect("sizes that fit");
                    }
                },
                &mut || caster.cast(values, also, n).expect("sizes that fit"),
                &mut || copy.copy_from_slice(std::hint::black_box(&copied)),
                &mut || null.run(values, zeros, false),
                &mut || null.run(values, past, true),
            ],
            budget,
        );
        print(what, times);
    }
}
