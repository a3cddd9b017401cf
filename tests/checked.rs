//! Checked casts against the oracle: the class of every element, in counts, bitmaps and errors. The elements
//! themselves must be those of the unchecked cast.

mod bridge;
#[path = "../src/formats/list.rs"]
#[allow(unused, reason = "not all of the lists")]
mod list;

use core::mem::MaybeUninit;
use core::ops::ControlFlow;

use bridge::{Suite, bytes_of, every_mode, share, step, type_of};
use lanecast::checked::{CastReport, Loss, Validity, try_cast_slice_validity_uninit_with};
use lanecast::parallel::{Parallel, ParallelFor, Progress};
use lanecast::{ByteOrder, CastOptions, Caster, DType, Error, Isa, Packing};
use lanecast_oracle as oracle;

fn main() {
    let mut suite = Suite::new();
    for from in DType::ALL {
        match from.bits() {
            0..=16 => suite.test(&format!("all codes of {from}"), move |isa| all_codes(isa, from)),
            _ => suite.test(&format!("boundaries of {from}"), move |isa| boundaries(isa, from)),
        }
        suite.test(&format!("layouts of {from}"), move |isa| layouts(isa, from));
        suite.test(&format!("lengths of {from}"), move |isa| lengths(isa, from));
    }
    suite.test("bitmaps with offsets", bitmaps);
    suite.test("a single loss anywhere", anywhere);
    suite.test("float64 cut beside what is lost", cut);
    suite.test("one kind of loss alone", alone);
    suite.test("on several threads", on_threads);
    suite.test("sizes are checked before anything is written", sizes);
    suite.run().exit();
}

/// Elements whose counts are compared at a time: few, so that two errors are unlikely to cancel.
const BLOCK: usize = 256;

fn all_codes(isa: Isa, from: DType) {
    let codes: Vec<u128> = (0..1 << from.bits()).collect();
    for to in share("codes", isa, from, 16) {
        check(isa, from, to, &codes);
    }
}

fn boundaries(isa: Isa, from: DType) {
    for to in share("codes", isa, from, 16) {
        check(isa, from, to, &bridge::codes(from, to));
    }
}

fn classes(from: DType, to: DType, mode: &oracle::Mode, codes: &[u128]) -> Vec<Option<oracle::Loss>> {
    let (from, to) = (type_of(from), type_of(to));
    codes.iter().map(|&code| oracle::loss(from, to, code, mode)).collect()
}

/// Returns the report of elements of these classes.
fn report(classes: &[Option<oracle::Loss>]) -> CastReport {
    let mut report = CastReport::default();
    report.elements = classes.len();
    for (i, class) in classes.iter().enumerate() {
        let Some(class) = class else { continue };
        match class {
            oracle::Loss::Above => report.above += 1,
            oracle::Loss::Below { negative } => {
                report.below += 1;
                report.negative += usize::from(*negative);
            }
            oracle::Loss::Nan => report.nan += 1,
            oracle::Loss::Inf => report.inf += 1,
            oracle::Loss::Imaginary => report.imaginary += 1,
            oracle::Loss::Inexact => report.inexact += 1,
        }
        let first = if class.is_lost() { &mut report.first } else { &mut report.first_inexact };
        *first = first.or(Some(i));
    }
    report
}

fn is_lost(class: &Option<oracle::Loss>) -> bool {
    class.is_some_and(oracle::Loss::is_lost)
}

/// Returns the bitmap of the elements that are not lost.
fn bitmap(classes: &[Option<oracle::Loss>]) -> Vec<u8> {
    let bits: Vec<u128> = classes.iter().map(|class| u128::from(!is_lost(class))).collect();
    bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | *bit as u8)).collect()
}

/// Returns the modes in which classes may differ. Options that only choose what replaces a lost element do not
/// change classes, so only sources of few codes try them.
fn modes(from: DType, to: DType) -> Vec<oracle::Mode> {
    let default = oracle::Mode::default();
    let is_default = |mode: &oracle::Mode| {
        (mode.float_to_int, mode.int_to_int) == (default.float_to_int, default.int_to_int)
            && mode.nan_to_finite == default.nan_to_finite
            && mode.narrow_float_to_int.is_none()
    };
    let mut modes = every_mode(from, to);
    modes.retain(|mode| from.bits() <= 8 || is_default(mode));
    modes
}

