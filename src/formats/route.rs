//! The route of a pair under some options: a value that says *what* a cast does, whatever the
//! instruction set. `kernels/` has *how*.

use super::dtype::DType;
use super::layout::{ByteOrder, Packing, bytes, checked_bytes};
use super::options::{CastOptions, Policy};

/// What a cast of a pair does under some options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) work: Work,
    pub(crate) parts: Parts,
    /// The dtype of a part of the source: of the source itself, if it is real.
    pub(crate) from: DType,
    /// The dtype of a part of the destination.
    pub(crate) to: DType,
    pub(crate) policy: Policy,
    /// Whether rounding is stochastic, instead of that of the policy.
    pub(crate) is_stochastic: bool,
    pub(crate) src: Layout,
    pub(crate) dst: Layout,
}

/// What happens to each part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// The bytes are copied; at most the padding bits of the last one change.
    Copy,
    /// The code is kept, but its layout in memory changes.
    Keep,
    /// The value is converted to the format of the destination.
    Convert,
}

/// Which parts of a source element make which parts of a destination element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parts {
    /// Real to real.
    One,
    /// Complex to complex: part by part.
    Two,
    /// Complex to real: only the real part is taken.
    Real,
    /// Complex to bool: true if either part is.
    Either,
    /// Real to complex: the imaginary part is +0.
    Extend,
}

/// How the parts of a buffer lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// The width of the code of a part.
    pub(crate) bits: u32,
    /// The number of parts of an element.
    pub(crate) parts: usize,
    /// The packing of parts of fewer than 8 bits; [`Packing::OnePerByte`] for wider ones.
    pub(crate) packing: Packing,
    /// Whether the bytes of each part are in the opposite of this machine's order. False for single bytes.
    pub(crate) swapped: bool,
    /// The bits that an element takes in memory, with all its parts.
    element_bits: u32,
}

impl Layout {
    const fn new(dtype: DType, packing: Packing, order: ByteOrder) -> Self {
        let bits = dtype.part().bits();
        let packing = if bits < 8 { packing } else { Packing::OnePerByte };
        Self {
            bits,
            parts: (dtype.bits() / bits) as usize,
            packing,
            swapped: bits > 8 && order.is_swapped(),
            element_bits: dtype.bits_in_memory(packing),
        }
    }

    /// The layout of the parts of a dtype between two codecs: in native byte order, and one per byte if narrow.
    #[cfg(isa = "vector")]
    pub(crate) const fn native(dtype: DType) -> Self {
        Self::new(dtype, Packing::OnePerByte, ByteOrder::Native)
    }

    /// As [`native`](Self::native), but packed.
    #[cfg(isa = "vector")]
    pub(crate) const fn packed(dtype: DType) -> Self {
        Self::new(dtype, Packing::LowFirst, ByteOrder::Native)
    }

    /// The bits that a part of an element takes in memory.
    #[cfg(isa = "vector")]
    pub(crate) const fn memory_bits(&self) -> u32 {
        if self.is_packed() || self.bits > 8 { self.bits } else { 8 }
    }

    /// The bytes of `n` elements with all their parts; None if that overflows.
    #[inline(always)]
    pub(crate) const fn byte_len(&self, n: usize) -> Option<usize> {
        checked_bytes(n, self.element_bits as usize)
    }

    /// As [`byte_len`](Self::byte_len), for elements that are in memory, so that nothing overflows. The bytes of 8 elements are the bits of one.
    #[inline(always)]
    pub(crate) const fn size(&self, n: usize) -> usize {
        bytes(n, self.element_bits as usize)
    }

    /// Whether `given` bytes are exactly `n` elements. It takes fewer instructions than [`byte_len`](Self::byte_len), which matter for few elements.
    #[inline(always)]
    pub(crate) const fn holds(&self, n: usize, given: usize) -> bool {
        let bits = self.element_bits as usize;
        if bits >= 8 {
            let (needed, overflows) = n.overflowing_mul(bits / 8);
            needed == given && !overflows
        } else {
            self.size(n) == given
        }
    }

