//! Blocks of elements of a given width: how they are loaded to registers and stored.

use super::super::simd::Simd;
use super::super::sizes::FEW;

/// Elements of `BITS` bits. Those of fewer than 8 are packed.
pub(in crate::kernels) struct Bits<const BITS: usize>;

/// How a block of elements is held in registers.
pub(in crate::kernels) trait Width: Sized {
    const BITS: usize;
    /// The registers, in the order of memory. Codes of fewer than 8 bits take a byte each.
    type Block<I: Simd>: Copy;

    /// Loads a block. The bits above a packed code are arbitrary. `high`: whether the first code of a byte is at its high end.
    ///
    /// # Safety
    /// A block is readable.
    unsafe fn load<I: Simd>(isa: I, src: *const u8, high: bool) -> Self::Block<I>;
    /// Stores a block. The bits above a packed code must be 0.
    ///
    /// # Safety
    /// A block is writable.
    unsafe fn store<I: Simd>(isa: I, block: Self::Block<I>, dst: *mut u8, high: bool);
    /// Loads one to [`FEW`] elements; the others are 0. The compiler then knows which registers are empty.
    ///
    /// # Safety
    /// `n` elements are readable.
    unsafe fn load_few<I: Simd>(isa: I, src: *const u8, n: usize, high: bool) -> Self::Block<I>;
    /// Stores one to [`FEW`] elements. Unused bits of the last byte become 0.
    ///
    /// # Safety
    /// `n` elements are writable.
    unsafe fn store_few<I: Simd>(isa: I, block: Self::Block<I>, dst: *mut u8, n: usize, high: bool);
}

/// Where the registers of a block come from.
trait From: Copy {
    fn register<I: Simd>(self, isa: I, k: usize) -> I::V;
}

/// Where the registers of a block go.
trait To: Copy {
    fn register<I: Simd>(self, isa: I, k: usize, v: I::V);
}

/// The place of a whole block, which is readable, or writable.
#[derive(Clone, Copy)]
struct Whole<P>(P);

impl<P> Whole<P> {
    /// # Safety
    /// The block is readable, or writable, for as long as this is used.
    #[inline(always)]
    unsafe fn new(place: P) -> Self {
        Self(place)
    }
}

impl From for Whole<*const u8> {
    #[inline(always)]
    fn register<I: Simd>(self, isa: I, k: usize) -> I::V {
        // SAFETY: one of the registers of a block.
        unsafe { isa.load(self.0.add(k * I::BYTES)) }
    }
}

impl To for Whole<*mut u8> {
    #[inline(always)]
    fn register<I: Simd>(self, isa: I, k: usize, v: I::V) {
        // SAFETY: one of the registers of a block.
        unsafe { isa.store(self.0.add(k * I::BYTES), v) };
    }
}

/// The place of some bytes, at most `MOST`, which are readable, or writable.
#[derive(Clone, Copy)]
struct Few<P, const MOST: usize>(P, usize);

impl<P, const MOST: usize> Few<P, MOST> {
    /// # Safety
    /// The bytes are readable, or writable, for as long as this is used.
    #[inline(always)]
    unsafe fn new(place: P, bytes: usize) -> Self {
        Self(place, bytes)
    }
}

impl<const MOST: usize> From for Few<*const u8, MOST> {
    #[inline(always)]
    fn register<I: Simd>(self, isa: I, k: usize) -> I::V {
        let before = k * I::BYTES;
        if before >= MOST {
            return isa.splat8(0);
        }
        // SAFETY: what follows the registers before, as far as there are bytes.
        unsafe { isa.load_few::<MOST>(self.0.wrapping_add(before), self.1.saturating_sub(before)) }
    }
}

impl<const MOST: usize> To for Few<*mut u8, MOST> {
    #[inline(always)]
    fn register<I: Simd>(self, isa: I, k: usize, v: I::V) {
        let before = k * I::BYTES;
        if before < MOST {
            let left = self.1.saturating_sub(before);
            // SAFETY: what follows the registers before, as far as there are bytes.
            unsafe { isa.store_few::<MOST>(self.0.wrapping_add(before), v, left) };
        }
    }
}