/// Compares the class of every code, block by block, then of all codes at once.
fn check(isa: Isa, from: DType, to: DType, codes: &[u128]) {
    let src = bytes_of(from, codes);
    let default = oracle::Mode::default();
    for mode in modes(from, to) {
        let classes = classes(from, to, &mode, codes);
        let caster = bridge::caster(isa, from, to, &mode);
        let mut expected = vec![0; bridge::size(to, codes.len())];
        caster.cast(&src, &mut expected, codes.len()).unwrap();
        let mut from_at = 0;
        let mut to_at = 0;
        // The reference treats all elements alike, so one block is enough.
        let blocks = if isa == Isa::Scalar && from.bits() > 8 { 1 } else { usize::MAX };
        for classes in classes.chunks(BLOCK).take(blocks) {
            let n = classes.len();
            let (a, b) = (bridge::size(from, n), bridge::size(to, n));
            let what = || format!("{isa}: {from} -> {to}, elements from byte {from_at} on, {mode:?}");
            let expected = &expected[to_at..to_at + b];
            check_block(&caster, &src[from_at..from_at + a], expected, classes, mode == default, &what);
            (from_at, to_at) = (from_at + a, to_at + b);
        }
        let mut dst = vec![0xA5; expected.len()];
        let got = caster.cast_checked(&src, &mut dst, codes.len()).unwrap();
        assert_eq!(got, report(&classes), "{isa}: {from} -> {to}, {mode:?}");
        assert!(dst == expected, "{isa}: {from} -> {to}, {mode:?}: not as the unchecked cast");
        if mode == default {
            assert_eq!(caster.report(&src, codes.len()), Ok(got), "{isa}: {from} -> {to}");
        }
    }
}

/// Checked casts on several threads report what those on one report, and so does a report without a cast.
fn others(caster: &Caster, src: &[u8], n: usize, what: &str) {
    let size = caster.destination_bytes(n).unwrap();
    let [mut one, mut dst] = [vec![0xA5; size], vec![0x5A; size]];
    let report = caster.cast_checked(src, &mut one, n).unwrap();
    assert_eq!(caster.report(src, n), Ok(report), "{what}");
    let [mut lost, mut changed] = [one.clone(), one.clone()];
    let lost = caster.try_cast(src, &mut lost, n);
    let changed = caster.same_value(src, &mut changed, n);
    for chunk in [64, 700] {
        let how = Parallel::new().chunk(chunk);
        let on_threads = caster.par_cast_checked_with(src, &mut dst, n, &how);
        assert_eq!(on_threads, Ok(report), "{what}, chunks of {chunk}");
        assert!(dst == one, "{what}, chunks of {chunk}");
        for (on_threads, alone) in [
            (caster.par_try_cast_with(src, &mut dst, n, &how), &lost),
            (caster.par_same_value_with(src, &mut dst, n, &how), &changed),
        ] {
            assert_eq!(&on_threads, alone, "{what}, chunks of {chunk}");
            assert!(on_threads.is_err() || dst == one, "{what}, chunks of {chunk}");
        }
    }
}

