//! Where the bytes lie: packing, byte order, alignment and lengths; and no byte beyond the end of a buffer
//! reaches a result or is written.

mod bridge;

use bridge::{Suite, type_of};
use lanecast::{ByteOrder, CastOptions, Caster, DType, Isa, Kind, Overflow, Packing, Rounding};
use lanecast_oracle as oracle;

const PACKINGS: [(Packing, oracle::packing::Packing); 3] = [
    (Packing::LowFirst, oracle::packing::Packing::LowFirst),
    (Packing::OnePerByte, oracle::packing::Packing::OnePerByte),
    (Packing::HighFirst, oracle::packing::Packing::HighFirst),
];

/// Lengths around every size that a kernel could treat specially: 8, blocks of 16, 32 and 64, tiles of 256 to 1024.
const LENGTHS: [usize; 34] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 16, 17, 21, 31, 32, 33, 47, 63, 64, 65, 95, 127, 129, 191, 255,
    256, 257, 259, 513, 1023, 1025, 2100,
];

fn main() {
    let mut suite = Suite::new();
    for from in DType::ALL {
        suite.test(&format!("packings and lengths of {from}"), move |isa| packings(isa, from));
        suite.test(&format!("byte orders of {from}"), move |isa| byte_orders(isa, from));
    }
    for from in DType::ALL.into_iter().filter(|t| t.bits() < 8 && 8 % t.bits() == 0) {
        suite.test(&format!("many packed {from}"), move |isa| many_packed(isa, from));
    }
    suite.test("from any element on", from_any_element);
    suite.test("bytes of bool", bytes_of_bool);
    suite.run().exit();
}

/// Returns codes of all kinds, the same in every run.
fn codes(dtype: DType, n: usize) -> Vec<u128> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ u64::from(dtype.code());
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u128::from(state.wrapping_mul(0x2545_F491_4F6C_DD1D))
    };
    (0..n).map(|_| (next() << 64 | next()) & (u128::MAX >> (128 - dtype.bits()))).collect()
}

/// The byte that lies before and after a destination.
const CANARY: u8 = 0xC5;
const MARGIN: usize = 70;

/// Casts into the middle of a buffer, at an odd offset, twice over different old contents; returns the result.
fn cast(caster: &Caster, src: &[u8], n: usize, size: usize) -> Vec<u8> {
    // Two odd offsets.
    let mut shifted = vec![0xFF; src.len() + 64];
    shifted[3..3 + src.len()].copy_from_slice(src);
    let mut answers = [0x5A, 0xA5].map(|old| {
        let mut buffer = vec![CANARY; size + 2 * MARGIN];
        buffer[MARGIN - 1..][..size].fill(old);
        let dst = &mut buffer[MARGIN - 1..][..size];
        caster.cast(&shifted[3..3 + src.len()], dst, n).expect("sizes that fit");
        let answer = dst.to_vec();
        assert!(buffer[..MARGIN - 1].iter().all(|&b| b == CANARY), "written before the destination");
        assert!(buffer[MARGIN - 1 + size..].iter().all(|&b| b == CANARY), "written behind the destination");
        answer
    });
    assert_eq!(answers[0], answers[1], "the result depends on what the destination held");
    core::mem::take(&mut answers[0])
}

