//! What is known of processor models: from which size on each gains by streaming results past its caches, how it wants the source
//! prefetched, and where its copies or its subnormals differ.

#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{streaming_threshold, this_processor};

/// A processor whose handling of results that are streamed past the caches was measured; or qemu, which emulates one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "those that were measured are x86"))]
pub(super) enum Processor {
    Zen3,
    Zen4,
    Zen5,
    /// Any of Intel's. What is said of it was measured on a Granite Rapids.
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

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::Processor;

    /// The number of bytes, read and written, from which on a cast streams its destination: half of the largest cache, but no more
    /// than one thread gets of a cache that many share. Below this, the destination is still in the cache when it is read next.
    ///
    /// A virtual machine of 2 cores reports the cache of the whole socket, 480 MiB in one case, as shared by those 2 cores:
    /// nothing says how many others use it. There, casts that do not stream took 1.5 to 2 times as long from 16 MiB on.
    pub(super) fn threshold_of(largest_cache: usize) -> usize {
        (largest_cache / 2).clamp(1 << 20, 16 << 20)
    }

    /// [`threshold_of`] for this machine.
    pub(in crate::kernels) fn streaming_threshold() -> usize {
        /// The threshold; 0 before it is known.
        static THRESHOLD: AtomicUsize = AtomicUsize::new(0);
        match THRESHOLD.load(Ordering::Relaxed) {
            0 => {
                let threshold = threshold_of(largest_cache());
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
    pub(in crate::kernels) fn this_processor() -> Processor {
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

/// No size: results are not streamed unless the caller asks for it. Cores of Arm see by themselves that whole lines are written, and their store past the caches is only a hint: a caller
/// who asks for streaming by [`stream_from`](crate::CastOptions::stream_from) gets the same results. WebAssembly has no such
/// stores.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn streaming_threshold() -> usize {
    usize::MAX
}

/// No processor was measured.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn this_processor() -> Processor {
    Processor::Other
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::Processor;
    use super::x86_64::threshold_of;

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
            assert_eq!(threshold_of(cache), from, "{machine}");
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
