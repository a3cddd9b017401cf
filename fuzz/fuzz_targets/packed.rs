//! Any bytes as elements of any dtype, in any packing, byte order and mode, at any offset: every instruction set casts them
//! as the reference does, checked and unchecked, and writes no other byte.

#![no_main]

use lanecast::checked::Validity;
use lanecast::parallel::Parallel;
use lanecast::{
    ByteOrder, CastOptions, Caster, DType, E8m0Rounding, Isa, NanToFinite, Overflow, Packing, Rounding,
};
use libfuzzer_sys::fuzz_target;

const CANARY: u8 = 0xC5;

fn pick<T: Copy>(values: &[T], choice: u8) -> T {
    values[usize::from(choice) % values.len()]
}

fuzz_target!(|input: ([u8; 2], [u8; 13], u8, u8, &[u8])| {
    let ([from, to], mode, dst_offset, rest, bytes) = input;
    let (from, to) = (pick(&DType::ALL, from), pick(&DType::ALL, to));
    let packings = [Packing::LowFirst, Packing::OnePerByte, Packing::HighFirst];
    let orders = [ByteOrder::Native, ByteOrder::Little, ByteOrder::Big];
    let overflows = [Overflow::Saturate, Overflow::Wrap];
    let mut options = CastOptions::new()
        .src_packing(pick(&packings, mode[0]))
        .dst_packing(pick(&packings, mode[1]))
        .src_order(pick(&orders, mode[2]))
        .dst_order(pick(&orders, mode[3]))
        .rounding(pick(&Rounding::ALL, mode[4]))
        .int_rounding(pick(&Rounding::ALL, mode[5]))
        .saturate(mode[6] & 1 == 1)
        .float_to_int(pick(&overflows, mode[7]))
        .int_to_int(pick(&overflows, mode[8]))
        .nan_to_finite(pick(&[NanToFinite::NegZero, NanToFinite::Max, NanToFinite::Zero], mode[9]))
        .e8m0_rounding(pick(&[E8m0Rounding::Up, E8m0Rounding::Down, E8m0Rounding::Nearest], mode[10]));
    if mode[11] & 1 == 1 {
        options = options.narrow_int_rounding(pick(&Rounding::ALL, mode[11] >> 1));
    }
    if mode[12] & 1 == 1 {
        options = options.stream_from(0);
    }

    if mode[12] & 8 == 8 {
        options = options.stochastic(mode[11].into(), u64::from(u32::MAX) - u64::from(mode[10]));
    }

    // As many elements as the bytes hold, less up to 7. Sometimes the bytes are repeated, for some thousands of elements.
    let repeated =
        if mode[12] & 6 == 6 { bytes.repeat(1 + 8192 / (bytes.len() + 1)) } else { bytes.to_vec() };
    let eight = from.byte_len(8, options.src_packing).expect("it is small");
    let n = (repeated.len() / eight * 8).saturating_sub(usize::from(rest % 8));
    // The size is exact, so that the sanitizer sees every access beyond it.
    let src = repeated[..from.byte_len(n, options.src_packing).expect("it is small")].to_vec();
    let size = to.byte_len(n, options.dst_packing).expect("it is small");
    let at = usize::from(dst_offset % 64);

    let cast = |isa: Isa| {
        let caster = Caster::new(from, to, &options.isa(isa)).expect("it is available");
        let mut plain = vec![CANARY; at + size + 64];
        caster.cast(&src, &mut plain[at..at + size], n).expect("the sizes are right");
        let is_canary = |bytes: &[u8]| bytes.iter().all(|byte| *byte == CANARY);
        assert!(is_canary(&plain[..at]) && is_canary(&plain[at + size..]), "{isa}: {from} -> {to}, {n}");

        let mut checked = vec![CANARY; at + size + 64];
        let report = caster.cast_checked(&src, &mut checked[at..at + size], n).expect("the sizes are right");
        assert!(checked == plain, "{isa}: {from} -> {to}, {n}: checked");
        assert_eq!(caster.report(&src, n), Ok(report), "{isa}: {from} -> {to}, {n}");
        let how = Parallel::new().threads(1).chunk(usize::from(rest) + 1);
        let in_chunks = caster.par_cast_checked_with(&src, &mut checked[at..at + size], n, &how);
        assert_eq!(in_chunks, Ok(report), "{isa}: {from} -> {to}, {n}: in chunks");
        assert!(checked == plain, "{isa}: {from} -> {to}, {n}: in chunks");
        let mut valid = vec![CANARY; n.div_ceil(8)];
        let bits = vec![rest; n.div_ceil(8) + 1];
        let source = (rest & 8 != 0).then(|| Validity::new(&bits).from_bit(usize::from(dst_offset % 8)));
        let nulls = caster
            .cast_validity(&src, source, &mut checked[at..at + size], &mut valid, n)
            .expect("the sizes are right");
        assert!(is_canary(&checked[..at]) && is_canary(&checked[at + size..]), "{isa}: {from} -> {to}, {n}");
        assert!(source.is_some() || nulls == report.lost());
        (plain, report, checked, valid, nulls)
    };
    let expected = cast(Isa::Scalar);
    for &isa in Isa::available().iter().filter(|isa| **isa != Isa::Scalar) {
        assert!(cast(isa) == expected, "{isa}: {from} -> {to}, {n} elements, {options:?}");
    }
});
