//! Every pair, in every mode, against the oracle: all codes of the sources of 16 bits or fewer, and every
//! boundary of the wider ones. By default this takes a share of the pairs; `golden.rs` compares hashes of the same codes for all.

mod bridge;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{LazyLock, Mutex};

use bridge::{
    Suite, bytes_of, cast_bytes, caster, codes, codes_of, compare, every_mode, share, size, type_of,
};
use lanecast::{DType, Isa, Kind};
use lanecast_oracle as oracle;

fn main() {
    let mut suite = Suite::new();
    for from in DType::ALL {
        match from.bits() {
            0..=16 => suite.test(&format!("all codes of {from}"), move |isa| all_codes(isa, from)),
            _ => suite.test(&format!("boundaries of {from}"), move |isa| boundaries(isa, from)),
        }
    }
    suite.test("round trips", round_trips);
    suite.run().exit();
}

/// Every code of a source, to its share of the targets, in every mode.
fn all_codes(isa: Isa, from: DType) {
    let codes: Vec<u128> = (0..1 << from.bits()).collect();
    for to in share("oracle", isa, from, 36) {
        check(isa, from, to, &codes);
    }
    for to in share("few", isa, from, 6) {
        few(isa, from, to, &codes);
    }
}

/// The interesting codes of each pair, in every mode; also in blocks of one code, among ones, and in short calls.
fn boundaries(isa: Isa, from: DType) {
    for to in share("oracle", isa, from, 36) {
        check(isa, from, to, &codes(from, to));
    }
    for to in share("alone", isa, from, 12) {
        alone(isa, from, to, &some(from, to));
    }
    for to in share("strange", isa, from, 12) {
        strange(isa, from, to, &some(from, to));
    }
    for to in share("few", isa, from, 6) {
        few(isa, from, to, &some(from, to));
    }
}

/// Returns the codes of a pair; by default only some for complex sources, which have the most codes and whose parts are floats.
fn some(from: DType, to: DType) -> Vec<u128> {
    let step = if type_of(from).is_complex() && !bridge::is_whole() { 5 } else { 1 };
    codes(from, to).iter().copied().step_by(step).collect()
}

fn check(isa: Isa, from: DType, to: DType, codes: &[u128]) {
    /// Hashes of results that the oracle has confirmed on some instruction set, by cast. The oracle takes most of the time,
    /// so it is asked again only where another instruction set gives other results.
    static CONFIRMED: LazyLock<Mutex<HashMap<Cast, u64>>> = LazyLock::new(Mutex::default);
    /// Source, target, and the number of the mode.
    type Cast = (DType, DType, usize);

    let src = bytes_of(from, codes);
    for (i, mode) in every_mode(from, to).into_iter().enumerate() {
        let got = cast_bytes(&caster(isa, from, to, &mode), &src, codes.len());
        let mut hasher = DefaultHasher::new();
        got.hash(&mut hasher);
        let hash = hasher.finish();
        let confirmed = || CONFIRMED.lock().expect("nothing panics while it is held");
        if confirmed().get(&(from, to, i)) != Some(&hash) {
            compare(isa.name(), from, to, &mode, codes, &codes_of(to, &got, codes.len()));
            confirmed().insert((from, to, i), hash);
        }
    }
}

/// Elements that fill whole blocks on every instruction set.
const BLOCK: usize = 64;

/// A block that holds one code only gives what that code gives among others. A kernel may examine a block and choose a
/// faster way if certain codes are not in it.
fn alone(isa: Isa, from: DType, to: DType, codes: &[u128]) {
    // Every mode for integers, where most such ways are; only the default on the reference, which has none and is slow.
    let modes = match to.kind() {
        Kind::Int(_) if isa != Isa::Scalar => every_mode(from, to),
        _ => vec![oracle::Mode::default()],
    };
    // The elements that fill whole bytes.
    let group = if to.bits() < 8 { 8 } else { 1 };
    let (all, mut dst) = (bytes_of(from, codes), vec![0xA5; size(to, BLOCK)]);
    for mode in modes {
        let caster = caster(isa, from, to, &mode);
        let among = codes_of(to, &cast_bytes(&caster, &all, codes.len()), codes.len());
        let repeated: Vec<u128> = among.iter().flat_map(|&code| std::iter::repeat_n(code, group)).collect();
        let expected = bytes_of(to, &repeated);
        for (code, expected) in all.chunks_exact(size(from, 1)).zip(expected.chunks_exact(size(to, group))) {
            caster.cast(&code.repeat(BLOCK), &mut dst, BLOCK).expect("sizes that fit");
            // The first group is right, and each following one equals that before it.
            let (first, rest) = dst.split_at(expected.len());
            assert!(
                first == expected && rest == &dst[..rest.len()],
                "{isa}: {from} {:x?} -> {to}, {mode:?}: {:x?}, among others {:x?}",
                codes_of(from, code, 1),
                codes_of(to, &dst, BLOCK),
                codes_of(to, expected, group)
            );
        }
    }
}

