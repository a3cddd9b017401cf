//! Strided casts against a loop over the elements: strides of every kind, random views, every order of dimensions. Bytes
//! that belong to no element of the destination stay as they are, and views that exceed their buffers are errors.

mod bridge;

use core::ops::ControlFlow;
use std::sync::Mutex;

use bridge::{Suite, bytes};
use lanecast::checked::CastReport;
use lanecast::parallel::{Parallel, Progress};
use lanecast::views::{StridedView, StridedViewMut};
use lanecast::{CastOptions, Caster, DType, Error, Isa, Packing, Rounding, Side};
use lanecast_oracle as oracle;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const CANARY: u8 = 0xC5;

/// Pairs with every size of an element on either side, and kinds of casts that have kernels of their own.
const PAIRS: [(DType, DType); 14] = [
    (DType::U8, DType::I8),
    (DType::F32, DType::BF16),
    (DType::F16, DType::F32),
    (DType::F64, DType::F8E4M3FN),
    (DType::U8, DType::F64),
    (DType::C128, DType::F16),
    (DType::I16, DType::C128),
    (DType::C64, DType::C64),
    (DType::C128, DType::C128),
    (DType::F16, DType::F16),
    (DType::I4, DType::F32),
    (DType::F32, DType::F6E2M3),
    (DType::I64, DType::U2),
    (DType::Bool, DType::F64),
];

fn main() {
    let mut suite = Suite::new();
    for (from, to) in PAIRS {
        suite.test(&format!("a lattice of strides, {from} -> {to}"), move |isa| lattice(isa, from, to));
        suite.test(&format!("orders of dimensions, {from} -> {to}"), move |isa| orders(isa, from, to));
        suite.test(&format!("many dimensions, {from} -> {to}"), move |isa| many_dimensions(isa, from, to));
        suite.test(&format!("channels, {from} -> {to}"), move |isa| channels(isa, from, to));
        suite.test(&format!("rows, {from} -> {to}"), move |isa| rows(isa, from, to));
        suite.test(&format!("transposes past the caches, {from} -> {to}"), move |isa| panels(isa, from, to));
    }
    for from in DType::ALL {
        suite.test(&format!("random views of {from}"), move |isa| random_views(isa, from));
        suite.test(&format!("the oracle on {from}"), move |isa| against_the_oracle(isa, from));
    }
    suite.test("rows past the caches", streamed_rows);
    suite.test("views outside of their buffers", outside);
    suite.test("shapes and strides that do not fit", wrong_views);
    suite.test("pointers", pointers);
    suite.test("slices on threads", slices);
    #[cfg(all(unix, target_pointer_width = "64"))]
    suite.test("strides of more than 2^31 bytes", huge::strides);
    suite.run().exit();
}

fn caster(isa: Isa, from: DType, to: DType) -> Caster {
    caster_with(isa, from, to, CastOptions::new())
}

fn caster_with(isa: Isa, from: DType, to: DType, options: CastOptions) -> Caster {
    let options = options.src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
    Caster::new(from, to, &options.isa(isa)).expect("it is available")
}

/// The strides of one side, the smallest buffer that holds all its elements, and where the first element lies in it.
struct Laid {
    strides: Vec<isize>,
    offset: usize,
    size: usize,
}

impl Laid {
    fn new(shape: &[usize], strides: Vec<isize>, item: usize) -> Self {
        if shape.contains(&0) {
            return Self { strides, offset: 0, size: 0 };
        }
        let ways = || shape.iter().zip(&strides).map(|(&extent, &stride)| (extent as isize - 1) * stride);
        let offset = -ways().map(|way| way.min(0)).sum::<isize>();
        let size = ways().map(|way| way.max(0)).sum::<isize>() + offset + item as isize;
        Self { strides, offset: offset as usize, size: size as usize }
    }

    fn further(self, bytes: usize) -> Self {
        Self { offset: self.offset + bytes, size: self.size + bytes, ..self }
    }
}

/// Casts along these strides, and compares with a loop over the elements that casts each with the reference.
fn check(
    isa: Isa,
    from: DType,
    to: DType,
    shape: &[usize],
    src_strides: Vec<isize>,
    dst_strides: Vec<isize>,
) {
    check_with(isa, from, to, CastOptions::new(), [0, 0], shape, src_strides, dst_strides);
}

