//! Blocks of elements: how they lie in memory, and in which registers.

use super::super::simd::Simd;
use super::super::sizes::FEW;

/// Elements of so many bits. Those of fewer than 8 are packed.
pub(in crate::kernels) struct Bits<const BITS: usize>;

/// What a block of elements is in registers.
pub(in crate::kernels) trait Width: Sized {
    const BITS: usize;
    /// The registers, in the order of memory. Codes of fewer than 8 bits are bytes there.
    type Block<I: Simd>: Copy;

    /// What a packed code's byte has above it is not said. `high`: the first of them is at the high end of a byte.
    ///
    /// # Safety
    /// A block is readable.
    unsafe fn load<I: Simd>(isa: I, src: *const u8, high: bool) -> Self::Block<I>;
    /// Above a packed code, its byte is 0.
    ///
    /// # Safety
    /// A block is writable.
    unsafe fn store<I: Simd>(isa: I, block: Self::Block<I>, dst: *mut u8, high: bool);
    /// One to [`FEW`] elements; the others are 0. What is known of so few when a kernel is compiled is which registers have
    /// none.
    ///
    /// # Safety
    /// So many are readable.
    unsafe fn load_few<I: Simd>(isa: I, src: *const u8, n: usize, high: bool) -> Self::Block<I>;
    /// The inverse. Of the last byte, the bits of no element are 0.
    ///
    /// # Safety
    /// So many are writable.
    unsafe fn store_few<I: Simd>(isa: I, block: Self::Block<I>, dst: *mut u8, n: usize, high: bool);
    /// Copies the first bytes of a block that was stored.
    ///
    /// # Safety
    /// There are as many registers as a block has, and the bytes are writable.
    #[inline(always)]
    unsafe fn copy_out<I: Simd>(isa: I, block: *const u8, bytes: usize, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { isa.copy_out(block, bytes, dst) }
    }
}

/// A block that can be made of lanes of any width: of wider ones the low bits are left, narrower ones are extended. Where bytes
/// come of wider lanes, the bits of `mask` are kept.
pub(in crate::kernels) trait Code: Width {
    fn of8<I: Simd, const SIGNED: bool>(isa: I, v: I::V) -> Self::Block<I>;
    fn of16<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 2], mask: I::V) -> Self::Block<I>;
    fn of32<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 4], mask: I::V) -> Self::Block<I>;
    fn of64<I: Simd>(isa: I, v: [I::V; 8], mask: I::V) -> Self::Block<I>;
    /// The same of a block; whole bytes are kept.
    #[inline(always)]
    fn of<I: Simd, W: Code, const SIGNED: bool>(isa: I, block: W::Block<I>) -> Self::Block<I> {
        W::to::<I, Self, SIGNED>(isa, block, isa.splat8(u8::MAX))
    }
    /// A block as one of another width.
    fn to<I: Simd, W: Code, const SIGNED: bool>(isa: I, block: Self::Block<I>, mask: I::V) -> W::Block<I>;
    /// Each element within limits, which are splat.
    fn clamped<I: Simd, const SIGNED: bool>(
        isa: I,
        block: Self::Block<I>,
        low: I::V,
        high: I::V,
    ) -> Self::Block<I>;
    /// A block as the nearest elements of a narrower width, by the instructions that saturate. Have they, and the results, a
    /// sign? The largest result is splat.
    fn saturated<I: Simd, W: Code>(
        isa: I,
        block: Self::Block<I>,
        signed: [bool; 2],
        most: I::V,
        mask: I::V,
    ) -> W::Block<I>;
    /// The bytes of each element reversed.
    fn swapped<I: Simd>(isa: I, block: Self::Block<I>) -> Self::Block<I>;
    /// `bits` in each element.
    fn splat<I: Simd>(isa: I, bits: u64) -> I::V;
    /// Of each element 1 if it has any of `bits`, which are splat, else 0: as bytes.
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

