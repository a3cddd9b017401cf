//! From packed elements of 2 or 4 bits to packed elements of 2 or 4 bits: a byte of them at a time, without
//! unpacking any.
//!
//! What each half of a byte becomes is looked up, with zeros in the place of what the other half becomes. The
//! order of the elements in a byte, on both sides, is data of that table.

use super::super::isa::Isa;
use super::source::Bits;
use super::table::run;
use super::{Codec, Ends, Job, registers, store_codes};
use crate::formats::layout::Packing;
use crate::formats::route::{Layout, Parts, Route};
use crate::kernels::drive::Core;
use crate::kernels::scalar::{DECODE, ENCODE, Value};

/// What a half of a byte becomes, for each byte of the result. Only 16 of a row's bytes are looked at, but a
/// wider register is loaded.
const ROW: usize = 64;

/// The lower and the upper half of a byte, to two bytes.
const BYTES: usize = 2 * 2 * ROW;

/// It begins at a line: a register that lies across two is loaded twice.
#[repr(C, align(64))]
pub(in crate::kernels) struct Table(pub(in crate::kernels) [u8; BYTES]);

/// From a byte of elements to `DST` bits of them: 4, 8 or 16.
struct Groups<const DST: usize>;

impl<I: Isa, const DST: usize> Codec<I> for Groups<DST> {
    type From = Bits<8>;
    const DST: usize = DST;
    const FLOATS: bool = false;
    type Setup = [[I::Row; 2]; 2];

    #[inline(always)]
    unsafe fn setup(job: &Job) -> Self::Setup {
        // SAFETY: the caller's promise; the table has rows for two bytes.
        unsafe { registers!(2, P => registers!(2, K => I::row(job.table.add((2 * P + K) * ROW)))) }
    }

    #[inline(always)]
    unsafe fn block(rows: &Self::Setup, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut x = I::load(src);
            if DST == 16 {
                x = I::before_zips::<2>(x);
            }
            let halves = [x, I::shr16::<4>(x)];
            let halves = registers!(2, K => I::and(halves[K], I::splat8(0x0F)));
            let found = registers!(2, P => {
                if P == 1 && DST < 16 {
                    x
                } else {
                    I::or(I::lookup16(rows[P][0], halves[0]), I::lookup16(rows[P][1], halves[1]))
                }
            });
            if DST == 16 {
                let [a, b] = I::zip_pieces::<1>(found[0], found[1]);
                I::store(dst, a);
                I::store(dst.add(I::BYTES), b);
            } else {
                store_codes::<I, DST>(found[0], ends, dst);
            }
        }
    }
}

/// Elements in a byte of the source.
pub(in crate::kernels) fn per_byte(route: &Route) -> usize {
    8 / route.src.bits as usize
}

/// Bits that those have in the destination.
pub(in crate::kernels) fn made_bits(route: &Route) -> usize {
    per_byte(route) * route.dst.bits as usize
}

/// The codec for a route of packed elements of 2 or 4 bits.
pub(in crate::kernels) fn core<I: Isa>(route: &Route) -> Option<Core> {
    let fits = |layout: &Layout| layout.is_packed() && layout.bits != 6;
    if route.parts != Parts::One || !fits(&route.src) || !fits(&route.dst) {
        return None;
    }
    Some(match made_bits(route) {
        4 => run::<I, Groups<4>>(),
        8 => run::<I, Groups<8>>(),
        _ => run::<I, Groups<16>>(),
    })
}

/// Makes the table of a route.
pub(in crate::kernels) fn make_table(route: &Route) -> Table {
    let (from, to) = (route.src.bits as usize, route.dst.bits as usize);
    let codes: [u64; 16] = core::array::from_fn(|code| code as u64 & ((1 << from) - 1));
    let (mut values, mut results) = ([Value::ZERO; 16], [0; 16]);
    DECODE[route.from as usize](&codes, &mut values);
    ENCODE[route.to as usize](&values, &mut results, &route.policy);

    // Where an element begins: in the order of memory, bytes, and in them from the low or from the high end.
    let place = |element: usize, bits: usize, group: usize, layout: &Layout| {
        let byte = group.min(8);
        let (before, within) = (element * bits / byte * byte, element * bits % byte);
        before + if layout.packing == Packing::HighFirst { byte - bits - within } else { within }
    };
    let mut table = [0; BYTES];
    for element in 0..per_byte(route) {
        let at = place(element, from, 8, &route.src);
        let to_place = place(element, to, made_bits(route), &route.dst);
        let (half, plane) = (at / 4, to_place / 8);
        for nibble in 0..16 {
            let code = nibble >> (at % 4) & ((1 << from) - 1);
            table[(2 * plane + half) * ROW + nibble] |= (results[code] as u8) << (to_place % 8);
        }
    }
    Table(table)
}
