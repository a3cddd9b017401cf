//! Stochastic rounding of unscaled casts: the bits of each element follow from its number, whichever way it is cast; and the
//! statistics of many.

mod bridge;

use bridge::{Suite, bytes_of, codes_of, type_of};
use lanecast::bits::{F4E2M1, F8E4M3B11FNUZ, F8E4M3FN, F8E5M2};
use lanecast::parallel::Parallel;
use lanecast::records::{ItemDType, RecordCaster, StructDType};
use lanecast::views::{StridedView, StridedViewMut};
use lanecast::{
    ByteOrder, CastOptions, Caster, Complex, DType, Element, Isa, Packing, bf16, convert, convert_with, f16,
};
use lanecast_oracle as oracle;
use oracle::Mode;
use oracle::scaled::{convert_stochastic, word};

fn main() {
    let mut suite = Suite::new();
    suite.test("every pair", every_pair);
    suite.test("the recorded row", recorded);
    suite.test("numbers wrap", numbers_wrap);
    suite.test("what is not rounded so", others);
    suite.test("in pieces", pieces);
    suite.test("one value", one_value);
    suite.test("views", views);
    suite.test("records", records);
    suite.test("checked", checked);
    suite.test("chance is unbiased", unbiased);
    suite.test("chance of neighbours", neighbours);
    suite.run().exit();
}

/// Returns the targets of stochastic rounding.
fn targets() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().filter(|to| to.float_format().is_some_and(|f| f.has_zero() && f.bits() <= 16))
}

fn little(isa: Isa) -> CastOptions {
    CastOptions::new().isa(isa).src_order(ByteOrder::Little).dst_order(ByteOrder::Little)
}

fn cast(options: &CastOptions, from: DType, to: DType, src: &[u8], n: usize) -> Vec<u8> {
    let mut dst = vec![0xA5; to.byte_len(n, options.dst_packing).expect("a size")];
    Caster::new(from, to, options).expect("a pair").cast(src, &mut dst, n).expect("sizes that fit");
    dst
}

/// Returns interesting and random codes of a source.
fn codes(isa: Isa, from: DType, to: DType) -> Vec<u128> {
    let all = bridge::codes(from.part(), to);
    let step = bridge::step(isa, 13);
    let mut random = bridge::words();
    let mut codes: Vec<u128> = all.iter().copied().step_by(if all.len() > 5000 { step } else { 1 }).collect();
    // Codes between the values of the target, which uniform codes rarely are.
    let part = from.part();
    codes.extend((0..500).filter(|_| part.bits() >= 32).map(|_| {
        let word = random();
        match part.float_format() {
            Some(format) => {
                let (mantissa, exponent) = (format.mantissa_bits(), format.bias() as u64 + word % 9 - 6);
                u128::from(exponent << mantissa | random() >> (64 - mantissa))
            }
            None => u128::from(word >> (64 - part.bits()) >> (word % 30)),
        }
    }));
    codes
}

/// Results are those of the definition, for sources of every kind, packed and in either byte order.
fn every_pair(isa: Isa) {
    let mut random = bridge::words();
    let modes =
        [Mode::default(), Mode { saturate: false, rounding: oracle::Rounding::Up, ..Mode::default() }];
    for (from, to) in DType::ALL.into_iter().flat_map(|from| targets().map(move |to| (from, to))) {
        if from == to {
            continue;
        }
        let codes = codes(isa, from, to);
        // The imaginary part of a complex source does not matter.
        let with_rest: Vec<u128> = match from.part() == from {
            true => codes.clone(),
            false => codes.iter().map(|code| code | (code << from.part().bits())).collect(),
        };
        let src = bytes_of(from, &with_rest);
        for mode in modes {
            let (seed, first) = (random(), random());
            let options = bridge::options(&mode).stochastic(seed, first);
            let options = options.isa(isa).src_order(ByteOrder::Little).dst_order(ByteOrder::Little);
            let got = codes_of(to, &cast(&options, from, to, &src, codes.len()), codes.len());
            for (i, (&code, &got)) in codes.iter().zip(&got).enumerate() {
                let word = word(seed, first.wrapping_add(i as u64));
                let expected = convert_stochastic(type_of(from.part()), type_of(to), code, &mode, word);
                assert_eq!(got, expected, "{from} {code:#x} -> {to}, word {word:#x}, {mode:?}");
            }
        }
    }
}

