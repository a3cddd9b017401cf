//! Casts on every available instruction set, beside memcpy.
//!
//! `cargo bench --bench cast` runs a representative list of pairs on buffers that stay in L2. Words after
//! `--` filter: `cargo bench --bench cast -- avx2/float32`. Two variables do more:
//!
//! * `LANECAST_BENCH=all`: all pairs
//! * `LANECAST_BENCH_LARGE=1`: the same again on buffers that no cache holds
//!
//! The throughput is bytes read + bytes written. `null/avx2/float32->float16/<elements>` is the roof of that cast: the same loads
//! and stores, with nothing computed between them; `null past the caches/..` uses non-temporal stores, which are faster where no
//! cache holds the buffers. `memcpy/<bytes>` reads and writes as many bytes.
//!
//! This is for a close look at some pairs. The overview of all pairs in docs/performance is made by
//! `cargo run --release -p lanecast-peers --bin report`.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use lanecast::{CastOptions, Caster, DType, Isa, convert, convert_with, f16};

mod data;
#[path = "data/null.rs"]
mod null;

use data::{LARGE, SMALL, elements, size, source};
use null::Null;

/// The pairs of the default run: one or more for each class of kernels, and casts that many programs do.
#[rustfmt::skip]
const PAIRS: &[(DType, DType)] = {
    use DType::*;
    &[
        // A dtype to itself: a copy, which must be as fast as memcpy.
        (F32, F32),
        // Half precision, the most common casts.
        (F32, F16), (F16, F32), (F32, BF16), (BF16, F32), (BF16, F16), (F16, BF16),
        // Through f64, the widest hub; and f64 to f16, where rounding twice, by way of f32, would be tempting.
        (F32, F64), (F64, F32), (F64, F16),
        // To a float of 8 bits: rounding without an instruction for it, with subnormals, with and without Inf.
        (F32, F8E4M3FN), (F32, F8E5M2), (F32, F8E4M3FNUZ), (BF16, F8E4M3FN), (F32, F8E8M0),
        // From 8 bits: lookups.
        (F8E4M3FN, F32), (F8E5M2, F16), (F8E4M3FN, F8E5M2),
        // Packed: also shifts of bits across bytes, most of all for 6 bits.
        (F32, F4E2M1), (F4E2M1, BF16), (F6E3M2, F32), (I4, I8), (F32, I4),
        // Integers: narrowing, widening with and without sign, 64 bits.
        (I32, I8), (U8, U16), (I8, I32), (I64, I32),
        // Between integers and floats: quantisation, images, and 64 bits, which few machines convert.
        (F32, I8), (F32, I32), (U8, F32), (F64, I64), (I64, F32),
        // Bool and complex, which are neither.
        (F32, Bool), (C64, C128),
    ]
};

/// Times casts of about `traffic` bytes, each beside its null cast, and then memcpy of each total of bytes.
fn casts(c: &mut Criterion, pairs: &[(DType, DType)], traffic: usize) {
    let mut totals = BTreeSet::new();
    for &isa in Isa::available() {
        for &(from, to) in pairs {
            let n = elements(from, to, traffic);
            let (src, mut dst) = (Lines::of(&source(from, n)), Lines::of(&touched(size(to, n))));
            let total = (src.bytes().len() + dst.bytes().len()) as u64;
            let mut run = |group: &str, id: String, cast: &mut dyn FnMut(&[u8], &mut [u8])| {
                let mut group = c.benchmark_group(group);
                configure(&mut group, traffic);
                group.throughput(Throughput::Bytes(total));
                group.bench_function(BenchmarkId::new(id, n), |b| {
                    b.iter(|| cast(black_box(src.bytes()), black_box(dst.bytes_mut())))
                });
            };
            let caster = Caster::new(from, to, &CastOptions::new().isa(isa)).expect("it is available");
            run(isa.name(), format!("{from}->{to}"), &mut |src, dst| {
                caster.cast(src, dst, n).expect("the sizes agree")
            });
            if let Some(null) = Null::new(from, to, isa) {
                let id = format!("{isa}/{from}->{to}");
                run("null", id.clone(), &mut |src, dst| null.run(src, dst, false));
                if traffic >= LARGE {
                    run("null past the caches", id, &mut |src, dst| null.run(src, dst, true));
                }
            }
            totals.insert(total as usize);
        }
    }
    let mut group = c.benchmark_group("memcpy");
    configure(&mut group, traffic);
    for total in totals {
        let (src, mut dst) = (touched(total / 2), touched(total / 2));
        group.throughput(Throughput::Bytes(total as u64));
        group.bench_function(BenchmarkId::from_parameter(total), |b| {
            b.iter(|| black_box(&mut dst).copy_from_slice(black_box(&src)))
        });
    }
}

