//! The memory that a cast touches: nothing beyond either buffer is read or written, the source is never
//! written, and every byte of the destination is.
//!
//! The buffers lie between pages that fault when touched. A fault ends the process; `--test-threads 1` shows
//! in which test.

mod bridge;
#[cfg(unix)]
#[path = "bridge/guarded.rs"]
mod guarded;
#[cfg(target_family = "wasm")]
#[path = "bridge/end_of_memory.rs"]
mod guarded;

#[cfg(any(unix, target_family = "wasm"))]
fn main() {
    edges::suite().run().exit();
}

#[cfg(not(any(unix, target_family = "wasm")))]
fn main() {
    println!("NOT RUN: the guard pages of this suite are those of unix");
}

#[cfg(any(unix, target_family = "wasm"))]
mod edges {
    use lanecast::parallel::Parallel;
    use lanecast::views::{StridedView, StridedViewMut};
    use lanecast::{ByteOrder, CastOptions, Caster, DType, Isa, Overflow, Packing, Rounding};

    use super::bridge::{Suite, is_whole, share};
    use super::guarded::{CANARY, Guarded};

    /// Four of the widest registers of bytes, and a tail.
    const LONGEST: usize = 4 * 64 + 3;
    /// Bytes in the widest element.
    const WIDEST: usize = 16;

    pub(super) fn suite() -> Suite {
        let mut suite = Suite::new();
        #[cfg(unix)]
        suite.test("the guards fault", |_| guards_fault());
        #[cfg(not(unix))]
        println!("NOT RUN: the guards fault (a trap ends the program)");
        for from in DType::ALL {
            suite.test(&format!("options of {from}"), move |isa| at_the_edges(isa, from, |_| options()));
            suite.test(&format!("layouts of {from}"), move |isa| {
                at_the_edges(isa, from, |to| layouts(from, to));
            });
            suite.test(&format!("offsets of {from}"), move |isa| offsets(isa, from));
            suite.test(&format!("streams of {from}"), move |isa| streams(isa, from));
            suite.test(&format!("threads of {from}"), move |isa| threads(isa, from));
            suite.test(&format!("in place of {from}"), move |isa| in_place(isa, from));
            suite.test(&format!("strides of {from}"), move |isa| strides(isa, from));
            suite.test(&format!("checked casts of {from}"), move |isa| checked(isa, from));
        }
        suite.test("copies", |isa| copies(isa, CastOptions::new()));
        suite.test("copies past the caches", |isa| copies(isa, CastOptions::new().stream_from(0)));
        for (from, to) in [
            (DType::F32, DType::F16),
            (DType::I8, DType::F32),
            (DType::F32, DType::F8E4M3FN),
            (DType::F8E5M2, DType::F32),
            (DType::I64, DType::I32),
            (DType::F64, DType::F32),
            (DType::I16, DType::C64),
            (DType::F64, DType::C128),
            (DType::U4, DType::C64),
            (DType::C128, DType::F32),
            // Packed: the elements in front of the first cache line need not end with a byte.
            (DType::F6E3M2, DType::F32),
            (DType::F32, DType::F6E2M3),
            (DType::U4, DType::U2),
            (DType::I2, DType::U4),
            // Copies.
            (DType::C64, DType::C64),
            (DType::F6E3M2, DType::F6E3M2),
        ] {
            suite.test(&format!("large buffers, {from} -> {to}"), move |isa| large_buffers(isa, from, to));
        }
        for (from, to) in [
            (DType::U8, DType::U8),
            (DType::C64, DType::C64),
            (DType::F32, DType::BF16),
            (DType::BF16, DType::F32),
            (DType::I64, DType::U8),
            (DType::F8E4M3FN, DType::F64),
        ] {
            suite.test(&format!("large planes, {from} -> {to}"), move |isa| planes(isa, from, to));
        }
        suite
    }