/// A block that can be converted to lanes of any other width: wider lanes are truncated, narrower ones extended. Where bytes
/// are made from wider lanes, only the bits of `mask` are kept.
pub(in crate::kernels) trait Code: Width {
    fn of8<I: Simd, const SIGNED: bool>(isa: I, v: I::V) -> Self::Block<I>;
    fn of16<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 2], mask: I::V) -> Self::Block<I>;
    fn of32<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 4], mask: I::V) -> Self::Block<I>;
    fn of64<I: Simd>(isa: I, v: [I::V; 8], mask: I::V) -> Self::Block<I>;
    /// Makes a block from one of another width, keeping whole bytes.
    #[inline(always)]
    fn of<I: Simd, W: Code, const SIGNED: bool>(isa: I, block: W::Block<I>) -> Self::Block<I> {
        W::to::<I, Self, SIGNED>(isa, block, isa.splat8(u8::MAX))
    }
    /// Converts a block to another width.
    fn to<I: Simd, W: Code, const SIGNED: bool>(isa: I, block: Self::Block<I>, mask: I::V) -> W::Block<I>;
    /// The maximum of each element and a limit, which is splat, as signed or as unsigned integers.
    fn at_least<I: Simd, const SIGNED: bool>(isa: I, block: Self::Block<I>, low: I::V) -> Self::Block<I>;
    /// The minimum of each element and a limit, which is splat, as signed or as unsigned integers.
    fn at_most<I: Simd, const SIGNED: bool>(isa: I, block: Self::Block<I>, high: I::V) -> Self::Block<I>;
    /// Converts a block to a narrower width by the instructions that saturate. `signed`: whether the elements are signed, and
    /// whether the results are. `most` is the largest result, splat.
    fn saturated<I: Simd, W: Code>(
        isa: I,
        block: Self::Block<I>,
        signed: [bool; 2],
        most: I::V,
        mask: I::V,
    ) -> W::Block<I>;
    /// Reverses the bytes of each element.
    fn swapped<I: Simd>(isa: I, block: Self::Block<I>) -> Self::Block<I>;
    /// A register with `bits` in each element.
    fn splat<I: Simd>(isa: I, bits: u64) -> I::V;
    /// A byte for each element: 1 if it has any of `bits`, which are splat, else 0.
    fn any<I: Simd>(isa: I, block: Self::Block<I>, bits: I::V) -> I::V;
}

/// An array of registers from an expression in its index. (`array::from_fn` is not always inlined.)
macro_rules! registers {
    (2, $k:ident => $e:expr) => { [{ const $k: usize = 0; $e }, { const $k: usize = 1; $e }] };
    (4, $k:ident => $e:expr) => {
        [{ const $k: usize = 0; $e }, { const $k: usize = 1; $e }, { const $k: usize = 2; $e }, { const $k: usize = 3; $e }]
    };
    (8, $k:ident => $e:expr) => {
        [
            { const $k: usize = 0; $e }, { const $k: usize = 1; $e }, { const $k: usize = 2; $e }, { const $k: usize = 3; $e },
            { const $k: usize = 4; $e }, { const $k: usize = 5; $e }, { const $k: usize = 6; $e }, { const $k: usize = 7; $e },
        ]
    };
}
pub(in crate::kernels) use registers;

/// The low halves of lanes of 64 bits.
#[inline(always)]
fn low64<I: Simd>(isa: I, v: [I::V; 8]) -> [I::V; 4] {
    registers!(4, K => isa.low64([v[2 * K], v[2 * K + 1]]))
}

#[inline(always)]
fn low32<I: Simd>(isa: I, v: [I::V; 4]) -> [I::V; 2] {
    registers!(2, K => isa.low32([v[2 * K], v[2 * K + 1]]))
}

/// Widens lanes of 16 and of 32 bits.
#[inline(always)]
pub(super) fn wide16<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 2]) -> [I::V; 4] {
    let v = registers!(2, K => if SIGNED { isa.sext16(v[K]) } else { isa.zext16(v[K]) });
    registers!(4, K => v[K / 2][K % 2])
}