/// Every packing on both sides at every length: elements are right, pads are written as zero, and dirty pads are
/// ignored. Integer casts both wrap and saturate, since a narrow integer in a byte of its own is neither a byte nor packed.
fn packings(isa: Isa, from: DType) {
    let is_int = |dtype: DType| matches!(dtype.kind(), Kind::Int(_));
    for (to, mode) in DType::ALL.into_iter().flat_map(|to| {
        let modes = bridge::every_mode(from, to).into_iter();
        modes.take(if is_int(from) && is_int(to) { 2 } else { 1 }).map(move |mode| (to, mode))
    }) {
        let all = codes(from, *LENGTHS.iter().max().unwrap());
        let expected: Vec<u128> =
            all.iter().map(|&c| oracle::convert(type_of(from), type_of(to), c, &mode)).collect();
        for (src_packing, pack_src) in PACKINGS {
            for (dst_packing, pack_dst) in PACKINGS {
                // Packing does not matter to a dtype of whole bytes, so one suffices.
                let idle = |t: DType, p| !t.is_packed() && p != Packing::LowFirst;
                if idle(from, src_packing) || idle(to, dst_packing) {
                    continue;
                }
                let options = bridge::options(&mode)
                    .isa(isa)
                    .src_order(ByteOrder::Little)
                    .dst_order(ByteOrder::Little)
                    .src_packing(src_packing)
                    .dst_packing(dst_packing);
                let caster = Caster::new(from, to, &options).unwrap();
                for n in LENGTHS {
                    let mut src = oracle::packing::pack(&all[..n], from.bits(), pack_src);
                    let dst = oracle::packing::pack(&expected[..n], to.bits(), pack_dst);
                    let what = format!("{from} {src_packing:?} -> {to} {dst_packing:?}, {n} elements");
                    assert_eq!(cast(&caster, &src, n, dst.len()), dst, "{what}");
                    dirty_pads(&mut src, n, from.bits(), src_packing);
                    assert_eq!(cast(&caster, &src, n, dst.len()), dst, "{what}, dirty pads");
                }
            }
        }
    }
}

/// Packed to packed in every mode, with enough elements that a kernel may treat bytes as elements.
fn many_packed(isa: Isa, from: DType) {
    const N: usize = 4_101;
    let all = codes(from, N);
    for to in DType::ALL.into_iter().filter(|to| to.is_packed()) {
        for mode in bridge::every_mode(from, to) {
            let expected: Vec<u128> =
                all.iter().map(|&c| oracle::convert(type_of(from), type_of(to), c, &mode)).collect();
            for (src_packing, pack_src) in PACKINGS {
                for (dst_packing, pack_dst) in PACKINGS {
                    let options = bridge::options(&mode).isa(isa);
                    let options = options.src_packing(src_packing).dst_packing(dst_packing);
                    let caster = Caster::new(from, to, &options).unwrap();
                    let mut src = oracle::packing::pack(&all, from.bits(), pack_src);
                    dirty_pads(&mut src, N, from.bits(), src_packing);
                    let dst = oracle::packing::pack(&expected, to.bits(), pack_dst);
                    let what = format!("{from} {src_packing:?} -> {to} {dst_packing:?}, {mode:?}");
                    assert_eq!(cast(&caster, &src, N, dst.len()), dst, "{what}");
                }
            }
        }
    }
}

/// Elements that begin at any bit of a byte give what they give at its first bit; also around the ends of tiles.
fn from_any_element(isa: Isa) {
    for (from, to) in [
        (DType::U1, DType::Bool),
        (DType::I1, DType::U8),
        (DType::U1, DType::I1),
        (DType::U2, DType::F16),
        (DType::I4, DType::U1),
        (DType::F6E3M2, DType::C32),
        (DType::F32, DType::U1),
        (DType::C32, DType::BC32),
    ] {
        let all = codes(from, 8300);
        for (src_packing, pack_src) in PACKINGS {
            for (dst_packing, pack_dst) in [PACKINGS[0], PACKINGS[2]] {
                let options = CastOptions::new().isa(isa).src_packing(src_packing).dst_packing(dst_packing);
                let caster = Caster::new(from, to, &options).unwrap();
                for (first, n) in
                    (0..19).flat_map(|first| [0, 1, 7, 8, 9, 300, 4095, 4096, 4097, 8200].map(|n| (first, n)))
                {
                    let codes = &all[..first + n];
                    let mut src = oracle::packing::pack(codes, from.bits(), pack_src);
                    dirty_pads(&mut src, first + n, from.bits(), src_packing);
                    let expected: Vec<u128> = codes[first..]
                        .iter()
                        .map(|&c| oracle::convert(type_of(from), type_of(to), c, &oracle::Mode::default()))
                        .collect();
                    let expected = oracle::packing::pack(&expected, to.bits(), pack_dst);
                    let mut dst = vec![0xA5; expected.len()];
                    caster.cast_from(&src, first, &mut dst, n).unwrap();
                    assert!(dst == expected, "{isa}: {from} {src_packing:?} -> {to}, {n} from {first}");
                    if !src.is_empty() {
                        let short = &src[1..];
                        assert!(caster.cast_from(short, first, &mut dst, n).is_err());
                        assert!(caster.cast_from(short, usize::MAX, &mut dst, n.max(1)).is_err());
                    }
                    dst.push(0);
                    assert!(caster.cast_from(&src, first, &mut dst, n).is_err());
                }
            }
        }
    }
}

