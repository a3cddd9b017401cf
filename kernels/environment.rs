//! The machine around a cast: the floating-point control register and the caches.
//!
//! The register is set for a kernel, and then given back to the caller as it was. Kernels round as it says, so the rounding
//! modes need no code of their own there. What a caller may have set (flush-to-zero, another rounding, unmasked exceptions)
//! neither changes a result nor traps, and the sticky flags that a cast raises are not seen outside.

use crate::formats::options::Rounding;

#[cfg(target_arch = "aarch64")]
use aarch64::{FLUSHES, read, wanted, write};
#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{streaming_threshold, this_processor};
#[cfg(target_arch = "wasm32")]
use wasm32::{FLUSHES, read, wanted, write};
#[cfg(target_arch = "wasm32")]
pub(super) use wasm32::{rounding, streaming_threshold, this_processor};
#[cfg(target_arch = "x86_64")]
use x86_64::{FLUSHES, read, wanted, write};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{streaming_threshold, this_processor};

/// A processor whose handling of results that are streamed past the caches was measured; or qemu, which emulates one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "those that were measured are x86"))]
pub(super) enum Processor {
    Zen3,
    Zen4,
    Zen5,
    Intel,
    Qemu,
    Other,
}

impl Processor {
    /// Whether it reads ahead better by itself, where results are no wider than what is read. On a Zen 4, such casts take up to
    /// 1.3 times as long if the source is prefetched; on a Zen 5, up to 1.5 times as long if it is not.
    pub(super) fn reads_ahead(self) -> bool {
        self == Self::Zen4
    }

    /// Whether it reads faster if the source is prefetched twice: long before to L2, then to L1. An Intel core can wait for
    /// only few lines at a time, but its L2 for many more.
    pub(super) fn asks_twice(self) -> bool {
        self == Self::Intel
    }

    /// Whether memcpy may take ten times as long where [both sides lie alike](super::run::lie_alike).
    pub(super) fn copies_alike_slowly(self) -> bool {
        self == Self::Zen3
    }

    /// The number of bytes, read and written, from which on results are streamed, where those of copies are from `threshold` on.
    ///
    /// A codec that does not keep up with memory had better not stream; but Intel's cores gain even then: from the threshold on
    /// if results are wider than what is read, 1.9 times as fast; otherwise, where no share of a large cache keeps them any
    /// more. Measured both ways on a Granite Rapids, on all pairs of real dtypes, at 16 to 128 MiB. A Zen 3 gains from the
    /// threshold on with all codecs: it is 1.7 times as fast if results are wider, otherwise 1.1 to 1.3 times.
    pub(super) fn streams_from(self, threshold: usize, keeps_up: bool, widens: bool) -> usize {
        match self {
            _ if keeps_up => threshold,
            Self::Zen3 => threshold,
            Self::Intel if widens => threshold,
            Self::Intel => threshold.saturating_mul(3),
            _ => usize::MAX,
        }
    }

    /// Whether it flushes subnormal results of conversions to float16 together with those of float32. Processors keep them,
    /// whatever the control register says.
    pub(super) fn flushes_f16(self) -> bool {
        self == Self::Qemu
    }

    /// Whether it gains where results of 4 or 6 bits are streamed past its caches, whatever they are made of.
    pub(super) fn streams_packed(self) -> bool {
        matches!(self, Self::Zen4 | Self::Zen5)
    }
}

/// The caller's register, which is given back when this is dropped.
pub(super) struct Environment {
    callers: Register,
}

/// What a processor keeps of the environment.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Register {
    /// How operations behave.
    control: u32,
    /// What operations left: the sticky flags of exceptions.
    status: u32,
}

impl Environment {
    /// Sets the environment to round as `rounding` says: to nearest even for ties away from zero, which kernels handle themselves.
    ///
    /// The compiler does not know that floating-point operations depend on this, and may move one past it. It cannot where the
    /// operation is behind a call that is not inlined: every kernel is called by pointer, and every task by
    /// [`Simd::run`](super::simd::Simd::run). So nothing between this and such a call may compute with floats.
    #[inline(always)]
    pub(super) fn new(rounding: Rounding) -> Self {
        Self::of(wanted(rounding))
    }

    /// As [`Environment::new`], but subnormal numbers count as zero where that is faster: for codecs whose results do not depend on it.
    #[inline(always)]
    pub(super) fn flushing(rounding: Rounding) -> Self {
        Self::of(wanted(rounding) | FLUSHES)
    }

    #[inline(always)]
    fn of(control: u32) -> Self {
        let callers = read();
        if callers.control != control {
            write(Register { control, ..callers });
        }
        Self { callers }
    }
}