/// A block of lanes of 64 bits as one of 32: the low halves.
#[inline(always)]
fn low64<I: Simd>(isa: I, v: [I::V; 8]) -> [I::V; 4] {
    registers!(4, K => isa.low64([v[2 * K], v[2 * K + 1]]))
}

#[inline(always)]
fn low32<I: Simd>(isa: I, v: [I::V; 4]) -> [I::V; 2] {
    registers!(2, K => isa.low32([v[2 * K], v[2 * K + 1]]))
}

/// Lanes of 16 and of 32 bits, widened.
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

/// Lanes of 64 bits as the nearest of 32, by the instructions that saturate. Never to signed ones of unsigned ones.
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

/// Loads and stores of as many registers as an element has bytes.
macro_rules! whole {
    ($registers:tt: $bits:literal) => {
        const BITS: usize = $bits;
        type Block<I: Simd> = [I::V; $registers];

        #[inline(always)]
        unsafe fn load<I: Simd>(isa: I, src: *const u8, _: bool) -> [I::V; $registers] {
            // SAFETY: a block is as many registers as an element has bytes.
            unsafe { registers!($registers, K => isa.load(src.add(K * I::BYTES))) }
        }

        #[inline(always)]
        unsafe fn store<I: Simd>(isa: I, block: [I::V; $registers], dst: *mut u8, _: bool) {
            for k in 0..$registers {
                // SAFETY: as above.
                unsafe { isa.store(dst.add(k * I::BYTES), block[k]) };
            }
        }

        #[inline(always)]
        unsafe fn load_few<I: Simd>(isa: I, src: *const u8, n: usize, _: bool) -> [I::V; $registers] {
            const MOST: usize = FEW * $bits / 8;
            let mut block = [isa.splat8(0); $registers];
            let mut k = 0;
            while k * I::BYTES < MOST {
                let before = k * I::BYTES;
                // SAFETY: what the elements have behind the registers before, if anything.
                block[k] = unsafe {
                    isa.load_few::<MOST>(src.wrapping_add(before), (n * $bits / 8).saturating_sub(before))
                };
                k += 1;
            }
            block
        }

        #[inline(always)]
        unsafe fn store_few<I: Simd>(isa: I, block: [I::V; $registers], dst: *mut u8, n: usize, _: bool) {
            const MOST: usize = FEW * $bits / 8;
            let mut k = 0;
            while k * I::BYTES < MOST {
                let before = k * I::BYTES;
                // SAFETY: as above.
                unsafe {
                    let left = (n * $bits / 8).saturating_sub(before);
                    isa.store_few::<MOST>(dst.wrapping_add(before), block[k], left);
                }
                k += 1;
            }
        }
    };
}

