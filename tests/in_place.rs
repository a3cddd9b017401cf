//! Casts in place give what casts between two buffers give, in every layout, and touch nothing else.

mod bridge;

use bridge::{Suite, bytes, share};
use lanecast::bits::{F8E4M3FN, F8E5M2, I4};
use lanecast::in_place;
use lanecast::{
    ByteOrder, CastOptions, Caster, Complex, DType, Element, Error, Isa, Packing, Side, bf16, cast_vec_with,
    f16,
};
use lanecast_oracle as oracle;

const CANARY: u8 = 0xC5;

fn main() {
    let mut suite = Suite::new();
    for from in DType::ALL {
        suite.test(&format!("buffers of {from}"), move |isa| buffers(isa, from));
        suite.test(&format!("layouts of {from}"), move |isa| layouts(isa, from));
        suite.test(&format!("the oracle on {from}"), move |isa| against_the_oracle(isa, from));
    }
    suite.test("sizes that do not fit", wrong_sizes);
    suite.test("vectors", vectors);
    suite.run().exit();
}

fn check(isa: Isa, from: DType, to: DType, options: CastOptions, n: usize) {
    let caster = Caster::new(from, to, &options.isa(isa)).expect("it is available");
    let source = from.byte_len(n, options.src_packing).expect("a size that fits");
    let destination = to.byte_len(n, options.dst_packing).expect("a size that fits");
    let src = bytes(source);
    let mut expected = vec![0; destination];
    caster.cast(&src, &mut expected, n).expect("sizes that fit");
    // Bytes behind narrower results are unchanged.
    expected.extend(src.get(destination..).unwrap_or(&[]));
    // An odd address, and canaries on both sides.
    let mut memory = vec![CANARY; expected.len() + 66];
    memory[1..][..source].copy_from_slice(&src);
    let (before, rest) = memory.split_at_mut(1);
    let (buffer, behind) = rest.split_at_mut(expected.len());
    caster.cast_in_place(buffer, n).expect("a buffer that fits");
    assert!(*buffer == *expected, "{isa}: {from} -> {to}, {n} elements, {options:?}");
    let around = before.iter().chain(&*behind);
    assert!(around.copied().all(|b| b == CANARY), "{isa}: {from} -> {to}, {n}: written around");
}

/// Every target, with lengths around a tile, and so many elements that they are cast directly more than once.
fn buffers(isa: Isa, from: DType) {
    for to in share("buffers", isa, from, 3) {
        for n in [0, 1, 2, 7, 8, 9, 64, 65, 511, 1023, 1024, 1025, 2048, 4097, 9000, 33_333] {
            if isa == Isa::Scalar && n > 9000 && to.bits() % 3 != 0 {
                continue;
            }
            check(isa, from, to, CastOptions::new(), n);
        }
    }
}

/// Every packing, and swapped byte order on either side.
fn layouts(isa: Isa, from: DType) {
    const PACKINGS: [Packing; 3] = [Packing::LowFirst, Packing::OnePerByte, Packing::HighFirst];
    for to in share("layouts", isa, from, 3) {
        let few = |dtype: DType| if dtype.is_packed() { 3 } else { 1 };
        for a in PACKINGS.into_iter().take(few(from)) {
            for b in PACKINGS.into_iter().take(few(to)) {
                let options = CastOptions::new().src_packing(a).dst_packing(b);
                for n in [5, 700, 3001] {
                    check(isa, from, to, options, n);
                    check(isa, from, to, options.src_order(ByteOrder::Big), n);
                    check(isa, from, to, options.dst_order(ByteOrder::Big), n);
                }
            }
        }
    }
}

fn against_the_oracle(isa: Isa, from: DType) {
    for to in share("oracle", isa, from, 3) {
        let step = if from.bits() <= 8 { 1 } else { 11 };
        let codes: Vec<u128> = bridge::codes(from, to).iter().copied().step_by(step).collect();
        let mode = oracle::Mode::default();
        let (n, caster) = (codes.len(), bridge::caster(isa, from, to, &mode));
        let mut buffer = bridge::bytes_of(from, &codes);
        buffer.resize(bridge::size(from, n).max(bridge::size(to, n)), CANARY);
        caster.cast_in_place(&mut buffer, n).expect("a buffer that fits");
        let got = bridge::codes_of(to, &buffer[..bridge::size(to, n)], n);
        bridge::compare("cast_in_place", from, to, &mode, &codes, &got);
    }
}

