//! `lanecast::zarr`: casts of whole buffers against the rules of the codec, applied element by element.

#![cfg(feature = "zarr")]

use lanecast::checked::Loss;
use lanecast::zarr::{ValueCaster, ZarrError};
use lanecast::{CastOptions, Caster, DType, Error, Kind, Overflow, Packing, Rounding};

const ROUNDINGS: [Rounding; 5] =
    [Rounding::NearestEven, Rounding::NearestAway, Rounding::TowardZero, Rounding::Up, Rounding::Down];
const RULES: [Option<Overflow>; 3] = [None, Some(Overflow::Saturate), Some(Overflow::Wrap)];

/// Returns the integer and the real floating-point dtypes.
fn reals() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().filter(|dtype| matches!(dtype.kind(), Kind::Int(_) | Kind::Float(_)))
}

fn bytes(dtype: DType, code: u64) -> Vec<u8> {
    let all = code.to_ne_bytes();
    let size = dtype.itemsize();
    if cfg!(target_endian = "big") { all[8 - size..].to_vec() } else { all[..size].to_vec() }
}

fn code(bytes: &[u8]) -> u64 {
    let fold = |code: u64, &byte: &u8| code << 8 | u64::from(byte);
    if cfg!(target_endian = "big") { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) }
}

fn one_per_byte(options: CastOptions) -> CastOptions {
    options.src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte)
}

/// Returns the value of an element in float64, which holds every value of 32 bits or fewer, and for integers also the code, which
/// tells wider ones apart.
fn value(dtype: DType, element: u64) -> (f64, u64) {
    let mut wide = [0; 8];
    let caster = Caster::new(dtype, DType::F64, &one_per_byte(CastOptions::new())).unwrap();
    caster.cast(&bytes(dtype, element), &mut wide, 1).unwrap();
    (f64::from_ne_bytes(wide), if matches!(dtype.kind(), Kind::Float(_)) { 0 } else { element })
}

/// Returns `n` codes of all kinds: edges, special values, small ones and random ones.
fn codes(dtype: DType, n: usize) -> Vec<u64> {
    let bits = dtype.bits();
    let all = u64::MAX >> (64 - bits);
    let top = 1 << (bits - 1);
    let mut codes = vec![0, top, 1, top | 1, all, all >> 1, top >> 1, 3];
    if let Some(format) = dtype.float_format() {
        let sign = u64::from(format.has_sign());
        let inf = all >> sign >> format.mantissa_bits() << format.mantissa_bits();
        codes.extend([inf, inf | top, inf - 1, (inf - 1) | top, inf | 1]);
        // Around 1, where most dtypes have values.
        let one = (format.bias() as u64) << format.mantissa_bits();
        codes.extend([one, one | top, one + 1, one + (3 << format.mantissa_bits() >> 1)]);
    }
    let mut x = u64::from(dtype.code()) + 1;
    while codes.len() < n {
        x = x.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31) ^ 0xBF58_476D_1CE4_E5B9;
        codes.push(if codes.len() % 3 == 0 { x & all } else { x & all & 0x7F });
    }
    codes.iter_mut().for_each(|code| *code &= all);
    codes.truncate(n);
    codes
}

/// Returns what one element becomes by the rules, or `None` if it is refused.
fn expected(
    element: u64,
    [from, to]: [DType; 2],
    rounding: Rounding,
    rule: Option<Overflow>,
    map: &[(u64, u64)],
) -> Option<u64> {
    let (x, whole) = value(from, element);
    for &(key, becomes) in map {
        let (y, other) = value(from, key);
        if whole == other && (x == y || x.is_nan() && y.is_nan()) {
            return Some(becomes);
        }
    }
    let rule = rule.filter(|&rule| rule == Overflow::Saturate || !matches!(to.kind(), Kind::Float(_)));
    let options = one_per_byte(CastOptions::zarr(rounding, rule.unwrap_or(Overflow::Saturate)));
    let caster = Caster::new(from, to, &options).unwrap();
    let (src, mut dst) = (bytes(from, element), vec![0; to.itemsize()]);
    match caster.try_cast(&src, &mut dst, 1) {
        Ok(()) => return Some(code(&dst)),
        Err(Error::Lossy(lossy)) if matches!(lossy.loss, Loss::NaN | Loss::Inf) => return None,
        Err(Error::Lossy(_)) => {}
        Err(error) => panic!("{error}"),
    }
    rule?;
    caster.cast(&src, &mut dst, 1).unwrap();
    match to.float_format() {
        Some(format) if format.has_inf() => {
            let inf = u64::MAX >> (64 - to.bits() + 1) >> format.mantissa_bits() << format.mantissa_bits();
            Some(inf | if x < 0.0 { 1 << (to.bits() - 1) } else { 0 })
        }
        _ => Some(code(&dst)),
    }
}