/// A kernel handles a special code in every lane: among elements of 1, the code gives what it gives alone, and the others stay 1.
fn strange(isa: Isa, from: DType, to: DType, codes: &[u128]) {
    let mode = oracle::Mode::default();
    let caster = caster(isa, from, to, &mode);
    // The elements that fill whole bytes.
    let group = if to.bits() < 8 { 8 } else { 1 };
    let (wide, narrow) = (size(from, group), size(to, group));
    let one = oracle::convert(oracle::Type::F64, type_of(from), u128::from(1f64.to_bits()), &mode);
    let ones = bytes_of(from, &[one; BLOCK]);
    let mut all_ones = vec![0xA5; size(to, BLOCK)];
    caster.cast(&ones, &mut all_ones, BLOCK).expect("sizes that fit");
    let (mut src, mut dst, mut alone) = (ones.clone(), all_ones.clone(), vec![0xA5; narrow]);
    for (i, code) in codes.iter().enumerate() {
        // Neighbours in the list are similar, so they get lanes far from each other.
        let place = 29 * i % (BLOCK / group);
        let stranger = bytes_of(from, &vec![*code; group]);
        caster.cast(&stranger, &mut alone, group).expect("sizes that fit");
        src[place * wide..][..wide].copy_from_slice(&stranger);
        caster.cast(&src, &mut dst, BLOCK).expect("sizes that fit");
        src[place * wide..][..wide].copy_from_slice(&ones[..wide]);
        let mut expected = all_ones.clone();
        expected[place * narrow..][..narrow].copy_from_slice(&alone);
        assert!(
            dst == expected,
            "{isa}: {from} {code:x} at {place} among ones -> {to}: {:x?}, alone {:x?}",
            codes_of(to, &dst, BLOCK),
            codes_of(to, &alone, group)
        );
    }
}

/// A few elements give what they give among many, in every number up to more than a kernel for short calls casts at once.
fn few(isa: Isa, from: DType, to: DType, codes: &[u128]) {
    const MOST: usize = 40;
    let src = bytes_of(from, codes);
    for (i, mode) in every_mode(from, to).into_iter().enumerate() {
        let caster = caster(isa, from, to, &mode);
        let made = cast_bytes(&caster, &src, codes.len());
        // All codes in the default mode, which comes first; fewer in the others.
        let step = if i == 0 { 16 } else { 16 * 16 };
        for (k, start) in (0..codes.len()).step_by(step).enumerate() {
            for n in [16, 1 + k % MOST].map(|n| n.min(codes.len() - start)) {
                let piece = &src[size(from, start)..][..size(from, n)];
                let found = cast_bytes(&caster, piece, n);
                let mut expected = made[size(to, start)..][..size(to, n)].to_vec();
                // The last byte of packed elements may also hold elements that follow: clear them.
                let used = n * to.bits() as usize % 8;
                if let (1.., Some(last)) = (used, expected.last_mut()) {
                    *last &= 0xFF >> (8 - used);
                }
                assert!(
                    found == expected,
                    "{isa}: {from} {:x?} -> {to}, {mode:?}: {found:x?}, among others {expected:x?}",
                    &codes[start..start + n]
                );
            }
        }
    }
}

/// Every value of every narrow format gives its own bits again after a cast to a format that holds it exactly
/// and back. NaN is left out, since it may have several codes. Nothing saturates, so that Inf comes back too.
fn round_trips(isa: Isa) {
    let mode = oracle::Mode { saturate: false, ..oracle::Mode::default() };
    let mut trips = 0;
    for (narrow, wide, codes) in TRIPS.iter() {
        let out = bridge::cast_codes(isa, *narrow, *wide, &mode, codes);
        let back = bridge::cast_codes(isa, *wide, *narrow, &mode, &out);
        for ((code, wide_code), back) in codes.iter().zip(&out).zip(&back) {
            assert_eq!(back, code, "{isa}: {narrow} {code:#x} -> {wide} {wide_code:#x} -> {narrow}");
        }
        trips += codes.len();
    }
    assert!(trips > 1_000_000, "only {trips} round trips");
}

/// Pairs of a narrow and another format, with the codes of the former whose values the latter holds; found once for all
/// instruction sets.
static TRIPS: LazyLock<Vec<(DType, DType, Vec<u128>)>> = LazyLock::new(|| {
    let narrow = DType::ALL.into_iter().filter(|t| t.bits() <= 16 && *t != DType::Bool);
    let pairs = narrow.flat_map(|narrow| DType::ALL.map(|wide| (narrow, wide)));
    let held = |(narrow, wide): (DType, DType)| {
        let codes = (0..1 << narrow.bits()).filter(|&code| !type_of(narrow).is_nan_code(code));
        (narrow, wide, codes.filter(|&code| holds_exactly(narrow, code, wide)).collect())
    };
    pairs.map(held).collect()
});

/// Whether `wide` holds this value of `narrow`, by the oracle: every mode gives the same result and, in float64,
/// which holds every narrow value, source and result are the same number with the same sign.
fn holds_exactly(narrow: DType, code: u128, wide: DType) -> bool {
    if wide == DType::Bool {
        return false;
    }
    let (from, to) = (type_of(narrow), type_of(wide));
    let mut codes = every_mode(narrow, wide).into_iter().map(|mode| oracle::convert(from, to, code, &mode));
    let first = codes.next().expect("the default mode");
    let f64 = |t, code| oracle::convert(t, oracle::Type::F64, code, &oracle::Mode::default());
    codes.all(|code| code == first) && f64(from, code) == f64(to, first)
}