/// As [`check`], but with options, and with the elements so many bytes further into each buffer.
#[expect(clippy::too_many_arguments, reason = "a cast has as many")]
fn check_with(
    isa: Isa,
    from: DType,
    to: DType,
    options: CastOptions,
    further: [usize; 2],
    shape: &[usize],
    src_strides: Vec<isize>,
    dst_strides: Vec<isize>,
) {
    let [caster, reference] = [isa, Isa::Scalar].map(|isa| caster_with(isa, from, to, options));
    let (from_size, to_size) = (from.itemsize(), to.itemsize());
    let source = Laid::new(shape, src_strides, from_size).further(further[0]);
    let destination = Laid::new(shape, dst_strides, to_size).further(further[1]);
    let src = bytes(source.size);
    let mut expected = vec![CANARY; destination.size];
    let mut got = expected.clone();
    let mut at = vec![0; shape.len()];
    let elements: usize = shape.iter().product();
    for _ in 0..elements {
        let place = |side: &Laid| {
            let way: isize =
                at.iter().zip(&side.strides).map(|(&i, stride): (&usize, _)| i as isize * stride).sum();
            side.offset.checked_add_signed(way).expect("in the buffer")
        };
        let (s, d) = (place(&source), place(&destination));
        reference.cast(&src[s..][..from_size], &mut expected[d..][..to_size], 1).expect("one element");
        for (i, extent) in at.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < *extent {
                break;
            }
            *i = 0;
        }
    }
    let view = StridedView::new(&src, source.offset, shape, &source.strides);
    caster
        .cast_strided(
            &view,
            &mut StridedViewMut::new(&mut got, destination.offset, shape, &destination.strides),
        )
        .expect("views in their buffers");
    assert!(
        got == expected,
        "{isa}: {from} -> {to}, shape {shape:?}, strides {:?} to {:?}",
        source.strides,
        destination.strides
    );
}

/// Checks the other casts of views: those on threads, and checked casts, which must report what a checked cast of the elements in
/// row-major order reports.
fn check_all(
    isa: Isa,
    from: DType,
    to: DType,
    options: CastOptions,
    shape: &[usize],
    src_strides: Vec<isize>,
    dst_strides: Vec<isize>,
) {
    let caster = caster_with(isa, from, to, options);
    let elements: usize = shape.iter().product();
    let [source, destination] = [(src_strides, from), (dst_strides, to)]
        .map(|(strides, dtype)| Laid::new(shape, strides, dtype.itemsize()));
    let src = bytes(source.size);
    let view = StridedView::new(&src, source.offset, shape, &source.strides);
    let to_view = |run: &mut dyn FnMut(&mut StridedViewMut<'_>)| {
        let mut got = vec![CANARY; destination.size];
        run(&mut StridedViewMut::new(&mut got, destination.offset, shape, &destination.strides));
        got
    };
    let what =
        || format!("{isa}: {from} -> {to}, {shape:?}, {:?} to {:?}", source.strides, destination.strides);
    let expected = to_view(&mut |out| caster.cast_strided(&view, out).expect("views in their buffers"));

    for chunk in [1, 7, elements / 5, elements] {
        let how = Parallel::new().threads(2).chunk(chunk);
        let got = to_view(&mut |out| caster.par_cast_strided_with(&view, out, &how).expect("the same views"));
        assert!(got == expected, "{}, chunks of {chunk}", what());
    }

    let item = |dtype: DType| dtype.itemsize();
    let (row_from, row_to) =
        (packed(shape, &in_order(shape), item(from), 0), packed(shape, &in_order(shape), item(to), 0));
    let copies = |dtype| caster_with(isa, dtype, dtype, CastOptions::new());
    let mut dense = vec![0; elements * item(from)];
    copies(from)
        .cast_strided(&view, &mut StridedViewMut::new(&mut dense, 0, shape, &row_from))
        .expect("a copy");
    let mut out = vec![0; elements * item(to)];
    let report = caster.cast_checked(&dense, &mut out, elements).expect("buffers of their size");
    let scattered = to_view(&mut |to_view| {
        copies(to).cast_strided(&StridedView::new(&out, 0, shape, &row_to), to_view).expect("a copy");
    });
    assert!(scattered == expected, "{}, in row-major order", what());
    let got = to_view(&mut |out| {
        assert_eq!(caster.cast_strided_checked(&view, out).expect("the same views"), report, "{}", what());
    });
    assert!(got == expected, "{}, checked", what());
    let same = |to_view: Result<(), Error>, of_bytes: Result<(), Error>, got: Vec<u8>| {
        assert_eq!(to_view, of_bytes, "{}", what());
        assert!(to_view.is_err() || got == expected, "{}", what());
    };
    // SAFETY: all elements of the view lie in its buffer.
    let pointed =
        unsafe { StridedView::from_ptr(src.as_ptr().wrapping_add(source.offset), shape, &source.strides) };
    let got = to_view(&mut |out| {
        let there = caster.cast_strided_checked(&pointed, out).expect("the same views");
        assert_eq!(there, report, "{}, by a pointer", what());
    });
    assert!(got == expected, "{}, by a pointer", what());
    if to.bits() < 8 {
        let packed = options.isa(isa).src_packing(Packing::OnePerByte).dst_packing(Packing::HighFirst);
        let packs = Caster::new(from, to, &packed).expect("it is available");
        assert_eq!(packs.report_strided(&view), Ok(report), "{}, packed", what());
    }
    for view in [&view, &pointed] {
        assert_eq!(caster.report_strided(view), Ok(report), "{}", what());
        for chunk in [1, 7, elements / 5, elements] {
            let how = Parallel::new().threads(2).chunk(chunk);
            assert_eq!(
                caster.par_report_strided_with(view, &how),
                Ok(report),
                "{}, chunks of {chunk}",
                what()
            );
        }
    }
    let mut done = Ok(());
    let got = to_view(&mut |out| done = caster.try_cast_strided(&view, out));
    same(done, caster.try_cast(&dense, &mut out, elements), got);
    let got = to_view(&mut |out| done = caster.same_value_strided(&view, out));
    same(done, caster.same_value(&dense, &mut out, elements), got);
}