/// The recorded cast of `tests/fixtures/scaled.tsv`.
fn recorded(isa: Isa) {
    let rows = include_str!("fixtures/scaled.tsv");
    let row = rows.lines().find(|row| row.starts_with("cast\tstochastic")).expect("a row");
    let row: Vec<&str> = row.split('\t').collect();
    let hex = |text: &str| -> Vec<u8> {
        (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex")).collect()
    };
    let word = |name: &str| {
        let mut words = row[8].split(',').filter_map(|word| word.strip_prefix(name));
        words.next().and_then(|value| value.strip_prefix('=')).expect(name)
    };
    let number = |name: &str| word(name).parse().expect("a number");
    let options =
        little(isa).saturate(word("saturate") == "True").stochastic(number("seed"), number("first"));
    let (from, to) = (row[3].parse().expect("a dtype"), row[4].parse().expect("a dtype"));
    let n = row[5].parse().expect("a length");
    assert_eq!(cast(&options, from, to, &hex(row[9]), n), hex(row[11]));
}

/// The numbers of elements continue across 2^32, and wrap at 2^64.
fn numbers_wrap(isa: Isa) {
    let codes: Vec<u128> = (0..1500u32).map(|i| u128::from((1.0 + i as f32 / 16384.0).to_bits())).collect();
    let src = bytes_of(DType::F32, &codes);
    for first in [u64::MAX - 700, (1 << 32) - 256, (1 << 32) - 257, (1 << 32) - 1, 5 << 32] {
        let options = little(isa).stochastic(3, first);
        let got = codes_of(DType::BF16, &cast(&options, DType::F32, DType::BF16, &src, 1500), 1500);
        for (i, (&code, &got)) in codes.iter().zip(&got).enumerate() {
            let word = word(3, first.wrapping_add(i as u64));
            let mode = Mode::default();
            let expected = convert_stochastic(oracle::Type::F32, oracle::Type::BF16, code, &mode, word);
            assert_eq!(got, expected, "{first} and {i}");
        }
    }
}

/// Casts to integers, bool, wider floats and float8_e8m0fnu do not round stochastically, and a cast to the same dtype changes nothing.
fn others(isa: Isa) {
    let narrow: Vec<DType> = targets().collect();
    for from in DType::ALL {
        let codes = bridge::codes(from.part(), DType::F16);
        let n = codes.len() / from.bits().div_ceil(from.part().bits()) as usize;
        let src = bytes_of(from.part(), &codes);
        let src = &src[..from.byte_len(n, Packing::LowFirst).expect("a size")];
        for to in DType::ALL.into_iter().filter(|to| !narrow.contains(to) || *to == from) {
            let chance = little(isa).stochastic(9, 9);
            assert!(
                cast(&chance, from, to, src, n) == cast(&little(isa), from, to, src, n),
                "{from} -> {to}"
            );
        }
    }
}

/// Returns random floats, most of which lie between values of the targets.
fn floats(n: usize) -> Vec<u8> {
    let mut random = bridge::words();
    (0..n).flat_map(|_| (random() as f32 / u64::MAX as f32 * 40.0 - 20.0).to_le_bytes()).collect()
}

/// Results do not depend on how the whole is divided, and are the same in place.
fn pieces(isa: Isa) {
    const N: usize = 5003;
    let src = floats(N);
    for to in [DType::BF16, DType::F8E4M3FN, DType::F4E2M1, DType::F6E2M3] {
        let options = little(isa).stochastic(11, (1 << 32) - 3000);
        let whole = cast(&options, DType::F32, to, &src, N);
        let caster = Caster::new(DType::F32, to, &options).expect("a pair");
        for (threads, chunk) in [(1, 8), (3, 40), (4, 600), (2, 4096)] {
            let mut dst = vec![0; whole.len()];
            let how = Parallel::new().threads(threads).chunk(chunk);
            caster.par_cast_with(&src, &mut dst, N, &how).expect("sizes that fit");
            assert!(dst == whole, "{to} by {threads} threads in chunks of {chunk}");
        }
        // Divided by the caller, who passes the number of the first element.
        let mut dst = Vec::new();
        for begin in (0..N).step_by(1000) {
            let n = 1000.min(N - begin);
            let options = little(isa).stochastic(11, (1 << 32) - 3000 + begin as u64);
            dst.extend(cast(&options, DType::F32, to, &src[4 * begin..4 * (begin + n)], n));
        }
        assert!(dst == whole, "{to} by hand");
        let mut buffer = src.clone();
        caster.cast_in_place(&mut buffer, N).expect("a size that fits");
        assert!(buffer[..whole.len()] == whole, "{to} in place");
    }
    // In place, to a dtype wider than the source.
    let src: Vec<u8> = (0..N).map(|i| i as u8).collect();
    let options = little(isa).stochastic(1, 2);
    let whole = cast(&options, DType::F8E4M3B11FNUZ, DType::F16, &src, N);
    let mut buffer = [&src[..], &[0; N]].concat();
    let caster = Caster::new(DType::F8E4M3B11FNUZ, DType::F16, &options).expect("a pair");
    caster.cast_in_place(&mut buffer, N).expect("a size that fits");
    assert!(buffer == whole);
}

/// `convert_with` gives what the definition gives for the first element, and `convert` is not stochastic.
fn one_value(_: Isa) {
    /// `source` returns a value and the code of its real part, `code` the code of a result.
    fn check<S: Element, D: Element>(source: impl Fn(f64) -> (S, u128), code: impl Fn(D) -> u128) {
        let mut differ = 0;
        for seed in 0..400 {
            let (value, from) = source(seed as f64 * 0.0137 - 2.3);
            let got = code(convert_with(value, &CastOptions::new().stochastic(seed, 5)));
            let (part, word) = (type_of(S::DTYPE.part()), word(seed, 5));
            let expected = convert_stochastic(part, type_of(D::DTYPE), from, &Mode::default(), word);
            assert_eq!(got, expected, "{} {from:#x} -> {}, word {word:#x}", S::DTYPE, D::DTYPE);
            let nearest = oracle::convert(part, type_of(D::DTYPE), from, &Mode::default());
            assert_eq!(code(convert(value)), nearest, "{} {from:#x} -> {}", S::DTYPE, D::DTYPE);
            differ += usize::from(got != nearest);
        }
        assert!(differ > 40, "{} -> {}: {differ} of 400 by chance", S::DTYPE, D::DTYPE);
    }
    check(|x| (x, x.to_bits().into()), |y: F8E4M3FN| y.to_bits().into());
    check(|x| (x, x.to_bits().into()), |y: bf16| y.to_bits().into());
    check(|x| (x as f32, (x as f32).to_bits().into()), |y: F4E2M1| y.to_bits().into());
    check(|x| (x as f32, (x as f32).to_bits().into()), |y: f16| y.to_bits().into());
    check(|x| (f16::from_f64(x), f16::from_f64(x).to_bits().into()), |y: F8E5M2| y.to_bits().into());
    check(|x| ((x * 99.0) as i16, ((x * 99.0) as i16 as u16).into()), |y: F8E5M2| y.to_bits().into());
    check(|x| (Complex::new(x as f32, -1.0), (x as f32).to_bits().into()), |y: bf16| y.to_bits().into());
    check(|x| (Complex::new(x, 3.0), x.to_bits().into()), |y: F8E4M3B11FNUZ| y.to_bits().into());
}

/// Elements are numbered by their places in the shape, wherever they lie in memory.
fn views(isa: Isa) {
    let shape = [7, 3, 130];
    let n: usize = shape.iter().product();
    let options = little(isa).stochastic(5, 6);
    let src = floats(n);
    let whole = cast(&options, DType::F32, DType::F8E5M2, &src, n);
    let caster = Caster::new(DType::F32, DType::F8E5M2, &options).expect("a pair");
    // The same elements in other memory orders.
    let orders: [[usize; 3]; 4] = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]];
    for (order, backwards) in orders.into_iter().flat_map(|order| [(order, false), (order, true)]) {
        let mut strides = [0isize; 3];
        let mut step = 1;
        for &dim in order.iter().rev() {
            strides[dim] = step;
            step *= shape[dim] as isize;
        }
        let mut start = 0;
        if backwards {
            start = (shape[1] as isize - 1) * strides[1];
            strides[1] = -strides[1];
        }
        let place = |i: usize| {
            let at = [i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]];
            (start + (0..3).map(|d| at[d] as isize * strides[d]).sum::<isize>()) as usize
        };
        let mut moved = vec![0; src.len()];
        for i in 0..n {
            moved[4 * place(i)..][..4].copy_from_slice(&src[4 * i..][..4]);
        }
        let wide = strides.map(|stride| 4 * stride);
        let rows = [390, 130, 1];
        let mut dst = vec![0; n];
        let from = StridedView::new(&moved, 4 * start as usize, &shape, &wide);
        caster.cast_strided(&from, &mut StridedViewMut::new(&mut dst, 0, &shape, &rows)).expect("views");
        assert!(dst == whole, "from {strides:?}");
        let from = StridedView::new(&src, 0, &shape, &[1560, 520, 4]);
        let mut to = StridedViewMut::new(&mut dst, start as usize, &shape, &strides);
        caster.cast_strided(&from, &mut to).expect("views");
        assert!((0..n).all(|i| dst[place(i)] == whole[i]), "to {strides:?}");
    }
    let mut one = [0];
    let from = StridedView::new(&src, 0, &[], &[]);
    caster.cast_strided(&from, &mut StridedViewMut::new(&mut one, 0, &[], &[])).expect("views");
    assert_eq!(one[0], whole[0]);
    // Very many dimensions of one element, on a small stack.
    let mut shape = vec![1; 10_000];
    (shape[70], shape[9_999]) = (21, 130);
    let cast = || {
        let strides =
            |size: isize| (0..10_000).map(|i| if i == 70 { 130 * size } else { size }).collect::<Vec<_>>();
        let mut dst = vec![0; n];
        let (wide, narrow) = (strides(4), strides(1));
        let mut to = StridedViewMut::new(&mut dst, 0, &shape, &narrow);
        caster.cast_strided(&StridedView::new(&src, 0, &shape, &wide), &mut to).expect("views");
        dst
    };
    let deep = if cfg!(target_family = "wasm") {
        // WebAssembly has no threads.
        cast()
    } else {
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let deep = std::thread::scope(|scope| small.spawn_scoped(scope, cast).expect("a thread").join());
        deep.expect("no overflow")
    };
    assert!(deep == whole);
}