/// Losses in several chunks: the error is the first in the data, whichever thread is first. An error that stops
/// the work is returned.
fn on_threads(isa: Isa) {
    const N: usize = 100_000;
    let caster = Caster::new(DType::I16, DType::U8, &CastOptions::new().isa(isa)).unwrap();
    let mut next = bridge::words();
    for round in 0..20 {
        let mut codes = vec![7i16; N];
        for _ in 0..round {
            codes[next() as usize % N] = -1;
        }
        let src: Vec<u8> = codes.iter().flat_map(|code| code.to_ne_bytes()).collect();
        others(&caster, &src, N, &format!("{isa}: {round} losses"));
    }
    // The random words of a chunk continue those of the chunk before.
    for from in [DType::F32, DType::C64] {
        let options = CastOptions::new().isa(isa).stochastic(7, 99);
        let caster = Caster::new(from, DType::F8E4M3FN, &options).unwrap();
        others(&caster, &bytes_of(from, &codes(from, 5000)), 5000, &format!("{isa}: {from}, stochastic"));
    }
    let (src, mut dst) = (vec![1; 2 * N], vec![0; N]);
    let stop = |_: Progress| ControlFlow::Break(());
    let how = Parallel::new().threads(1).chunk(500).progress(&stop);
    let stopped = caster.par_cast_checked_with(&src, &mut dst, N, &how);
    assert_eq!(stopped, Err(Error::Cancelled { done: 500, elements: N }));
    // Element 250 is found before the callback stops, and element 150 is not judged: neither is reported as the first.
    struct Backwards;
    impl ParallelFor for Backwards {
        fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
            (0..tasks).rev().for_each(task);
        }
    }
    let mut codes = [7i16; 400];
    (codes[150], codes[250]) = (-1, -1);
    let few: Vec<u8> = codes.iter().flat_map(|code| code.to_ne_bytes()).collect();
    let how = Parallel::new().host(&Backwards).threads(2).chunk(100).progress(&stop);
    let stopped = caster.par_try_cast_with(&few, &mut dst[..400], 400, &how);
    assert_eq!(stopped, Err(Error::Cancelled { done: 100, elements: 400 }));
    let how = Parallel::new().threads(1).chunk(500).progress(&stop);
    let wrong = caster.par_try_cast_with(&src, &mut dst, N + 1, &how);
    assert!(matches!(wrong, Err(Error::BufferSize { needed: 200_002, .. })), "{wrong:?}");
    let wrong = caster.report(&src, N - 1);
    assert!(matches!(wrong, Err(Error::BufferSize { needed: 199_998, .. })), "{wrong:?}");
}

/// Compares the results of `cast_checked` on a block and, if `all`, those of the other checked casts.
fn check_block(
    caster: &Caster,
    src: &[u8],
    expected: &[u8],
    classes: &[Option<oracle::Loss>],
    all: bool,
    what: &dyn Fn() -> String,
) {
    let n = classes.len();
    let wanted = report(classes);
    let mut dst = vec![MaybeUninit::new(0xA5); expected.len()];
    let mut valid = vec![0xA5; n.div_ceil(8)];
    let (dst, got) = caster.cast_checked_uninit(src, &mut dst, n, Some(&mut valid)).unwrap();
    assert_eq!(got, wanted, "{}", what());
    assert!(dst == expected, "{}: not as the unchecked cast", what());
    assert_eq!(valid, bitmap(classes), "{}", what());
    if !all {
        return;
    }

    let mut dst = vec![0xA5; expected.len()];
    let lossy = |result: Result<(), Error>| match result {
        Ok(()) => None,
        Err(Error::Lossy(lossy)) => Some((lossy.index, lossy.loss)),
        Err(error) => panic!("{}: {error}", what()),
    };
    let first = |index: Option<usize>| {
        index.map(|i| {
            let loss = match classes[i].expect("it is in a class") {
                oracle::Loss::Above => Loss::Above,
                oracle::Loss::Below { .. } => Loss::Below,
                oracle::Loss::Nan => Loss::NaN,
                oracle::Loss::Inf => Loss::Inf,
                oracle::Loss::Imaginary => Loss::Imaginary,
                oracle::Loss::Inexact => Loss::Inexact,
            };
            (i, loss)
        })
    };
    assert_eq!(lossy(caster.try_cast(src, &mut dst, n)), first(wanted.first), "{}", what());
    if wanted.first.is_none() {
        assert!(dst == expected, "{}: try_cast", what());
    }
    let either = wanted.first.into_iter().chain(wanted.first_inexact).min();
    assert_eq!(lossy(caster.same_value(src, &mut dst, n)), first(either), "{}", what());

    let mut valid = vec![0xA5; n.div_ceil(8)];
    let nulls = caster.cast_validity(src, None, &mut dst, &mut valid, n).unwrap();
    assert_eq!(nulls, wanted.lost(), "{}", what());
    assert_eq!(valid, bitmap(classes), "{}", what());
    assert_eq!(dst, nulled(caster.to(), expected, classes), "{}", what());
}

/// Returns the results of a cast with zeros for the elements that are lost.
fn nulled(to: DType, made: &[u8], classes: &[Option<oracle::Loss>]) -> Vec<u8> {
    let (mut made, width) = (made.to_vec(), to.bits() as usize);
    for (i, _) in classes.iter().enumerate().filter(|(_, class)| is_lost(class)) {
        (i * width..(i + 1) * width).for_each(|bit| made[bit / 8] &= !(1 << (bit % 8)));
    }
    made
}