/// Every pair, rounding and rule, with a map and without, with refused elements and without them.
#[test]
fn by_the_rules() {
    let (mut cast, mut refused) = (0, 0);
    for (from, to) in reals().flat_map(|from| reals().map(move |to| (from, to))) {
        let src = codes(from, 60);
        // Maps NaN or the largest, -0 or the most negative, and one value twice, of which the first entry counts.
        let limit = u64::MAX >> (64 - to.bits());
        let map = [(src[4], 1), (src[1], 0), (src[4], 0), (src[8], limit.min(1))];
        for (rounding, rule) in ROUNDINGS.into_iter().flat_map(|rounding| RULES.map(|rule| (rounding, rule)))
        {
            for map in [&[][..], &map] {
                let caster = ValueCaster::new(from, to, rounding, rule, map).unwrap();
                assert_eq!((caster.from(), caster.to()), (from, to));
                let what = format!("{from} to {to}, {rounding:?}, {rule:?}, {map:?}");
                let each: Vec<_> =
                    src.iter().map(|&x| expected(x, [from, to], rounding, rule, map)).collect();
                let run = |elements: &[u64]| {
                    let src: Vec<u8> = elements.iter().flat_map(|&x| bytes(from, x)).collect();
                    let (n, mut dst) = (elements.len(), vec![0xA5; elements.len() * to.itemsize()]);
                    let done = caster.cast(&src, &mut dst, n);
                    let mut room = Vec::with_capacity(dst.len());
                    let other = caster.cast_uninit(&src, &mut room.spare_capacity_mut()[..dst.len()], n);
                    assert_eq!(done, other.as_ref().map(|_| ()).map_err(|&error| error), "{what}");
                    other.map(|other| assert_eq!(dst, *other, "{what}")).ok();
                    done.map(|()| dst.chunks(to.itemsize()).map(code).collect::<Vec<_>>())
                };
                match each.iter().position(Option::is_none) {
                    Some(first) => {
                        let Err(ZarrError::Refused(lossy)) = run(&src) else { panic!("{what}: not refused") };
                        assert_eq!((lossy.index, lossy.from, lossy.to), (first, from, to), "{what}");
                        refused += 1;
                    }
                    None => cast += 1,
                }
                let (kept, becomes): (Vec<_>, Vec<_>) =
                    src.iter().zip(&each).filter_map(|(&x, &y)| Some((x, y?))).unzip();
                assert_eq!(run(&kept), Ok(becomes), "{what}: {kept:?}");
            }
        }
    }
    assert!(cast > 1000 && refused > 1000, "{cast} were cast whole, {refused} refused");
}

/// A single mapped element is found at every place of a buffer, in whole blocks and in the tail.
#[test]
fn at_every_place() {
    for (from, one, nan) in [
        (DType::U8, 1, 9),
        (DType::F16, 0x3C00, 0x7E00),
        (DType::F32, 0x3F80_0000, 0x7FC0_0000),
        (DType::I64, 1, 9),
    ] {
        // In long buffers, at the places where one part ends and the next begins.
        let few = [1, 15, 16, 17, 40, 65, 130].into_iter().flat_map(|n| (0..n).map(move |at| (n, at)));
        let many = [0, 2047, 2048, 16_383, 16_384, 40_001].map(|at| (40_002, at));
        for (n, at) in few.chain(many) {
            let src: Vec<u8> = (0..n).flat_map(|i| bytes(from, if i == at { nan } else { one })).collect();
            let mut dst = vec![0; n];
            for rule in [None, Some(Overflow::Saturate)] {
                let caster =
                    ValueCaster::new(from, DType::U8, Rounding::NearestEven, rule, &[(nan, 7)]).unwrap();
                caster.cast(&src, &mut dst, n).unwrap();
                let expected: Vec<u8> = (0..n).map(|i| if i == at { 7 } else { 1 }).collect();
                assert_eq!(dst, expected, "{from} {n} {at}");
                let caster = ValueCaster::new(from, DType::U8, Rounding::NearestEven, rule, &[]).unwrap();
                match caster.cast(&src, &mut dst, n) {
                    Err(ZarrError::Refused(lossy)) => assert_eq!(lossy.index, at),
                    done => assert!(done.is_ok() && nan == 9, "{done:?}"),
                }
            }
        }
    }
}

#[test]
fn buffers_of_another_size() {
    let caster =
        ValueCaster::new(DType::F32, DType::U8, Rounding::Up, Some(Overflow::Saturate), &[]).unwrap();
    for (src, dst) in [(7, 2), (8, 1), (12, 2)] {
        let error = caster.cast(&vec![0; src], &mut vec![0; dst], 2).unwrap_err();
        assert!(matches!(error, ZarrError::Cast(Error::BufferSize { elements: 2, .. })), "{error}");
    }
    assert_eq!(caster.cast(&[], &mut [], 0), Ok(()));
}

