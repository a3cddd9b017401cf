//! Reads the one register of feature detection that safe code cannot read. `src/detect.rs` decides what follows from it.

use core::arch::asm;
use core::arch::x86_64::__cpuid;

/// Returns XCR0: which registers the operating system saves when it switches threads. None if it has not enabled the
/// instruction that reads it.
pub(crate) fn xcr0() -> Option<u64> {
    const OSXSAVE: u32 = 1 << 27;
    if __cpuid(1).ecx & OSXSAVE == 0 {
        return None;
    }
    let (low, high): (u32, u32);
    // SAFETY: XGETBV faults unless OSXSAVE is set, which was checked, or if the register does not exist, and register 0 always
    // does. It writes EAX and EDX and nothing else.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    Some(u64::from(high) << 32 | u64::from(low))
}