fn options_of(packings: (Packing, Packing), orders: (ByteOrder, ByteOrder)) -> CastOptions {
    CastOptions::new().src_packing(packings.0).dst_packing(packings.1).src_order(orders.0).dst_order(orders.1)
}

/// Returns random codes, some of them special.
fn codes(dtype: DType, n: usize) -> Vec<u128> {
    let mut next = bridge::words();
    let mask = u128::MAX >> (128 - dtype.bits());
    let ints = [DType::F32, DType::F64].contains(&dtype.part());
    (0..n)
        .map(|_| {
            let (wide, few) = (u128::from(next()) << 64 | u128::from(next()), next() % 3);
            let code = match few {
                0 => wide & mask,
                // Small integers, in whichever dtype.
                1 if ints => {
                    let x = (next() % 600) as f32 - 300.0;
                    let code = match dtype.part() {
                        DType::F32 => u128::from(x.to_bits()),
                        _ => u128::from(f64::from(x).to_bits()),
                    };
                    if dtype != dtype.part() && next().is_multiple_of(2) {
                        code << (dtype.bits() / 2) | code
                    } else {
                        code
                    }
                }
                _ => (wide & mask) >> (next() % u64::from(dtype.bits())),
            };
            code & mask
        })
        .collect()
}

/// Classes and errors are the same in every layout.
fn layouts(isa: Isa, from: DType) {
    use ByteOrder::{Big, Little};
    use Packing::{HighFirst, LowFirst, OnePerByte};
    let codes = codes(from, 300);
    let plain = CastOptions::new().isa(isa).src_order(Little).dst_order(Little);
    let src = bytes_of(from, &codes);
    for to in share("layouts", isa, from, 4) {
        let classes = classes(from, to, &oracle::Mode::default(), &codes);
        for packings in [(LowFirst, HighFirst), (HighFirst, OnePerByte), (OnePerByte, LowFirst)] {
            for orders in [(Little, Big), (Big, Little), (Big, Big)] {
                let options = options_of(packings, orders).isa(isa);
                // Puts the source into its layout.
                let lay =
                    Caster::new(from, from, &plain.dst_packing(packings.0).dst_order(orders.0)).unwrap();
                let mut laid = vec![0; from.byte_len(300, packings.0).unwrap()];
                lay.cast(&src, &mut laid, 300).unwrap();
                if packings.0 == OnePerByte && from.is_packed() {
                    // Arbitrary pad bits above the code.
                    laid.iter_mut().enumerate().for_each(|(i, byte)| *byte |= (i as u8) << from.bits());
                }
                let caster = Caster::new(from, to, &options).unwrap();
                let mut dst = vec![0xA5; to.byte_len(300, packings.1).unwrap()];
                let what = format!("{isa}: {from} -> {to}, {packings:?}, {orders:?}");
                assert_eq!(caster.cast_checked(&laid, &mut dst, 300).unwrap(), report(&classes), "{what}");
                let mut expected = vec![0; dst.len()];
                caster.cast(&laid, &mut expected, 300).unwrap();
                assert!(dst == expected, "{what}");
                if orders == (Little, Big) {
                    others(&caster, &laid, 300, &what);
                }

                let mut valid = vec![0; 300usize.div_ceil(8)];
                caster.cast_validity(&laid, None, &mut dst, &mut valid, 300).unwrap();
                assert_eq!(valid, bitmap(&classes), "{what}");
                let values = |bytes: &[u8]| {
                    let plain = Caster::new(
                        to,
                        to,
                        &plain.src_packing(packings.1).src_order(orders.1).dst_packing(OnePerByte),
                    );
                    let mut out = vec![0; to.byte_len(300, OnePerByte).unwrap()];
                    plain.unwrap().cast(bytes, &mut out, 300).unwrap();
                    out
                };
                let (got, kept) = (values(&dst), values(&expected));
                let width = got.len() / 300;
                for (i, class) in classes.iter().enumerate() {
                    let at = i * width..(i + 1) * width;
                    if is_lost(class) {
                        assert!(got[at].iter().all(|byte| *byte == 0), "{what}: element {i}");
                    } else {
                        assert_eq!(got[at.clone()], kept[at], "{what}: element {i}");
                    }
                }

                let lossy = caster.try_cast(&laid, &mut dst, 300);
                match classes.iter().position(is_lost) {
                    None => lossy.unwrap(),
                    Some(i) => {
                        let Err(Error::Lossy(lossy)) = lossy else { panic!("{what}: {lossy:?}") };
                        assert_eq!(lossy.index, i, "{what}");
                        // An error gives a bool as 0 or 1, whichever non-zero byte it is.
                        let code = if from == DType::Bool { codes[i].min(1) } else { codes[i] };
                        assert_eq!(code_of(&lossy), code, "{what}");
                    }
                }
            }
        }
    }
}

