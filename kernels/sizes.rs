//! How many bytes lines have, how many elements blocks, and how many bytes and parts elements.

use crate::formats::route::{Parts, Route};

/// Whether the last codec itself makes complex elements with parts of 16 bits, by writing 32 bits for each.
#[inline(always)]
pub(super) fn widens_parts(route: &Route) -> bool {
    route.parts == Parts::Extend && route.dst.bits == 16
}

/// Bytes of a cache line: what buffers are aligned to, and stores where that pays.
pub(crate) const LINE: usize = 64;

/// Elements of a block of the widest instruction set: a multiple of it is whole blocks on every one.
pub(crate) const KERNEL_BLOCK: usize = 64;

/// Bytes of `n` elements of `bits` bits in a row, as [`formats::layout::bytes`](crate::formats::layout::bytes) counts them.
/// Kernels know the bits when they are compiled, and are smaller with this function.
#[inline(always)]
pub(super) const fn bytes(n: usize, bits: usize) -> usize {
    if bits >= 8 { n * (bits / 8) } else { n / 8 * bits + (n % 8 * bits).div_ceil(8) }
}

/// How many elements of `to` bits lie between `dst` and the next line: 0 if an element lies across the line, or if packed
/// elements would not end with a byte on both sides.
#[inline(always)]
pub(super) fn ahead(dst: *mut u8, from: usize, to: usize) -> usize {
    let bits = 8 * (dst.addr().wrapping_neg() % LINE);
    let unit = if from < 8 || to < 8 { 8 } else { 1 };
    if bits.is_multiple_of(unit * to) { bits / to } else { 0 }
}

/// How many units a codec counts for `n` elements: elements, or their parts.
#[inline(always)]
pub(super) fn codec_units(route: &Route, n: usize) -> usize {
    if route.parts == Parts::Two { 2 * n } else { n }
}

/// As [`codec_units`], where parts are brought to elements afterwards.
#[inline(always)]
pub(super) fn codec_units_of_tile(route: &Route, n: usize) -> usize {
    if matches!(route.parts, Parts::Two | Parts::Either) { 2 * n } else { n }
}

/// The bits of a codec's unit on both sides.
#[cfg(isa = "vector")]
pub(super) fn codec_bits(route: &Route) -> [usize; 2] {
    let [from, to] = [&route.src, &route.dst].map(|layout| layout.memory_bits() as usize);
    // Where imaginary parts are dropped, a unit of the source is a pair of parts.
    [if route.parts == Parts::Real { 2 * from } else { from }, if widens_parts(route) { 2 * to } else { to }]
}

/// The number of elements up to which they are cast without a tile, and, where instructions carry their rounding, by registers
/// alone: see `few` in `vector.rs`.
pub(super) const FEW: usize = 16;
