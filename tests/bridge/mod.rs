//! Translates between the crate and the oracle: their dtypes, their options, and buffers of codes.
//!
//! Also has the frame of the suites that run once per instruction set. The name of a test begins with its
//! instruction set; where this machine does not have it, the test is listed as "not run".

#![allow(dead_code, reason = "each suite uses its part")]

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use lanecast::{
    ByteOrder, CastOptions, Caster, DType, E8m0Rounding, Isa, Kind, NanToFinite, Overflow, Packing, Rounding,
};
use lanecast_oracle as oracle;
use libtest_mimic::{Arguments, Conclusion, Trial};
use oracle::{Mode, Type};

/// Returns the oracle's dtype of the same name.
pub(crate) fn type_of(dtype: DType) -> Type {
    Type::from_name(dtype.name()).expect("the oracle has every dtype")
}

/// Returns the crate's options for a mode of the oracle.
pub(crate) fn options(mode: &Mode) -> CastOptions {
    let mut options = CastOptions::new()
        .rounding(rounding(mode.rounding))
        .int_rounding(rounding(mode.int_rounding))
        .saturate(mode.saturate)
        .float_to_int(overflow(mode.float_to_int))
        .int_to_int(overflow(mode.int_to_int))
        .nan_to_finite(match mode.nan_to_finite {
            oracle::NanToFinite::NegZero => NanToFinite::NegZero,
            oracle::NanToFinite::Max => NanToFinite::Max,
            oracle::NanToFinite::Zero => NanToFinite::Zero,
        })
        .e8m0_rounding(match mode.e8m0_rounding {
            oracle::E8m0Rounding::Up => E8m0Rounding::Up,
            oracle::E8m0Rounding::Down => E8m0Rounding::Down,
            oracle::E8m0Rounding::Nearest => E8m0Rounding::Nearest,
        });
    if let Some(mode) = mode.narrow_int_rounding {
        options = options.narrow_int_rounding(rounding(mode));
    }
    if let Some(mode) = mode.narrow_float_to_int {
        options = options.narrow_float_to_int(overflow(mode));
    }
    options
}

fn rounding(rounding: oracle::Rounding) -> Rounding {
    match rounding {
        oracle::Rounding::NearestEven => Rounding::NearestEven,
        oracle::Rounding::NearestAway => Rounding::NearestAway,
        oracle::Rounding::TowardZero => Rounding::TowardZero,
        oracle::Rounding::Up => Rounding::Up,
        oracle::Rounding::Down => Rounding::Down,
    }
}

fn overflow(overflow: oracle::Overflow) -> Overflow {
    match overflow {
        oracle::Overflow::Saturate => Overflow::Saturate,
        oracle::Overflow::Wrap => Overflow::Wrap,
    }
}