    /// Tests the guards: an access one byte beyond either end faults, and so does a write to the source.
    #[cfg(unix)]
    fn guards_fault() {
        let (src, dst) = (Guarded::source(1), Guarded::new(1));
        let read = |p: *mut u8| _ = unsafe_read(p);
        let write = |p: *mut u8| unsafe_write(p);
        assert!(!faults(|| read(src.first)) && !faults(|| read(src.first.wrapping_add(src.len - 1))));
        assert!(!faults(|| write(dst.first)) && !faults(|| write(dst.first.wrapping_add(dst.len - 1))));
        assert!(
            faults(|| read(src.first.wrapping_sub(1))) && faults(|| read(src.first.wrapping_add(src.len)))
        );
        assert!(faults(|| write(dst.first.wrapping_sub(1))));
        assert!(faults(|| write(dst.first.wrapping_add(dst.len))));
        assert!(faults(|| write(src.first)));
    }

    #[cfg(unix)]
    fn unsafe_read(p: *mut u8) -> u8 {
        // SAFETY: none: the access may be invalid, which ends the child process that makes it.
        unsafe { p.read_volatile() }
    }

    #[cfg(unix)]
    fn unsafe_write(p: *mut u8) {
        // SAFETY: as in `unsafe_read`.
        unsafe { p.write_volatile(0) }
    }

    /// Whether `run` ends a process by a signal; it runs in a child process.
    #[cfg(unix)]
    fn faults(run: impl FnOnce()) -> bool {
        let mut status = 0;
        // SAFETY: the child touches memory and leaves; it takes no lock and allocates nothing.
        unsafe {
            let child = libc::fork();
            assert_ne!(child, -1);
            if child == 0 {
                run();
                libc::_exit(0);
            }
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
        }
        libc::WIFSIGNALED(status)
    }

    /// A source, a destination, and the expected result.
    struct Buffers {
        src: Guarded,
        dst: Guarded,
        canaries: Vec<u8>,
        expected: Vec<u8>,
    }

    impl Buffers {
        fn new(bytes: usize) -> Self {
            let (src, dst) = (Guarded::source(bytes), Guarded::new(bytes));
            Self { canaries: vec![CANARY; dst.len], expected: Vec::new(), src, dst }
        }

        /// Casts from byte `from` of the source to byte `to` of the destination, twice over different old contents, and
        /// compares with `expected`.
        fn check(&mut self, caster: &Caster, from: usize, src_size: usize, to: usize, n: usize) {
            let src = &self.src.bytes()[from..from + src_size];
            let whole = self.dst.bytes_mut();
            for old in [0xA5, 0x5A] {
                let dst = &mut whole[to..to + self.expected.len()];
                dst.fill(old);
                caster.cast(src, dst, n).expect("sizes that fit");
                assert!(*dst == *self.expected, "another result: {n} elements, {from} to {to}, {caster:?}");
                dst.fill(CANARY);
                assert!(
                    *whole == *self.canaries,
                    "written around the destination: {n} elements, {from} to {to}, {caster:?}"
                );
            }
        }

        /// Sets `expected` to the reference's result, for a source that starts at byte `from`.
        fn expect(&mut self, reference: &Caster, from: usize, src_size: usize, dst_size: usize, n: usize) {
            self.expected.resize(dst_size, 0);
            let src = &self.src.bytes()[from..from + src_size];
            reference.cast(src, &mut self.expected, n).expect("sizes that fit");
        }
    }

    /// Returns the default options, options where nothing is default, and ties away from zero, which have kernels of their own.
    fn options() -> Vec<CastOptions> {
        let odd = CastOptions::new()
            .rounding(Rounding::Up)
            .int_rounding(Rounding::NearestEven)
            .saturate(false)
            .float_to_int(Overflow::Wrap)
            .int_to_int(Overflow::Saturate);
        vec![CastOptions::new(), odd, CastOptions::new().rounding(Rounding::NearestAway)]
    }

