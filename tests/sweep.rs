//! All 2^32 codes of float32, int32 and uint32, to every target.
//!
//! `LANECAST_SWEEP=default cargo test --test sweep` runs the default mode, `LANECAST_SWEEP=all` every mode, and
//! `LANECAST_SWEEP=golden` compares hashes of the default mode with recorded ones of the oracle, without running it.
//!
//! Where the results of neighbouring codes are mostly equal, the oracle finds runs of them by galloping, with
//! a few million conversions for 2^32 codes. For wider targets, and where integers wrap, each code is compared
//! with what std's `as` and exact f64 arithmetic give. `tests/oracle` checks the oracle against these, and the
//! boundaries of `tests/conformance.rs` check such pairs with the oracle itself.

mod bridge;
mod hashes;

use bridge::{Suite, every_mode, options, type_of};
use hashes::Hash;
use lanecast::{ByteOrder, Caster, DType, IntFormat, Isa, Kind, Packing};
use lanecast_oracle as oracle;
use oracle::{Mode, Overflow, Rounding};

/// Writes the results of consecutive codes, from the first on.
type Expect = Box<dyn FnMut(u32, &mut [u8])>;

/// The number of codes cast at a time.
const CHUNK: usize = 1 << 16;

fn main() {
    let mut suite = Suite::new();
    let sweep = std::env::var("LANECAST_SWEEP").unwrap_or_default();
    let known = ["", "default", "all", "golden"].contains(&sweep.as_str());
    assert!(known, "LANECAST_SWEEP is {sweep:?}: default, all or golden");
    let asks_oracle = sweep != "golden";
    let modes = if sweep == "all" { usize::MAX } else { 1 };
    for from in [DType::F32, DType::I32, DType::U32] {
        for to in DType::ALL {
            let how = "LANECAST_SWEEP=default runs it, =all in every mode";
            suite.test_if(!sweep.is_empty(), how, &format!("all {from} to {to}"), move |isa| {
                for (i, mode) in every_mode(from, to).iter().take(modes).enumerate() {
                    let hash = all_codes(isa, from, to, mode, asks_oracle);
                    if i == 0 {
                        compare_hash(isa, from, to, hash, asks_oracle);
                    }
                }
            });
        }
    }
    let conclusion = suite.run();
    if hashes::blesses() {
        hashes::write();
    }
    conclusion.exit();
}

/// Compares the hash of all results in the default mode with the recorded one, unless the oracle was asked; records it if blessing.
fn compare_hash(isa: Isa, from: DType, to: DType, hash: u64, asked_oracle: bool) {
    let row = format!("all {from}");
    if hashes::blesses() {
        assert!(asked_oracle, "LANECAST_SWEEP=golden does not know what is right");
        return hashes::bless(&row, to, hash);
    }
    if !asked_oracle {
        let right =
            hashes::expected(&row, to).expect("a hash is recorded: tests/hashes/mod.rs says how to make it");
        assert_eq!(hash, right, "{isa}: some result of {from} -> {to} is wrong");
    }
}