/// Returns every mode that concerns the kind of the target, the default first. It includes modes that cannot
/// matter to this source, because a kernel could still get them wrong.
pub(crate) fn every_mode(from: DType, to: DType) -> Vec<Mode> {
    let mut modes = vec![Mode::default()];
    let mut vary = |set: &dyn Fn(&mut Mode, usize), values: usize| {
        modes = modes
            .iter()
            .flat_map(|mode| {
                (0..values).map(move |i| {
                    let mut mode = *mode;
                    set(&mut mode, i);
                    mode
                })
            })
            .collect();
    };
    // `Rounding::ALL` begins with the default for floats; the default for integers is the third.
    let rounding = |i: usize| oracle::Rounding::ALL[i];
    let int_rounding = |i: usize| oracle::Rounding::ALL[(i + 2) % 5];
    let exact_source = matches!(from.kind(), Kind::Bool | Kind::Int(_));
    match to.kind() {
        Kind::Bool => {}
        Kind::Int(_) if exact_source => {
            vary(&|mode, i| mode.int_to_int = [oracle::Overflow::Wrap, oracle::Overflow::Saturate][i], 2)
        }
        Kind::Int(format) => {
            vary(&|mode, i| mode.int_rounding = int_rounding(i), 5);
            vary(&|mode, i| mode.float_to_int = oracle::Overflow::ALL[i], 2);
            if format.bits() < 8 {
                // The same ten set by the narrow options, and each narrow option alone.
                let general = modes.clone();
                modes.extend(general.iter().map(|mode| Mode {
                    int_rounding: oracle::Rounding::Up,
                    float_to_int: oracle::Overflow::Saturate,
                    narrow_int_rounding: Some(mode.int_rounding),
                    narrow_float_to_int: Some(mode.float_to_int),
                    ..*mode
                }));
                modes.push(Mode {
                    narrow_int_rounding: Some(oracle::Rounding::NearestEven),
                    ..Mode::default()
                });
                modes.push(Mode { narrow_float_to_int: Some(oracle::Overflow::Wrap), ..Mode::default() });
            }
        }
        Kind::Float(format) if !format.has_zero() => {
            vary(&|mode, i| mode.e8m0_rounding = oracle::E8m0Rounding::ALL[i], 3);
            vary(&|mode, i| mode.saturate = i == 0, 2);
        }
        Kind::Float(format) => {
            vary(&|mode, i| mode.rounding = rounding(i), 5);
            if !format.has_nan() {
                vary(&|mode, i| mode.nan_to_finite = oracle::NanToFinite::ALL[i], 3);
            } else if format.bits() <= 8 {
                vary(&|mode, i| mode.saturate = i == 0, 2);
            }
        }
        Kind::Complex(_) => vary(&|mode, i| mode.rounding = rounding(i), 5),
    }
    modes
}

/// Returns a caster between buffers as [`bytes_of`] makes and [`codes_of`] reads them.
pub(crate) fn caster(isa: Isa, from: DType, to: DType, mode: &Mode) -> Caster {
    let options = options(mode).isa(isa).src_order(ByteOrder::Little).dst_order(ByteOrder::Little);
    Caster::new(from, to, &options).expect("the instruction set is available")
}

/// Returns codes as a buffer in the default packing, little-endian.
pub(crate) fn bytes_of(dtype: DType, codes: &[u128]) -> Vec<u8> {
    match dtype.bits() as usize / 8 {
        0 => oracle::packing::pack(codes, dtype.bits(), oracle::packing::Packing::LowFirst),
        1 => all_bytes::<1>(codes),
        2 => all_bytes::<2>(codes),
        4 => all_bytes::<4>(codes),
        8 => all_bytes::<8>(codes),
        _ => all_bytes::<16>(codes),
    }
}

/// Returns the lowest `WIDTH` bytes of each code, little-endian.
fn all_bytes<const WIDTH: usize>(codes: &[u128]) -> Vec<u8> {
    let low = |code: &u128| *code.to_le_bytes().first_chunk().expect("no more than 16");
    codes.iter().map(low).collect::<Vec<[u8; WIDTH]>>().into_flattened()
}

/// Returns the first `n` codes of a buffer of [`bytes_of`].
pub(crate) fn codes_of(dtype: DType, bytes: &[u8], n: usize) -> Vec<u128> {
    match dtype.bits() as usize / 8 {
        0 => oracle::packing::unpack(bytes, n, dtype.bits(), oracle::packing::Packing::LowFirst),
        1 => all_codes::<1>(bytes),
        2 => all_codes::<2>(bytes),
        4 => all_codes::<4>(bytes),
        8 => all_codes::<8>(bytes),
        _ => all_codes::<16>(bytes),
    }
}

/// Returns the codes of elements of `WIDTH` bytes: the inverse of [`all_bytes`].
fn all_codes<const WIDTH: usize>(bytes: &[u8]) -> Vec<u128> {
    let code = |bytes: &[u8; WIDTH]| {
        let mut all = [0; 16];
        *all.first_chunk_mut().expect("no more than 16") = *bytes;
        u128::from_le_bytes(all)
    };
    bytes.as_chunks().0.iter().map(code).collect()
}