/// Each field of records is numbered as a cast of its own, of the elements of all records.
fn records(isa: Isa) {
    let n = 300;
    let src = floats(13 * n);
    let record = |of: DType| {
        let tail = ItemDType::from(of).array(&[3, 4]).expect("a shape");
        StructDType::packed([("a", of.into()), ("b", tail)]).expect("two fields")
    };
    let options = little(isa).stochastic(8, 77);
    let caster = RecordCaster::new(record(DType::F32), record(DType::BF16), &options).expect("records");
    let mut dst = vec![0; 26 * n];
    caster.cast(&src, &mut dst, n).expect("sizes that fit");
    for (begin, len) in [(0, 1), (1, 12)] {
        let field = |bytes: &[u8], width: usize| -> Vec<u8> {
            bytes.chunks(13 * width).flat_map(|r| r[begin * width..(begin + len) * width].to_vec()).collect()
        };
        let expected = cast(&options, DType::F32, DType::BF16, &field(&src, 4), len * n);
        assert!(field(&dst, 2) == expected, "the field at {begin}");
    }
}

/// A checked cast writes the same, and reports elements that were rounded beyond the range.
fn checked(isa: Isa) {
    let n = 4000;
    // Around the largest float16 and the next value that would follow it.
    let src: Vec<u8> = (0..n).flat_map(|i| (65503.0 + (i % 40) as f32).to_le_bytes()).collect();
    let options = little(isa).stochastic(4, 5);
    let whole = cast(&options, DType::F32, DType::F16, &src, n);
    let caster = Caster::new(DType::F32, DType::F16, &options).expect("a pair");
    let mut dst = vec![0; 2 * n];
    let report = caster.cast_checked(&src, &mut dst, n).expect("sizes that fit");
    assert!(dst == whole);
    let beyond = whole.chunks(2).filter(|code| **code == [0x00, 0x7C]).count();
    assert!(beyond > n / 4 && beyond < 3 * n / 4, "{beyond}");
    assert_eq!(report.above, beyond);
    assert_eq!(report.first, whole.chunks(2).position(|code| *code == [0x00, 0x7C]));
    assert_eq!(report.inexact, n - beyond - n / 40);
    let mut validity = vec![0; n / 8];
    let lost = caster.cast_validity(&src, None, &mut dst, &mut validity, n).expect("sizes that fit");
    assert_eq!(lost, beyond);
    for (i, code) in whole.chunks(2).enumerate() {
        assert_eq!(validity[i / 8] >> (i % 8) & 1 == 0, *code == [0x00, 0x7C], "{i}");
    }
}

