//! Casts on threads, along strides, of few elements, in place and between byte orders, each beside something that it should
//! match in speed, in the same run.
//!
//! `cargo bench --bench views` prints a line for each, with both times and their ratio, which is what counts. The two take
//! turns and the best of several rounds is taken, so that a busy machine affects both alike. Words after `--`, such as
//! `par`, select the lines that contain one of them.
//!
//! The ratio is the speed of the first to that of the second, in bytes read and written: above 1 the first is faster.
//! The end of the output is for the pages docs/performance/views-*.md: the ratios of lines of the same kind.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use lanecast::parallel::Parallel;
use lanecast::views::{StridedView, StridedViewMut};
use lanecast::{ByteOrder, CastOptions, Caster, DType, Packing};

/// A line of output: two things that are timed, and the bytes that each reads and writes.
struct Line<'a> {
    /// What the lines of a row of the page have in common.
    kind: String,
    name: String,
    against: &'static str,
    bytes: [usize; 2],
    run: [Box<dyn FnMut() + 'a>; 2],
}

struct Bench {
    words: Vec<String>,
    rounds: usize,
    /// The kinds of lines, what each is measured against, and the ratios of its lines.
    found: RefCell<Vec<(String, &'static str, Vec<f64>)>>,
}

impl Bench {
    /// Times both in turns, and prints and keeps their ratio.
    fn line(&self, mut line: Line<'_>) {
        if !self.words.is_empty() && !self.words.iter().any(|word| line.name.contains(word)) {
            return;
        }
        let mut best = [Duration::MAX; 2];
        // As many calls in a round as take about 3 ms.
        let calls = line.run.each_mut().map(|run| {
            run();
            let start = Instant::now();
            run();
            (3_000_000 / start.elapsed().as_nanos().max(1)).clamp(1, 1_000_000) as u32
        });
        for _ in 0..self.rounds {
            for i in 0..2 {
                let start = Instant::now();
                for _ in 0..calls[i] {
                    line.run[i]();
                }
                best[i] = best[i].min(start.elapsed() / calls[i]);
            }
        }
        let speed = |i: usize| line.bytes[i] as f64 / best[i].as_secs_f64() / 1e9;
        let ratio = speed(0) / speed(1);
        let mut found = self.found.borrow_mut();
        match found.iter_mut().find(|(kind, against, _)| (kind, *against) == (&line.kind, line.against)) {
            Some((.., ratios)) => ratios.push(ratio),
            None => found.push((line.kind, line.against, vec![ratio])),
        }
        println!(
            "{:52} {:11.3} µs {:6.2} GB/s, {:10} {:11.3} µs {:6.2} GB/s: ratio {:.2}",
            line.name,
            best[0].as_secs_f64() * 1e6,
            speed(0),
            line.against,
            best[1].as_secs_f64() * 1e6,
            speed(1),
            ratio
        );
    }

    /// Prints the ratios of each kind as a page.
    fn page(&self) {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let value =
                info.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name);
            value.map_or("unknown", |(_, value)| value.trim())
        };
        println!(
            "\n# Casts on threads, along strides and in place

Made by `cargo bench --bench views`, of which this is the end. Ratios of speeds, in bytes read and written: above 1 the cast is
faster than what it is measured beside. Each is of the best of {} turns; of the lines of a kind, the lowest, the median and the
highest ratio.

* CPU: {} (family {}, model {}); instruction set: {}

| what | beside | lines | lowest | median | highest |
|---|---|---:|---:|---:|---:|",
            self.rounds,
            field("model name"),
            field("cpu family"),
            field("model"),
            lanecast::Isa::best().map_or("none", |isa| isa.name()),
        );
        for (kind, against, mut ratios) in self.found.take() {
            ratios.sort_by(f64::total_cmp);
            let [low, median, high] =
                [0, ratios.len() / 2, ratios.len() - 1].map(|i| format!("{:.2}", ratios[i]));
            println!("| {kind} | {against} | {} | {low} | {median} | {high} |", ratios.len());
        }
    }
}