/// Of 8 bits or fewer: a register of bytes.
macro_rules! bytes {
    ($($bits:literal)*) => {$(
        impl Width for Bits<$bits> {
            const BITS: usize = $bits;
            type Block<I: Simd> = I::V;

            #[inline(always)]
            unsafe fn load<I: Simd>(isa: I, src: *const u8, high: bool) -> I::V {
                // SAFETY: a block of bytes is a register, and packed ones are as many bits.
                unsafe { if $bits == 8 { isa.load(src) } else { isa.unpack::<$bits>(src, high) } }
            }

            #[inline(always)]
            unsafe fn store<I: Simd>(isa: I, block: I::V, dst: *mut u8, high: bool) {
                // SAFETY: as above.
                unsafe { if $bits == 8 { isa.store(dst, block) } else { isa.pack::<$bits>(dst, block, high) } }
            }

            #[inline(always)]
            unsafe fn load_few<I: Simd>(isa: I, src: *const u8, n: usize, high: bool) -> I::V {
                // SAFETY: the elements are so many bytes.
                unsafe {
                    if $bits == 8 { isa.load_few::<FEW>(src, n) } else { isa.unpack_few::<$bits>(src, n, high) }
                }
            }

            #[inline(always)]
            unsafe fn store_few<I: Simd>(isa: I, block: I::V, dst: *mut u8, n: usize, high: bool) {
                // SAFETY: as above.
                unsafe {
                    if $bits == 8 {
                        isa.store_few::<FEW>(dst, block, n);
                    } else {
                        isa.pack_few::<$bits>(dst, block, n, high);
                    }
                }
            }

            #[inline(always)]
            unsafe fn copy_out<I: Simd>(isa: I, block: *const u8, bytes: usize, dst: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe {
                    if $bits == 8 {
                        isa.copy_out(block, bytes, dst);
                    } else {
                        isa.copy_packed::<$bits>(block, bytes, dst);
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
            fn clamped<I: Simd, const SIGNED: bool>(isa: I, v: I::V, low: I::V, high: I::V) -> I::V {
                if SIGNED {
                    isa.min_s8(isa.max_s8(v, low), high)
                } else {
                    isa.min_u8(isa.max_u8(v, low), high)
                }
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
bytes! { 2 4 6 8 }

/// The bits of the lanes of `any16`, `any32` and `any64` that are kept.
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
    fn clamped<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 2], low: I::V, high: I::V) -> [I::V; 2] {
        if SIGNED {
            registers!(2, K => isa.min_s16(isa.max_s16(v[K], low), high))
        } else {
            registers!(2, K => isa.min_u16(isa.max_u16(v[K], low), high))
        }
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
    fn clamped<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 4], low: I::V, high: I::V) -> [I::V; 4] {
        if SIGNED {
            registers!(4, K => isa.min_s32(isa.max_s32(v[K], low), high))
        } else {
            registers!(4, K => isa.min_u32(isa.max_u32(v[K], low), high))
        }
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
        // No unsigned integers become signed ones.
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
    fn clamped<I: Simd, const SIGNED: bool>(isa: I, v: [I::V; 8], low: I::V, high: I::V) -> [I::V; 8] {
        if SIGNED {
            registers!(8, K => isa.min_s64(isa.max_s64(v[K], low), high))
        } else {
            registers!(8, K => isa.min_u64(isa.max_u64(v[K], low), high))
        }
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

/// Two parts of 64 bits.
impl Width for Bits<128> {
    const BITS: usize = 128;
    type Block<I: Simd> = [[I::V; 8]; 2];

    #[inline(always)]
    unsafe fn load<I: Simd>(isa: I, src: *const u8, high: bool) -> [[I::V; 8]; 2] {
        // SAFETY: its first half and its second are blocks of elements of 64 bits.
        unsafe { registers!(2, K => Bits::<64>::load(isa, src.add(8 * K * I::BYTES), high)) }
    }

    #[inline(always)]
    unsafe fn store<I: Simd>(isa: I, [a, b]: [[I::V; 8]; 2], dst: *mut u8, high: bool) {
        // SAFETY: as above.
        unsafe {
            Bits::<64>::store(isa, a, dst, high);
            Bits::<64>::store(isa, b, dst.add(8 * I::BYTES), high);
        }
    }

    #[inline(always)]
    unsafe fn load_few<I: Simd>(isa: I, src: *const u8, n: usize, _: bool) -> [[I::V; 8]; 2] {
        let mut block = [[isa.splat8(0); 8]; 2];
        let mut k = 0;
        while k * I::BYTES < 16 * FEW {
            let before = k * I::BYTES;
            // SAFETY: what the elements have behind the registers before, if anything.
            block[k / 8][k % 8] = unsafe {
                isa.load_few::<{ 16 * FEW }>(src.wrapping_add(before), (16 * n).saturating_sub(before))
            };
            k += 1;
        }
        block
    }

    #[inline(always)]
    unsafe fn store_few<I: Simd>(isa: I, block: [[I::V; 8]; 2], dst: *mut u8, n: usize, _: bool) {
        let mut k = 0;
        while k * I::BYTES < 16 * FEW {
            // SAFETY: as above.
            unsafe {
                let (before, v) = (k * I::BYTES, block[k / 8][k % 8]);
                isa.store_few::<{ 16 * FEW }>(dst.wrapping_add(before), v, (16 * n).saturating_sub(before));
            }
            k += 1;
        }
    }
}