/// Returns the dimensions of a shape, the last one first.
fn in_order(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).rev().collect()
}

/// Every combination of some strides of two dimensions, with shapes that leave a tail in every loop.
fn lattice(isa: Isa, from: DType, to: DType) {
    let (s, d) = (from.itemsize() as isize, to.itemsize() as isize);
    let (mut case, step) = (0, bridge::step(isa, 13));
    for (rows, columns) in [(1, 1), (3, 5), (2, 300), (19, 66), (70, 1)] {
        // `dst` is the stride of columns; rows of the destination must not overlap.
        for dst in [d, -d, d + 1, -d - 1, 2 * d, 3 * d + 1, 4 * d] {
            for dst_row in [dst * columns, -(dst * columns), dst.abs() * columns + 7] {
                for src in [0, 1, -1, s, -s, s + 1, -s - 1, 2 * s, -2 * s, 3 * s, 4 * s, 5 * s] {
                    for src_row in [0, src * columns, 1, -s, 1000] {
                        case += 1;
                        if case % step != 0 {
                            continue;
                        }
                        let shape = [rows as usize, columns as usize];
                        check(isa, from, to, &shape, vec![src_row, src], vec![dst_row, dst]);
                    }
                }
            }
        }
    }
}

/// Returns strides under which the dimensions nest in the given order, the densest first, with a gap between steps.
fn packed(shape: &[usize], order: &[usize], item: usize, gap: usize) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut next = item;
    for &dimension in order {
        strides[dimension] = next as isize;
        next = next * shape[dimension] + gap;
    }
    strides
}

/// Every order of three dimensions on either side, with and without gaps, and with planes larger than tiles.
fn orders(isa: Isa, from: DType, to: DType) {
    const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let (mut case, step) = (0, bridge::step(isa, 11));
    for shape in [[5, 65, 34], [3, 64, 128], [2, 3, 7], [1, 130, 67], [1, 16, 16], [9, 2, 40], [600, 2, 2]] {
        for source in ORDERS {
            for (destination, gap) in ORDERS.into_iter().zip([0, 3, 0, 16, 1, 0]) {
                case += 1;
                if case % step != 0 {
                    continue;
                }
                let src = packed(&shape, &source, from.itemsize(), gap);
                let dst = packed(&shape, &destination, to.itemsize(), 16 - gap);
                check(isa, from, to, &shape, src.clone(), dst.clone());
                check_all(isa, from, to, CastOptions::new(), &shape, src, dst);
            }
        }
    }
}

/// As many dimensions as views rarely exceed, and more: in order, backwards, and with one side rotated by one.
fn many_dimensions(isa: Isa, from: DType, to: DType) {
    for n in [5, 6, 7, 8, 13] {
        let order: Vec<usize> = (0..n).collect();
        let backwards: Vec<usize> = (0..n).rev().collect();
        let turned: Vec<usize> = (0..n).map(|i| (i + 1) % n).collect();
        let mut shape = vec![2; n];
        for one in [None, Some(n / 2)] {
            if let Some(one) = one {
                shape[one] = 1;
            }
            for (source, destination) in [(&order, &order), (&order, &backwards), (&turned, &backwards)] {
                let src = packed(&shape, source, from.itemsize(), 1);
                check(isa, from, to, &shape, src, packed(&shape, destination, to.itemsize(), 0));
            }
        }
    }
}

/// Rows of lengths around which kernels change the way in which they cast or move elements; also rounding up, which takes a
/// floating-point environment of its own.
fn rows(isa: Isa, from: DType, to: DType) {
    let (s, d) = (from.itemsize(), to.itemsize());
    for columns in [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 255, 256, 300, 1025, 4097] {
        for (rows, gaps) in [(1, [0, 0]), (3, [5, 0]), (7, [s, 3 * d])] {
            let shape = [rows, columns];
            let [src, dst] = [packed(&shape, &[1, 0], s, gaps[0]), packed(&shape, &[1, 0], d, gaps[1])];
            for options in [CastOptions::new(), CastOptions::new().rounding(Rounding::Up)] {
                check_with(isa, from, to, options, [1, 3], &shape, src.clone(), dst.clone());
            }
        }
    }
}

/// Planes of one panel and of several, whole or with a tail on either side; with rows that all begin at the same byte of a
/// cache line or do not, in front of a line or at one; backwards, and several planes behind each other.
fn panels(isa: Isa, from: DType, to: DType) {
    let (s, d) = (from.itemsize(), to.itemsize());
    // The smallest plane that has panels, and the elements of a cache line on the side with more of them.
    let (along, across, line) = (512 / s, 256 / d, 64 / s.min(d));
    let streaming = CastOptions::new().stream_from(0);
    for [across, along] in
        [[across, along], [2 * across + line + 3, along + 1], [3 * across + 1, 2 * along + line - 1]]
    {
        let shape = [1, across, along];
        for (gaps, further) in
            [([0, 0], [0, 0]), ([64, 192], [s, d]), ([64, 64], [16, 48]), ([3, 5], [1, 3]), ([s, d], [61, 7])]
        {
            let src = packed(&shape, &[2, 1, 0], s, gaps[0]);
            let dst = packed(&shape, &[1, 2, 0], d, gaps[1]);
            check_with(isa, from, to, streaming, further, &shape, src, dst);
        }
    }
    // Rows that are a whole number of cache lines long, but begin within one.
    let whole = [1, across.next_multiple_of(line), along.next_multiple_of(line)];
    let [src, dst] = [packed(&whole, &[2, 1, 0], s, 0), packed(&whole, &[1, 2, 0], d, 0)];
    for further in [[0, 0], [s, d], [32, 16], [16, 32]] {
        check_with(
            isa,
            from,
            to,
            streaming.rounding(Rounding::Up),
            further,
            &whole,
            src.clone(),
            dst.clone(),
        );
    }
    let three = [3, across + 1, along + 5];
    let [mut src, mut dst] = [packed(&three, &[2, 1, 0], s, 2 * s), packed(&three, &[1, 2, 0], d, 0)];
    (src[1], dst[2]) = (-src[1], -dst[2]);
    check_with(isa, from, to, streaming, [0, 0], &three, src, dst);
}