/// Compares all results with the oracle's if `asks_oracle`, and returns their hash if that is needed.
fn all_codes(isa: Isa, from: DType, to: DType, mode: &Mode, asks_oracle: bool) -> u64 {
    let little = options(mode).src_order(ByteOrder::Little).dst_order(ByteOrder::Little);
    // One element per byte, so that results are whole bytes. Packing has tests of its own.
    let caster = Caster::new(from, to, &little.isa(isa).dst_packing(Packing::OnePerByte)).unwrap();
    let width = (to.bits() as usize).div_ceil(8);
    let mut expected: Option<Expect> = asks_oracle.then(|| match runs(from, to, mode) {
        Some(runs) => Box::new(expect_runs(runs, width)) as Expect,
        None => expect_each(from, to, mode),
    });
    // Results that are compared with the oracle need no hash, except to record it.
    let hashes = !asks_oracle || hashes::blesses();
    let mut hash = Hash::new();
    let mut src = vec![0; 4 * CHUNK];
    let mut dst = vec![0; width * CHUNK];
    let mut right = vec![0; width * CHUNK];
    for first in (0..=u32::MAX).step_by(CHUNK) {
        for (i, code) in src.as_chunks_mut().0.iter_mut().enumerate() {
            *code = (first + i as u32).to_le_bytes();
        }
        caster.cast(&src, &mut dst, CHUNK).unwrap();
        if hashes {
            hash.add(&dst);
        }
        let Some(expected) = &mut expected else { continue };
        expected(first, &mut right);
        if dst != right {
            let wrong = dst.chunks(width).zip(right.chunks(width)).position(|(got, right)| got != right);
            let i = wrong.unwrap();
            panic!(
                "{isa}: {from} {:#010x} -> {to}: got {:02x?}, expected {:02x?} (low byte first; {mode:?})",
                first as usize + i,
                &dst[i * width..][..width],
                &right[i * width..][..width],
            );
        }
    }
    hash.finish()
}

/// Returns the oracle's runs as (last code, result), if the pair has far fewer results than codes.
fn runs(from: DType, to: DType, mode: &Mode) -> Option<Vec<(u32, u128)>> {
    // For a complex target, the runs are of the real part: the imaginary part, the high bytes, is 0.
    if to.part().bits() > 16 {
        return None;
    }
    let (from, to) = (type_of(from), type_of(to.part()));
    let intervals = oracle::monotone_intervals(from, to, mode);
    if intervals.is_empty() {
        return None;
    }
    let mut runs = Vec::new();
    let mut next = 0u64;
    for (low, high) in intervals {
        oracle::runs(from, to, mode, low, high, &mut |first, last, result| {
            assert_eq!(u64::from(first), next, "the runs have a gap");
            next = u64::from(last) + 1;
            runs.push((last, result));
        });
    }
    assert_eq!(next, 1 << 32, "the runs end early");
    Some(runs)
}

/// Fills chunks from runs, in order.
fn expect_runs(runs: Vec<(u32, u128)>, width: usize) -> impl FnMut(u32, &mut [u8]) {
    let mut current = 0;
    move |first, chunk| {
        let mut filled = 0;
        let n = chunk.len() / width;
        while filled < n {
            let (last, result) = runs[current];
            let len = (n - filled).min((last - (first + filled as u32)) as usize + 1);
            let codes = &mut chunk[filled * width..][..len * width];
            match width {
                1 => codes.fill(result as u8),
                2 => codes.as_chunks_mut().0.fill((result as u16).to_le_bytes()),
                _ => codes.as_chunks_mut().0.fill((result as u32).to_le_bytes()),
            }
            filled += len;
            current += usize::from(first + (filled - 1) as u32 == last);
        }
    }
}

/// Fills chunks code by code, without the oracle: an f64 holds every value of a 32-bit source exactly, so
/// std's operations on it give exact results.
fn expect_each(from: DType, to: DType, mode: &Mode) -> Expect {
    match from {
        DType::F32 => {
            let (rounding, overflow) = match to.bits() {
                0..8 => (
                    mode.narrow_int_rounding.unwrap_or(mode.int_rounding),
                    mode.narrow_float_to_int.unwrap_or(mode.float_to_int),
                ),
                _ => (mode.int_rounding, mode.float_to_int),
            };
            expect_value(to, rounding, overflow, mode, |code| f64::from(f32::from_bits(code)))
        }
        DType::I32 => {
            expect_value(to, Rounding::TowardZero, mode.int_to_int, mode, |code| f64::from(code as i32))
        }
        _ => expect_value(to, Rounding::TowardZero, mode.int_to_int, mode, f64::from),
    }
}