    /// Returns options with every packing and byte order that matters to a pair.
    fn layouts(from: DType, to: DType) -> Vec<CastOptions> {
        let packings = |dtype: DType| match dtype.is_packed() {
            true => vec![Packing::LowFirst, Packing::HighFirst, Packing::OnePerByte],
            false => vec![Packing::LowFirst],
        };
        let orders = |dtype: DType| match dtype.bits() > 8 {
            true => vec![ByteOrder::Little, ByteOrder::Big],
            false => vec![ByteOrder::Native],
        };
        let mut all = vec![CastOptions::new()];
        all = all.iter().flat_map(|o| packings(from).into_iter().map(|p| o.src_packing(p))).collect();
        all = all.iter().flat_map(|o| packings(to).into_iter().map(|p| o.dst_packing(p))).collect();
        all = all.iter().flat_map(|o| orders(from).into_iter().map(|b| o.src_order(b))).collect();
        all.iter().flat_map(|o| orders(to).into_iter().map(|b| o.dst_order(b))).collect()
    }

    /// A caster, the same cast on the reference, and their options.
    struct Pair {
        caster: Caster,
        reference: Caster,
        options: CastOptions,
    }

    impl Pair {
        fn new(isa: Isa, from: DType, to: DType, options: CastOptions) -> Self {
            let caster =
                |isa| Caster::new(from, to, &options.isa(isa)).expect("an instruction set of this machine");
            Self { caster: caster(isa), reference: caster(Isa::Scalar), options }
        }

        fn sizes(&self, n: usize) -> (usize, usize) {
            let size = |dtype: DType, packing| dtype.byte_len(n, packing).expect("a size that fits");
            (
                size(self.caster.from(), self.options.src_packing),
                size(self.caster.to(), self.options.dst_packing),
            )
        }
    }

    /// Every target and every length, with both buffers at the guards in front, then at those behind.
    fn at_the_edges(isa: Isa, from: DType, every: impl Fn(DType) -> Vec<CastOptions>) {
        let mut buffers = Buffers::new(LONGEST * WIDEST);
        for to in share("edges", isa, from, 8) {
            for options in every(to) {
                let pair = Pair::new(isa, from, to, options);
                // The reference is slow and has no registers: every third length still covers every remainder of its tiles.
                let is_thin = isa == Isa::Scalar && options != CastOptions::new();
                let thin = if is_thin { 3 } else { 1 };
                let by = if is_whole() || options == CastOptions::new() { thin } else { 7 * thin };
                for n in (0..=LONGEST).step_by(by) {
                    let (src_size, dst_size) = pair.sizes(n);
                    for (s, d) in [(0, 0), (buffers.src.len - src_size, buffers.dst.len - dst_size)] {
                        buffers.expect(&pair.reference, s, src_size, dst_size, n);
                        buffers.check(&pair.caster, s, src_size, d, n);
                    }
                }
            }
        }
    }

    /// Every target, at each of these offsets from an aligned address, with results both below and above the
    /// sizes from which kernels align their destination.
    fn offsets(isa: Isa, from: DType) {
        const OFFSETS: [usize; 13] = [0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 33, 63];
        /// The bytes from which a kernel aligns its destination: with registers as wide as a cache line, and with others.
        const ALIGNED: [usize; 2] = [2 << 10, 16 << 10];
        let mut buffers = Buffers::new((ALIGNED[1] + 67) * WIDEST);
        for to in share("offsets", isa, from, 12) {
            let pair = Pair::new(isa, from, to, CastOptions::new());
            let [short, long] = ALIGNED.map(|bytes| bytes / pair.sizes(1).1 + 67);
            for n in [1, 67, LONGEST, short, long] {
                let (src_size, dst_size) = pair.sizes(n);
                // With many bytes, what a kernel does depends only on where the destination lies.
                for &s in if n == long { &OFFSETS[..2] } else { &OFFSETS[..] } {
                    buffers.expect(&pair.reference, s, src_size, dst_size, n);
                    for d in OFFSETS {
                        buffers.check(&pair.caster, s, src_size, d, n);
                    }
                }
            }
        }
    }