/// Returns the code of the element that an error holds.
fn code_of(lossy: &lanecast::checked::Lossy) -> u128 {
    use lanecast::{bits::*, *};
    fn code<T: Element>(x: &T) -> u128 {
        // SAFETY: these are the bytes of `x`, an element, which has no padding.
        let bytes =
            unsafe { core::slice::from_raw_parts(core::ptr::from_ref(x).cast::<u8>(), size_of::<T>()) };
        let mut bytes = bytes.to_vec();
        if cfg!(target_endian = "big") {
            bytes.chunks_mut(T::DTYPE.part().itemsize()).for_each(<[u8]>::reverse);
        }
        bridge::codes_of(T::DTYPE, &bytes, 1)[0]
    }
    macro_rules! any {
        ($($variant:ident = $code:literal, $name:literal, $t:ty, $kind:expr;)*) => {
            $(if let Some(x) = lossy.value::<$t>() { return code(&x); })*
        };
    }
    list::dtypes!(any);
    unreachable!("every dtype has an element type")
}

/// Every length around the steps of the loops, and some of several pieces.
fn lengths(isa: Isa, from: DType) {
    const MOST: usize = 3 * (16 << 10) / 4 + 77;
    let mode = oracle::Mode::default();
    let codes = codes(from, MOST);
    let src = bytes_of(from, &codes);
    for to in [
        DType::U8,
        DType::I4,
        DType::U16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::F8E4M3FN,
        DType::F8E8M0,
        DType::F8UE5M3,
        DType::I1,
        DType::C32,
        DType::C64,
        DType::Bool,
    ] {
        let classes = classes(from, to, &mode, &codes);
        let caster = bridge::caster(isa, from, to, &mode);
        for n in (0..200)
            .step_by(step(isa, 3))
            .chain([511, 512, 513, 1023, 1025, 2047, 2048, 2049, 4095, 4096, 4100, MOST])
        {
            let (src, classes) = (&src[..bridge::size(from, n)], &classes[..n]);
            let (mut dst, mut valid) = (vec![0xA5; bridge::size(to, n)], vec![0xA5; n.div_ceil(8)]);
            let got = caster.cast_checked(src, &mut dst, n).unwrap();
            assert_eq!(got, report(classes), "{isa}: {from} -> {to}, {n} elements");
            if n % 64 == 0 || n == MOST {
                others(&caster, src, n, &format!("{isa}: {from} -> {to}, {n} elements"));
            }
            let expected = nulled(to, &dst, classes);
            dst.fill(0xA5);
            let nulls = caster.cast_validity(src, None, &mut dst, &mut valid, n).unwrap();
            assert!(dst == expected, "{isa}: {from} -> {to}, {n} elements");
            assert_eq!(
                (nulls, &valid),
                (got.lost(), &bitmap(classes)),
                "{isa}: {from} -> {to}, {n} elements"
            );
        }
    }
}