fn wrong_sizes(isa: Isa) {
    let caster = |from, to| Caster::new(from, to, &CastOptions::new().isa(isa)).unwrap();
    let error = |from, to, size: usize, n| {
        let mut buffer = vec![CANARY; size];
        let error = caster(from, to).cast_in_place(&mut buffer, n).unwrap_err();
        assert!(buffer.iter().all(|&b| b == CANARY), "written in spite of {error}");
        error
    };
    let size =
        |side, dtype, elements, needed, given| Error::BufferSize { side, dtype, elements, needed, given };
    for given in [0, 3, 11, 13] {
        let narrow = error(DType::F32, DType::U8, given, 3);
        assert_eq!(narrow, size(Side::Both, DType::F32, 3, 12, given));
        let wide = error(DType::U8, DType::F32, given, 3);
        assert_eq!(wide, size(Side::Both, DType::F32, 3, 12, given));
    }
    let (side, elements) = (Side::Both, usize::MAX);
    assert_eq!(
        error(DType::U2, DType::F32, 12, usize::MAX),
        Error::SizeOverflow { side, dtype: DType::F32, elements }
    );
    caster(DType::F32, DType::F64).cast_in_place(&mut [], 0).expect("nothing to do");
}

/// Vectors of every alignment: whether the allocation moves, its capacity, and its contents.
fn vectors(isa: Isa) {
    let options = CastOptions::new().isa(isa);
    fn vector<S: Element, D: Element + PartialEq>(options: &CastOptions, spare: usize, moves: bool) {
        for n in [0, 1, 5, 1000, 10_000] {
            let mut vec: Vec<S> = Vec::with_capacity(n + spare * n);
            vec.extend(lanecast::cast_vec::<u16, S>(&(0..n).map(|i| i as u16).collect::<Vec<_>>()).unwrap());
            let expected: Vec<D> = cast_vec_with(&vec, options).unwrap();
            let (place, bytes) = (vec.as_ptr().cast::<D>(), vec.capacity() * size_of::<S>());
            let out: Vec<D> = in_place::cast_vec_with(vec, options).unwrap();
            assert!(out == expected, "{} -> {}", S::DTYPE, D::DTYPE);
            if n > 0 {
                assert_eq!(out.as_ptr() != place, moves, "{} -> {}, {n}", S::DTYPE, D::DTYPE);
                assert!(moves || out.capacity() * size_of::<D>() == bytes);
            }
        }
    }
    vector::<f32, i32>(&options, 0, false);
    vector::<f64, u64>(&options, 0, false);
    vector::<f16, bf16>(&options, 0, false);
    vector::<u8, F8E4M3FN>(&options, 0, false);
    vector::<F8E5M2, bool>(&options, 0, false);
    vector::<I4, u8>(&options, 0, false);
    vector::<Complex<f32>, f32>(&options, 0, false);
    vector::<Complex<f64>, i64>(&options, 0, false);
    // To wider elements: in place only with enough capacity.
    vector::<f32, Complex<f32>>(&options, 1, false);
    vector::<f32, Complex<f32>>(&options, 0, true);
    // To another alignment: never in place. 32-bit x86 aligns f64 and f32 alike, to four bytes.
    vector::<f64, f32>(&options, 0, align_of::<f64>() != align_of::<f32>());
    vector::<f32, bf16>(&options, 3, true);
    vector::<u8, f64>(&options, 9, true);
    // A capacity of an odd number of small elements is not a whole number of large ones.
    let mut odd: Vec<f32> = Vec::with_capacity(7);
    odd.push(2.0);
    if odd.capacity() == 7 {
        let place = odd.as_ptr().cast();
        let out: Vec<Complex<f32>> = in_place::cast_vec(odd).unwrap();
        assert_eq!((out[0], out.as_ptr() == place), (Complex::new(2.0, 0.0), false));
    }
}