impl Drop for Environment {
    #[inline(always)]
    fn drop(&mut self) {
        // Written without testing whether it has changed: reading the register takes longer than writing it (20 cycles and 2 on
        // Zen 4), which matters where there are few elements.
        write(self.callers);
    }
}

/// MXCSR, and CPUID.
#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use core::arch::asm;
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::{Processor, Register};
    use crate::formats::options::Rounding;

    /// Every exception masked; denormals kept; nearest, ties to even.
    const DEFAULT: u32 = 0x1F80;
    /// Everything but the sticky flags.
    const CONTROL: u32 = 0xFFC0;
    /// Subnormal results are 0, and so are subnormal operands, with their signs: FTZ and DAZ.
    pub(super) const FLUSHES: u32 = 1 << 15 | 1 << 6;

    pub(super) fn wanted(rounding: Rounding) -> u32 {
        let direction = match rounding {
            Rounding::NearestEven | Rounding::NearestAway => 0,
            Rounding::Down => 1,
            Rounding::Up => 2,
            Rounding::TowardZero => 3,
        };
        DEFAULT | direction << 13
    }

    #[inline(always)]
    pub(super) fn read() -> Register {
        let mut bits = 0u32;
        // SAFETY: it writes the register to a variable.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut bits, options(nostack, preserves_flags)) };
        Register { control: bits & CONTROL, status: bits & !CONTROL }
    }

    #[inline(always)]
    pub(super) fn write(register: Register) {
        let bits = register.control | register.status;
        // SAFETY: it sets the register to bits that are valid: either what it held, or `DEFAULT`, a rounding, and perhaps
        // `FLUSHES`. (The exception flags of the register are among those that `preserves_flags` would keep.) Rust lets no `asm!`
        // end with another MXCSR than the default one, because the compiler assumes that operations on floats round to nearest.
        // None of its own operations are in between: what runs until the register is given back is behind a call that is not
        // inlined, and is intrinsics that round as the register says, which is what a kernel wants of them. (docs/proof.md)
        unsafe { asm!("ldmxcsr [{}]", in(reg) &bits, options(nostack)) };
    }

    /// The number of bytes, read and written, from which on a cast streams its destination: half of the largest cache, but no more
    /// than one thread gets of a cache that many share. Below this, the destination is still in the cache when it is read next.
    ///
    /// A virtual machine of 2 cores reports the cache of the whole socket, 480 MiB in one case, as shared by those 2 cores:
    /// nothing says how many others use it. There, casts that do not stream took 1.5 to 2 times as long from 16 MiB on.
    pub(super) fn streams_from(largest_cache: usize) -> usize {
        (largest_cache / 2).clamp(1 << 20, 16 << 20)
    }

    /// [`streams_from`] for this machine.
    pub(in super::super) fn streaming_threshold() -> usize {
        /// The threshold; 0 before it is known.
        static THRESHOLD: AtomicUsize = AtomicUsize::new(0);
        match THRESHOLD.load(Ordering::Relaxed) {
            0 => {
                let threshold = streams_from(largest_cache());
                THRESHOLD.store(threshold, Ordering::Relaxed);
                threshold
            }
            threshold => threshold,
        }
    }

    impl Processor {
        /// Identifies a processor by the first letters of its maker's name, and by its family and model as in the EAX of the first leaf.
        pub(super) fn of(maker: [u8; 4], leaf1_eax: u32) -> Self {
            let field = |shift: u32, bits: u32| leaf1_eax >> shift & ((1 << bits) - 1);
            let family = field(8, 4) + field(20, 8);
            let model = field(4, 4) | field(16, 4) << 4;
            match (&maker, family, model) {
                (b"Auth", 0x19, 0x00..=0x0F | 0x20..=0x5F) => Processor::Zen3,
                (b"Auth", 0x19, 0x10..=0x1F | 0x60..=0x7F | 0xA0..=0xAF) => Processor::Zen4,
                (b"Auth", 0x1A, 0x00..=0x2F | 0x40..=0x4F | 0x60..=0x7F) => Processor::Zen5,
                (b"Genu", ..) => Processor::Intel,
                _ => Processor::Other,
            }
        }
    }

    /// The processor of this machine.
    #[inline(never)]
    pub(in super::super) fn this_processor() -> Processor {
        /// 1 plus the processor; 0 before it is known.
        static PROCESSOR: AtomicUsize = AtomicUsize::new(0);
        match PROCESSOR.load(Ordering::Relaxed) {
            0 => {
                // "AuthenticAMD", "GenuineIntel"
                let mut processor = Processor::of(__cpuid(0).ebx.to_le_bytes(), __cpuid(1).eax);
                // An emulator gives its name where a hypervisor does: "TCGTCGTCGTCG".
                if &__cpuid(0x4000_0000).ebx.to_le_bytes() == b"TCGT" {
                    processor = Processor::Qemu;
                }
                PROCESSOR.store(1 + processor as usize, Ordering::Relaxed);
                processor
            }
            1 => Processor::Zen3,
            2 => Processor::Zen4,
            3 => Processor::Zen5,
            4 => Processor::Intel,
            5 => Processor::Qemu,
            _ => Processor::Other,
        }
    }

    /// The size of the largest cache that the CPU reports; 8 MiB if it reports none.
    fn largest_cache() -> usize {
        // Intel describes its caches in leaf 4, AMD in another leaf of the same form.
        let leaf = if __cpuid(0x8000_0000).eax >= 0x8000_001D && __cpuid(0x8000_0001).ecx >> 22 & 1 == 1 {
            0x8000_001D
        } else if __cpuid(0).eax >= 4 {
            4
        } else {
            return 8 << 20;
        };
        let mut largest = 0;
        for index in 0..8 {
            let cache = __cpuid_count(leaf, index);
            if cache.eax & 31 == 0 {
                break;
            }
            let field = |shift: u32, bits: u32| (cache.ebx >> shift & ((1 << bits) - 1)) as usize + 1;
            largest = largest.max(field(0, 12) * field(12, 10) * field(22, 10) * (cache.ecx as usize + 1));
        }
        if largest == 0 { 8 << 20 } else { largest }
    }
}

