//! The instruction sets that kernels are written for, and their names.

use core::fmt;
use core::str::FromStr;

use super::name::NameError;

/// An instruction set that kernels are written for.
///
/// Only the speed of a cast depends on it, never its results.
///
/// ```
/// use lanecast::Isa;
/// for isa in Isa::ALL {
///     println!("{isa}: {}", if isa.is_available() { "available" } else { "not here" });
/// }
/// assert!(Isa::Scalar.is_available());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[repr(u8)]
pub enum Isa {
    /// The reference: integer arithmetic, one element at a time, on every machine.
    Scalar = 1,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2 = 2,
    /// x86-64 with the AVX-512 extensions of Ice Lake and Zen 4.
    Avx512 = 3,
    /// 64-bit Arm.
    Neon = 4,
    /// WebAssembly with its 128-bit SIMD instructions, if the module is compiled with them.
    Simd128 = 5,
}

impl Isa {
    /// Every instruction set that kernels are written for, whether it is available here or not.
    /// Its length grows with new instruction sets: take it as a slice.
    ///
    /// ```
    /// assert_eq!(lanecast::Isa::ALL.map(|isa| isa.name()), ["scalar", "avx2", "avx512", "neon", "simd128"]);
    /// ```
    pub const ALL: [Self; 5] = [Self::Scalar, Self::Avx2, Self::Avx512, Self::Neon, Self::Simd128];

    /// The name, as `LANECAST_ISA` spells it.
    ///
    /// ```
    /// assert_eq!(lanecast::Isa::Avx512.name(), "avx512");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
            Self::Simd128 => "simd128",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Isa {
    type Err = NameError;

    /// Returns the instruction set with this name, which must match exactly.
    fn from_str(name: &str) -> Result<Self, NameError> {
        let found = Self::ALL.into_iter().find(|isa| isa.name() == name);
        found.ok_or_else(|| NameError::new("instruction set", name, &Self::ALL.map(Self::name)))
    }
}