/// Sets every bit that belongs to no element (the pads).
fn dirty_pads(bytes: &mut [u8], n: usize, bits: u32, packing: Packing) {
    if bits >= 8 {
        return;
    }
    let used = n * bits as usize % 8;
    match packing {
        Packing::OnePerByte => bytes.iter_mut().for_each(|b| *b |= 0xFF << bits),
        _ if used == 0 => {}
        Packing::LowFirst => *bytes.last_mut().unwrap() |= 0xFF << used,
        Packing::HighFirst => *bytes.last_mut().unwrap() |= 0xFF >> used,
    }
}

/// Every byte order on both sides gives the same elements.
fn byte_orders(isa: Isa, from: DType) {
    const N: usize = 131;
    let orders = [ByteOrder::Native, ByteOrder::Little, ByteOrder::Big];
    let all = codes(from, N);
    for to in DType::ALL {
        let expected: Vec<u128> = all
            .iter()
            .map(|&c| oracle::convert(type_of(from), type_of(to), c, &oracle::Mode::default()))
            .collect();
        for src_order in orders {
            for dst_order in orders {
                // A copy must not round, whatever the options are.
                let up = CastOptions::new().rounding(Rounding::Up).float_to_int(Overflow::Wrap);
                let every = if from == to { vec![CastOptions::new(), up] } else { vec![CastOptions::new()] };
                for options in every {
                    let options = options.isa(isa).src_order(src_order).dst_order(dst_order);
                    let caster = Caster::new(from, to, &options).unwrap();
                    let (src, dst) = (in_order(from, &all, src_order), in_order(to, &expected, dst_order));
                    let what = format!("{from} {src_order:?} -> {to} {dst_order:?}, {options:?}");
                    assert_eq!(cast(&caster, &src, N, dst.len()), dst, "{what}");
                }
            }
        }
    }
}

/// Returns codes as a buffer whose parts have their bytes in the given order.
fn in_order(dtype: DType, codes: &[u128], order: ByteOrder) -> Vec<u8> {
    let mut bytes = bridge::bytes_of(dtype, codes);
    let big = match order {
        ByteOrder::Native => cfg!(target_endian = "big"),
        ByteOrder::Little => false,
        ByteOrder::Big => true,
    };
    if big && dtype.bits() > 8 {
        bytes.chunks_exact_mut(dtype.part().bits() as usize / 8).for_each(<[u8]>::reverse);
    }
    bytes
}

/// All 256 bytes are read as bools, of which only 0 is false; only 0 and 1 are written.
fn bytes_of_bool(isa: Isa) {
    let src: Vec<u8> = (0..=255).collect();
    for to in DType::ALL {
        let got = bridge::cast_codes(isa, DType::Bool, to, &oracle::Mode::default(), &codes_of_bytes(&src));
        for (&byte, got) in src.iter().zip(got) {
            let one =
                oracle::convert(oracle::Type::U8, type_of(to), u128::from(byte.min(1)), &Default::default());
            assert_eq!(got, one, "bool byte {byte} -> {to}");
        }
    }
}

fn codes_of_bytes(bytes: &[u8]) -> Vec<u128> {
    bytes.iter().map(|&b| b.into()).collect()
}