/// Two to five channels: one picked out, deinterleaved, and interleaved.
fn channels(isa: Isa, from: DType, to: DType) {
    for channels in 2..=5 {
        for pixels in [1, 2, 15, 64, 1000, 5003] {
            let shape = [pixels, channels];
            let planes = |item| packed(&shape, &[0, 1], item, 0);
            let pixels_first = |item| packed(&shape, &[1, 0], item, 0);
            let (s, d) = (from.itemsize(), to.itemsize());
            check(isa, from, to, &shape, pixels_first(s), planes(d));
            check(isa, from, to, &shape, planes(s), pixels_first(d));
            check(isa, from, to, &[pixels], vec![(channels * s) as isize], vec![d as isize]);
            check(isa, from, to, &[pixels], vec![s as isize], vec![(channels * d) as isize]);
        }
    }
}

/// Random views of up to nine dimensions: the destination has them permuted, with gaps and of either sign; the source has any strides.
fn random_views(isa: Isa, from: DType) {
    let config = Config { cases: bridge::cases(400), failure_persistence: None, ..Config::default() };
    let dimension = (
        prop_oneof![4 => 0..6usize, 3 => 1..40usize, 1 => 60..140usize],
        prop_oneof![Just(0), -3..=3isize, -40..=40isize],
        0..2usize,
        any::<bool>(),
        any::<u8>(),
    );
    let case =
        (prop::sample::select(&DType::ALL[..]), prop::collection::vec(dimension, 0..=9), any::<bool>());
    TestRunner::new(config)
        .run(&case, |(to, mut dims, by_items)| {
            // Few enough elements for a loop over them.
            let mut elements = 1;
            for dim in &mut dims {
                dim.0 = dim.0.min(20_000 / elements);
                elements *= dim.0.max(1);
            }
            let shape: Vec<usize> = dims.iter().map(|dim| dim.0).collect();
            let unit = if by_items { from.itemsize() as isize } else { 1 };
            let src: Vec<isize> = dims.iter().map(|dim| dim.1 * unit).collect();
            let mut order: Vec<usize> = (0..dims.len()).collect();
            order.sort_by_key(|&i| dims[i].4);
            let mut dst = vec![0; dims.len()];
            let mut next = to.itemsize();
            for i in order {
                let sign = if dims[i].3 { -1 } else { 1 };
                dst[i] = sign * next as isize;
                next = next * dims[i].0.max(1) + dims[i].2 * 3;
            }
            check(isa, from, to, &shape, src.clone(), dst.clone());
            let chance = CastOptions::new().stochastic(5, 77);
            for options in [CastOptions::new(), chance] {
                check_all(isa, from, to, options, &shape, src.clone(), dst.clone());
            }
            Ok(())
        })
        .unwrap();
}

/// Casts every second element, backwards, to columns, and compares with the oracle.
fn against_the_oracle(isa: Isa, from: DType) {
    for to in bridge::share("oracle", isa, from, 4) {
        let codes: Vec<u128> = match from.bits() {
            // Several times every code, for dtypes of few codes.
            0..=8 => (0..256).map(|code| code & ((1 << from.bits()) - 1)).collect(),
            _ => bridge::codes(from, to).iter().copied().step_by(13).collect(),
        };
        let (rows, columns) = (codes.len() / 4, 4);
        let (s, d) = (from.itemsize(), to.itemsize());
        let little =
            |code: &u128, size: usize| code.to_le_bytes().into_iter().take(size).collect::<Vec<u8>>();
        let mut src = vec![0x77; 2 * s * rows * columns];
        for (place, code) in src.chunks_exact_mut(2 * s).rev().zip(&codes) {
            place[s..].copy_from_slice(&little(code, s));
        }
        let mut dst = vec![CANARY; d * rows * columns];
        let mode = oracle::Mode::default();
        let options = bridge::options(&mode).isa(isa).src_order(lanecast::ByteOrder::Little);
        let options = options.dst_order(lanecast::ByteOrder::Little);
        let options = options.src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
        let caster = Caster::new(from, to, &options).unwrap();
        let shape = [rows, columns];
        let src_strides = [-((2 * s * columns) as isize), -((2 * s) as isize)];
        let view = StridedView::new(&src, src.len() - s, &shape, &src_strides);
        let dst_strides = [d as isize, (d * rows) as isize];
        caster.cast_strided(&view, &mut StridedViewMut::new(&mut dst, 0, &shape, &dst_strides)).unwrap();
        let got: Vec<u128> = (0..rows * columns)
            .map(|i| {
                let at = (i / columns + i % columns * rows) * d;
                dst[at..][..d].iter().rev().fold(0, |code, &b| code << 8 | u128::from(b))
            })
            .collect();
        bridge::compare("cast_strided", from, to, &mode, &codes[..rows * columns], &got);
    }
}