/// Validity bitmaps of the source that begin at any bit and are longer than needed.
fn bitmaps(isa: Isa) {
    for n in [0, 1, 7, 8, 9, 64, 511, 513, 5000] {
        let src: Vec<i32> = (0..n as i32).map(|i| if i % 5 == 3 { i + 1000 } else { i % 100 }).collect();
        let source: Vec<u8> = (0..n / 8 + 10).map(|i| (i * 151 + 17) as u8).collect();
        for offset in [0, 1, 3, 7, 8, 13, 63] {
            let is_valid = |i: usize| source[(offset + i) / 8] >> ((offset + i) % 8) & 1 == 1;
            let (mut dst, mut valid) = (vec![-1i8; n], vec![0xA5; n.div_ceil(8)]);
            let bits = Some(Validity::new(&source).from_bit(offset));
            let options = CastOptions::new().isa(isa);
            let nulls =
                lanecast::checked::cast_slice_validity_with(&src, bits, &mut dst, &mut valid, &options)
                    .unwrap();
            let mut expected = 0;
            for (i, &x) in src.iter().enumerate() {
                let kept = is_valid(i) && x < 128;
                expected += usize::from(!kept);
                assert_eq!(valid[i / 8] >> (i % 8) & 1 == 1, kept, "{isa}: {n}, offset {offset}, {i}");
                assert_eq!(dst[i], if x < 128 { x as i8 } else { 0 });
            }
            assert_eq!(nulls, expected);
            if n % 8 != 0 {
                assert_eq!(valid.last().unwrap() >> (n % 8), 0, "bits of no element");
            }
            // An element that is null is no error, even if its value would be lost.
            let caster = Caster::new(DType::I32, DType::I8, &options).unwrap();
            let laid: Vec<u8> = src.iter().flat_map(|x| x.to_ne_bytes()).collect();
            let bits = Validity::new(&source).from_bit(offset);
            let first = (0..n).find(|&i| is_valid(i) && src[i] >= 128);
            match (caster.try_cast_validity(&laid, bits, &mut vec![0; n], n), first) {
                (Ok(()), None) => {}
                (Err(Error::Lossy(lossy)), Some(first)) => {
                    assert_eq!(lossy.index, first, "{isa}: {n}, {offset}")
                }
                (result, first) => panic!("{isa}: {n}, offset {offset}: {result:?}, {first:?}"),
            }
            // Casts of slices do the same, also without a bitmap; the slice that they return has been cast.
            for (bits, is_there) in [(Some(bits), true), (None, false)] {
                let first = (0..n).find(|&i| src[i] >= 128 && (!is_there || is_valid(i)));
                let mut memory = vec![MaybeUninit::<i8>::uninit(); n];
                match (try_cast_slice_validity_uninit_with(&src, bits, &mut memory, &options), first) {
                    (Ok(cast), None) => {
                        assert!(cast.iter().zip(&src).all(|(x, from)| *x == *from as i8 || *from >= 128))
                    }
                    (Err(Error::Lossy(lossy)), Some(first)) => {
                        assert_eq!(
                            (lossy.index, lossy.value()),
                            (first, Some(src[first])),
                            "{isa}: {n}, {offset}"
                        );
                    }
                    (result, first) => panic!("{isa}: {n}, offset {offset}: {result:?}, {first:?}"),
                }
            }
            let (mut memory, mut again) = (vec![MaybeUninit::uninit(); n], vec![0x5A; n.div_ceil(8)]);
            let uninit = caster.cast_validity_uninit(&laid, Some(bits), &mut memory, &mut again, n);
            let (bytes, nulls_again) = uninit.unwrap();
            assert!(bytes.iter().map(|&byte| byte as i8).eq(dst.iter().copied()));
            assert_eq!((&again, nulls_again), (&valid, nulls));
        }
    }
}