#[inline(always)]
pub(super) fn wide32<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 4]) -> [I::V; 8] {
    let v = registers!(4, K => if SIGNED { isa.sext32(v[K]) } else { isa.zext32(v[K]) });
    registers!(8, K => v[K / 2][K % 2])
}

/// Narrows lanes of 64 bits to 32 by the instructions that saturate. (Not from unsigned to signed.)
#[inline(always)]
pub(super) fn narrow_all64<I: Simd>(isa: I, v: [I::V; 8], from_signed: bool, to_signed: bool) -> [I::V; 4] {
    match (from_signed, to_signed) {
        (true, true) => registers!(4, K => isa.narrow_s64([v[2 * K], v[2 * K + 1]])),
        (true, false) => registers!(4, K => isa.narrow_s64_to_u32([v[2 * K], v[2 * K + 1]])),
        _ => registers!(4, K => isa.narrow_u64([v[2 * K], v[2 * K + 1]])),
    }
}

#[inline(always)]
pub(super) fn narrow_all32<I: Simd>(isa: I, v: [I::V; 4], from_signed: bool, to_signed: bool) -> [I::V; 2] {
    match (from_signed, to_signed) {
        (true, true) => registers!(2, K => isa.narrow_s32([v[2 * K], v[2 * K + 1]])),
        (true, false) => registers!(2, K => isa.narrow_s32_to_u16([v[2 * K], v[2 * K + 1]])),
        _ => registers!(2, K => isa.narrow_u32([v[2 * K], v[2 * K + 1]])),
    }
}

/// Defines loads and stores of as many registers as an element has bytes: which of them a block is made of, and where each goes.
macro_rules! whole {
    ($registers:tt: $bits:literal) => {
        whole! {
            $bits as [I::V; $registers]:
            isa, from => registers!($registers, K => from.register(isa, K)),
            block, to => for k in 0..$registers {
                to.register(isa, k, block[k]);
            }
        }
    };
    ($bits:literal as $block:ty: $isa:ident, $from:ident => $load:expr, $made:ident, $to:ident => $store:expr) => {
        const BITS: usize = $bits;
        type Block<I: Simd> = $block;

        whole! { load($isa: I, src: *const u8) -> $block: $from = Whole::new(src), $load }
        whole! { store($isa: I, $made: $block, dst: *mut u8) -> (): $to = Whole::new(dst), $store }
        whole! {
            load_few($isa: I, src: *const u8, n: usize) -> $block:
            $from = Few::<_, { FEW * $bits / 8 }>::new(src, n * $bits / 8), $load
        }
        whole! {
            store_few($isa: I, $made: $block, dst: *mut u8, n: usize) -> ():
            $to = Few::<_, { FEW * $bits / 8 }>::new(dst, n * $bits / 8), $store
        }
    };
    ($name:ident($($arg:ident: $ty:ty),*) -> $made:ty: $place:ident = $new:expr, $moves:expr) => {
        #[inline(always)]
        unsafe fn $name<I: Simd>($($arg: $ty,)* _: bool) -> $made {
            // SAFETY: the caller's block, or so many bytes of one.
            let $place = unsafe { $new };
            $moves
        }
    };
}

