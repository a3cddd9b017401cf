//! The casts of the codec cast_value that zarrs will have beside lanecast's, of all pairs of data types for which it has kernels: the same bytes, and
//! the times of both in turns. Its codec takes a kernel, and with a map one call of it or a look into a hash table for each element.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use lanecast::zarr::ValueCaster;
use lanecast::{CastOptions, Caster, DType, Overflow, Rounding};
use zarrs_data_type::codec_traits::cast_value::{
    CastValueIntStored as Stored, CastValueOutOfRangeMode, CastValueRepr as Repr, CastValueRoundingMode, select_cast_kernel,
};

const TYPES: [(DType, Repr); 12] = [
    (DType::I8, Repr::Int { bits: 8, stored: Stored::I8 }),
    (DType::I16, Repr::Int { bits: 16, stored: Stored::I16 }),
    (DType::I32, Repr::Int { bits: 32, stored: Stored::I32 }),
    (DType::I64, Repr::Int { bits: 64, stored: Stored::I64 }),
    (DType::U8, Repr::Int { bits: 8, stored: Stored::U8 }),
    (DType::U16, Repr::Int { bits: 16, stored: Stored::U16 }),
    (DType::U32, Repr::Int { bits: 32, stored: Stored::U32 }),
    (DType::U64, Repr::Int { bits: 64, stored: Stored::U64 }),
    (DType::F16, Repr::F16),
    (DType::BF16, Repr::BF16),
    (DType::F32, Repr::F32),
    (DType::F64, Repr::F64),
];

/// What the codec does, as a function of bytes.
type Cast<'a> = dyn Fn(&[u8]) -> Vec<u8> + 'a;

/// How much longer theirs takes than ours.
fn ratio(src: &[u8], theirs: &Cast, ours: &Cast) -> f64 {
    let calls = (200_000 / src.len()).clamp(1, 200);
    let time = |call: &Cast| {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(call(black_box(src)));
        }
        start.elapsed()
    };
    let (start, mut ratios) = (Instant::now(), Vec::new());
    while ratios.len() < 7 || start.elapsed() < Duration::from_millis(20) {
        let (a, b, c, d) = (time(theirs), time(ours), time(ours), time(theirs));
        ratios.push((a + d).as_secs_f64() / (b + c).as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

fn main() {
    println!("| cast | rule | mapped | 4,096 | 65,536 | 1,048,576 |\n|---|---|---|---|---|---|");
    for (from, from_repr) in TYPES {
        for (to, to_repr) in TYPES.into_iter().filter(|(to, _)| *to != from) {
            for (rule, their_rule) in [(None, None), (Some(Overflow::Saturate), Some(CastValueOutOfRangeMode::Clamp))] {
                for is_mapped in [false, true] {
                    let kernel = select_cast_kernel(from_repr, to_repr, CastValueRoundingMode::NearestEven, their_rule).unwrap();
                    // Numbers from 0 to 99; with the rule, of which an eighth is out of the range of bytes.
                    let values = |n: usize| -> Vec<u8> {
                        let numbers: Vec<u8> = (0..n).flat_map(|i| ((i * 7 % 100) as f64 * if rule.is_some() && i % 8 == 3 { 9.5 } else { 1.0 }).to_ne_bytes()).collect();
                        let mut src = vec![0; n * from.itemsize()];
                        Caster::new(DType::F64, from, &CastOptions::new().float_to_int(Overflow::Saturate)).unwrap().cast(&numbers, &mut src, n).unwrap();
                        src
                    };
                    // 0 becomes the code 1.
                    let key = vec![0; from.itemsize()];
                    let mut value = 1u64.to_le_bytes()[..to.itemsize()].to_vec();
                    if cfg!(target_endian = "big") {
                        value.reverse();
                    }
                    let map: Vec<(u64, u64)> = is_mapped.then_some((0, 1)).into_iter().collect();
                    let hashed: HashMap<Vec<u8>, Vec<u8>> = is_mapped.then_some((key, value)).into_iter().collect();
                    let caster = ValueCaster::new(from, to, Rounding::NearestEven, rule, &map).unwrap();
                    let ours = |src: &[u8]| {
                        let n = src.len() / from.itemsize();
                        let mut out = Vec::with_capacity(n * to.itemsize());
                        let len = caster.cast_uninit(src, &mut out.spare_capacity_mut()[..n * to.itemsize()], n).unwrap().len();
                        // SAFETY: the cast has initialised so many.
                        unsafe { out.set_len(len) };
                        out
                    };
                    let theirs = |src: &[u8]| {
                        let mut out = Vec::with_capacity(src.len() / from.itemsize() * to.itemsize());
                        if !is_mapped {
                            kernel.cast(src, &mut out).unwrap();
                            return out;
                        }
                        for element in src.chunks_exact(from.itemsize()) {
                            match hashed.get(element) {
                                Some(mapped) => out.extend_from_slice(mapped),
                                None => kernel.cast(element, &mut out).unwrap(),
                            }
                        }
                        out
                    };
                    let ratios = [4096, 65536, 1 << 20].map(|n| {
                        let src = values(n);
                        assert!(theirs(&src) == ours(&src), "{from} to {to}: other bytes");
                        format!("{:.2}", ratio(&src, &theirs, &ours))
                    });
                    let (rule, mapped) = (if rule.is_some() { "clamp" } else { "an error" }, if is_mapped { "0" } else { "" });
                    println!("| {from} to {to} | {rule} | {mapped} | {} |", ratios.join(" | "));
                }
            }
        }
    }
}