fn size(dtype: DType, n: usize) -> usize {
    dtype.byte_len(n, Packing::OnePerByte).expect("a size that fits")
}

/// Returns elements that are 0 or 1, so that no cast takes a path for unusual values.
fn source(dtype: DType, n: usize) -> Vec<u8> {
    let ones: Vec<u8> = (0..n).map(|i| (i % 2) as u8).collect();
    let mut out = vec![1; size(dtype, n)];
    caster(DType::U8, dtype).cast(&ones, &mut out, n).expect("the sizes agree");
    out
}

fn caster(from: DType, to: DType) -> Caster {
    let options = CastOptions::new().src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
    Caster::new(from, to, &options).expect("an instruction set")
}

const PAIRS: [(DType, DType); 5] = [
    (DType::F32, DType::BF16),
    (DType::F32, DType::F8E4M3FN),
    (DType::F16, DType::F32),
    (DType::F64, DType::I8),
    (DType::U8, DType::U8),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let is_test = std::env::args().any(|word| word == "--test");
    let bench = Bench { words, rounds: if is_test { 1 } else { 25 }, found: RefCell::default() };
    parallel(&bench, if is_test { 1 << 20 } else { 256 << 20 });
    rows(&bench, if is_test { 1 << 17 } else { 1 << 24 });
    transposes(&bench, if is_test { 256 } else { 4096 });
    checked(&bench, if is_test { 1 << 17 } else { 1 << 24 });
    shared_and_checked(&bench, if is_test { 256 } else { 4096 });
    gathers(&bench);
    in_place(&bench);
    few(&bench);
    orders(&bench, if is_test { 1 << 20 } else { 64 << 20 });
    copies(&bench);
    bench.page();
}

/// Times casts on a pool of two threads, and on two threads started for each cast, beside one thread, at sizes in the caches
/// and beyond. Below the threshold the caller casts alone.
fn parallel(bench: &Bench, largest: usize) {
    rayon::ThreadPoolBuilder::new().num_threads(2).build_global().expect("two threads");
    for (from, to) in PAIRS {
        let mut traffic = 64 << 10;
        while traffic <= largest {
            let n = traffic / (from.itemsize() + to.itemsize());
            let (src, caster) = (source(from, n), caster(from, to));
            let [mut a, mut b] = [(); 2].map(|()| vec![1; size(to, n)]);
            let bytes = [traffic; 2];
            let size = match traffic >> 20 {
                0..4 => "below 4 MiB",
                4..64 => "of 4 MiB and more",
                _ => "of 64 MiB and more",
            };
            bench.line(Line {
                kind: format!("a pool of 2, casts {size}"),
                name: format!("par {from}->{to}, {} KiB, pool of 2", traffic >> 10),
                against: "1 thread",
                bytes,
                run: [
                    Box::new(|| caster.par_cast(black_box(&src), &mut a, n).expect("the sizes agree")),
                    Box::new(|| caster.cast(black_box(&src), &mut b, n).expect("the sizes agree")),
                ],
            });
            if traffic >= 4 << 20 {
                bench.line(Line {
                    kind: format!("2 threads that start for a cast {size}"),
                    name: format!("par {from}->{to}, {} KiB, 2 own threads", traffic >> 10),
                    against: "1 thread",
                    bytes,
                    run: [
                        Box::new(|| {
                            let how = Parallel::new().threads(2);
                            caster.par_cast_with(black_box(&src), &mut a, n, &how).expect("the sizes agree");
                        }),
                        Box::new(|| caster.cast(black_box(&src), &mut b, n).expect("the sizes agree")),
                    ],
                });
            }
            traffic *= 2;
        }
    }
}