/// Elements of 8 bits or fewer: a register of bytes.
macro_rules! bytes {
    ($($bits:literal)*) => {$(
        impl Width for Bits<$bits> {
            const BITS: usize = $bits;
            type Block<I: Simd> = I::V;

            #[inline(always)]
            unsafe fn load<I: Simd>(isa: I, src: *const u8, high: bool) -> I::V {
                // SAFETY: the caller's block, which has as many elements as a register has bytes, packed ones too.
                unsafe { if $bits == 8 { Whole::new(src).register(isa, 0) } else { isa.unpack::<$bits>(src, high) } }
            }

            #[inline(always)]
            unsafe fn store<I: Simd>(isa: I, block: I::V, dst: *mut u8, high: bool) {
                // SAFETY: as in `load`.
                unsafe {
                    if $bits == 8 { Whole::new(dst).register(isa, 0, block) } else { isa.pack::<$bits>(dst, block, high) }
                }
            }

            #[inline(always)]
            unsafe fn load_few<I: Simd>(isa: I, src: *const u8, n: usize, high: bool) -> I::V {
                // SAFETY: the caller's elements.
                unsafe {
                    if $bits == 8 { Few::<_, FEW>::new(src, n).register(isa, 0) } else { isa.unpack_few::<$bits>(src, n, high) }
                }
            }

            #[inline(always)]
            unsafe fn store_few<I: Simd>(isa: I, block: I::V, dst: *mut u8, n: usize, high: bool) {
                // SAFETY: the caller's elements.
                unsafe {
                    if $bits == 8 {
                        Few::<_, FEW>::new(dst, n).register(isa, 0, block);
                    } else {
                        isa.pack_few::<$bits>(dst, block, n, high);
                    }
                }
            }
        }

        impl Code for Bits<$bits> {
            #[inline(always)]
            fn of8<I: Simd, const SIGNED: bool>(_: I, v: I::V) -> I::V {
                v
            }
            #[inline(always)]
            fn of16<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 2], mask: I::V) -> I::V {
                isa.and(isa.low16(v), mask)
            }
            #[inline(always)]
            fn of32<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 4], mask: I::V) -> I::V {
                isa.and(isa.lowest32(v), mask)
            }
            #[inline(always)]
            fn of64<I: Simd>(isa: I, v: [I::V; 8], mask: I::V) -> I::V {
                Self::of32::<I, false>(isa, low64(isa, v), mask)
            }
            #[inline(always)]
            fn to<I: Simd, W: Code, const SIGNED: bool>(isa: I, v: I::V, mask: I::V) -> W::Block<I> {
                W::of8::<I, SIGNED>(isa, if W::BITS <= 8 { isa.and(v, mask) } else { v })
            }
            #[inline(always)]
            fn at_least<I: Simd, const SIGNED: bool>(isa: I, v: I::V, low: I::V) -> I::V {
                if SIGNED { isa.max_s8(v, low) } else { isa.max_u8(v, low) }
            }
            #[inline(always)]
            fn at_most<I: Simd, const SIGNED: bool>(isa: I, v: I::V, high: I::V) -> I::V {
                if SIGNED { isa.min_s8(v, high) } else { isa.min_u8(v, high) }
            }
            #[inline(always)]
            fn saturated<I: Simd, W: Code>(isa: I, v: I::V, _: [bool; 2], _: I::V, mask: I::V) -> W::Block<I> {
                Self::to::<I, W, false>(isa, v, mask)
            }
            #[inline(always)]
            fn swapped<I: Simd>(_: I, block: I::V) -> I::V {
                block
            }
            #[inline(always)]
            fn splat<I: Simd>(isa: I, bits: u64) -> I::V {
                isa.splat8(bits as u8)
            }
            #[inline(always)]
            fn any<I: Simd>(isa: I, block: I::V, bits: I::V) -> I::V {
                isa.min_u8(isa.and(block, bits), isa.splat8(1))
            }
        }
    )*};
}
bytes! { 1 2 4 6 8 }

/// The bits that are kept of the lanes of `any16`, `any32` and `any64`.
#[inline(always)]
fn truth<I: Simd>(isa: I) -> I::V {
    isa.splat32(if I::TRUE == u32::MAX { 0x0101_0101 } else { u32::MAX })
}

impl Width for Bits<16> {
    whole!(2: 16);
}

