//! What an x86-64 machine can run, as a function of the words that describe it.
//!
//! Code that asks the running machine can only be tested on machines at hand. So the words are read in one place,
//! [`Cpu::this`], and the rest is a pure function of them, which the tests call with the words of many machines,
//! also of impossible ones: a hypervisor may hide any feature, and an operating system any register.
//!
//! Missing a feature that is there costs speed; using one that is not there kills the process. So the answer is no
//! if in doubt. macOS, for example, shows the AVX-512 registers only to a thread that has used them: there the
//! answer is AVX2.

use core::arch::x86_64::{__cpuid, __cpuid_count};

use crate::formats::isa::Isa;
use crate::kernels::avx2::Avx2;
#[cfg(isa = "avx512")]
use crate::kernels::avx512::Avx512;
use crate::kernels::detect::xcr0;

/// A word of [`Cpu`]: 32 bits, each of which is a feature.
#[derive(Clone, Copy, Debug)]
enum Word {
    Leaf1Ecx,
    Leaf1Edx,
    Leaf7Ebx,
    Leaf7Ecx,
    ExtendedEcx,
    Xcr0,
}

use Word::{ExtendedEcx, Leaf1Ecx, Leaf1Edx, Leaf7Ebx, Leaf7Ecx, Xcr0};

/// A machine, described by what CPUID returns. It returns something for leaves that do not exist, too:
/// [`Cpu::word`] checks which words are valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    last_leaf: u32,
    last_extended_leaf: u32,
    leaf1_ecx: u32,
    leaf1_edx: u32,
    leaf7_ebx: u32,
    leaf7_ecx: u32,
    extended_ecx: u32,
    /// None if reading it would fault.
    xcr0: Option<u64>,
}

/// The features that each tier needs of the CPU, with their positions in the CPUID tables of the manuals. `Avx512` needs those of `Avx2`, too.
///
/// The tokens of the kernels list features, too, for `#[target_feature]`. The patterns below name every field of a token, so a feature that is
/// only in one of the lists does not compile.
macro_rules! features {
    (
        Avx2 { $($feature:ident: $word:ident $bit:literal,)* }
        Avx512 { .., $($more:ident: $more_word:ident $more_bit:literal,)* }
    ) => {
        const AVX2: &[(Word, u32)] = &[$(($word, $bit)),*];
        const AVX512: &[(Word, u32)] = &[$(($more_word, $more_bit)),*];

        const _: fn(Avx2) = |Avx2 { $($feature: _),* }| ();
        #[cfg(isa = "avx512")]
        const _: fn(Avx512) = |Avx512 { $($feature: _,)* $($more: _),* }| ();
    };
}

features! {
    Avx2 {
        fxsr: Leaf1Edx 24, sse: Leaf1Edx 25, sse2: Leaf1Edx 26,
        sse3: Leaf1Ecx 0, ssse3: Leaf1Ecx 9, fma: Leaf1Ecx 12, sse4_1: Leaf1Ecx 19, sse4_2: Leaf1Ecx 20,
        popcnt: Leaf1Ecx 23, avx: Leaf1Ecx 28, f16c: Leaf1Ecx 29,
        bmi1: Leaf7Ebx 3, avx2: Leaf7Ebx 5, bmi2: Leaf7Ebx 8,
        lzcnt: ExtendedEcx 5,
    }
    Avx512 { ..,
        avx512f: Leaf7Ebx 16, avx512dq: Leaf7Ebx 17, avx512bw: Leaf7Ebx 30, avx512vl: Leaf7Ebx 31,
        avx512vbmi: Leaf7Ecx 1, avx512vbmi2: Leaf7Ecx 6,
    }
}