/// Returns the number of draws of the tests below; 10^8 in a whole run.
fn draws(isa: Isa) -> usize {
    match (bridge::is_whole(), isa) {
        (true, Isa::Scalar) => 10_000_000,
        (true, _) => 100_000_000,
        (false, Isa::Scalar) => 200_000,
        (false, _) => 4_000_000,
    }
}

/// Casts that many elements of a value between 1 and the target's next value, and tells `each` which became the next.
fn ups(isa: Isa, to: DType, value: f32, seed: u64, mut each: impl FnMut(&[bool])) {
    const PIECE: usize = 1 << 16;
    let src = value.to_le_bytes().repeat(PIECE);
    let one = cast(&little(isa), DType::F32, to, &1f32.to_le_bytes(), 1);
    for first in (0..draws(isa)).step_by(PIECE) {
        let options = little(isa).dst_packing(Packing::OnePerByte).stochastic(seed, first as u64);
        let dst = cast(&options, DType::F32, to, &src, PIECE);
        let ups: Vec<bool> = dst.chunks(one.len()).map(|code| code != one).collect();
        each(&ups);
    }
}

/// A value becomes its upper neighbour in proportion to its distance from the lower one, within five standard deviations.
fn unbiased(isa: Isa) {
    for (to, gap) in [(DType::BF16, 1.0 / 128.0), (DType::F8E4M3FN, 1.0 / 8.0), (DType::F4E2M1, 0.5)] {
        for (i, part) in [0.5, 0.25, 0.109375, 0.9375].into_iter().enumerate() {
            let (mut n, mut up) = (0, 0);
            ups(isa, to, 1.0 + (gap * part) as f32, 100 + i as u64, |ups| {
                n += ups.len();
                up += ups.iter().filter(|up| **up).count();
            });
            let (expected, deviation) = (n as f64 * part, (n as f64 * part * (1.0 - part)).sqrt());
            let off = (up as f64 - expected) / deviation;
            assert!(off.abs() < 5.0, "{to}: {up} of {n} are {off} standard deviations off {part}");
        }
    }
}

