//! The roof of a cast: the same loads and stores, in the same order, with nothing computed between them.
//!
//! memcpy is no roof for most casts, because it reads as much as it writes and they do not: memory may be read twice as fast
//! as it is written, or the reverse.

use lanecast::{DType, Isa};

/// A null cast, which computes nothing, between elements of two widths, with the registers of an instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Null {
    /// The loop with ordinary stores, and the one with non-temporal stores.
    runs: [Run; 2],
    /// The bytes of the source and of the destination in a turn of the loop.
    turn: [usize; 2],
}

/// # Safety
/// `turns` turns are readable at `src` and writable at `dst`, both aligned as registers; the instruction set is available.
type Run = unsafe fn(src: *const u8, dst: *mut u8, turns: usize);

impl Null {
    /// Returns `None` for the reference, which has no registers, and if the instruction set is not available.
    pub(crate) fn new(from: DType, to: DType, isa: Isa) -> Option<Self> {
        let [from, to] = [from, to].map(|dtype| dtype.bits() as usize);
        let (runs, register) = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => (runs::<x86::Avx512>(from, to)?, 64),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => (runs::<x86::Avx2>(from, to)?, 32),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => (runs::<neon::Neon>(from, to)?, 16),
            _ => return None,
        };
        Isa::available()
            .contains(&isa)
            .then_some(Self { runs, turn: [from, to].map(|bits| bits / 2 * register) })
    }

    /// Reads the source and writes the destination, in whole turns of the loop: the rest, fewer than 256 elements, is left out.
    pub(crate) fn run(&self, src: &[u8], dst: &mut [u8], past_caches: bool) {
        let turns = (src.len() / self.turn[0]).min(dst.len() / self.turn[1]);
        let (src, dst) = (src.as_ptr(), dst.as_mut_ptr());
        assert!(src.addr() % 64 == 0 && dst.addr() % 64 == 0, "the buffers begin at lines");
        // SAFETY: both buffers have so many turns and begin at a multiple of 64, and `new` has checked that the instruction set is
        // available.
        unsafe { self.runs[usize::from(past_caches)](src, dst, turns) }
    }
}

/// The registers of an instruction set, and how they are stored.
trait Registers {
    type Register: Copy;

    /// The loops with `SRC` and `DST` registers in a turn: with ordinary stores, and with non-temporal ones.
    fn runs<const SRC: usize, const DST: usize>() -> [Run; 2];

    /// # Safety
    /// As for [`Run`], with one register at `dst`.
    unsafe fn store(dst: *mut Self::Register, register: Self::Register, past_caches: bool);
}

/// Runs turns of `SRC` loads and `DST` stores. A turn is four blocks, each of as many elements as a register has bytes, and loads
/// a block before it stores it, as a kernel does.
///
/// # Safety
/// As for [`Run`].
#[inline(always)]
unsafe fn turns<R: Registers, const SRC: usize, const DST: usize, const PAST_CACHES: bool>(
    src: *const u8,
    dst: *mut u8,
    turns: usize,
) {
    let (mut src, mut dst) = (src.cast::<R::Register>(), dst.cast::<R::Register>());
    if turns == 0 {
        return;
    }
    // SAFETY: the caller's buffers have `turns` turns of `SRC` and `DST` registers, and are aligned for them.
    unsafe {
        let mut loaded = src.read_volatile();
        for _ in 0..turns {
            for block in 0..4 {
                for i in (block * SRC).div_ceil(4)..((block + 1) * SRC).div_ceil(4) {
                    // Volatile, because most of what is loaded is not stored, and the load must stay.
                    loaded = src.add(i).read_volatile();
                }
                for i in block * DST / 4..(block + 1) * DST / 4 {
                    R::store(dst.add(i), loaded, PAST_CACHES);
                }
            }
            (src, dst) = (src.add(SRC), dst.add(DST));
        }
    }
}

/// Returns the loops for elements of these bits.
fn runs<R: Registers>(from: usize, to: usize) -> Option<[Run; 2]> {
    /// Returns the loops with `SRC` registers of the source in a turn.
    fn from_of<R: Registers, const SRC: usize>(to: usize) -> Option<[Run; 2]> {
        Some(match to {
            2 => R::runs::<SRC, 1>(),
            4 => R::runs::<SRC, 2>(),
            6 => R::runs::<SRC, 3>(),
            8 => R::runs::<SRC, 4>(),
            16 => R::runs::<SRC, 8>(),
            32 => R::runs::<SRC, 16>(),
            64 => R::runs::<SRC, 32>(),
            128 => R::runs::<SRC, 64>(),
            _ => return None,
        })
    }
    match from {
        2 => from_of::<R, 1>(to),
        4 => from_of::<R, 2>(to),
        6 => from_of::<R, 3>(to),
        8 => from_of::<R, 4>(to),
        16 => from_of::<R, 8>(to),
        32 => from_of::<R, 16>(to),
        64 => from_of::<R, 32>(to),
        128 => from_of::<R, 64>(to),
        _ => None,
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Registers, Run, turns};

    pub(super) struct Avx512;
    pub(super) struct Avx2;

    impl Registers for Avx512 {
        type Register = __m512i;

        fn runs<const SRC: usize, const DST: usize>() -> [Run; 2] {
            #[target_feature(enable = "avx512f")]
            unsafe fn run<const SRC: usize, const DST: usize, const PAST: bool>(
                src: *const u8,
                dst: *mut u8,
                n: usize,
            ) {
                // SAFETY: the caller's buffers.
                unsafe { turns::<Avx512, SRC, DST, PAST>(src, dst, n) }
                if PAST {
                    _mm_sfence();
                }
            }
            [run::<SRC, DST, false>, run::<SRC, DST, true>]
        }

        #[inline(always)]
        unsafe fn store(dst: *mut __m512i, register: __m512i, past_caches: bool) {
            // SAFETY: a register is writable there.
            unsafe {
                if past_caches {
                    _mm512_stream_si512(dst, register)
                } else {
                    _mm512_store_si512(dst, register)
                }
            }
        }
    }

    impl Registers for Avx2 {
        type Register = __m256i;

        fn runs<const SRC: usize, const DST: usize>() -> [Run; 2] {
            #[target_feature(enable = "avx2")]
            unsafe fn run<const SRC: usize, const DST: usize, const PAST: bool>(
                src: *const u8,
                dst: *mut u8,
                n: usize,
            ) {
                // SAFETY: the caller's buffers.
                unsafe { turns::<Avx2, SRC, DST, PAST>(src, dst, n) }
                if PAST {
                    _mm_sfence();
                }
            }
            [run::<SRC, DST, false>, run::<SRC, DST, true>]
        }

        #[inline(always)]
        unsafe fn store(dst: *mut __m256i, register: __m256i, past_caches: bool) {
            // SAFETY: a register is writable there.
            unsafe {
                if past_caches {
                    _mm256_stream_si256(dst, register)
                } else {
                    _mm256_store_si256(dst, register)
                }
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::*;

    use super::{Registers, Run, turns};

    pub(super) struct Neon;

    impl Registers for Neon {
        type Register = uint8x16_t;

        fn runs<const SRC: usize, const DST: usize>() -> [Run; 2] {
            // A program cannot choose non-temporal stores here, so both loops have ordinary ones.
            [turns::<Neon, SRC, DST, false>, turns::<Neon, SRC, DST, false>]
        }

        #[inline(always)]
        unsafe fn store(dst: *mut uint8x16_t, register: uint8x16_t, _: bool) {
            // SAFETY: a register is writable there.
            unsafe { vst1q_u8(dst.cast(), register) }
        }
    }
}