/// What 256-bit registers need of the operating system: XSAVE in use (OSXSAVE), and the XMM and YMM registers enabled.
const YMM: &[(Word, u32)] = &[(Leaf1Ecx, 26), (Leaf1Ecx, 27), (Xcr0, 1), (Xcr0, 2)];
/// What 512-bit registers need besides: the mask registers, the upper halves of ZMM0 to 15, and ZMM16 to 31 enabled.
const ZMM: &[(Word, u32)] = &[(Xcr0, 5), (Xcr0, 6), (Xcr0, 7)];

impl Cpu {
    /// The machine that this process runs on.
    pub(crate) fn this() -> Self {
        let (leaf1, leaf7) = (__cpuid(1), __cpuid_count(7, 0));
        Self {
            last_leaf: __cpuid(0).eax,
            last_extended_leaf: __cpuid(0x8000_0000).eax,
            leaf1_ecx: leaf1.ecx,
            leaf1_edx: leaf1.edx,
            leaf7_ebx: leaf7.ebx,
            leaf7_ecx: leaf7.ecx,
            extended_ecx: __cpuid(0x8000_0001).ecx,
            xcr0: xcr0(),
        }
    }

    /// Whether the machine has the instructions and the registers that the kernels of `isa` use.
    pub(crate) fn runs(&self, isa: Isa) -> bool {
        match isa {
            Isa::Scalar => true,
            Isa::Avx2 => self.has(AVX2) && self.has(YMM),
            Isa::Avx512 => self.runs(Isa::Avx2) && self.has(AVX512) && self.has(ZMM),
            Isa::Neon | Isa::Simd128 => false,
        }
    }

    fn has(&self, bits: &[(Word, u32)]) -> bool {
        bits.iter().all(|&(word, bit)| self.word(word) >> bit & 1 == 1)
    }

