//! Texts to doubles and back, beside bare loops around the digit libraries: `cargo bench --bench text`.
//!
//! `bare` is a loop that makes the same result from the same input: with `f64::from_str` on each text, or with
//! `zmij::Buffer::format_finite` into one buffer with offsets. Everything but `parallel` runs on one thread.
//! At the end, the ratios of the times bare / lanecast are printed, so that 1 is as fast as bare. They are of the fastest of many
//! rounds in turns, because other load on the machine can only slow a round down.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lanecast::bits::F8E4M3FN;
use lanecast::text::{Notation, format_offsets_with, format_slice, parse_offsets_with, parse_slice};
use lanecast::{CastOptions, bf16, f16};

const N: usize = 1_000_000;

/// Returns a quarter each of prices, fractions with all their digits, whole numbers, and random bits. The latter are finite and
/// neither very large nor very small, for such numbers have a page of zeros in plain notation.
fn doubles() -> Vec<f64> {
    let mut state = 1u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let any =
        |bits: u64| f64::from_bits(bits & 0x800F_FFFF_FFFF_FFFF | (1023 - 40 + (bits >> 52) % 80) << 52);
    (0..N)
        .map(|i| match (random(), i % 4) {
            (bits, 0) => (bits % 10_000_000) as f64 / 100.0,
            (bits, 1) => (bits >> 11) as f64 / (1u64 << 53) as f64,
            (bits, 2) => (bits % 1_000_000_000) as f64,
            (bits, _) => any(bits),
        })
        .collect()
}

fn bare_parse(texts: &[String], out: &mut [f64]) {
    for (x, text) in out.iter_mut().zip(texts) {
        *x = text.parse().expect("a number");
    }
}

fn bare_parse_offsets(offsets: &[i32], text: &str, out: &mut [f64]) {
    for (x, place) in out.iter_mut().zip(offsets.windows(2)) {
        *x = text[place[0] as usize..place[1] as usize].parse().expect("a number");
    }
}

fn bare_format(doubles: &[f64]) -> (Vec<i32>, String) {
    let (mut offsets, mut text) = (Vec::with_capacity(doubles.len() + 1), String::new());
    offsets.push(0);
    for &x in doubles {
        text.push_str(zmij::Buffer::new().format_finite(x));
        offsets.push(text.len() as i32);
    }
    (offsets, text)
}

fn texts(c: &mut Criterion) {
    let doubles = doubles();
    let texts = format_slice(&doubles).expect("doubles have text");
    let (offsets, bytes) =
        format_offsets_with::<_, i32>(&doubles, Notation::Plain).expect("doubles have text");
    let options = CastOptions::new();
    let mut out = vec![0f64; N];
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");

    let mut group = c.benchmark_group("parse");
    group.throughput(Throughput::Elements(N as u64));
    group.sample_size(10).measurement_time(Duration::from_secs(2));
    group.bench_function("bare", |b| b.iter(|| bare_parse(black_box(&texts), black_box(&mut out))));
    group.bench_function("strings", |b| {
        b.iter(|| one.install(|| parse_slice(black_box(&texts), black_box(&mut out))))
    });
    group.bench_function("offsets", |b| {
        b.iter(|| {
            one.install(|| parse_offsets_with(black_box(&offsets), &bytes, black_box(&mut out), &options))
        })
    });
    group.bench_function("parallel", |b| {
        b.iter(|| parse_offsets_with(black_box(&offsets), &bytes, black_box(&mut out), &options))
    });
    let mut halves = vec![f16::ZERO; N];
    group.bench_function("float16", |b| {
        b.iter(|| {
            one.install(|| parse_offsets_with(black_box(&offsets), &bytes, black_box(&mut halves), &options))
        })
    });
    let mut eighths = vec![F8E4M3FN::default(); N];
    group.bench_function("float8_e4m3fn", |b| {
        b.iter(|| {
            one.install(|| parse_offsets_with(black_box(&offsets), &bytes, black_box(&mut eighths), &options))
        })
    });
    group.finish();

    let mut group = c.benchmark_group("format");
    group.throughput(Throughput::Elements(N as u64));
    group.sample_size(10).measurement_time(Duration::from_secs(2));
    group.bench_function("bare", |b| b.iter(|| bare_format(black_box(&doubles))));
    group.bench_function("offsets", |b| {
        b.iter(|| one.install(|| format_offsets_with::<_, i32>(black_box(&doubles), Notation::Plain)))
    });
    group.bench_function("scientific", |b| {
        b.iter(|| one.install(|| format_offsets_with::<_, i32>(black_box(&doubles), Notation::Scientific)))
    });
    group.bench_function("parallel", |b| {
        b.iter(|| format_offsets_with::<_, i32>(black_box(&doubles), Notation::Plain))
    });
    let halves: Vec<bf16> = lanecast::cast_vec(&doubles).expect("there is memory");
    group.bench_function("bfloat16", |b| {
        b.iter(|| one.install(|| format_offsets_with::<_, i32>(black_box(&halves), Notation::Plain)))
    });
    group.finish();

    let ratio = |name: &str, bare: &mut (dyn FnMut() + Send), ours: &mut (dyn FnMut() + Send)| {
        let mut fastest = [f64::INFINITY; 2];
        for _ in 0..40 {
            // On the same thread, because each thread allocates from memory of its own.
            let start = Instant::now();
            one.install(&mut *bare);
            fastest[0] = fastest[0].min(start.elapsed().as_secs_f64());
            let start = Instant::now();
            one.install(&mut *ours);
            fastest[1] = fastest[1].min(start.elapsed().as_secs_f64());
        }
        let [bare, ours] = fastest.map(|seconds| 1e9 * seconds / N as f64);
        println!("{name:<20} bare {bare:6.1} ns, lanecast {ours:6.1} ns: {:.2}", bare / ours);
    };
    let mut bare_out = vec![0f64; N];
    ratio("parse strings", &mut || bare_parse(&texts, &mut bare_out), &mut || {
        black_box(parse_slice(&texts, &mut out)).expect("numbers")
    });
    let text = str::from_utf8(&bytes).expect("digits");
    ratio("parse offsets", &mut || bare_parse_offsets(&offsets, text, &mut bare_out), &mut || {
        black_box(parse_offsets_with(&offsets, &bytes, &mut out, &options)).expect("numbers")
    });
    ratio("format scientific", &mut || drop(black_box(bare_format(&doubles))), &mut || {
        drop(black_box(format_offsets_with::<_, i32>(&doubles, Notation::Scientific)))
    });
    ratio("format plain", &mut || drop(black_box(bare_format(&doubles))), &mut || {
        drop(black_box(format_offsets_with::<_, i32>(&doubles, Notation::Plain)))
    });
}

criterion_group!(benches, texts);
criterion_main!(benches);