    /// As [`holds`](Self::holds), for so few elements that the number of their bits does not overflow.
    #[inline(always)]
    #[expect(
        clippy::manual_div_ceil,
        reason = "that takes three more instructions, for what does not happen here"
    )]
    pub(crate) const fn holds_few(&self, n: usize, given: usize) -> bool {
        (n * self.element_bits as usize + 7) / 8 == given
    }

    /// Whether an element takes exactly `bytes` whole bytes.
    pub(crate) const fn has_size(&self, bytes: usize) -> bool {
        self.element_bits as usize == 8 * bytes
    }

    /// Whether a byte may hold bits of several elements.
    #[cfg(isa = "vector")]
    pub(crate) const fn is_packed(&self) -> bool {
        self.bits < 8 && !matches!(self.packing, Packing::OnePerByte)
    }

    const fn same(self, other: Self) -> bool {
        // Compares the fields, because `PartialEq` is not const.
        self.bits == other.bits
            && self.parts == other.parts
            && self.packing as u8 == other.packing as u8
            && self.swapped == other.swapped
    }
}

/// The route of `from` to `to` under `options`.
pub(crate) const fn route(from: DType, to: DType, options: &CastOptions) -> Route {
    let src = Layout::new(from, options.src_packing, options.src_order);
    let dst = Layout::new(to, options.dst_packing, options.dst_order);
    let parts = match (src.parts, dst.parts) {
        (1, 1) => Parts::One,
        (1, _) => Parts::Extend,
        (_, 1) if matches!(to, DType::Bool) => Parts::Either,
        (_, 1) => Parts::Real,
        _ => Parts::Two,
    };
    // Even bool to bool converts: any byte but 0 becomes 1.
    let keeps_codes = from.part() as u8 == to.part() as u8 && !matches!(from, DType::Bool);
    // Narrow elements that lie one per byte may have high bits set on input, which a copy would keep.
    let has_gaps = src.bits < 8 && matches!(src.packing, Packing::OnePerByte);
    let work = if !keeps_codes {
        Work::Convert
    } else if src.same(dst) && !has_gaps {
        Work::Copy
    } else {
        Work::Keep
    };
    let policy = options.policy(from, to);
    let is_stochastic =
        matches!(work, Work::Convert) && options.stochastic.is_some() && to.rounds_stochastically();
    Route { work, parts, from: from.part(), to: to.part(), policy, is_stochastic, src, dst }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(from: DType, to: DType) -> (Work, Parts) {
        let route = route(from, to, &CastOptions::new());
        (route.work, route.parts)
    }

    #[test]
    fn every_pair_has_the_route_of_its_class() {
        use DType::*;
        for from in DType::ALL {
            for to in DType::ALL {
                let (work, parts) = shape(from, to);
                let complex = |t: DType| matches!(t.kind(), crate::formats::dtype::Kind::Complex(_));
                let keeps = from.part() == to.part() && from != Bool;
                assert_eq!(work != Work::Convert, keeps, "{from} -> {to}");
                assert_eq!(work == Work::Copy, from == to && from != Bool, "{from} -> {to}");
                let expected = match (complex(from), complex(to)) {
                    (false, false) => Parts::One,
                    (false, true) => Parts::Extend,
                    (true, false) if to == Bool => Parts::Either,
                    (true, false) => Parts::Real,
                    (true, true) => Parts::Two,
                };
                assert_eq!(parts, expected, "{from} -> {to}");
            }
        }
    }

    #[test]
    fn another_layout_is_never_a_plain_copy() {
        let big_or_little = if cfg!(target_endian = "big") { ByteOrder::Little } else { ByteOrder::Big };
        let swapped = CastOptions::new().src_order(big_or_little);
        assert_eq!(route(DType::F32, DType::F32, &swapped).work, Work::Keep);
        assert_eq!(route(DType::I8, DType::I8, &swapped).work, Work::Copy);
        let single = CastOptions::new().src_packing(Packing::OnePerByte);
        assert_eq!(route(DType::I4, DType::I4, &single).work, Work::Keep);
        let both = single.dst_packing(Packing::OnePerByte);
        assert_eq!(route(DType::I4, DType::I4, &both).work, Work::Keep);
        assert_eq!(route(DType::I8, DType::I8, &both).work, Work::Copy);
    }

    /// Plans are found by the key of their options: options that decide something about a pair are in it, and no others.
    #[test]
    fn what_decides_a_cast_is_in_its_key() {
        use crate::formats::options::{E8m0Rounding, NanToFinite, Overflow, Rounding, Saturation};
        let default = CastOptions::new();
        let mut others = vec![default.stochastic(7, 0)];
        others.extend(Rounding::ALL.map(|x| default.rounding(x)));
        others.extend(Rounding::ALL.map(|x| default.int_rounding(x)));
        others.extend(Rounding::ALL.map(|x| default.narrow_int_rounding(x)));
        others.extend(Saturation::ALL.map(|x| default.saturation(x)));
        others.extend(Overflow::ALL.map(|x| default.float_to_int(x)));
        others.extend(Overflow::ALL.map(|x| default.int_to_int(x)));
        others.extend(Overflow::ALL.map(|x| default.narrow_float_to_int(x)));
        others.extend(NanToFinite::ALL.map(|x| default.nan_to_finite(x)));
        others.extend(E8m0Rounding::ALL.map(|x| default.e8m0_rounding(x)));
        others.extend(Packing::ALL.map(|x| default.src_packing(x)));
        others.extend(Packing::ALL.map(|x| default.dst_packing(x)));
        others.extend(ByteOrder::ALL.map(|x| default.src_order(x)));
        others.extend(ByteOrder::ALL.map(|x| default.dst_order(x)));
        for (from, to) in DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|to| (from, to))) {
            let decided = |options: &CastOptions| {
                let Route { policy, is_stochastic, src, dst, .. } = route(from, to, options);
                (policy, is_stochastic, src, dst)
            };
            for options in &others {
                let is_same = decided(options) == decided(&default);
                // An option for narrow integers may say the same as that for all integers, and stochastic rounding changes nothing where
                // nothing is rounded.
                let says_more = options.narrow_int_rounding.is_some()
                    || options.narrow_float_to_int.is_some()
                    || options.stochastic.is_some();
                let has_same_key = options.key(from, to) == default.key(from, to);
                // Saturation that depends on the format is in the key as given, though it may come to the same for a float8.
                let by_format = options.saturation != default.saturation && to.bits() == 8;
                assert!(
                    has_same_key == is_same || is_same && (says_more || by_format),
                    "{from} -> {to}: {options:?}"
                );
            }
        }
    }

    #[test]
    fn options_that_do_not_concern_a_pair_do_not_change_its_policy() {
        use crate::formats::options::{E8m0Rounding, NanToFinite, Overflow, Rounding};
        let odd = CastOptions::new()
            .rounding(Rounding::Up)
            .int_rounding(Rounding::Down)
            .saturate(false)
            .float_to_int(Overflow::Wrap)
            .nan_to_finite(NanToFinite::Max)
            .e8m0_rounding(E8m0Rounding::Nearest)
            .narrow_int_rounding(Rounding::Up);
        let default = CastOptions::new();
        for (from, to) in [(DType::I16, DType::I8), (DType::F32, DType::Bool), (DType::Bool, DType::Bool)] {
            assert_eq!(odd.policy(from, to), default.policy(from, to), "{from} -> {to}");
        }
        assert_eq!(odd.policy(DType::F32, DType::F8E8M0).rounding, Rounding::NearestEven);
        assert!(odd.policy(DType::F32, DType::F16).saturate);
        assert!(odd.policy(DType::F32, DType::F4E2M1).saturate);
        assert_eq!(odd.policy(DType::F32, DType::F8E5M2).nan_to_finite, NanToFinite::NegZero);
    }
}
