//! The floating-point control register around a cast.
//!
//! It is set for a kernel, and then given back to the caller as it was. Kernels round as it says, so the rounding modes need no
//! code of their own there. What a caller may have set (flush-to-zero, another rounding, unmasked exceptions) neither changes a
//! result nor traps, and the sticky flags that a cast raises are not seen outside.

use crate::formats::options::Rounding;

#[cfg(target_arch = "aarch64")]
use aarch64::{FLUSHES, read, wanted, write};
#[cfg(target_arch = "wasm32")]
pub(super) use wasm32::rounding;
#[cfg(target_arch = "wasm32")]
use wasm32::{FLUSHES, read, wanted, write};
#[cfg(target_arch = "x86_64")]
use x86_64::{FLUSHES, read, wanted, write};

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

/// MXCSR.
#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use core::arch::asm;

    use super::Register;
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
}

/// FPCR and FPSR.
#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use core::arch::asm;

    use super::Register;
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
}

/// What the kernels of WebAssembly ask instead of a register: WebAssembly has none, and nothing that a caller could have set.
#[cfg(target_arch = "wasm32")]
mod wasm32 {
    use super::Register;
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
}