    /// The word, or 0 if the machine does not have it.
    fn word(&self, word: Word) -> u32 {
        // A CPU without extended leaves may return anything for the number of the last one.
        let extended = matches!(self.last_extended_leaf, 0x8000_0001..=0x8000_FFFF);
        let (exists, bits) = match word {
            Leaf1Ecx => (self.last_leaf >= 1, self.leaf1_ecx),
            Leaf1Edx => (self.last_leaf >= 1, self.leaf1_edx),
            Leaf7Ebx => (self.last_leaf >= 7, self.leaf7_ebx),
            Leaf7Ecx => (self.last_leaf >= 7, self.leaf7_ecx),
            ExtendedEcx => (extended, self.extended_ecx),
            // All the bits that are needed are in the lower half.
            Xcr0 => (self.xcr0.is_some(), self.xcr0.unwrap_or(0) as u32),
        };
        if exists { bits } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::variable::best_of;
    use crate::kernels::backend::Backend;

    /// The names of the bits from bit 0 up, word by word, as the manuals list them: a second source for the
    /// positions above. `-` is a bit that is reserved or not of interest. The last word is not one of the machine: it
    /// says whether leaf 7 and the extended leaves exist.
    const NAMES: [&str; 7] = [
        "sse3 pclmulqdq dtes64 monitor ds_cpl vmx smx est tm2 ssse3 cnxt_id sdbg fma cx16 xtpr pdcm - pcid dca \
         sse4_1 sse4_2 x2apic movbe popcnt tsc_deadline aes xsave osxsave avx f16c rdrand hypervisor",
        "fpu vme de pse tsc msr pae mce cx8 apic - sep mtrr pge mca cmov pat pse36 psn clflush - ds acpi mmx fxsr \
         sse sse2 ss htt tm ia64 pbe",
        "fsgsbase tsc_adjust sgx bmi1 hle avx2 fdp_excptn smep bmi2 erms invpcid rtm pqm fpu_cs mpx pqe avx512f \
         avx512dq rdseed adx smap avx512ifma - clflushopt clwb pt avx512pf avx512er avx512cd sha avx512bw avx512vl",
        "prefetchwt1 avx512vbmi umip pku ospke waitpkg avx512vbmi2 shstk gfni vaes vpclmulqdq avx512vnni \
         avx512bitalg tme avx512vpopcntdq - la57 - - - - - rdpid kl bus_lock cldemote - movdiri movdir64b enqcmd \
         sgx_lc pks",
        "lahf_lm cmp_legacy svm extapic cr8_legacy lzcnt sse4a misalignsse 3dnowprefetch osvw ibs xop skinit wdt - \
         lwp fma4 tce - nodeid - tbm topoext - - - - - - - - -",
        "x87 xmm ymm bndreg bndcsr opmask zmm_hi256 hi16_zmm - pkru - - - - - - - xtilecfg xtiledata - - - - - - - \
         - - - - - -",
        "leaf7 extended",
    ];

    /// What each tier needs, by the names in [`NAMES`].
    const AVX2_NEEDS: &str = "sse sse2 fxsr sse3 ssse3 sse4_1 sse4_2 popcnt avx avx2 bmi1 bmi2 fma lzcnt f16c \
                              xsave osxsave xmm ymm leaf7 extended";
    const AVX512_NEEDS: &str = "avx512f avx512bw avx512dq avx512vl avx512vbmi avx512vbmi2 \
                                opmask zmm_hi256 hi16_zmm";

    type Words = [u32; 7];

    fn position(name: &str) -> (usize, usize) {
        let mut words = NAMES.iter().enumerate();
        words
            .find_map(|(word, names)| Some((word, names.split_whitespace().position(|other| other == name)?)))
            .unwrap_or_else(|| panic!("no bit is named {name}"))
    }

    fn cpu(words: Words) -> Cpu {
        let [leaf1_ecx, leaf1_edx, leaf7_ebx, leaf7_ecx, extended_ecx, xcr0, leaves] = words;
        Cpu {
            last_leaf: if leaves & 1 == 1 { 7 } else { 6 },
            last_extended_leaf: if leaves & 2 == 2 { 0x8000_0001 } else { 0x8000_0000 },
            leaf1_ecx,
            leaf1_edx,
            leaf7_ebx,
            leaf7_ecx,
            extended_ecx,
            xcr0: (leaf1_ecx >> 27 & 1 == 1).then_some(xcr0.into()),
        }
    }

    fn available(cpu: &Cpu) -> Vec<Isa> {
        Isa::ALL.into_iter().filter(|&isa| cpu.runs(isa)).collect()
    }

    const S: &[Isa] = &[Isa::Scalar];
    const A2: &[Isa] = &[Isa::Scalar, Isa::Avx2];
    const A512: &[Isa] = &[Isa::Scalar, Isa::Avx2, Isa::Avx512];

    /// The name of a machine, what it can run, and a value of `LANECAST_ISA` with the instruction set that it selects there (None: an error).
    type Expected = (&'static str, &'static [Isa], &'static str, Option<Isa>);

    /// Machines defined by the name of another and the differences from it. They have the bits that matter here
    /// and some more.
    #[rustfmt::skip]
    const MADE: &[(Expected, &str, &str)] = &[
        (("nothing", S, "avx2", None), "", ""),
        (("Opteron", S, "scalar", Some(Isa::Scalar)), "nothing", "+fpu +tsc +cx8 +cmov +mmx +fxsr +sse +sse2 +extended"),

        // Intel
        (("Core 2", S, "avx2", None), "Opteron", "+sse3 +ssse3 +cx16 +lahf_lm +leaf7"),
        (("Penryn", S, "avx512", None), "Core 2", "+sse4_1"),
        (("Nehalem", S, "avx2", None), "Penryn", "+sse4_2 +popcnt"),
        (("Westmere", S, "neon", None), "Nehalem", "+aes +pclmulqdq"),
        (("Goldmont", S, "avx2", None), "Westmere", "+movbe +rdseed +sha +xsave +osxsave +x87 +xmm"),
        (("Sandy Bridge", S, "avx2", None), "Westmere", "+xsave +osxsave +avx +x87 +xmm +ymm"),
        (("Ivy Bridge: F16C, no AVX2", S, "avx2", None), "Sandy Bridge", "+f16c +rdrand +fsgsbase +smep +erms"),
        (("Haswell", A2, "avx2", Some(Isa::Avx2)), "Ivy Bridge: F16C, no AVX2", "+avx2 +bmi1 +bmi2 +fma +lzcnt +movbe"),
        (("Broadwell", A2, "avx512", None), "Haswell", "+rdseed +adx +smap"),
        (("Skylake", A2, "scalar", Some(Isa::Scalar)), "Broadwell", "+clflushopt +mpx +bndreg +bndcsr"),
        (("Skylake Pentium", S, "avx2", None), "Skylake", "-avx -avx2 -f16c -fma -bmi1 -bmi2 -ymm"),
        (("Skylake Pentium, erratum SKL052: BMI", S, "avx2", None), "Skylake Pentium", "+bmi1 +bmi2"),
        (("Skylake-X", A2, "avx512", None), "Skylake", "+avx512f +avx512dq +avx512cd +avx512bw +avx512vl +clwb +opmask +zmm_hi256 +hi16_zmm"),
        (("Cascade Lake", A2, "avx512", None), "Skylake-X", "+avx512vnni"),
        (("Cooper Lake", A2, "avx2", Some(Isa::Avx2)), "Cascade Lake", ""),
        (("Knights Landing", A2, "avx512", None), "Broadwell", "+avx512f +avx512cd +avx512er +avx512pf +prefetchwt1 +opmask +zmm_hi256 +hi16_zmm"),
        (("Knights Mill", A2, "avx512", None), "Knights Landing", "+avx512vpopcntdq"),
        (("Cannon Lake: VBMI, no VBMI2", A2, "avx512", None), "Skylake-X", "+avx512ifma +avx512vbmi +sha -clwb"),
        (("Ice Lake", A512, "avx512", Some(Isa::Avx512)), "Cannon Lake: VBMI, no VBMI2", "+avx512vbmi2 +avx512vnni +avx512bitalg +avx512vpopcntdq +gfni +vaes +vpclmulqdq -mpx -bndreg -bndcsr"),
        (("Ice Lake, server", A512, "avx2", Some(Isa::Avx2)), "Ice Lake", "+clwb +pku +pkru"),
        (("Tiger Lake", A512, "scalar", Some(Isa::Scalar)), "Ice Lake", "+clwb +shstk +movdiri +movdir64b"),
        (("Rocket Lake", A512, "neon", None), "Ice Lake", "+pku +pkru"),
        (("Sapphire Rapids", A512, "avx512", Some(Isa::Avx512)), "Ice Lake, server", "+waitpkg +shstk +cldemote +enqcmd +xtilecfg +xtiledata"),
        (("Emerald Rapids", A512, "avx512", Some(Isa::Avx512)), "Sapphire Rapids", ""),
        (("Granite Rapids", A512, "avx512", Some(Isa::Avx512)), "Sapphire Rapids", ""),
        (("Alder Lake, early, AVX-512 on", A512, "avx512", Some(Isa::Avx512)), "Tiger Lake", "+waitpkg"),
        (("Alder Lake, early, only AVX512F hidden", A2, "avx512", None), "Alder Lake, early, AVX-512 on", "-avx512f"),
        (("Alder Lake, AVX-512 fused off", A2, "avx512", None), "Alder Lake, early, AVX-512 on", "-avx512f -avx512dq -avx512cd -avx512bw -avx512vl -avx512ifma -avx512vbmi -avx512vbmi2 -avx512vnni -avx512bitalg -avx512vpopcntdq -opmask -zmm_hi256 -hi16_zmm"),
        (("Raptor Lake", A2, "avx512", None), "Alder Lake, AVX-512 fused off", ""),
        (("Sierra Forest", A2, "avx512", None), "Alder Lake, AVX-512 fused off", "+enqcmd +cldemote"),

        // AMD
        (("K10", S, "avx2", None), "Opteron", "+sse3 +cx16 +popcnt +lahf_lm +lzcnt +sse4a"),
        (("Jaguar: F16C, no FMA", S, "avx2", None), "K10", "+ssse3 +sse4_1 +sse4_2 +leaf7 +xsave +osxsave +avx +f16c +bmi1 +movbe +x87 +xmm +ymm"),
        (("Bulldozer", S, "avx2", None), "K10", "+ssse3 +sse4_1 +sse4_2 +leaf7 +xsave +osxsave +avx +xop +fma4 +x87 +xmm +ymm"),
        (("Piledriver: F16C, FMA, no AVX2", S, "avx2", None), "Bulldozer", "+f16c +fma +bmi1 +tbm"),
        (("Steamroller", S, "avx2", None), "Piledriver: F16C, FMA, no AVX2", "+fsgsbase"),
        (("Excavator", A2, "avx2", Some(Isa::Avx2)), "Steamroller", "+avx2 +bmi2 +movbe +rdrand +smep"),
        (("Zen", A2, "avx512", None), "Excavator", "-xop -fma4 -tbm +adx +rdseed +sha +smap +clflushopt"),
        (("Zen 2", A2, "avx2", Some(Isa::Avx2)), "Zen", "+clwb +umip +rdpid"),
        (("Zen 3", A2, "avx512", None), "Zen 2", "+vaes +vpclmulqdq +erms +pku +pkru"),
        (("Zen 4", A512, "avx512", Some(Isa::Avx512)), "Zen 3", "+avx512f +avx512dq +avx512ifma +avx512cd +avx512bw +avx512vl +avx512vbmi +avx512vbmi2 +avx512vnni +avx512bitalg +avx512vpopcntdq +gfni +opmask +zmm_hi256 +hi16_zmm"),
        (("Zen 5", A512, "avx2", Some(Isa::Avx2)), "Zen 4", "+movdiri +movdir64b"),

        // Features hidden, one at a time
        (("Haswell without AVX2", S, "avx2", None), "Haswell", "-avx2"),
        (("Haswell without AVX", S, "avx2", None), "Haswell", "-avx"),
        (("Haswell without F16C", S, "avx2", None), "Haswell", "-f16c"),
        (("Haswell without FMA", S, "avx2", None), "Haswell", "-fma"),
        (("Haswell without BMI1", S, "avx2", None), "Haswell", "-bmi1"),
        (("Haswell without BMI2", S, "avx2", None), "Haswell", "-bmi2"),
        (("Haswell without LZCNT", S, "avx2", None), "Haswell", "-lzcnt"),
        (("Haswell without POPCNT", S, "avx2", None), "Haswell", "-popcnt"),
        (("Haswell without MOVBE", A2, "avx2", Some(Isa::Avx2)), "Haswell", "-movbe"),
        (("Zen 4 without AVX512F", A2, "avx512", None), "Zen 4", "-avx512f"),
        (("Zen 4 without BW", A2, "avx512", None), "Zen 4", "-avx512bw"),
        (("Zen 4 without DQ", A2, "avx512", None), "Zen 4", "-avx512dq"),
        (("Zen 4 without VL", A2, "avx512", None), "Zen 4", "-avx512vl"),
        (("Zen 4 without VBMI", A2, "avx512", None), "Zen 4", "-avx512vbmi"),
        (("Zen 4 without VBMI2", A2, "avx512", None), "Zen 4", "-avx512vbmi2"),
        (("Zen 4 without IFMA, CD, GFNI", A512, "avx512", Some(Isa::Avx512)), "Zen 4", "-avx512ifma -avx512cd -gfni"),
        (("Zen 4 without F16C", S, "avx512", None), "Zen 4", "-f16c"),
        (("Zen 4 without AVX2", S, "avx2", None), "Zen 4", "-avx2"),
        (("Zen 4 without LZCNT", S, "avx512", None), "Zen 4", "-lzcnt"),

        // Registers that the operating system or the hypervisor does not save
        (("Haswell, no OSXSAVE", S, "avx2", None), "Haswell", "-osxsave"),
        (("Haswell, no XSAVE", S, "avx2", None), "Haswell", "-xsave"),
        (("Haswell, no YMM", S, "avx2", None), "Haswell", "-ymm"),
        (("Haswell, YMM but no XMM", S, "avx2", None), "Haswell", "-xmm"),
        (("Haswell, XCR0 is 0", S, "avx2", None), "Haswell", "-x87 -xmm -ymm"),
        (("Ice Lake, macOS, no ZMM used yet", A2, "avx512", None), "Ice Lake", "-opmask -zmm_hi256 -hi16_zmm"),
        (("Zen 4, hypervisor hides ZMM", A2, "avx512", None), "Zen 4", "-opmask -zmm_hi256 -hi16_zmm"),
        (("Zen 4, no OSXSAVE", S, "avx512", None), "Zen 4", "-osxsave"),
        (("Zen 4, only opmask", A2, "avx512", None), "Zen 4", "-zmm_hi256 -hi16_zmm"),
        (("Zen 4, only ZMM_Hi256", A2, "avx512", None), "Zen 4", "-opmask -hi16_zmm"),
        (("Zen 4, only Hi16_ZMM", A2, "avx512", None), "Zen 4", "-opmask -zmm_hi256"),
        (("Zen 4, no opmask", A2, "avx512", None), "Zen 4", "-opmask"),
        (("Zen 4, no Hi16_ZMM", A2, "avx512", None), "Zen 4", "-hi16_zmm"),
        (("Zen 4, ZMM but no YMM", S, "avx512", None), "Zen 4", "-ymm"),

        // Leaves that do not exist: their words have bits, which mean nothing
        (("Haswell, firmware limits CPUID", S, "avx2", None), "Haswell", "-leaf7"),
        (("Haswell, no extended leaves", S, "avx2", None), "Haswell", "-extended"),
        (("Zen 4, leaf 7 hidden", S, "avx512", None), "Zen 4", "-leaf7"),
        (("Zen 4, no extended leaves", S, "avx512", None), "Zen 4", "-extended"),

        // Emulators
        (("qemu64", S, "avx2", None), "Opteron", "+sse3 +cx16 +lahf_lm +svm +hypervisor +leaf7"),
        (("QEMU 7.2, max", A2, "avx512", None), "qemu64", "+ssse3 +sse4_1 +sse4_2 +popcnt +movbe +aes +xsave +osxsave +avx +f16c +fma +rdrand +avx2 +bmi1 +bmi2 +adx +lzcnt +sse4a +x87 +xmm +ymm"),
    ];

    /// The words of real machines: the last leaf, leaf 1 ECX and EDX, leaf 7 EBX and ECX, the last extended leaf,
    /// leaf 0x80000001 ECX. They are from published dumps (InstLatx64, the tests of cpu_features and of EXEgesis), those of
    /// the EPYC from the machine. The dumps have no XCR0: it is what an operating system usually sets. The last two are made up.
    #[rustfmt::skip]
    const DUMPED: &[(Expected, [u32; 7], u64)] = &[
        (("Nehalem-EP", S, "avx2", None), [0xB, 0x00BCE3BD, 0xBFEBFBFF, 0, 0, 0x80000008, 0x1], 0),
        (("Sandy Bridge-EP", S, "avx2", None), [0xD, 0x1FBEE3FF, 0xBFEBFBFF, 0, 0, 0x80000008, 0x1], 0x7),
        (("Core i7-6500U", A2, "avx2", Some(Isa::Avx2)), [0x16, 0x7FFAFBBF, 0xBFEBFBFF, 0x029C67AF, 0, 0x80000008, 0x121], 0x1F),
        (("Core i5-7600K", A2, "avx512", None), [0x16, 0x7FFAFBBF, 0xBFEBFBFF, 0x029C6FBF, 0, 0x80000008, 0x121], 0x1F),
        (("Pentium G4600", S, "avx2", None), [0x16, 0x4FFAEBBF, 0xBFEBFBFF, 0x02946687, 0, 0x80000008, 0x121], 0x1B),
        (("Bobcat", S, "avx2", None), [0x6, 0x00802209, 0x178BFBFF, 0, 0, 0x8000001B, 0x35FF], 0),
        (("Opteron 6238, Bulldozer", S, "avx2", None), [0xD, 0x1E98220B, 0x178BFBFF, 0, 0, 0x8000001E, 0x01C9BFFF], 0x7),
        (("Opteron 6376, Piledriver", S, "avx2", None), [0xD, 0x3E98320B, 0x178BFBFF, 0x8, 0, 0x8000001E, 0x01EBBFFF], 0x7),
        (("A4-5000, Jaguar", S, "avx2", None), [0xD, 0x3ED8220B, 0x178BFBFF, 0x8, 0, 0x8000001E, 0x154037FF], 0x7),
        (("A9-9410, Excavator", A2, "avx2", Some(Isa::Avx2)), [0xD, 0x7ED8320B, 0x178BFBFF, 0x1A9, 0, 0x8000001E, 0x2FABBFFF], 0x7),
        (("Ryzen 7 2700X", A2, "avx512", None), [0xD, 0x7ED8320B, 0x178BFBFF, 0x209C01A9, 0, 0x8000001F, 0x35C233FF], 0x7),
        (("4700S, Zen 2", A2, "avx2", Some(Isa::Avx2)), [0x10, 0x7ED8320B, 0x178BFBFF, 0x219C91A9, 0x00400004, 0x80000020, 0xF5C2B7FF], 0x7),
        (("Hygon C86 3185, OSXSAVE clear", S, "avx2", None), [0xD, 0x74D83209, 0x178BFBFF, 0x009C01A9, 0x0040068C, 0x8000001F, 0x35C233FF], 0),
        (("EPYC, Zen 4, a guest", A512, "avx512", Some(Isa::Avx512)), [0x1C, 0xFFFA3203, 0x178BFBFF, 0xF1BF07AB, 0x00405FC6, 0x80000021, 0x004003F3], 0xE7),
        (("every bit", A512, "avx512", Some(Isa::Avx512)), [!0, !0, !0, !0, !0, 0x8000FFFF, !0], !0),
        (("every bit, and no extended leaves", S, "avx2", None), [!0; 7], !0),
    ];

    fn made(name: &str) -> Words {
        let found = MADE.iter().find(|((other, ..), ..)| *other == name);
        let &(_, base, changes) = found.unwrap_or_else(|| panic!("no machine is named {name}"));
        let mut words = if base.is_empty() { [0; 7] } else { made(base) };
        for change in changes.split_whitespace() {
            let (word, bit) = position(&change[1..]);
            let (is, was) = (change.starts_with('+'), words[word] >> bit & 1 == 1);
            assert_ne!(is, was, "{name}: {change} changes nothing");
            words[word] ^= 1 << bit;
        }
        words
    }

    fn dumped(words: [u32; 7], xcr0: u64) -> Cpu {
        let [last_leaf, leaf1_ecx, leaf1_edx, leaf7_ebx, leaf7_ecx, last_extended_leaf, extended_ecx] = words;
        let xcr0 = (leaf1_ecx >> 27 & 1 == 1).then_some(xcr0);
        Cpu { last_leaf, last_extended_leaf, leaf1_ecx, leaf1_edx, leaf7_ebx, leaf7_ecx, extended_ecx, xcr0 }
    }

    #[test]
    fn machines() {
        let made = MADE.iter().map(|&(expected, ..)| (expected, cpu(made(expected.0))));
        let dumped = DUMPED.iter().map(|&(expected, words, xcr0)| (expected, dumped(words, xcr0)));
        for ((name, tiers, variable, then), cpu) in made.chain(dumped) {
            let available = available(&cpu);
            assert_eq!(available, tiers, "{name}: {cpu:x?}");
            assert_eq!(best_of(None, &available), Ok(tiers[tiers.len() - 1]), "{name}");
            let then = then.ok_or(variable.as_ref());
            assert_eq!(best_of(Some(variable.as_ref()), &available), then, "{name}, {variable}");
        }
    }

    /// Flips every bit of every word, in a machine that has all of them and in one that has only those that the
    /// tier needs. The first shows that each bit that is needed is checked; the second that others make no difference.
    #[test]
    fn bits() {
        for (isa, needs) in
            [(Isa::Avx2, AVX2_NEEDS.to_owned()), (Isa::Avx512, format!("{AVX2_NEEDS} {AVX512_NEEDS}"))]
        {
            let needs: Vec<_> = needs.split_whitespace().map(position).collect();
            let mut least = [0; 7];
            for &(word, bit) in &needs {
                least[word] |= 1 << bit;
            }
            assert!(cpu(least).runs(isa) && cpu([!0; 7]).runs(isa));
            for (word, bit) in (0..7).flat_map(|word| (0..32).map(move |bit| (word, bit))) {
                let flipped = |mut words: Words| {
                    words[word] ^= 1 << bit;
                    cpu(words).runs(isa)
                };
                let needed = needs.contains(&(word, bit));
                assert_eq!(flipped([!0; 7]), !needed, "{isa}: word {word} without bit {bit}");
                assert_eq!(flipped(least), !needed, "{isa}: word {word}, bit {bit} flipped");
            }
        }
    }

    /// A word only counts if the machine has its leaf.
    #[test]
    fn leaves() {
        let all = cpu([!0; 7]);
        for (last_leaf, runs) in [(0, false), (1, false), (6, false), (7, true), (0x24, true)] {
            assert_eq!(Cpu { last_leaf, ..all }.runs(Isa::Avx2), runs, "{last_leaf:x}");
        }
        for (last_leaf, bits) in [(0, 0), (1, !0), (7, !0)] {
            let cpu = Cpu { last_leaf, ..all };
            assert_eq!([cpu.word(Leaf1Ecx), cpu.word(Leaf1Edx)], [bits; 2], "{last_leaf:x}");
        }
        let extended =
            [0, 1, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0001, 0x8000_0021, 0x8000_FFFF, 0x8001_0000, !0];
        for last_extended_leaf in extended {
            let runs = matches!(last_extended_leaf, 0x8000_0001 | 0x8000_0021 | 0x8000_FFFF);
            assert_eq!(Cpu { last_extended_leaf, ..all }.runs(Isa::Avx2), runs, "{last_extended_leaf:x}");
        }
        // XGETBV may be enabled and not read, or read and not enabled, which no machine does.
        assert!(!Cpu { xcr0: None, ..all }.runs(Isa::Avx2));
        assert!(!Cpu { leaf1_ecx: !(1 << 27), ..all }.runs(Isa::Avx2));
    }

    /// The standard library, which the tokens ask, finds the same features on this machine.
    #[test]
    fn this_machine() {
        let cpu = Cpu::this();
        assert_eq!(cpu.runs(Isa::Avx2), Backend::present(Isa::Avx2).is_some(), "{cpu:x?}");
        #[cfg(isa = "avx512")]
        assert_eq!(cpu.runs(Isa::Avx512), Backend::present(Isa::Avx512).is_some(), "{cpu:x?}");
        assert_eq!(available(&cpu), Isa::available());
    }
}