/// A single lost or inexact element among thousands is found, wherever it is.
fn anywhere(isa: Isa) {
    const N: usize = 9000;
    let options = CastOptions::new().isa(isa);
    let mut doubles: Vec<f64> = (0..N).map(|i| i as f64).collect();
    let mut longs: Vec<i64> = (0..N as i64).collect();
    let mut floats: Vec<f32> = (0..N).map(|i| (i % 1024) as f32 / 8.0).collect();
    let (mut ints, mut halves, mut singles) = (vec![0i32; N], vec![lanecast::f16::ZERO; N], vec![0f32; N]);
    for at in (0..N).step_by(7 * step(isa, 5)).chain([0, 1, N - 2, N - 1]) {
        let (double, long, float) = (doubles[at], longs[at], floats[at]);
        (doubles[at], longs[at], floats[at]) = (-2147483649.0, 1 << 31, f32::MAX);
        for result in [
            lanecast::checked::try_cast_slice_with(&doubles, &mut ints, &options),
            lanecast::checked::try_cast_slice_with(&longs, &mut ints, &options),
            lanecast::checked::try_cast_slice_with(&floats, &mut halves, &options),
        ] {
            let Err(Error::Lossy(lossy)) = result else { panic!("{isa}: {at}: {result:?}") };
            assert_eq!(lossy.index, at);
        }
        let report = lanecast::checked::cast_slice_with(&doubles, &mut ints, &options).unwrap();
        assert_eq!((report.first, report.below, report.inexact), (Some(at), 1, 0));
        // No other element is affected.
        for from_doubles in [true, false] {
            let (mut valid, mut dst) = (vec![0u8; N.div_ceil(8)], vec![-1i32; N]);
            let nulls = match from_doubles {
                true => lanecast::checked::cast_slice_validity_with(
                    &doubles, None, &mut dst, &mut valid, &options,
                ),
                false => {
                    lanecast::checked::cast_slice_validity_with(&longs, None, &mut dst, &mut valid, &options)
                }
            };
            assert_eq!(nulls, Ok(1), "{isa}: {at}");
            assert!((0..N).all(|i| dst[i] == if i == at { 0 } else { i as i32 }), "{isa}: {at}");
            assert!((0..N).all(|i| (valid[i / 8] >> (i % 8) & 1 == 0) == (i == at)), "{isa}: {at}");
        }
        // 1e-8 is less than half the smallest float16.
        (doubles[at], longs[at], floats[at]) =
            (double + 0.5, long, if at % 2 == 0 { float + 1e-3 } else { 1e-8 });
        let report = lanecast::checked::cast_slice_with(&doubles, &mut ints, &options).unwrap();
        assert_eq!((report.first_inexact, report.inexact, report.lost()), (Some(at), 1, 0), "{isa}");
        assert_eq!(ints[at], double as i32);
        let report = lanecast::checked::cast_slice_with(&floats, &mut halves, &options).unwrap();
        assert_eq!((report.first_inexact, report.inexact, report.lost()), (Some(at), 1, 0), "{isa}");
        assert_eq!(halves[at], lanecast::f16::from_f32(floats[at]));
        floats[at] = float;
        let result = lanecast::checked::same_value_slice_with(&doubles, &mut ints, &options);
        let Err(Error::Lossy(lossy)) = result else { panic!("{isa}: {at}: {result:?}") };
        assert_eq!((lossy.index, lossy.value(), lossy.loss), (at, Some(double + 0.5), Loss::Inexact));
        doubles[at] = double + 1e-9;
        let report = lanecast::checked::cast_slice_with(&doubles, &mut singles, &options).unwrap();
        assert_eq!((report.first_inexact, report.inexact, report.lost()), (Some(at), 1, 0), "{isa}");
        doubles[at] = double;
    }
    lanecast::checked::same_value_slice_with(&doubles, &mut ints, &options).unwrap();
    lanecast::checked::same_value_slice_with(&longs, &mut ints, &options).unwrap();
}

/// float64 around the limits of every integer, with so many lost that the loop that casts also makes them null. −2^63 is among them: an
/// instruction that truncates to 64 bits gives it for every lost element too.
fn cut(isa: Isa) {
    const N: usize = 3000;
    let edges = [7, 8, 15, 16, 31, 32, 52, 53, 62, 63, 64, 1023].map(|k| 2f64.powi(k));
    let near = |x: f64| [x, x.next_down(), x.next_up(), x - 1.0, x - 0.5, x + 0.5, x + 1.0];
    let special = [0.0, 0.5, 0.999, 1.0, 5e-324, f64::NAN, f64::INFINITY];
    let all: Vec<f64> = edges.into_iter().flat_map(near).chain(special).flat_map(|x| [x, -x]).collect();
    let src: Vec<f64> = (0..N).map(|i| all[(i * 37 + i / 97) % all.len()]).collect();
    macro_rules! to {
        ($($to:ty)*) => {$({
            for mode in lanecast::Overflow::ALL {
                let options = CastOptions::new().isa(isa).float_to_int(mode);
                let (mut dst, mut valid) = (vec![1 as $to; N], vec![0xA5; N.div_ceil(8)]);
                let nulls =
                    lanecast::checked::cast_slice_validity_with(&src, None, &mut dst, &mut valid, &options);
                // An i128 is exact: no limit of an integer of 64 bits exceeds 2^64.
                let fits = |x: f64| x.is_finite() && <$to>::try_from(x.trunc() as i128).is_ok();
                assert_eq!(nulls, Ok(src.iter().filter(|x| !fits(**x)).count()), "{isa}");
                for (i, &x) in src.iter().enumerate() {
                    let kept = fits(x);
                    assert_eq!(valid[i / 8] >> (i % 8) & 1 == 1, kept, "{isa}: {x} to {}", stringify!($to));
                    assert_eq!(dst[i], if kept { x as $to } else { 0 }, "{isa}: {x}");
                }
            }
        })*};
    }
    to!(u8 i8 u16 i16 u32 i32 u64 i64);
}