    /// Every target, checked: the result of the unchecked cast and the report of the reference, with all three buffers
    /// at the guards in front, then at those behind.
    fn checked(isa: Isa, from: DType) {
        // More than the elements that are judged at once.
        const LONG: usize = 1024 + 5;
        let lengths = (0..=9).chain([31, 33, 63, 64, 65, 127, 128, 129, 191, 257, 511, 512, 513, LONG]);
        let mut buffers = Buffers::new(LONG * WIDEST);
        let mut bits = Guarded::new(LONG.div_ceil(8));
        for to in share("checked", isa, from, 6) {
            let pair = Pair::new(isa, from, to, CastOptions::new());
            for n in lengths.clone() {
                let ((src_size, dst_size), bits_size) = (pair.sizes(n), n.div_ceil(8));
                let ends = (buffers.src.len - src_size, buffers.dst.len - dst_size, bits.len - bits_size);
                for (s, d, b) in [(0, 0, 0), ends] {
                    let what = || format!("{n} elements, {s} to {d}, {:?}", pair.caster);
                    buffers.expect(&pair.caster, s, src_size, dst_size, n);
                    let src = &buffers.src.bytes()[s..s + src_size];
                    let wanted = pair.reference.cast_checked(src, &mut buffers.expected.clone(), n);
                    let whole = buffers.dst.bytes_mut();
                    let dst = &mut whole[d..d + dst_size];
                    assert_eq!(pair.caster.cast_checked(src, dst, n), wanted, "{}", what());
                    assert!(*dst == *buffers.expected, "another result: {}", what());
                    let valid = &mut bits.bytes_mut()[b..b + bits_size];
                    let nulls = pair.caster.cast_validity(src, None, dst, valid, n).expect("sizes that fit");
                    let ones: u32 = valid.iter().map(|byte| byte.count_ones()).sum();
                    assert_eq!(nulls + ones as usize, n, "{}", what());
                    dst.fill(CANARY);
                    valid.fill(CANARY);
                    assert!(*whole == *buffers.canaries, "written around the destination: {}", what());
                    assert!(bits.bytes().iter().all(|byte| *byte == CANARY), "around the bitmap: {}", what());
                }
            }
        }
    }

    /// Every target with non-temporal stores, at lengths of more than two of the pieces that are streamed at a time.
    fn streams(isa: Isa, from: DType) {
        const BYTES: usize = 9 << 10;
        let swapped = if cfg!(target_endian = "big") { ByteOrder::Little } else { ByteOrder::Big };
        let native = CastOptions::new().stream_from(0);
        let mut buffers = Buffers::new((8 * BYTES + 13) * WIDEST);
        for (to, options) in
            share("streams", isa, from, 6).flat_map(|to| [(to, native), (to, native.dst_order(swapped))])
        {
            let pair = Pair::new(isa, from, to, options);
            // Also so few that no element lies at the beginning of a cache line.
            for n in [1, 3, BYTES * 8 / to.bits() as usize + 13] {
                let (src_size, dst_size) = pair.sizes(n);
                buffers.expect(&pair.reference, 0, src_size, dst_size, n);
                for d in [0, 1, 16, 24, 62] {
                    buffers.check(&pair.caster, 0, src_size, d, n);
                }
            }
        }
    }