/// Rows of a view that is larger than the limit for streaming: long rows are streamed, short ones are not. A row is followed
/// by a gap, or by the next row in the same cache line. Cache lines begin at the first element, at a later one, or within one.
fn streamed_rows(isa: Isa) {
    let options = CastOptions::new().isa(isa);
    let options = options.src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
    let lengths = [300, 2_111, 5_001, 20_001];
    for ((from, to), columns) in PAIRS.into_iter().flat_map(|pair| lengths.map(|n| (pair, n))) {
        let [caster, kept] =
            [0, usize::MAX].map(|bytes| Caster::new(from, to, &options.stream_from(bytes)).unwrap());
        let (rows, s, d) = (5, from.itemsize(), to.itemsize());
        for (gaps, further) in [([5, 11], 0), ([s, 0], d), ([64, 64], 0), ([s, 0], 3), ([0, 3 * d], 32)] {
            let [src_row, dst_row] = [columns * s + gaps[0], columns * d + gaps[1]];
            let src = bytes(rows * src_row);
            let mut dst = vec![CANARY; further + rows * dst_row];
            let mut expected = dst.clone();
            for i in 0..rows {
                let row = &src[i * src_row..][..columns * s];
                kept.cast(row, &mut expected[further + i * dst_row..][..columns * d], columns).unwrap();
            }
            let shape = [rows, columns];
            let [src_strides, dst_strides] = [[src_row as isize, s as isize], [dst_row as isize, d as isize]];
            let view = StridedView::new(&src, 0, &shape, &src_strides);
            let mut out = StridedViewMut::new(&mut dst, further, &shape, &dst_strides);
            caster.cast_strided(&view, &mut out).unwrap();
            assert!(dst == expected, "rows of {columns}, {gaps:?} apart, from {further} on: {caster:?}");
        }
    }
}

/// Runs a cast of u8 to u16 that must fail and write nothing; returns its error.
fn fails(
    isa: Isa,
    src: (usize, usize, &[usize], &[isize]),
    dst: (usize, usize, &[usize], &[isize]),
) -> Error {
    let from = vec![0; src.0];
    let mut to = vec![CANARY; dst.0];
    let error = caster(isa, DType::U8, DType::U16)
        .cast_strided(
            &StridedView::new(&from, src.1, src.2, src.3),
            &mut StridedViewMut::new(&mut to, dst.1, dst.2, dst.3),
        )
        .expect_err("a view that cannot be cast");
    assert!(to.iter().all(|&b| b == CANARY), "written in spite of {error}");
    error
}