/// Times rows with a gap after each, beside as many contiguous elements, in L2 and beyond the caches. The destination has the
/// same gaps or, like a slice of columns cast to a new array, none.
///
/// Two more comparisons show what is possible. Short rows are timed beside a cast of the rows and gaps together, which touches
/// the same cache lines (that is a ratio of times); copies, beside a memcpy for each row.
fn rows(bench: &Bench, largest: usize) {
    for (from, to) in PAIRS {
        let short = [16, 32, 64, 256, 1024, 4096].map(|columns| (1 << 15, columns));
        let long = [64, 256, 1024, 4096, 16384].map(|columns| (largest, columns));
        for (elements, columns) in short.into_iter().chain(long) {
            for (gap, name) in [(16, "rows"), (0, "slice")] {
                let rows = elements / columns;
                let (n, s, d) = (rows * columns, from.itemsize(), to.itemsize());
                let caster = caster(from, to);
                let src = source(from, n + rows * 16);
                let [mut a, mut b] = [(); 2].map(|()| vec![1; size(to, n + rows * gap)]);
                let shape = [rows, columns];
                let (src_row, dst_row) = ((columns + 16) * s, (columns + gap) * d);
                let src_strides = [src_row as isize, s as isize];
                let dst_strides = [dst_row as isize, d as isize];
                let mut beside = |against, other: Box<dyn FnMut() + '_>| {
                    let place = if elements == 1 << 15 { "in L2" } else { "large" };
                    bench.line(Line {
                        kind: match gap {
                            0 => format!("{columns} columns to a new array, {place}"),
                            _ => format!("rows of {columns}, {place}"),
                        },
                        name: format!("{name} {from}->{to}, {rows} of {columns}"),
                        against,
                        bytes: [n * (s + d); 2],
                        run: [
                            Box::new(|| {
                                let view = StridedView::new(black_box(&src), 0, &shape, &src_strides);
                                let mut out = StridedViewMut::new(&mut a, 0, &shape, &dst_strides);
                                caster.cast_strided(&view, &mut out).expect("views in their buffers");
                            }),
                            other,
                        ],
                    });
                };
                let mut cast = |n: usize| {
                    caster.cast(&black_box(&src)[..n * s], &mut b[..n * d], n).expect("the sizes agree");
                };
                beside("contiguous", Box::new(|| cast(n)));
                if columns <= 64 && gap != 0 {
                    beside("gaps too", Box::new(|| cast(n + rows * gap)));
                }
                if from == to {
                    let each = || {
                        let src = black_box(&src).chunks_exact(src_row);
                        for (from, to) in src.zip(b.chunks_exact_mut(dst_row)) {
                            to[..columns * d].copy_from_slice(&from[..columns * d]);
                        }
                    };
                    beside("row memcpy", Box::new(each));
                }
            }
        }
    }
}

fn transposes(bench: &Bench, side: usize) {
    use DType::*;
    for (from, to) in
        [(F32, BF16), (F32, F32), (BF16, F32), (U8, F32), (F32, U8), (U8, U8), (F64, F32), (C128, C128)]
    {
        let (n, s, d) = (side * side, from.itemsize(), to.itemsize());
        let (src, caster) = (source(from, n), caster(from, to));
        let mut dst = vec![1; size(to, n)];
        let half = n * (s + d) / 2;
        let (copied, mut copy) = (vec![1u8; half], vec![1u8; half]);
        let shape = [side, side];
        let src_strides = [s as isize, (side * s) as isize];
        let dst_strides = [(side * d) as isize, d as isize];
        bench.line(Line {
            kind: match (from, to) {
                (F32, BF16) => format!("transpose of {side} x {side}, float32 to bfloat16"),
                _ => format!("transpose of {side} x {side}, others"),
            },
            name: format!("transpose {from}->{to}, {side} x {side}"),
            against: "memcpy",
            bytes: [n * (s + d); 2],
            run: [
                Box::new(|| {
                    let view = StridedView::new(black_box(&src), 0, &shape, &src_strides);
                    let mut out = StridedViewMut::new(&mut dst, 0, &shape, &dst_strides);
                    caster.cast_strided(&view, &mut out).expect("views in their buffers");
                }),
                Box::new(|| black_box(&mut copy).copy_from_slice(black_box(&copied))),
            ],
        });
    }
}