    /// Both buffers at either guard, cast in chunks by two threads.
    fn threads(isa: Isa, from: DType) {
        let mut buffers = Buffers::new(1000 * WIDEST);
        for to in share("threads", isa, from, 6) {
            let pair = Pair::new(isa, from, to, CastOptions::new());
            for n in [65, 1000] {
                let (src_size, dst_size) = pair.sizes(n);
                for (s, d) in [(0, 0), (buffers.src.len - src_size, buffers.dst.len - dst_size)] {
                    buffers.expect(&pair.reference, s, src_size, dst_size, n);
                    let how = Parallel::new().threads(2).chunk(64);
                    let src = &buffers.src.bytes()[s..s + src_size];
                    let dst = &mut buffers.dst.bytes_mut()[d..d + dst_size];
                    pair.caster.par_cast_with(src, dst, n, &how).expect("sizes that fit");
                    assert!(*dst == *buffers.expected, "another result: {n} elements, {:?}", pair.caster);
                    dst.fill(CANARY);
                    assert!(buffers.dst.bytes() == buffers.canaries, "written around: {:?}", pair.caster);
                }
            }
        }
    }

    /// Casts in place, with the buffer at either guard.
    fn in_place(isa: Isa, from: DType) {
        let mut buffers = Buffers::new(3000 * WIDEST);
        for to in share("in place", isa, from, 6) {
            let pair = Pair::new(isa, from, to, CastOptions::new());
            for n in [1, 7, 64, 65, 1000, 3000] {
                let (src_size, dst_size) = pair.sizes(n);
                let size = src_size.max(dst_size);
                buffers.expect(&pair.reference, 0, src_size, dst_size, n);
                for at in [0, buffers.dst.len - size] {
                    let src = &buffers.src.bytes()[..src_size];
                    let buffer = &mut buffers.dst.bytes_mut()[at..at + size];
                    buffer[..src_size].copy_from_slice(src);
                    pair.caster.cast_in_place(buffer, n).expect("a buffer that fits");
                    assert!(
                        buffer[..dst_size] == *buffers.expected,
                        "another result: {n}, {:?}",
                        pair.caster
                    );
                    assert!(
                        buffer[dst_size..] == *src.get(dst_size..).unwrap_or(&[]),
                        "changed: {:?}",
                        pair.caster
                    );
                    buffer.fill(CANARY);
                    assert!(buffers.dst.bytes() == buffers.canaries, "written around: {:?}", pair.caster);
                }
            }
        }
    }

    /// Views whose first and last elements lie at the guards: rows with gaps, strides of several elements, planar and
    /// interleaved channels, both orders of a plane, and backwards.
    fn strides(isa: Isa, from: DType) {
        let mut buffers = Buffers::new(40_000 * WIDEST);
        for to in share("strides", isa, from, 12) {
            let options =
                CastOptions::new().src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
            let pair = Pair::new(isa, from, to, options);
            let (s, d) = (from.itemsize() as isize, to.itemsize() as isize);
            for (rows, columns) in [(1, 65), (5, 300), (70, 67), (1000, 3), (4, 500)] {
                // Strides in elements: of rows, and of columns.
                for (src, dst) in [
                    ((columns + 1, 1), (columns + 3, 1)),
                    ((1, rows), (columns, 1)),
                    ((columns, 1), (1, rows)),
                    ((columns, 1), (columns * 2, 2)),
                    ((columns * 3, 3), (columns, 1)),
                    ((-columns, -1), (1, rows + 1)),
                    ((0, -1), (columns, 1)),
                ] {
                    let shape = [rows as usize, columns as usize];
                    let from_strides = [src.0 * s, src.1 * s];
                    let to_strides = [dst.0 * d, dst.1 * d];
                    let way = |a: isize, b: isize| ((rows - 1) * a, (columns - 1) * b);
                    let (x, y) = way(from_strides[0], from_strides[1]);
                    let (start, end) = ((-x.min(0) - y.min(0)) as usize, (x.max(0) + y.max(0) + s) as usize);
                    let (z, w) = way(to_strides[0], to_strides[1]);
                    let last = (z + w + d) as usize;
                    for (src_at, dst_at) in [(start, 0), (buffers.src.len - end, buffers.dst.len - last)] {
                        let bytes = buffers.src.bytes();
                        let view = StridedView::new(bytes, src_at, &shape, &from_strides);
                        let whole = buffers.dst.bytes_mut();
                        let mut out = StridedViewMut::new(whole, dst_at, &shape, &to_strides);
                        pair.caster.cast_strided(&view, &mut out).expect("views in their buffers");
                        let mut one = [0; WIDEST];
                        let one = &mut one[..d as usize];
                        for i in 0..rows {
                            for j in 0..columns {
                                let place = |at: usize, strides: [isize; 2]| {
                                    at.wrapping_add_signed(i * strides[0] + j * strides[1])
                                };
                                let (a, b) = (place(src_at, from_strides), place(dst_at, to_strides));
                                // The reference is slow: only some elements of large views.
                                if (i * columns + j) % 7 == 0 || rows * columns < 1000 {
                                    pair.reference
                                        .cast(&bytes[a..a + s as usize], one, 1)
                                        .expect("one element");
                                    assert!(
                                        whole[b..b + d as usize] == *one,
                                        "{i}, {j} of {shape:?}: {:?}",
                                        pair.caster
                                    );
                                }
                                whole[b..b + d as usize].fill(CANARY);
                            }
                        }
                        assert!(*whole == *buffers.canaries, "written between elements: {:?}", pair.caster);
                    }
                }
            }
        }
    }