/// A buffer that begins at a cache line, as those of array libraries do.
struct Lines {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Lines {
    fn of(bytes: &[u8]) -> Self {
        let mut memory = vec![1; bytes.len() + 64];
        let start = memory.as_ptr().addr().wrapping_neg() % 64;
        memory[start..start + bytes.len()].copy_from_slice(bytes);
        Self { memory, start, len: bytes.len() }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.len]
    }
}

/// Sets short times: the list is long, and differences of a few per cent need a closer look anyway.
fn configure(group: &mut BenchmarkGroup<'_, WallTime>, traffic: usize) {
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(400));
    group.nresamples(2000).sample_size(if traffic < LARGE { 20 } else { 10 });
    if traffic >= LARGE {
        // A single iteration may take longer than a sample should.
        group.sampling_mode(SamplingMode::Flat);
    }
}

/// Returns memory that has been written to, because first writes to new memory run at the speed of page faults.
fn touched(bytes: usize) -> Vec<u8> {
    vec![1; bytes]
}

fn buffers(c: &mut Criterion) {
    let all: Vec<_> = DType::ALL.iter().flat_map(|&from| DType::ALL.map(|to| (from, to))).collect();
    let pairs = match std::env::var("LANECAST_BENCH").as_deref() {
        Err(_) | Ok("") => PAIRS,
        Ok("all") => &all,
        Ok(other) => panic!("LANECAST_BENCH is {other:?}; it can be \"all\""),
    };
    casts(c, pairs, SMALL);
    if std::env::var("LANECAST_BENCH_LARGE").is_ok_and(|value| value == "1") {
        casts(c, pairs, LARGE);
    }
}

/// Times casts of one and of a few elements, `Caster::new`, and conversions of one value.
fn small(c: &mut Criterion) {
    let mut group = c.benchmark_group("small");
    configure(&mut group, SMALL);
    for &isa in Isa::available() {
        for (from, to) in [(DType::F32, DType::F8E4M3FN), (DType::F16, DType::F32), (DType::I64, DType::I32)]
        {
            let caster = Caster::new(from, to, &CastOptions::new().isa(isa)).expect("it is available");
            for n in [1, 16] {
                let (src, mut dst) = (source(from, n), touched(size(to, n)));
                group.throughput(Throughput::Elements(n as u64));
                group.bench_function(BenchmarkId::new(format!("{isa}/{from}->{to}"), n), |b| {
                    b.iter(|| caster.cast(black_box(&src), black_box(&mut dst), n).expect("the sizes agree"))
                });
            }
        }
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("Caster::new", |b| {
        b.iter(|| {
            Caster::new(black_box(DType::F32), black_box(DType::F8E4M3FN), black_box(&CastOptions::new()))
        })
    });
    group.bench_function("convert float32->float16", |b| b.iter(|| convert::<f32, f16>(black_box(0.1))));
    group.bench_function("convert_with float32->float16", |b| {
        b.iter(|| convert_with::<f32, f16>(black_box(0.1), black_box(&CastOptions::new())))
    });
    group.bench_function("half's f16::from_f32", |b| b.iter(|| f16::from_f32(black_box(0.1))));
}

/// Times results in memory that was never touched: a new vector of 128 MiB, by `cast_vec`, by a loop, and by a cast into the spare
/// capacity of a new vector. Most of the time is page faults, except where `cast_vec` asks for large pages.
fn new_memory(c: &mut Criterion) {
    let mut group = c.benchmark_group("new memory");
    configure(&mut group, LARGE);
    let src: Vec<f32> = (0..16 << 20).map(|i| i as f32).collect();
    group.throughput(Throughput::Bytes(3 * size_of_val(&src[..]) as u64));
    group.bench_function("cast_vec", |b| {
        b.iter_with_large_drop(|| lanecast::cast_vec::<f32, f64>(black_box(&src)).expect("there is memory"))
    });
    group.bench_function("loop", |b| {
        b.iter_with_large_drop(|| black_box(&src).iter().map(|&x| f64::from(x)).collect::<Vec<f64>>())
    });
    group.bench_function("cast_slice_uninit", |b| {
        b.iter_with_large_drop(|| {
            let mut dst = Vec::<f64>::with_capacity(src.len());
            let cast =
                lanecast::cast_slice_uninit(black_box(&src), &mut dst.spare_capacity_mut()[..src.len()]);
            black_box(cast.expect("the lengths agree").len());
            dst
        })
    });
}

criterion_group!(benches, buffers, small, new_memory);
criterion_main!(benches);