/// Times checked casts of contiguous elements on a pool of two threads, beside one thread, and reports without a cast, beside
/// checked casts.
fn checked(bench: &Bench, largest: usize) {
    for (from, to) in PAIRS {
        for n in [1 << 16, largest] {
            let (src, caster) = (source(from, n), caster(from, to));
            let [mut a, mut b] = [(); 2].map(|()| vec![1; size(to, n)]);
            let bytes = [n * (from.itemsize() + to.itemsize()); 2];
            // For pairs that cannot lose anything, a report is immediate.
            if matches!(to, DType::BF16 | DType::F8E4M3FN | DType::I8) {
                bench.line(Line {
                    kind: format!("a report of {n} without a cast"),
                    name: format!("report {from}->{to}, {n}"),
                    against: "checked",
                    bytes,
                    run: [
                        Box::new(|| _ = caster.report(black_box(&src), n).expect("the sizes agree")),
                        Box::new(|| {
                            _ = caster.cast_checked(black_box(&src), &mut b, n).expect("the sizes agree")
                        }),
                    ],
                });
            }
            if n == largest {
                let how = Parallel::new();
                bench.line(Line {
                    kind: format!("{n} checked, a pool of 2"),
                    name: format!("checked {from}->{to}, {n}, pool of 2"),
                    against: "1 thread",
                    bytes,
                    run: [
                        Box::new(|| {
                            let report = caster.par_cast_checked_with(black_box(&src), &mut a, n, &how);
                            _ = report.expect("the sizes agree");
                        }),
                        Box::new(|| {
                            _ = caster.cast_checked(black_box(&src), &mut b, n).expect("the sizes agree");
                        }),
                    ],
                });
            }
        }
    }
}

/// Times transposes and views of every second column, in L2 and beyond the caches: checked, beside a checked cast of as many
/// contiguous elements, and (only beyond the caches) on a pool of two threads, beside one thread.
fn shared_and_checked(bench: &Bench, largest: usize) {
    for (from, to) in PAIRS {
        for side in [128, largest] {
            let (n, s, d) = (side * side, from.itemsize() as isize, to.itemsize() as isize);
            let (row, caster) = (side as isize, caster(from, to));
            let src = source(from, 2 * n);
            let [mut a, mut b] = [(); 2].map(|()| vec![1; size(to, n)]);
            let (shape, dst_strides) = ([side, side], [row * d, d]);
            for (what, src_strides) in [("transpose", [s, row * s]), ("every 2nd", [2 * row * s, 2 * s])] {
                let view = StridedView::new(&src, 0, &shape, &src_strides);
                let line = |kind, against, run: [Box<dyn FnMut() + '_>; 2]| {
                    bench.line(Line {
                        kind: format!("{what} of {side} x {side}, {kind}"),
                        name: format!("{kind} {from}->{to}, {what} of {side} x {side}"),
                        against,
                        bytes: [n * (s + d) as usize; 2],
                        run,
                    });
                };
                line(
                    "checked",
                    "contiguous",
                    [
                        Box::new(|| {
                            let mut out = StridedViewMut::new(&mut a, 0, &shape, &dst_strides);
                            _ = caster.cast_strided_checked(black_box(&view), &mut out).expect("they fit");
                        }),
                        Box::new(|| {
                            let src = &black_box(&src)[..n * s as usize];
                            _ = caster.cast_checked(src, &mut b, n).expect("the sizes agree");
                        }),
                    ],
                );
                if side == largest {
                    let how = Parallel::new();
                    line(
                        "a pool of 2",
                        "1 thread",
                        [
                            Box::new(|| {
                                let mut out = StridedViewMut::new(&mut a, 0, &shape, &dst_strides);
                                caster.par_cast_strided_with(&view, &mut out, &how).expect("they fit");
                            }),
                            Box::new(|| {
                                let mut out = StridedViewMut::new(&mut b, 0, &shape, &dst_strides);
                                caster.cast_strided(black_box(&view), &mut out).expect("they fit");
                            }),
                        ],
                    );
                }
            }
        }
    }
}