/// The rounding of an element is not correlated with that of later elements, nor with that under the next seed.
fn neighbours(isa: Isa) {
    const LAGS: [usize; 9] = [1, 2, 3, 4, 8, 64, 256, 4096, 32768];
    let mut agree = [0i64; LAGS.len()];
    let (mut n, mut other_seed) = (0, 0i64);
    let half = 1.0 + 1.0 / 256.0;
    let mut second = Vec::new();
    ups(isa, DType::BF16, half, 2, |ups| second.extend_from_slice(ups));
    let mut rest = &second[..];
    ups(isa, DType::BF16, half, 1, |ups| {
        let same =
            |a: &[bool], b: &[bool]| a.iter().zip(b).map(|(a, b)| if a == b { 1 } else { -1 }).sum::<i64>();
        for (agree, lag) in agree.iter_mut().zip(LAGS) {
            *agree += same(ups, &ups[lag..]);
        }
        other_seed += same(ups, rest);
        rest = &rest[ups.len()..];
        n += ups.len();
    });
    for (lag, agree) in LAGS.into_iter().zip(agree).chain([(0, other_seed)]) {
        let z = agree as f64 / (n as f64).sqrt();
        assert!(z.abs() < 5.0, "{lag} apart (0: the next seed): {z} standard deviations");
    }
}