/// FPCR and FPSR.
#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use core::arch::asm;

    use super::{Processor, Register};
    use crate::formats::options::Rounding;

    /// No bits: subnormal numbers take no longer than others.
    pub(super) const FLUSHES: u32 = 0;

    /// Everything else is 0: no traps, subnormals kept (FZ, FZ16, FIZ), NaNs kept (DN, AH), IEEE half precision
    /// (AHP), the upper lanes of a scalar zeroed (NEP).
    pub(super) fn wanted(rounding: Rounding) -> u32 {
        let direction = match rounding {
            Rounding::NearestEven | Rounding::NearestAway => 0,
            Rounding::Up => 1,
            Rounding::Down => 2,
            Rounding::TowardZero => 3,
        };
        direction << 22
    }

    #[inline(always)]
    pub(super) fn read() -> Register {
        let (control, status): (u64, u64);
        // SAFETY: it writes the registers to variables.
        unsafe {
            asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status, options(nostack, preserves_flags));
        }
        // The upper halves are reserved, and 0.
        Register { control: control as u32, status: status as u32 }
    }

    #[inline(always)]
    pub(super) fn write(register: Register) {
        let (control, status) = (u64::from(register.control), u64::from(register.status));
        // SAFETY: it sets the registers to bits that are valid: either what they held, or a rounding. The code in between is a
        // kernel, which expects that.
        unsafe {
            asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) control, in(reg) status, options(nostack));
        }
    }

    /// Never: cores see by themselves that whole lines are written, and the store past the caches is only a hint. A caller who
    /// asks for streaming by [`stream_from`](crate::CastOptions::stream_from) gets the same results.
    pub(in super::super) fn streaming_threshold() -> usize {
        usize::MAX
    }

    /// No processor was measured.
    pub(in super::super) fn this_processor() -> Processor {
        Processor::Other
    }
}

/// What the kernels of WebAssembly ask instead of a register: WebAssembly has none, and nothing that a caller could have set.
#[cfg(target_arch = "wasm32")]
mod wasm32 {
    use super::{Processor, Register};
    use crate::formats::options::Rounding;

    #[cfg(feature = "std")]
    mod kept {
        use core::cell::Cell;

        std::thread_local! {
            static ROUNDING: Cell<u32> = const { Cell::new(0) };
        }

        #[inline(always)]
        pub(super) fn get() -> u32 {
            ROUNDING.get()
        }

        #[inline(always)]
        pub(super) fn set(rounding: u32) {
            ROUNDING.set(rounding);
        }
    }

    /// Without the standard library, there is only one thread; otherwise `build.rs` builds no kernels.
    #[cfg(not(feature = "std"))]
    mod kept {
        use core::sync::atomic::{AtomicU32, Ordering};

        static ROUNDING: AtomicU32 = AtomicU32::new(0);

        #[inline(always)]
        pub(super) fn get() -> u32 {
            ROUNDING.load(Ordering::Relaxed)
        }

        #[inline(always)]
        pub(super) fn set(rounding: u32) {
            ROUNDING.store(rounding, Ordering::Relaxed);
        }
    }