/// Elements at the ends of the range, and far beyond, are found where nothing else in the cast is lost: a loop that judges by
/// results must not take an element for one that fits. For example, instructions that truncate to 64 bits make −2^31 of 2^31.
fn alone(isa: Isa) {
    let powers = [31, 32, 53, 63, 64, 127, 128, 1023].map(|k| 2f64.powi(k));
    let near = |x: f64| [x.next_down(), x, x.next_up(), x - 0.5, x + 0.5, x + 1.0];
    let ties =
        [65520.0, f64::from(f32::MAX) + 2f64.powi(103), 65504.0, f32::MAX.into(), f64::NAN, f64::INFINITY];
    let all = powers.into_iter().chain(ties).flat_map(near).chain([0.0, 0.5, 1e-9, 5e-324]);
    for x in all.flat_map(|x| [x, -x]) {
        for (from, to) in [
            (DType::F64, DType::I32),
            (DType::F64, DType::F32),
            (DType::F32, DType::F16),
            (DType::F64, DType::U32),
            (DType::F64, DType::I64),
            (DType::I64, DType::I32),
            (DType::I64, DType::F64),
        ] {
            // The number in the source's dtype; elements around it fit.
            let code = match from {
                DType::F64 => u128::from(x.to_bits()),
                DType::F32 => (x as f32).to_bits().into(),
                _ => (x as i64 as u64).into(),
            };
            let mut codes = vec![0u128; 300];
            for at in [5, 150, 299] {
                codes[at] = code;
            }
            check(isa, from, to, &codes);
        }
    }
}

/// A wrong size of any buffer is an error, and nothing is written.
fn sizes(isa: Isa) {
    let caster = Caster::new(DType::F32, DType::I4, &CastOptions::new().isa(isa)).unwrap();
    let src = [0u8; 40];
    let (mut dst, mut valid) = ([0xA5u8; 6], [0xA5u8; 3]);
    let mut refused = 0;
    for n in [9usize, 10, 11, 12] {
        for (s, d, v) in [(40, 5, 2), (36, 5, 2), (40, 6, 2), (40, 4, 2), (40, 5, 1), (40, 5, 3)] {
            let fits = (s, d) == (4 * n, n.div_ceil(2));
            let results = [
                caster.cast_checked(&src[..s], &mut dst[..d], n).map(drop),
                caster.try_cast(&src[..s], &mut dst[..d], n),
                caster.same_value(&src[..s], &mut dst[..d], n),
            ];
            let with_bitmap =
                caster.cast_validity(&src[..s], None, &mut dst[..d], &mut valid[..v], n).map(drop);
            for (result, fits) in
                results.into_iter().map(|r| (r, fits)).chain([(with_bitmap, fits && v == 2)])
            {
                assert_eq!(result.is_ok(), fits, "{n} {s} {d} {v}: {result:?}");
                if !fits {
                    refused += 1;
                }
            }
            if fits {
                (dst, valid) = ([0xA5; 6], [0xA5; 3]);
            }
            assert_eq!((dst, valid), ([0xA5; 6], [0xA5; 3]), "{n} {s} {d} {v}");
        }
    }
    assert!(refused > 50);
    for offset in [0, 6, 7, 100, usize::MAX] {
        let source = Some(Validity::new(&[0xFF, 0xFF]).from_bit(offset));
        let result = caster.cast_validity(&src, source, &mut dst[..5], &mut valid[..2], 10);
        assert_eq!(result.is_ok(), offset <= 6, "{offset}");
        if offset > 6 {
            let Err(Error::BitmapSize { given: 2, .. }) = result else { panic!("{result:?}") };
        }
    }
}

#[test]
fn reports_of_any_numbers_add_up() {
    let mut report = CastReport::default();
    (report.above, report.below) = (usize::MAX, 1);
    assert_eq!(report.lost(), usize::MAX);
}