/// Returns a generator of random words, the same in every run.
pub(crate) fn words() -> impl FnMut() -> u64 {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// Returns random bytes, those of [`words`].
pub(crate) fn bytes(n: usize) -> Vec<u8> {
    let mut word = words();
    (0..n.div_ceil(8)).flat_map(|_| word().to_le_bytes()).take(n).collect()
}

/// Returns the size of a buffer of [`bytes_of`] of `n` elements.
pub(crate) fn size(dtype: DType, n: usize) -> usize {
    dtype.byte_len(n, Packing::LowFirst).expect("a size that fits")
}

/// Casts codes on one instruction set.
pub(crate) fn cast_codes(isa: Isa, from: DType, to: DType, mode: &Mode, codes: &[u128]) -> Vec<u128> {
    let dst = cast_bytes(&caster(isa, from, to, mode), &bytes_of(from, codes), codes.len());
    codes_of(to, &dst, codes.len())
}

/// Casts a buffer of [`bytes_of`] to another.
pub(crate) fn cast_bytes(caster: &Caster, src: &[u8], n: usize) -> Vec<u8> {
    let mut dst = vec![0xA5; size(caster.to(), n)];
    caster.cast(src, &mut dst, n).expect("sizes that fit");
    dst
}

/// Compares the results of a cast with the oracle's, and reports where they differ.
pub(crate) fn compare(what: &str, from: DType, to: DType, mode: &Mode, codes: &[u128], got: &[u128]) {
    assert_eq!(codes.len(), got.len(), "{what}: {from} -> {to}");
    let (source, target) = (type_of(from), type_of(to));
    let mut wrong = 0;
    for (&code, &got) in codes.iter().zip(got) {
        let expected = oracle::convert(source, target, code, mode);
        if got != expected {
            wrong += 1;
            if wrong <= 5 {
                eprintln!(
                    "{what}: {from} {code:#x} -> {to}: got {got:#x}, expected {expected:#x} ({mode:?})"
                );
            }
        }
    }
    assert_eq!(wrong, 0, "{what}: {from} -> {to}: {wrong} of {} wrong ({mode:?})", codes.len());
}

/// Whether this run takes all pairs. All suites on all pairs take most of an hour, so by default each takes a share of the
/// pairs; `golden.rs` compares every bit of every pair and mode in every run.
pub(crate) fn is_whole() -> bool {
    match std::env::var("LANECAST_TESTS").as_deref() {
        Err(_) => false,
        Ok("all") => true,
        Ok(other) => panic!("LANECAST_TESTS is {other:?}; it can be \"all\""),
    }
}

/// Returns the targets that a test takes for a source: one in `of`, or one in `4 * of` on the reference, which is slow.
/// Which ones differs from test to test.
pub(crate) fn share(test: &str, isa: Isa, from: DType, of: usize) -> impl Iterator<Item = DType> {
    let of = step(isa, of);
    let first = test.bytes().map(usize::from).sum::<usize>() + from as usize;
    // 11 is coprime to every `of` in use, so that each residue, and with it each target, is taken by some `first`.
    DType::ALL.into_iter().filter(move |&to| (first + 11 * to as usize).is_multiple_of(of))
}

/// Returns the step by which a test goes through similar cases: `of`, or `4 * of` on the reference; 1 if a run takes all.
pub(crate) fn step(isa: Isa, of: usize) -> usize {
    match isa {
        _ if is_whole() => 1,
        Isa::Scalar => 4 * of,
        _ => of,
    }
}

/// Returns every code of a source of 16 bits or fewer, and the boundaries of the pair for a wider one. Boundaries are found
/// once for all instruction sets, because that takes longer than casting them.
pub(crate) fn codes(from: DType, to: DType) -> Arc<[u128]> {
    type Found = HashMap<(DType, DType), Arc<[u128]>>;
    static FOUND: LazyLock<Mutex<Found>> = LazyLock::new(Mutex::default);
    if from.bits() <= 16 {
        return (0..1 << from.bits()).collect();
    }
    let found = || FOUND.lock().expect("nothing panics while it is held");
    if let Some(codes) = found().get(&(from, to)) {
        return codes.clone();
    }
    let codes: Arc<[u128]> = oracle::interesting(type_of(from), type_of(to)).into();
    assert!(codes.len() > 1000, "{from} -> {to}: only {} codes", codes.len());
    found().insert((from, to), codes.clone());
    codes
}

/// Returns the number of cases of a random test: `all`, or by default an eighth of that.
pub(crate) fn cases(all: u32) -> u32 {
    if is_whole() { all } else { all / 8 }
}

/// A suite that runs once per instruction set.
pub(crate) struct Suite {
    arguments: Arguments,
    trials: Vec<Trial>,
}

impl Suite {
    pub(crate) fn new() -> Self {
        Self { arguments: Arguments::from_args(), trials: Vec::new() }
    }

    /// Adds a test for every instruction set. For one that is not available the test is listed, but does not pass.
    pub(crate) fn test(&mut self, name: &str, test: impl Fn(Isa) + Clone + Send + 'static) {
        for isa in Isa::ALL {
            let test = test.clone();
            let trial = Trial::test(format!("{isa}/{name}"), move || {
                test(isa);
                Ok(())
            });
            self.trials.push(if isa.is_available() {
                trial
            } else {
                trial.with_kind("not run: no kernels here").with_ignored_flag(true)
            });
        }
    }

    /// Adds a test that compares with the reference, for all other instruction sets.
    pub(crate) fn test_beside_reference(&mut self, name: &str, test: impl Fn(Isa) + Clone + Send + 'static) {
        let before = self.trials.len();
        self.test(name, test);
        let reference = self.trials.split_off(before).into_iter().map(|trial| {
            if !trial.name().starts_with(Isa::Scalar.name()) {
                return trial;
            }
            trial.with_kind("not run: it is the reference").with_ignored_flag(true)
        });
        self.trials.extend(reference);
    }

    /// Runs the tests that were added.
    pub(crate) fn run(mut self) -> Conclusion {
        // Tests of a missing instruction set must not run even with --include-ignored: they could only fail.
        let missing: Vec<_> = Isa::ALL.into_iter().filter(|isa| !isa.is_available()).collect();
        if self.arguments.include_ignored || self.arguments.ignored {
            let is_missing = |name: &str| missing.iter().any(|isa| name.starts_with(&format!("{isa}/")));
            self.trials.retain(|trial| !is_missing(trial.name()));
        }
        // One instruction set after the other, so that later ones can use what was computed for the first.
        let isa = |trial: &Trial| Isa::ALL.iter().position(|isa| trial.name().starts_with(isa.name()));
        self.trials.sort_by_key(isa);
        let conclusion = libtest_mimic::run(&self.arguments, self.trials);
        if !is_whole() {
            println!("REDUCED: a share of the pairs (LANECAST_TESTS=all for every one)");
        }
        for isa in missing {
            println!("NOT RUN: {isa} (this build has no kernels for it, or this machine cannot run them)");
        }
        conclusion
    }

    /// Adds a test that runs only when asked for.
    pub(crate) fn test_if(
        &mut self,
        wanted: bool,
        how: &str,
        name: &str,
        test: impl Fn(Isa) + Clone + Send + 'static,
    ) {
        let before = self.trials.len();
        self.test(name, test);
        if !wanted {
            for trial in self.trials.drain(before..).collect::<Vec<_>>() {
                self.trials.push(trial.with_kind(format!("not run: {how}")).with_ignored_flag(true));
            }
        }
    }
}