fn outside(isa: Isa) {
    use Side::{Destination, Source};
    let good = |shape: &'static [usize]| (64, 0, shape, &[2isize][..]);
    // One byte beyond either end, and exactly the bytes that there are.
    let bounds = |side, first, end, given| Error::ViewBounds { side, first, end, given };
    let shape = &[4usize][..];
    assert_eq!(fails(isa, (3, 0, shape, &[1]), good(&[4])), bounds(Source, 0, 4, 3));
    assert_eq!(fails(isa, (9, 2, shape, &[-1]), good(&[4])), bounds(Source, -1, 3, 9));
    assert_eq!(fails(isa, (1, 1, shape, &[0]), good(&[4])), bounds(Source, 1, 2, 1));
    assert_eq!(fails(isa, (4, 0, shape, &[1]), (7, 0, shape, &[2])), bounds(Destination, 0, 8, 7));
    assert_eq!(fails(isa, (4, 0, shape, &[1]), (20, 5, shape, &[-2])), bounds(Destination, -1, 7, 20));
    assert_eq!(fails(isa, (4, 0, shape, &[1]), (20, 13, shape, &[2])), bounds(Destination, 13, 21, 20));
    // Sums and products beyond every integer.
    const HALF: u32 = isize::BITS / 2;
    for stride in [isize::MAX, isize::MIN, isize::MAX / 2 + 1, 1 << (HALF - 1), -(1 << HALF)] {
        for shape in [&[2usize][..], &[5], &[usize::MAX], &[usize::MAX / 2 + 1], &[1 << (HALF + 1)]] {
            let source = fails(isa, (64, 32, shape, &[stride]), (64, 0, shape, &[2]));
            assert!(matches!(source, Error::ViewBounds { side: Source, .. }), "{source}");
            let destination = fails(isa, (64, 32, shape, &[0]), (64, 32, shape, &[stride]));
            assert!(matches!(destination, Error::ViewBounds { side: Destination, .. }), "{destination}");
        }
        let both =
            fails(isa, (64, 32, &[3, 3], &[stride, -stride.max(-isize::MAX)]), (64, 0, &[3, 3], &[6, 2]));
        assert!(matches!(both, Error::ViewBounds { side: Source, .. }), "{both}");
    }
    let offset = fails(isa, (64, usize::MAX, &[2], &[-1]), (64, 0, &[2], &[2]));
    assert!(matches!(offset, Error::ViewBounds { side: Source, .. }), "{offset}");
    let many = fails(isa, (64, 0, &[1 << 22; 3], &[0; 3]), (64, 0, &[1 << 22; 3], &[2; 3]));
    assert!(matches!(many, Error::SizeOverflow { side: Destination, .. }), "{many}");
    // Without elements, nothing lies outside of a buffer.
    let none = StridedView::new(&[], 9, &[0, 7], &[isize::MIN, 3]);
    let nothing = caster(isa, DType::U8, DType::U16)
        .cast_strided(&none, &mut StridedViewMut::new(&mut [], 7, &[0, 7], &[0, 0]));
    assert_eq!(nothing, Ok(()));
    let shape = [usize::MAX, 2, 0];
    let none = StridedView::new(&[], 0, &shape, &[1, 1, 1]);
    let report = caster(isa, DType::U16, DType::U8)
        .cast_strided_checked(&none, &mut StridedViewMut::new(&mut [], 0, &shape, &[1, 1, 1]));
    assert_eq!(report, Ok(CastReport::default()));
    // Reports have only a source.
    let narrows = caster(isa, DType::U16, DType::U8);
    assert_eq!(narrows.report_strided(&none), Ok(CastReport::default()));
    let report = |shape: &[usize], strides: &[isize]| {
        narrows.report_strided(&StridedView::new(&[0; 64], 0, shape, strides)).unwrap_err()
    };
    for stride in [isize::MIN, -1, 63, isize::MAX] {
        let error = report(&[2], &[stride]);
        assert!(matches!(error, Error::ViewBounds { side: Source, given: 64, .. }), "{error}");
    }
    assert!(matches!(report(&[1 << 22; 3], &[0; 3]), Error::SizeOverflow { side: Source, .. }));
    let strides = Error::StrideCount { side: Source, dimensions: 2, strides: 1 };
    assert_eq!(report(&[2, 0], &[1]), strides);
    // SAFETY: the elements lie nowhere, but the view is refused before any is read.
    let pointed = unsafe { StridedView::from_ptr([7; 2].as_ptr(), &[2, 2], &[isize::MAX, isize::MAX]) };
    assert!(matches!(narrows.report_strided(&pointed), Err(Error::SizeOverflow { side: Source, .. })));
}

fn wrong_views(isa: Isa) {
    let mismatch = |dimension, source, destination| Error::ShapeMismatch { dimension, source, destination };
    let strides = |side, dimensions, strides| Error::StrideCount { side, dimensions, strides };
    assert_eq!(
        strides(Side::Destination, 2, 1).to_string(),
        "the view of the destination has 2 dimensions and 1 strides; it needs one for each dimension"
    );
    assert_eq!(
        mismatch(None, 2, 1).to_string(),
        "the source has 2 dimensions and the destination has 1; they must have the same shape"
    );
    let whole = |shape: &'static [usize], strides: &'static [isize]| (64, 0, shape, strides);
    let cases = [
        (whole(&[2, 3], &[1, 1]), whole(&[2, 4], &[8, 2]), mismatch(Some(1), 3, 4)),
        (whole(&[2], &[1]), whole(&[2, 1], &[8, 2]), mismatch(None, 1, 2)),
        (whole(&[2], &[1, 1]), whole(&[2], &[2]), strides(Side::Source, 1, 2)),
        (whole(&[2], &[1]), whole(&[2], &[]), strides(Side::Destination, 1, 0)),
        (whole(&[2], &[1]), whole(&[2], &[0]), Error::ViewOverlap { dimension: 0, stride: 0 }),
        (whole(&[3, 2], &[1, 1]), whole(&[3, 2], &[8, -1]), Error::ViewOverlap { dimension: 1, stride: -1 }),
    ];
    for (src, dst, expected) in cases {
        assert_eq!(fails(isa, src, dst), expected);
    }
    // Checked casts give the same errors, and a loss leaves the destination as it is.
    let (src, mut out) = ([1, 0xFF, 3, 4], [CANARY; 4]);
    let narrows = caster(isa, DType::I8, DType::U8);
    let (from, mut to) =
        (StridedView::new(&src, 0, &[4], &[1]), StridedViewMut::new(&mut out, 0, &[4], &[1]));
    let lossy = |result: Result<(), Error>| match result {
        Err(Error::Lossy(lossy)) => lossy.index,
        other => panic!("{isa}: {other:?}"),
    };
    assert_eq!(
        [lossy(narrows.try_cast_strided(&from, &mut to)), lossy(narrows.same_value_strided(&from, &mut to))],
        [1, 1]
    );
    assert_eq!(out, [CANARY; 4]);
    let mut to = StridedViewMut::new(&mut out, 0, &[5], &[1]);
    assert_eq!(narrows.cast_strided_checked(&from, &mut to), Err(mismatch(Some(0), 4, 5)));
    // The stride of a dimension with one element is never used.
    let mut out = [0; 2];
    let one = StridedView::new(&[7], 0, &[1], &[isize::MIN]);
    let one_out = &mut StridedViewMut::new(&mut out, 0, &[1], &[0]);
    caster(isa, DType::U8, DType::U16).cast_strided(&one, one_out).unwrap();
    assert_eq!(out, 7u16.to_ne_bytes());
    for (from, to, side) in
        [(DType::I4, DType::U8, Side::Source), (DType::U8, DType::F6E3M2, Side::Destination)]
    {
        let caster = Caster::new(from, to, &CastOptions::new().isa(isa)).unwrap();
        let error = caster.cast_strided(
            &StridedView::new(&[7], 0, &[], &[]),
            &mut StridedViewMut::new(&mut out, 0, &[], &[]),
        );
        let dtype = if side == Side::Source { from } else { to };
        assert_eq!(error, Err(Error::ViewPacked { side, dtype }));
        // Reports have no view of the destination.
        let report = caster.report_strided(&StridedView::new(&[7], 0, &[], &[]));
        match side {
            Side::Source => assert_eq!(report, Err(Error::ViewPacked { side, dtype })),
            _ => assert_eq!(report, caster.report(&[7], 1)),
        }
    }
}