/// Times gathers beside a contiguous cast: every second, third and fourth element, channels split and joined, backwards, repeated.
fn gathers(bench: &Bench) {
    use DType::*;
    for (from, to) in [(F32, BF16), (U8, F32), (F16, F32)] {
        let n = 1 << 16;
        let (s, d) = (from.itemsize() as isize, to.itemsize() as isize);
        let (src, caster) = (source(from, 4 * n), caster(from, to));
        let [mut a, mut b] = [(); 2].map(|()| vec![1; 4 * size(to, n)]);
        let pixels = n as isize / 3;
        for (what, shape, src_strides, dst_strides, first) in [
            ("every 2nd", vec![n], vec![2 * s], vec![d], 0),
            ("every 3rd", vec![n], vec![3 * s], vec![d], 0),
            ("every 4th", vec![n], vec![4 * s], vec![d], 0),
            ("every 7th", vec![n / 2], vec![7 * s], vec![d], 0),
            ("to every 2nd", vec![n], vec![s], vec![2 * d], 0),
            ("RGB to planes", vec![n / 3, 3], vec![3 * s, s], vec![d, pixels * d], 0),
            ("planes to RGB", vec![n / 3, 3], vec![s, pixels * s], vec![3 * d, d], 0),
            ("backwards", vec![n], vec![-s], vec![d], n - 1),
            ("one repeated", vec![n], vec![0], vec![d], 0),
        ] {
            let elements: usize = shape.iter().product();
            bench.line(Line {
                kind: what.to_owned(),
                name: format!("gather {from}->{to}, {what}"),
                against: "contiguous",
                bytes: [elements, n].map(|n| n * (s + d) as usize),
                run: [
                    Box::new(|| {
                        let view =
                            StridedView::new(black_box(&src), first * s as usize, &shape, &src_strides);
                        let mut out = StridedViewMut::new(&mut a, 0, &shape, &dst_strides);
                        caster.cast_strided(&view, &mut out).expect("views in their buffers");
                    }),
                    Box::new(|| {
                        let (src, dst) = (&black_box(&src)[..n * s as usize], &mut b[..n * d as usize]);
                        caster.cast(src, dst, n).expect("the sizes agree")
                    }),
                ],
            });
        }
    }
}

/// Times casts in place beside casts between two buffers. Each casts what the previous one has left in the buffer.
fn in_place(bench: &Bench) {
    for (from, to) in PAIRS {
        for n in [1 << 12, 1 << 16, 1 << 22] {
            let (src, caster) = (source(from, n), caster(from, to));
            let mut buffer = vec![1; size(from, n).max(size(to, n))];
            let mut dst = vec![1; size(to, n)];
            bench.line(Line {
                kind: format!("in place, {n} elements"),
                name: format!("in place {from}->{to}, {n} elements"),
                against: "apart",
                bytes: [n * (from.itemsize() + to.itemsize()); 2],
                run: [
                    Box::new(|| caster.cast_in_place(black_box(&mut buffer), n).expect("a buffer that fits")),
                    Box::new(|| caster.cast(black_box(&src), &mut dst, n).expect("the sizes agree")),
                ],
            });
        }
    }
}

/// Times small views beside as many contiguous elements: what a view costs in itself.
fn few(bench: &Bench) {
    for (from, to) in PAIRS {
        let (s, d) = (from.itemsize() as isize, to.itemsize() as isize);
        for side in [2, 4, 8, 16] {
            let (n, columns, caster) = (side * side, side as isize, caster(from, to));
            let src = source(from, 2 * n);
            let [mut a, mut b] = [(); 2].map(|()| vec![1; size(to, n)]);
            let (shape, dst_strides) = ([side, side], [columns * d, d]);
            for (what, src_strides) in [
                ("contiguous", [columns * s, s]),
                ("gap", [(columns + 1) * s, s]),
                ("every 2nd", [2 * columns * s, 2 * s]),
                ("transpose", [s, columns * s]),
            ] {
                bench.line(Line {
                    kind: format!("a view of {side} x {side}, {what}"),
                    name: format!("few {from}->{to}, {side} x {side}, {what}"),
                    against: "contiguous",
                    bytes: [n * (s + d) as usize; 2],
                    run: [
                        Box::new(|| {
                            let view = StridedView::new(black_box(&src), 0, &shape, &src_strides);
                            let mut out = StridedViewMut::new(&mut a, 0, &shape, &dst_strides);
                            caster.cast_strided(&view, &mut out).expect("views in their buffers");
                        }),
                        Box::new(|| {
                            caster
                                .cast(&black_box(&src)[..n * s as usize], &mut b, n)
                                .expect("the sizes agree")
                        }),
                    ],
                });
            }
        }
    }
}