impl Code for Bits<16> {
    #[inline(always)]
    fn of8<I: Simd, const SIGNED: bool>(isa: I, v: I::V) -> [I::V; 2] {
        if SIGNED { isa.sext8(v) } else { isa.zext8(v) }
    }
    #[inline(always)]
    fn of16<I: Simd, const SIGNED: bool>(_: I, v: [I::V; 2], _: I::V) -> [I::V; 2] {
        v
    }
    #[inline(always)]
    fn of32<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 4], _: I::V) -> [I::V; 2] {
        low32(isa, v)
    }
    #[inline(always)]
    fn of64<I: Simd>(isa: I, v: [I::V; 8], _: I::V) -> [I::V; 2] {
        low32(isa, low64(isa, v))
    }
    #[inline(always)]
    fn to<I: Simd, W: Code, const SIGNED: bool>(isa: I, v: [I::V; 2], mask: I::V) -> W::Block<I> {
        W::of16::<I, SIGNED>(isa, v, mask)
    }
    #[inline(always)]
    fn at_least<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 2], low: I::V) -> [I::V; 2] {
        registers!(2, K => if SIGNED { isa.max_s16(v[K], low) } else { isa.max_u16(v[K], low) })
    }
    #[inline(always)]
    fn at_most<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 2], high: I::V) -> [I::V; 2] {
        registers!(2, K => if SIGNED { isa.min_s16(v[K], high) } else { isa.min_u16(v[K], high) })
    }
    #[inline(always)]
    fn saturated<I: Simd, W: Code>(
        isa: I,
        v: [I::V; 2],
        from: [bool; 2],
        most: I::V,
        _: I::V,
    ) -> W::Block<I> {
        let v = match from {
            [true, true] => isa.narrow_s16(v),
            [true, false] => isa.narrow_s16_to_u8(v),
            [false, false] => isa.narrow_u16(v),
            [false, true] => isa.min_u8(isa.narrow_u16(v), most),
        };
        W::of8::<I, false>(isa, v)
    }
    #[inline(always)]
    fn swapped<I: Simd>(isa: I, v: [I::V; 2]) -> [I::V; 2] {
        registers!(2, K => isa.swap16(v[K]))
    }
    #[inline(always)]
    fn splat<I: Simd>(isa: I, bits: u64) -> I::V {
        isa.splat16(bits as u16)
    }
    #[inline(always)]
    fn any<I: Simd>(isa: I, v: [I::V; 2], bits: I::V) -> I::V {
        Bits::<8>::of16::<I, false>(isa, registers!(2, K => isa.any16(v[K], bits)), truth(isa))
    }
}

impl Width for Bits<32> {
    whole!(4: 32);
}

impl Code for Bits<32> {
    #[inline(always)]
    fn of8<I: Simd, const SIGNED: bool>(isa: I, v: I::V) -> [I::V; 4] {
        wide16::<I, SIGNED>(isa, Bits::<16>::of8::<I, SIGNED>(isa, v))
    }
    #[inline(always)]
    fn of16<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 2], _: I::V) -> [I::V; 4] {
        wide16::<I, SIGNED>(isa, v)
    }
    #[inline(always)]
    fn of32<I: Simd, const SIGNED: bool>(_: I, v: [I::V; 4], _: I::V) -> [I::V; 4] {
        v
    }
    #[inline(always)]
    fn of64<I: Simd>(isa: I, v: [I::V; 8], _: I::V) -> [I::V; 4] {
        low64(isa, v)
    }
    #[inline(always)]
    fn to<I: Simd, W: Code, const SIGNED: bool>(isa: I, v: [I::V; 4], mask: I::V) -> W::Block<I> {
        W::of32::<I, SIGNED>(isa, v, mask)
    }
    #[inline(always)]
    fn at_least<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 4], low: I::V) -> [I::V; 4] {
        registers!(4, K => if SIGNED { isa.max_s32(v[K], low) } else { isa.max_u32(v[K], low) })
    }
    #[inline(always)]
    fn at_most<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 4], high: I::V) -> [I::V; 4] {
        registers!(4, K => if SIGNED { isa.min_s32(v[K], high) } else { isa.min_u32(v[K], high) })
    }
    #[inline(always)]
    fn saturated<I: Simd, W: Code>(
        isa: I,
        v: [I::V; 4],
        signed: [bool; 2],
        most: I::V,
        mask: I::V,
    ) -> W::Block<I> {
        let [from, to] = signed;
        if W::BITS < 16 {
            return Bits::<16>::saturated::<I, W>(isa, narrow_all32(isa, v, from, from), signed, most, mask);
        }
        let v = narrow_all32(isa, v, from, from && to);
        // Unsigned integers are never narrowed to signed ones.
        let v = registers!(2, K => if from == to || from { v[K] } else { isa.min_u16(v[K], most) });
        W::of16::<I, false>(isa, v, mask)
    }
    #[inline(always)]
    fn swapped<I: Simd>(isa: I, v: [I::V; 4]) -> [I::V; 4] {
        registers!(4, K => isa.swap32(v[K]))
    }
    #[inline(always)]
    fn splat<I: Simd>(isa: I, bits: u64) -> I::V {
        isa.splat32(bits as u32)
    }
    #[inline(always)]
    fn any<I: Simd>(isa: I, v: [I::V; 4], bits: I::V) -> I::V {
        Bits::<8>::of32::<I, false>(isa, registers!(4, K => isa.any32(v[K], bits)), truth(isa))
    }
}