/// Few and many unmapped elements that become what mapped ones become.
#[test]
fn others_that_become_the_same() {
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31) ^ 0xBF58_476D_1CE4_E5B9;
        state % below
    };
    for one_in in [2, 40, 3000] {
        let src: Vec<f64> = (0..20_000)
            .map(|_| match random(one_in) {
                0 => [-1.0, 0.0, -0.0, 0.25, -7.0, 255.25, 300.0, 100.0, 100.25, f64::NAN, f64::INFINITY]
                    [random(11) as usize],
                _ => 1.0 + random(90) as f64 + 0.5f64.powi(random(9) as i32 + 1),
            })
            .collect();
        let map = [(f64::NAN, 1u64), (f64::INFINITY, 2), (-1.0, 3), (100.0, 4), (0.0, 5)];
        let codes = map.map(|(key, value)| (key.to_bits(), value));
        let caster =
            ValueCaster::new(DType::F64, DType::U8, Rounding::NearestEven, Some(Overflow::Saturate), &codes)
                .unwrap();
        let bytes: Vec<u8> = src.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let mut dst = vec![0xA5; src.len()];
        caster.cast(&bytes, &mut dst, src.len()).unwrap();
        for (i, (&x, &made)) in src.iter().zip(&dst).enumerate() {
            let is = |&&(key, _): &&(f64, u64)| key == x || key.is_nan() && x.is_nan();
            let expected = map.iter().find(is).map_or(x.round_ties_even() as u8, |&(_, value)| value as u8);
            assert_eq!(made, expected, "{x} at {i}, one in {one_in}");
        }
        // A refused element is reported among others that become the same.
        let at = src.len() - 3;
        let mut bytes = bytes;
        bytes[8 * at..8 * at + 8].copy_from_slice(&f64::NEG_INFINITY.to_ne_bytes());
        let Err(ZarrError::Refused(lossy)) = caster.cast(&bytes, &mut dst, src.len()) else {
            panic!("not refused")
        };
        assert_eq!((lossy.index, lossy.loss), (at, Loss::Inf));
    }
}

/// Floats cast to narrower ones that become what mapped ones become: either zero, NaN of any code, and values rounded to the same result.
#[test]
fn others_that_become_the_same_float() {
    let nan = |code: u64| f64::from_bits(f64::INFINITY.to_bits() | code);
    let hard =
        [0.1, 0.1 + 1e-12, 0.0, -0.0, 1e-300, -1e-300, nan(1), nan(1 << 63 | 1 << 50), f64::INFINITY, -7.0];
    let maps: [&[(f64, f32)]; 4] = [
        &[(0.1, 3.0)],
        &[(f64::NAN, 4.0)],
        &[(-0.0, 5.0), (0.1, 3.0), (-7.0, f32::NAN)],
        &[(f64::NAN, 4.0), (f64::INFINITY, f32::NEG_INFINITY), (1e-300, 6.0), (0.1 + 1e-12, 3.0)],
    ];
    let mut state = 1usize;
    for (map, one_in) in maps.into_iter().flat_map(|map| [2, 40, 3000].map(|one_in| (map, one_in))) {
        let src: Vec<f64> = (0..20_000)
            .map(|_| {
                state = state.wrapping_mul(0x9E37_79B9).rotate_left(15) ^ 0xBF58;
                if (state >> 8).is_multiple_of(one_in) {
                    hard[state % hard.len()]
                } else {
                    (state % 1000) as f64 / 16.0
                }
            })
            .collect();
        let codes: Vec<_> = map.iter().map(|&(key, value)| (key.to_bits(), value.to_bits().into())).collect();
        let bytes: Vec<u8> = src.iter().flat_map(|x| x.to_ne_bytes()).collect();
        for rule in [None, Some(Overflow::Saturate)] {
            let caster =
                ValueCaster::new(DType::F64, DType::F32, Rounding::NearestEven, rule, &codes).unwrap();
            let mut dst = vec![0xA5; 4 * src.len()];
            caster.cast(&bytes, &mut dst, src.len()).unwrap();
            for (i, (&x, made)) in src.iter().zip(dst.as_chunks().0).enumerate() {
                let is = |&&(key, _): &&(f64, f32)| key == x || key.is_nan() && x.is_nan();
                let (made, expected) =
                    (f32::from_ne_bytes(*made), map.iter().find(is).map_or(x as f32, |&(_, value)| value));
                let same = made.to_bits() == expected.to_bits() || made.is_nan() && expected.is_nan();
                assert!(same, "{x:e} at {i} became {made:e}, one in {one_in}, {map:?}");
            }
        }
    }
}
