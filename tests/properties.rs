//! Random bits, dtypes, options, lengths and layouts against the oracle.

mod bridge;

use bridge::{Suite, cases, type_of};
use lanecast::{ByteOrder, CastOptions, Caster, DType, Isa, Kind, Packing};
use lanecast_oracle as oracle;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn main() {
    let mut suite = Suite::new();
    for from in DType::ALL {
        suite.test(&format!("random casts of {from}"), move |isa| random_casts(isa, from));
    }
    suite.test("directly and by way of a tile", by_a_tile);
    suite.run().exit();
}

/// Casting by way of a dtype that holds every value of the source gives what the direct cast gives, and what the
/// reference gives.
fn by_a_tile(isa: Isa) {
    const N: usize = 1000;
    let direct = |isa: Isa, from: DType, to: DType, src: &[u8]| {
        let caster = Caster::new(from, to, &CastOptions::new().isa(isa)).expect("it is available");
        let mut dst = vec![0; bridge::size(to, N)];
        caster.cast(src, &mut dst, N).expect("the sizes agree");
        dst
    };
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 56) as u8
    };
    for from in DType::ALL {
        let src: Vec<u8> = (0..bridge::size(from, N)).map(|_| byte()).collect();
        for hub in [DType::F32, DType::F64].into_iter().filter(|&hub| from.is_lossless_to(hub)) {
            let tile = direct(isa, from, hub, &src);
            for to in DType::ALL {
                // Out of range, an integer wraps but a float saturates: negative integers, and 1 in int1.
                let wraps = matches!((from.kind(), to.kind()), (Kind::Int(_), Kind::Int(_)))
                    || (from == DType::Bool && matches!(to.kind(), Kind::Int(format) if format.max() < 1));
                // A copy leaves a NaN as it is, but a cast makes it quiet.
                if wraps || from.part() == to.part() {
                    continue;
                }
                let expected = direct(Isa::Scalar, from, to, &src);
                assert!(direct(isa, from, to, &src) == expected, "{isa}: {from} -> {to}");
                assert!(direct(isa, hub, to, &tile) == expected, "{isa}: {from} -> {hub} -> {to}");
            }
        }
    }
}

fn random_casts(isa: Isa, from: DType) {
    let config = Config { cases: cases(2000), failure_persistence: None, ..Config::default() };
    let case = (
        prop::sample::select(&DType::ALL[..]),
        modes(),
        prop::collection::vec(codes(from), 0..150),
        (0..3usize, 0..3usize),
        (any::<bool>(), any::<bool>()),
    );
    TestRunner::new(config)
        .run(&case, |(to, mode, codes, packings, big)| {
            check(isa, from, to, &mode, &codes, packings, big);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Generates codes, some uniform and some made of runs of zeros and ones at random places, because uniform
/// bits are hardly ever a tie, a small number or a special value.
fn codes(dtype: DType) -> impl Strategy<Value = u128> {
    let mask = u128::MAX >> (128 - dtype.bits());
    let runs = prop::collection::vec((0..128u32, 0..128u32), 1..4).prop_map(|runs| {
        runs.into_iter().fold(0u128, |code, (from, len)| {
            code ^ (u128::MAX >> len).wrapping_shl(from).rotate_left(from / 2)
        })
    });
    prop_oneof![any::<u128>(), runs].prop_map(move |code| code & mask)
}

fn modes() -> impl Strategy<Value = oracle::Mode> {
    use oracle::{E8m0Rounding, Mode, NanToFinite, Overflow, Rounding};
    let rounding = || prop::sample::select(&Rounding::ALL[..]);
    let overflow = || prop::sample::select(&Overflow::ALL[..]);
    let values = (
        (rounding(), rounding(), any::<bool>(), overflow(), overflow()),
        prop::sample::select(&NanToFinite::ALL[..]),
        prop::sample::select(&E8m0Rounding::ALL[..]),
        (prop::option::of(rounding()), prop::option::of(overflow())),
    );
    values.prop_map(|(general, nan_to_finite, e8m0_rounding, narrow)| Mode {
        rounding: general.0,
        int_rounding: general.1,
        saturate: general.2,
        float_to_int: general.3,
        int_to_int: general.4,
        nan_to_finite,
        e8m0_rounding,
        narrow_int_rounding: narrow.0,
        narrow_float_to_int: narrow.1,
    })
}

fn check(
    isa: Isa,
    from: DType,
    to: DType,
    mode: &oracle::Mode,
    codes: &[u128],
    packings: (usize, usize),
    big: (bool, bool),
) {
    const PACKINGS: [Packing; 3] = [Packing::LowFirst, Packing::OnePerByte, Packing::HighFirst];
    let order = |big| if big { ByteOrder::Big } else { ByteOrder::Little };
    let options = bridge::options(mode)
        .isa(isa)
        .src_packing(PACKINGS[packings.0])
        .dst_packing(PACKINGS[packings.1])
        .src_order(order(big.0))
        .dst_order(order(big.1));
    let bytes = |dtype: DType, codes: &[u128], packing: usize, big: bool| {
        let mut bytes = oracle::packing::pack(codes, dtype.bits(), oracle::packing::Packing::ALL[packing]);
        if big && dtype.bits() > 8 {
            bytes.chunks_exact_mut(dtype.part().bits() as usize / 8).for_each(<[u8]>::reverse);
        }
        bytes
    };
    let results: Vec<u128> =
        codes.iter().map(|&code| oracle::convert(type_of(from), type_of(to), code, mode)).collect();
    let src = bytes(from, codes, packings.0, big.0);
    let expected = bytes(to, &results, packings.1, big.1);
    let mut dst = vec![0xA5; expected.len()];
    Caster::new(from, to, &options).unwrap().cast(&src, &mut dst, codes.len()).unwrap();
    assert_eq!(dst, expected, "{isa}: {from} -> {to}, {codes:#x?}, {options:?}");
}
