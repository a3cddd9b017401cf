//! The floating-point control register: set for a kernel, and given back to the caller as it was.
//!
//! Kernels round as the register says, so the rounding modes need no code of their own there. What a
//! caller may have set (flush-to-zero, another rounding, unmasked exceptions) neither changes a result
//! nor traps, and the sticky flags of a cast are not seen outside.

use core::arch::asm;

use crate::options::Rounding;

/// Every exception masked; denormals kept; nearest, ties to even.
const CALM: u32 = 0x1F80;
/// Everything but the sticky flags.
const CONTROL: u32 = 0xFFC0;

/// The caller's register, which goes back when this is dropped.
pub(super) struct Environment {
    callers: u32,
}

impl Environment {
    /// Rounds as `rounding` says; to the nearest even for ties away from zero, which kernels do themselves.
    ///
    /// The compiler may move a floating-point operation past this, which it knows nothing of. It cannot
    /// where the operation is behind a function pointer.
    pub(super) fn new(rounding: Rounding) -> Self {
        let direction = match rounding {
            Rounding::NearestEven | Rounding::NearestAway => 0,
            Rounding::Down => 1,
            Rounding::Up => 2,
            Rounding::TowardZero => 3,
        };
        let wanted = CALM | direction << 13;
        let callers = read();
        if callers & CONTROL != wanted {
            write(wanted);
        }
        Self { callers }
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        if read() != self.callers {
            write(self.callers);
        }
    }
}

#[inline(always)]
fn read() -> u32 {
    let mut bits = 0u32;
    // SAFETY: writes the register to a variable.
    unsafe { asm!("stmxcsr [{}]", in(reg) &mut bits, options(nostack, preserves_flags)) };
    bits
}

#[inline(always)]
fn write(bits: u32) {
    // SAFETY: sets the register to bits that are valid: either what it held, or `CALM` and a rounding.
    // The code in between is a kernel, which expects that.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &bits, options(nostack, preserves_flags)) };
}
