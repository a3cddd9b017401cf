//! The instruction set that casts run on by default, and the environment variable that overrides it.

use crate::error::Error;
use crate::formats::isa::Isa;

impl Isa {
    /// The instruction set that casts run on unless [`CastOptions::isa`](crate::CastOptions::isa) names another:
    /// that of the environment variable `LANECAST_ISA`, else the fastest that is available.
    ///
    /// The variable is read once, by the first cast or call of this function, without the lock of the standard library. No other thread
    /// may set environment variables meanwhile (`std::env::set_var` is safe only while all other threads read them through `std::env`): a
    /// program that sets variables calls this before it starts other threads. Without the feature `std` the variable is not read.
    ///
    /// If it names no available instruction set, this function and every cast that relies on it return an error: a silent fallback would
    /// hide a misspelt name.
    ///
    /// ```
    /// use lanecast::Isa;
    /// assert!(Isa::best()?.is_available());
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    #[inline]
    pub fn best() -> Result<Self, Error> {
        #[cfg(feature = "std")]
        return variable::best();
        #[cfg(not(feature = "std"))]
        Ok(fastest(Self::available()))
    }
}

/// The code of [`Isa::best`], if a cast has asked for it; else 0.
#[inline(always)]
pub(crate) fn known() -> u8 {
    #[cfg(feature = "std")]
    return variable::BEST.load(core::sync::atomic::Ordering::Relaxed);
    #[cfg(not(feature = "std"))]
    0
}

/// The last of the available ones, which always include the reference.
fn fastest(available: &[Isa]) -> Isa {
    available.last().copied().unwrap_or(Isa::Scalar)
}

/// What the environment variable says.
#[cfg(feature = "std")]
pub(crate) mod variable {
    use alloc::string::String;
    use core::sync::atomic::{AtomicU8, Ordering};
    use std::ffi::OsStr;

    use super::fastest;
    use crate::error::Error;
    use crate::formats::isa::Isa;
    use crate::kernels::once::Once;

    /// The code of [`Isa::best`]; 0 before it is known, and if the value of the variable is an error.
    pub(super) static BEST: AtomicU8 = AtomicU8::new(0);

    /// [`Isa::best`].
    #[inline]
    pub(super) fn best() -> Result<Isa, Error> {
        let best = BEST.load(Ordering::Relaxed);
        match Isa::ALL.into_iter().find(|isa| *isa as u8 == best) {
            Some(known) => Ok(known),
            None => read(),
        }
    }

    /// [`Isa::best`] from the variable, when it is not known yet.
    #[cold]
    #[inline(never)]
    fn read() -> Result<Isa, Error> {
        /// The value of the variable, if it is an error.
        static WRONG: Once<String> = Once::new();

        if let Some(value) = WRONG.get() {
            return Err(Error::IsaOverride { value });
        }
        with_variable(|variable| match best_of(variable, Isa::available()) {
            Ok(best) => {
                BEST.store(best as u8, Ordering::Relaxed);
                Ok(best)
            }
            Err(wrong) => {
                let value = WRONG.get_or_make(|| text(wrong));
                Err(Error::IsaOverride { value: value.map_or("", |value| value) })
            }
        })
    }

    /// Calls a function with the value of `LANECAST_ISA`.
    #[cfg(unix)]
    #[allow(unsafe_code, reason = "the standard library copies the value, and locks the variables")]
    fn with_variable<T>(then: impl FnOnce(Option<&OsStr>) -> T) -> T {
        use core::ffi::{CStr, c_char};
        use std::os::unix::ffi::OsStrExt;

        unsafe extern "C" {
            fn getenv(name: *const c_char) -> *const c_char;
        }
        // SAFETY: `getenv` is a function of the C library, which the standard library links, and gets a C string. A program that sets
        // variables while another thread may read them breaks the contract of `std::env::set_var` (and of `setenv`). `std::env::var_os`
        // takes a lock of the standard library, which a child that is forked meanwhile would inherit locked.
        let value = unsafe { getenv(c"LANECAST_ISA".as_ptr()) };
        if value.is_null() {
            return then(None);
        }
        // SAFETY: the value is a C string, which stays unchanged while no thread sets a variable.
        let value = unsafe { CStr::from_ptr(value) };
        then(Some(OsStr::from_bytes(value.to_bytes())))
    }

    #[cfg(not(unix))]
    fn with_variable<T>(then: impl FnOnce(Option<&OsStr>) -> T) -> T {
        then(std::env::var_os("LANECAST_ISA").as_deref())
    }

    /// The text of a value, if there is memory for it. Invalid UTF-8 is replaced, as by `String::from_utf8_lossy`.
    fn text(value: &OsStr) -> Option<String> {
        let mut text = String::new();
        for chunk in value.as_encoded_bytes().utf8_chunks() {
            let more = [chunk.valid(), if chunk.invalid().is_empty() { "" } else { "\u{FFFD}" }];
            text.try_reserve(more.iter().map(|part| part.len()).sum()).ok()?;
            text.extend(more);
        }
        Some(text)
    }

    /// [`Isa::best`] as a function of its inputs; the error is the value that names no available instruction set.
    pub(crate) fn best_of<'a>(variable: Option<&'a OsStr>, available: &[Isa]) -> Result<Isa, &'a OsStr> {
        let Some(name) = variable.filter(|name| !name.is_empty()) else {
            return Ok(fastest(available));
        };
        let wanted = name.to_str().and_then(|name| Isa::ALL.into_iter().find(|isa| isa.name() == name));
        wanted.filter(|isa| available.contains(isa)).ok_or(name)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_override_is_obeyed_or_an_error() {
            fn best(name: Option<&'static str>) -> Result<Isa, &'static OsStr> {
                best_of(name.map(AsRef::as_ref), &[Isa::Scalar, Isa::Avx2])
            }
            assert_eq!(best(None), Ok(Isa::Avx2));
            assert_eq!(best(Some("")), Ok(Isa::Avx2));
            assert_eq!(best(Some("scalar")), Ok(Isa::Scalar));
            assert_eq!(best(Some("avx2")), Ok(Isa::Avx2));
            for wrong in ["neon", "AVX2", "avx2 "] {
                assert_eq!(best(Some(wrong)), Err(wrong.as_ref()));
            }
            let arm =
                |name: Option<&'static str>| best_of(name.map(AsRef::as_ref), &[Isa::Scalar, Isa::Neon]);
            assert_eq!((arm(None), arm(Some("neon"))), (Ok(Isa::Neon), Ok(Isa::Neon)));
            assert_eq!((arm(Some("scalar")), arm(Some("avx2"))), (Ok(Isa::Scalar), Err("avx2".as_ref())));
        }
    }
}