/// Fills chunks for a target; `value` returns the value of a code.
fn expect_value(
    to: DType,
    int_rounding: Rounding,
    overflow: Overflow,
    mode: &Mode,
    value: impl Fn(u32) -> f64 + 'static,
) -> Expect {
    let rounding = mode.rounding;
    match (to.part().kind(), to.bits()) {
        (Kind::Int(format), bits) => {
            let integer = move |code| round_to_integer(value(code), int_rounding, overflow, format);
            match bits {
                0..=8 => fill_each::<1>(integer),
                16 => fill_each::<2>(integer),
                32 => fill_each::<4>(integer),
                _ => fill_each::<8>(integer),
            }
        }
        // The imaginary part is 0. To float32, a NaN keeps its bits; to float64, it is made quiet.
        (_, 32) => fill_each::<4>(move |code| round_to_f32(code, value(code), rounding)),
        (_, 64) if to == DType::C64 => fill_each::<8>(move |code| round_to_f32(code, value(code), rounding)),
        (_, 64) => fill_each::<8>(move |code| widen_to_f64(code, value(code))),
        _ => fill_each::<16>(move |code| widen_to_f64(code, value(code))),
    }
}

fn fill_each<const WIDTH: usize>(expect: impl Fn(u32) -> u64 + 'static) -> Expect {
    Box::new(move |first, chunk| {
        for (i, bytes) in chunk.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
            let code = u128::from(expect(first + i as u32)).to_le_bytes();
            bytes.copy_from_slice(&code[..WIDTH]);
        }
    })
}

#[inline(always)]
fn round_to_integer(x: f64, rounding: Rounding, overflow: Overflow, format: IntFormat) -> u64 {
    let whole = match rounding {
        Rounding::TowardZero => x, // the cast by `as` truncates
        Rounding::NearestEven => x.round_ties_even(),
        Rounding::NearestAway => x.round(),
        Rounding::Up => x.ceil(),
        Rounding::Down => x.floor(),
    };
    let mask = u64::MAX >> (64 - format.bits());
    match overflow {
        // NaN gives 0, and Inf the limits.
        Overflow::Saturate if format.max() == u64::MAX.into() => whole as u64,
        Overflow::Saturate => (whole as i64).clamp(format.min() as i64, format.max() as i64) as u64 & mask,
        Overflow::Wrap if whole.abs() < 2f64.powi(63) => whole as i64 as u64 & mask,
        Overflow::Wrap if !whole.is_finite() => 0,
        // Every finite f32 fits in 128 bits without its sign.
        Overflow::Wrap => {
            let low = whole.abs() as u128 as u64;
            (if whole < 0.0 { low.wrapping_neg() } else { low }) & mask
        }
    }
}

#[inline(always)]
fn widen_to_f64(code: u32, x: f64) -> u64 {
    if x.is_nan() {
        // Only a float32 can be NaN: the sign and the payload stay, the quiet bit is set.
        u64::from(code >> 31) << 63 | 0x7FF8 << 48 | u64::from(code & 0x3F_FFFF) << 29
    } else {
        x.to_bits()
    }
}

/// Rounds to float32: of the two neighbours, compared in f64, where both distances are exact.
#[inline(always)]
fn round_to_f32(code: u32, x: f64, rounding: Rounding) -> u64 {
    let nearest = x as f32;
    if x.is_nan() {
        return code.into();
    }
    if rounding == Rounding::NearestEven || f64::from(nearest) == x {
        return nearest.to_bits().into();
    }
    let below = if f64::from(nearest) < x { nearest } else { nearest.next_down() };
    let above = below.next_up();
    let halfway = (x - f64::from(below)) == (f64::from(above) - x);
    let away = if x > 0.0 { above } else { below };
    let rounded = match rounding {
        Rounding::NearestEven => nearest,
        Rounding::NearestAway => {
            if halfway {
                away
            } else {
                nearest
            }
        }
        Rounding::Up => above,
        Rounding::Down => below,
        Rounding::TowardZero => {
            if x > 0.0 {
                below
            } else {
                above
            }
        }
    };
    rounded.to_bits().into()
}