/// Interleaved fields of records, and views that overlap or could overlap.
fn pointers(isa: Isa) {
    let caster = caster(isa, DType::U16, DType::F32);
    // A u16 at byte 1, and an f32 at byte 5, of records of 10 bytes.
    let mut records = bytes(10 * 1001);
    let mut expected = records.clone();
    for record in expected.chunks_exact_mut(10) {
        let x = u16::from_ne_bytes([record[1], record[2]]);
        record[5..9].copy_from_slice(&f32::from(x).to_ne_bytes());
    }
    let first = records.as_mut_ptr();
    // SAFETY: the fields lie in the records, and nothing else accesses these.
    let cast = |src: usize, src_stride: isize, dst: usize, dst_stride: isize, n: usize| unsafe {
        caster.cast_strided_raw(first.add(src), &[src_stride], first.add(dst), &[dst_stride], &[n])
    };
    for (src, src_stride, dst, dst_stride) in
        [(1, 10, 12, -10), (1, 10, 9, 10), (2, 10, 3, 10), (1, 10, 10, 15), (0, 0, 0, 10), (0, 2, 0, 4)]
    {
        assert_eq!(
            cast(src, src_stride, dst, dst_stride, 2),
            Err(Error::Overlap),
            "{src} {dst} {dst_stride}"
        );
    }
    cast(1, 10, 5, 10, 1001).unwrap();
    assert!(records == expected);
    let first = records.as_mut_ptr();
    // Copies the second field of even records to that of odd ones.
    // SAFETY: as above.
    unsafe {
        let floats = Caster::new(DType::F32, DType::F32, &CastOptions::new().isa(isa)).unwrap();
        floats.cast_strided_raw(first.add(5), &[20], first.add(15), &[20], &[500]).unwrap();
    }
    for (i, record) in expected.chunks_exact_mut(20).enumerate() {
        let (even, odd) = record.split_at_mut(10);
        odd[5..9].copy_from_slice(&even[5..9]);
        assert!(*record == records[20 * i..][..20]);
    }
    // Casts the left half of a matrix to its right half, with the rows in reverse: the halves share no element, though
    // their rows alternate in memory.
    let same = Caster::new(DType::U16, DType::F16, &CastOptions::new().isa(isa)).unwrap();
    let mut matrix = bytes(2 * 40 * 30);
    let before = matrix.clone();
    let first = matrix.as_mut_ptr();
    // SAFETY: both halves lie in the matrix, and share no element.
    unsafe { same.cast_strided_raw(first, &[80, 2], first.add(40 + 29 * 80), &[-80, 2], &[30, 20]).unwrap() };
    for i in 0..30 {
        let (left, right) = matrix[80 * (29 - i)..][..80].split_at(40);
        assert!(*left == before[80 * (29 - i)..][..40]);
        let mut expected = vec![0; 40];
        same.cast(&before[80 * i..][..40], &mut expected, 20).unwrap();
        assert!(*right == expected);
    }
    // A destination that begins one column earlier has a column in common with the source.
    // SAFETY: as above.
    let error = unsafe { same.cast_strided_raw(first, &[80, 2], first.add(38), &[80, 2], &[30, 20]) };
    assert_eq!(error, Err(Error::Overlap));
    // A checked cast backwards, which goes box by box: boxes lie in front of the first element in memory.
    let narrows = self::caster(isa, DType::U16, DType::U8);
    let (numbers, shape) = ([7u16; 20_000], [20_000]);
    let mut out = vec![CANARY; 20_000];
    // SAFETY: the view's elements are those of the array, from the last to the first.
    let from = unsafe { StridedView::from_ptr(numbers.as_ptr().add(19_999).cast(), &shape, &[-2]) };
    let mut to = StridedViewMut::new(&mut out, 0, &shape, &[1]);
    assert!(narrows.cast_strided_checked(&from, &mut to).unwrap().is_exact());
    narrows.same_value_strided(&from, &mut to).unwrap();
    assert!(out == [7; 20_000]);
    let first = records.as_mut_ptr();
    // Nothing is touched at these addresses.
    let nowhere = core::ptr::without_provenance_mut::<u8>(usize::MAX - 3);
    // SAFETY: the cast returns an error before it reads anything.
    let error = unsafe { caster.cast_strided_raw(nowhere, &[2], first, &[4], &[4]) };
    assert!(matches!(error, Err(Error::SizeOverflow { side: Side::Source, .. })), "{error:?}");
    // SAFETY: as above.
    let error = unsafe { caster.cast_strided_raw(first, &[2], nowhere, &[-4, isize::MIN], &[4, 9]) };
    assert_eq!(error, Err(Error::StrideCount { side: Side::Source, dimensions: 2, strides: 1 }));
    // SAFETY: as above.
    let error = unsafe { caster.cast_strided_raw(first, &[2, 0], nowhere, &[-4, isize::MIN], &[4, 9]) };
    assert!(matches!(error, Err(Error::SizeOverflow { side: Side::Destination, .. })), "{error:?}");
}