    /// Planes that are streamed, transposed or row by row, whose first and last elements lie at the guards.
    fn planes(isa: Isa, from: DType, to: DType) {
        let pair = Pair::new(isa, from, to, CastOptions::new());
        let streaming = CastOptions::new().stream_from(0).isa(isa);
        let caster = Caster::new(from, to, &streaming).expect("an instruction set of this machine");
        let (s, d) = (from.itemsize(), to.itemsize());
        let shapes = [
            ([300, 1100], true),
            ([257, 1025], true),
            ([64, 4096], true),
            ([64, 4096], false),
            ([100, 2077], false),
            ([9, 20_001], false),
        ];
        // Elements of a gap behind each row of either side; cache lines may begin in it.
        let gaps = [[0, 0], [1, 1], [64, 64], [1, 0]];
        for ((shape, transposed), gaps) in shapes.into_iter().flat_map(|shape| gaps.map(|gaps| (shape, gaps)))
        {
            let [rows, columns] = shape;
            // Elements from one to the next along both dimensions.
            let src_steps = [columns + gaps[0], 1];
            let dst_steps = if transposed { [1, rows + gaps[1]] } else { [columns + gaps[1], 1] };
            let reach = |steps: [usize; 2]| (rows - 1) * steps[0] + (columns - 1) * steps[1] + 1;
            let (src_size, dst_size) = (reach(src_steps), reach(dst_steps));
            let (src, mut dst) = (Guarded::source(src_size * s), Guarded::new(dst_size * d));
            let mut cast = vec![0; src_size * d];
            let (src_last, dst_last) = (src.len - src_size * s, dst.len - dst_size * d);
            for (src_at, dst_at) in [(0, 0), (src_last, dst_last)] {
                let elements = &src.bytes()[src_at..][..src_size * s];
                pair.caster.cast(elements, &mut cast, src_size).expect("sizes that fit");
                let mut expected = vec![CANARY; dst.len];
                for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                    // Not by `map`, which is a call per element here.
                    let a = i * src_steps[0] + j * src_steps[1];
                    let b = i * dst_steps[0] + j * dst_steps[1];
                    expected[dst_at + b * d..][..d].copy_from_slice(&cast[a * d..][..d]);
                }
                let strides = |steps: [usize; 2], size: usize| steps.map(|step| (step * size) as isize);
                let (src_strides, dst_strides) = (strides(src_steps, s), strides(dst_steps, d));
                let view = StridedView::new(src.bytes(), src_at, &shape, &src_strides);
                let whole = dst.bytes_mut();
                whole.fill(CANARY);
                let mut out = StridedViewMut::new(whole, dst_at, &shape, &dst_strides);
                caster.cast_strided(&view, &mut out).expect("views in their buffers");
                assert!(*whole == *expected, "{shape:?}, {gaps:?} apart, {transposed}: {caster:?}");
            }
        }
    }

    /// A cast large enough for non-temporal stores gives what casts of small pieces give.
    fn large_buffers(isa: Isa, from: DType, to: DType) {
        const PIECE: usize = 1000;
        // The caches hold hundreds of megabytes on some machines: by default, casts stream from this many bytes on.
        const EARLY: usize = 3 << 20;
        let (options, past) = match is_whole() {
            true => (CastOptions::new(), past_the_caches()),
            false => (CastOptions::new().stream_from(EARLY), EARLY),
        };
        let pair = Pair::new(isa, from, to, options);
        let (a, b) = pair.sizes(PIECE);
        // Not a whole number of pieces, registers or cache lines.
        let n = past / (a + b) * PIECE + 77;
        let (src_size, dst_size) = pair.sizes(n);
        let (src, mut dst) = (Guarded::source(src_size), Guarded::new(dst_size + 8));
        let src = &src.bytes()[src.len - src_size..];
        let mut expected = vec![0; dst_size];
        for (i, (src, dst)) in src.chunks(a).zip(expected.chunks_mut(b)).enumerate() {
            pair.caster.cast(src, dst, PIECE.min(n - i * PIECE)).expect("sizes that fit");
        }
        // With the last offset, the destination ends at the guard.
        for to in [0, 1, 2, 4, 8, dst.len - dst_size] {
            let whole = dst.bytes_mut();
            whole.fill(CANARY);
            let (before, rest) = whole.split_at_mut(to);
            let (dst, behind) = rest.split_at_mut(dst_size);
            pair.caster.cast(src, dst, n).expect("sizes that fit");
            assert!(*dst == *expected, "another result at offset {to}: {:?}", pair.caster);
            let is_canary = |&byte: &u8| byte == CANARY;
            assert!(before.iter().all(is_canary), "written before offset {to}: {:?}", pair.caster);
            assert!(behind.iter().all(is_canary), "written behind offset {to}: {:?}", pair.caster);
        }
    }

    /// Copies, which go another way where source and destination have nearly the same offset in their pages, and with
    /// non-temporal stores.
    fn copies(isa: Isa, options: CastOptions) {
        const MOST: usize = 12_345;
        let caster = Pair::new(isa, DType::U8, DType::U8, options).caster;
        let (src, mut dst) = (Guarded::source(MOST + 64), Guarded::new(MOST + 1));
        for n in [1, 63, 200, 2047, 2048, 2049, 5000, MOST] {
            for apart in [0, 1, 31, 32, 63, 64] {
                // The destination ends at the guard, and so does the source where `apart` is 0.
                let src = &src.bytes()[src.len - n - apart..][..n];
                let whole = dst.bytes_mut();
                whole.fill(CANARY);
                let (before, dst) = whole.split_at_mut(whole.len() - n);
                caster.cast(src, dst, n).expect("sizes that fit");
                assert!(src == dst, "{isa}: another copy of {n} bytes, {apart} apart");
                assert!(
                    before.iter().all(|&byte| byte == CANARY),
                    "{isa}: written before {n} bytes, {apart} apart"
                );
            }
        }
    }

    /// Returns more bytes than the caches hold: at least 40 MiB, or more if Linux reports a larger cache.
    fn past_the_caches() -> usize {
        let sizes = (0..8).filter_map(|index| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
            let size = std::fs::read_to_string(path).ok()?;
            size.trim().strip_suffix('K')?.parse::<usize>().ok()
        });
        sizes.max().unwrap_or(0).max(40 << 10) << 10
    }
}