    /// No bits: there is no flushing.
    pub(super) const FLUSHES: u32 = 0;

    #[inline(always)]
    pub(super) fn wanted(rounding: Rounding) -> u32 {
        match rounding {
            Rounding::NearestEven | Rounding::NearestAway => 0,
            Rounding::Down => 1,
            Rounding::Up => 2,
            Rounding::TowardZero => 3,
        }
    }

    /// The rounding that is set for kernels.
    #[inline(always)]
    pub(in super::super) fn rounding() -> Rounding {
        match kept::get() {
            1 => Rounding::Down,
            2 => Rounding::Up,
            3 => Rounding::TowardZero,
            _ => Rounding::NearestEven,
        }
    }

    #[inline(always)]
    pub(super) fn read() -> Register {
        Register { control: kept::get(), status: 0 }
    }

    #[inline(always)]
    pub(super) fn write(register: Register) {
        kept::set(register.control);
    }

    /// Never: there are no such stores.
    pub(in super::super) fn streaming_threshold() -> usize {
        usize::MAX
    }

    /// No processor was measured.
    pub(in super::super) fn this_processor() -> Processor {
        Processor::Other
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::Processor;
    use super::x86_64::streams_from;

    /// The largest caches of machines, and the number of bytes from which on they stream.
    #[test]
    fn where_streams_begin() {
        const MIB: usize = 1 << 20;
        for (machine, cache, from) in [
            ("a core without L3", MIB, MIB),
            ("Haswell, 4 cores", 8 * MIB, 4 * MIB),
            ("Ice Lake, 4 cores", 12 * MIB, 6 * MIB),
            ("Zen 2, a complex of 4 cores", 16 * MIB, 8 * MIB),
            ("Zen 3, 4 and 5, a complex of 8 cores", 32 * MIB, 16 * MIB),
            ("Zen 3 with stacked cache", 96 * MIB, 16 * MIB),
            ("Sapphire Rapids, a socket of 60 cores", 112 * MIB + MIB / 2, 16 * MIB),
            ("2 cores of a socket that reports all of it", 480 * MIB, 16 * MIB),
        ] {
            assert_eq!(streams_from(cache), from, "{machine}");
        }
    }

    /// The EAX of the first leaf of machines, and which processors they are.
    #[test]
    fn which_processor_it_is() {
        let (amd, intel) = (*b"Auth", *b"Genu");
        for (machine, maker, eax, processor) in [
            ("EPYC 9004, Zen 4", amd, 0x00A1_0F11, Processor::Zen4),
            ("Ryzen 7000, Zen 4", amd, 0x00A6_0F12, Processor::Zen4),
            ("Ryzen 7040, Zen 4", amd, 0x00A7_0F41, Processor::Zen4),
            ("EPYC 97x4, Zen 4c", amd, 0x00AA_0F02, Processor::Zen4),
            ("EPYC 7003, Zen 3", amd, 0x00A0_0F11, Processor::Zen3),
            ("Ryzen 5000, Zen 3", amd, 0x00A2_0F10, Processor::Zen3),
            ("Ryzen 6000, Zen 3", amd, 0x00A4_0F41, Processor::Zen3),
            ("EPYC 9005, Zen 5", amd, 0x00B0_0F21, Processor::Zen5),
            ("Ryzen 9000, Zen 5", amd, 0x00B4_0F40, Processor::Zen5),
            ("of family 1Ah, after Zen 5", amd, 0x00B5_0F00, Processor::Other),
            ("Sapphire Rapids", intel, 0x0008_06F8, Processor::Intel),
            ("the word of a Zen 4, of another maker", *b"Hygo", 0x00A1_0F11, Processor::Other),
        ] {
            assert_eq!(Processor::of(maker, eax), processor, "{machine}");
        }
    }

    /// When processors stream the results of codecs that do not keep up with memory.
    #[test]
    fn who_streams_what_takes_long() {
        const MIB: usize = 1 << 20;
        for (processor, widens, from) in [
            (Processor::Intel, true, 16 * MIB),
            (Processor::Intel, false, 48 * MIB),
            (Processor::Zen3, true, 16 * MIB),
            (Processor::Zen3, false, 16 * MIB),
            (Processor::Zen4, true, usize::MAX),
            (Processor::Other, false, usize::MAX),
        ] {
            assert_eq!(processor.streams_from(16 * MIB, false, widens), from, "{processor:?}");
            assert_eq!(processor.streams_from(16 * MIB, true, widens), 16 * MIB, "{processor:?}");
        }
        assert_eq!(Processor::Intel.streams_from(usize::MAX, false, false), usize::MAX);
    }
}