/// Slices of a view: progress is reported for each, a callback can stop between them, and some views have none.
fn slices(isa: Isa) {
    let caster = caster(isa, DType::U8, DType::U16);
    let (src, shape, strides) = (bytes(100 * 100), [100, 100], [1, 100]);
    let view = StridedView::new(&src, 0, &shape, &strides);
    let told = Mutex::new(Vec::new());
    let tell = |progress: Progress| {
        told.lock().unwrap().push((progress.done, progress.total));
        if progress.done >= 5000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut out = vec![CANARY; 2 * 100 * 100];
    let mut run = |dst_strides: &[isize], how: &Parallel<'_>| {
        let mut to = StridedViewMut::new(&mut out, 0, &shape, dst_strides);
        (caster.par_cast_strided_with(&view, &mut to, how), core::mem::take(&mut *told.lock().unwrap()))
    };
    let how = Parallel::new().threads(1).chunk(1000).progress(&tell);
    // Slices are 10 rows of the destination, of 100 elements each.
    let expected = (1..=5).map(|i| (1000 * i, 10_000)).collect::<Vec<_>>();
    let stopped = Err(Error::Cancelled { done: 5000, elements: 10_000 });
    assert_eq!(run(&[200, 2], &how), (stopped, expected));
    // Elements that overlap are cast in one piece, whatever the chunk.
    assert_eq!(run(&[2, 2], &how), (Ok(()), vec![(10_000, 10_000)]));
    assert_eq!(
        run(&[-2, 190], &how).0,
        Err(Error::ViewBounds { side: Side::Destination, first: -198, end: 18812, given: 20_000 })
    );
    let wrong = Err(Error::StrideCount { side: Side::Destination, dimensions: 2, strides: 1 });
    assert_eq!(run(&[2], &how), (wrong, vec![]));
}

/// Views with huge strides, in address space that takes hardly any memory.
#[cfg(all(unix, target_pointer_width = "64"))]
mod huge {
    use super::*;

    pub(super) fn strides(isa: Isa) {
        const SIZE: usize = (1 << 33) + (1 << 12);
        let new = || {
            let (access, kind) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE,
            );
            // SAFETY: maps new memory at an address that the system chooses; only pages that are touched take memory.
            unsafe {
                let first = libc::mmap(core::ptr::null_mut(), SIZE, access, kind, -1, 0);
                assert_ne!(first, libc::MAP_FAILED);
                core::slice::from_raw_parts_mut(first.cast::<u8>(), SIZE)
            }
        };
        let (src, dst) = (new(), new());
        let caster = caster(isa, DType::F32, DType::F64);
        for stride in [(1isize << 31) + 1, (1 << 31) - 3, (1 << 32) + 5, -(1 << 31) - 9, 1 << 33] {
            for (src_stride, dst_stride) in [(stride, 8), (4, stride), (stride, -stride), (stride, stride)] {
                let n = if stride == 1 << 33 { 2 } else { 2 + usize::from(stride.abs() < 1 << 32) };
                let start = |stride: isize| if stride < 0 { SIZE - 16 } else { 0 };
                let at =
                    |start: usize, stride: isize, i: usize| start.wrapping_add_signed(stride * i as isize);
                let (s, d) = (start(src_stride), start(dst_stride));
                for i in 0..n {
                    src[at(s, src_stride, i)..][..4].copy_from_slice(&(i as f32 + 0.5).to_ne_bytes());
                }
                // Overwrites the results of the cast before.
                for i in 0..n {
                    dst[at(d, dst_stride, i)..][..8].fill(CANARY);
                }
                let (shape, from, to) = ([n], [src_stride], [dst_stride]);
                let view = StridedView::new(src, s, &shape, &from);
                caster.cast_strided(&view, &mut StridedViewMut::new(dst, d, &shape, &to)).unwrap();
                for i in 0..n {
                    let got: [u8; 8] = dst[at(d, dst_stride, i)..][..8].try_into().unwrap();
                    assert_eq!(f64::from_ne_bytes(got), i as f64 + 0.5, "{src_stride} to {dst_stride}");
                }
            }
        }
        for memory in [src, dst] {
            // SAFETY: this was mapped above, and is not used any more.
            unsafe { libc::munmap(memory.as_mut_ptr().cast(), SIZE) };
        }
    }
}