/// Times casts with the source or the destination in the other byte order, beside casts in native order, in L2 and beyond
/// the caches.
fn orders(bench: &Bench, largest: usize) {
    use DType::*;
    let order = if cfg!(target_endian = "big") { ByteOrder::Little } else { ByteOrder::Big };
    let options = CastOptions::new();
    let pairs = [
        (F32, F32),
        (F64, F64),
        (I16, F32),
        (I16, I16),
        (I32, F32),
        (F32, BF16),
        (F16, F32),
        (F32, F16),
        (F64, F32),
        (F32, F64),
        (I64, I32),
        (F32, F8E4M3FN),
        (F32, U8),
        (U8, F32),
        (F8E4M3FN, BF16),
        (I64, F64),
        (F32, C64),
    ];
    for (from, to) in pairs {
        for traffic in [256 << 10, largest] {
            let n = traffic / (from.itemsize() + to.itemsize());
            let (src, caster) = (source(from, n), caster(from, to));
            let [mut a, mut b] = [(); 2].map(|()| vec![1; size(to, n)]);
            for (side, options) in
                [("source", options.src_order(order)), ("destination", options.dst_order(order))]
            {
                let bits = if side == "source" { from } else { to }.bits();
                if bits <= 8 {
                    continue;
                }
                let swapped = Caster::new(from, to, &options).expect("an instruction set");
                // The same values in the source's byte order.
                let mut theirs = vec![0; size(from, n)];
                let reorder =
                    CastOptions::new().dst_order(if side == "source" { order } else { ByteOrder::Native });
                let reorder = Caster::new(from, from, &reorder).expect("an instruction set");
                reorder.cast(&src, &mut theirs, n).expect("the sizes agree");
                let place = if traffic == 256 << 10 { "in L2" } else { "large" };
                bench.line(Line {
                    kind: format!("a {side} in the other byte order, {place}"),
                    name: format!("order {from}->{to}, {side}, {} KiB", traffic >> 10),
                    against: "native",
                    bytes: [traffic; 2],
                    run: [
                        Box::new(|| swapped.cast(black_box(&theirs), &mut a, n).expect("the sizes agree")),
                        Box::new(|| caster.cast(black_box(&src), &mut b, n).expect("the sizes agree")),
                    ],
                });
            }
        }
    }
}

/// Times casts that are copies beside memcpy, with the destination at the offset of the source in its page, and some bytes
/// further in, for which some memcpy take ten times as long.
fn copies(bench: &Bench) {
    const ROOM: usize = 4096;
    let caster = caster(DType::U8, DType::U8);
    for bytes in [512, 4 << 10, 64 << 10, 256 << 10] {
        let src = vec![1u8; bytes + ROOM];
        let [mut a, mut b] = [(); 2].map(|()| vec![1u8; bytes + 2 * ROOM]);
        // Where to begin in `dst`, so that its offset in its page is that of the source plus `apart`.
        let at =
            |dst: &[u8], apart: usize| (src.as_ptr().addr() + apart).wrapping_sub(dst.as_ptr().addr()) % ROOM;
        for apart in [0, 1, 16, 48] {
            let at = [at(&a, apart), at(&b, apart)];
            bench.line(Line {
                kind: format!("a cast that is a copy of {bytes} bytes"),
                name: format!("copy of {bytes} bytes, {apart} further in its page"),
                against: "memcpy",
                bytes: [2 * bytes; 2],
                run: [
                    Box::new(|| {
                        caster.cast(black_box(&src[..bytes]), &mut a[at[0]..][..bytes], bytes).expect("bytes")
                    }),
                    Box::new(|| {
                        black_box(&mut b[at[1]..][..bytes]).copy_from_slice(black_box(&src[..bytes]))
                    }),
                ],
            });
        }
    }
}