impl Width for Bits<64> {
    whole!(8: 64);
}

impl Code for Bits<64> {
    #[inline(always)]
    fn of8<I: Simd, const SIGNED: bool>(isa: I, v: I::V) -> [I::V; 8] {
        wide32::<I, SIGNED>(isa, Bits::<32>::of8::<I, SIGNED>(isa, v))
    }
    #[inline(always)]
    fn of16<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 2], _: I::V) -> [I::V; 8] {
        wide32::<I, SIGNED>(isa, wide16::<I, SIGNED>(isa, v))
    }
    #[inline(always)]
    fn of32<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 4], _: I::V) -> [I::V; 8] {
        wide32::<I, SIGNED>(isa, v)
    }
    #[inline(always)]
    fn of64<I: Simd>(_: I, v: [I::V; 8], _: I::V) -> [I::V; 8] {
        v
    }
    #[inline(always)]
    fn to<I: Simd, W: Code, const SIGNED: bool>(isa: I, v: [I::V; 8], mask: I::V) -> W::Block<I> {
        W::of64::<I>(isa, v, mask)
    }
    #[inline(always)]
    fn at_least<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 8], low: I::V) -> [I::V; 8] {
        registers!(8, K => if SIGNED { isa.max_s64(v[K], low) } else { isa.max_u64(v[K], low) })
    }
    #[inline(always)]
    fn at_most<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 8], high: I::V) -> [I::V; 8] {
        registers!(8, K => if SIGNED { isa.min_s64(v[K], high) } else { isa.min_u64(v[K], high) })
    }
    #[inline(always)]
    fn saturated<I: Simd, W: Code>(
        isa: I,
        v: [I::V; 8],
        signed: [bool; 2],
        most: I::V,
        mask: I::V,
    ) -> W::Block<I> {
        let [from, to] = signed;
        if W::BITS < 32 {
            return Bits::<32>::saturated::<I, W>(isa, narrow_all64(isa, v, from, from), signed, most, mask);
        }
        let v = narrow_all64(isa, v, from, from && to);
        let v = registers!(4, K => if from == to || from { v[K] } else { isa.min_u32(v[K], most) });
        W::of32::<I, false>(isa, v, mask)
    }
    #[inline(always)]
    fn swapped<I: Simd>(isa: I, v: [I::V; 8]) -> [I::V; 8] {
        registers!(8, K => isa.swap64(v[K]))
    }
    #[inline(always)]
    fn splat<I: Simd>(isa: I, bits: u64) -> I::V {
        isa.splat64(bits)
    }
    #[inline(always)]
    fn any<I: Simd>(isa: I, v: [I::V; 8], bits: I::V) -> I::V {
        Bits::<8>::of64(isa, registers!(8, K => isa.any64(v[K], bits)), truth(isa))
    }
}

/// Complex elements: two parts of 64 bits.
impl Width for Bits<128> {
    whole! {
        128 as [[I::V; 8]; 2]:
        isa, from => registers!(2, H => registers!(8, K => from.register(isa, 8 * H + K))),
        block, to => for k in 0..16 {
            to.register(isa, k, block[k / 8][k % 8]);
        }
    }
}
