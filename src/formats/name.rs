//! The error of a name that is not known, and the names of enums.

use alloc::borrow::Cow;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// An unknown name of a dtype, a ruleset, a level of casting, a category, an instruction set or the value of an option. Its message lists
/// the names that there are.
///
/// ```
/// let error = "sse9".parse::<lanecast::Isa>().unwrap_err();
/// assert_eq!(error.to_string(), "no instruction set is named \"sse9\"; the names are scalar, avx2, avx512, neon, simd128");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameError {
    /// What it should name.
    what: &'static str,
    /// The system in which it should be a name, if that matters.
    dialect: Option<&'static str>,
    name: String,
    /// The name that was probably meant.
    near: Option<&'static str>,
    known: Vec<Cow<'static, str>>,
}

impl NameError {
    #[cold]
    pub(crate) fn new(what: &'static str, name: &str, known: &[&'static str]) -> Self {
        Self {
            what,
            dialect: None,
            name: name.to_owned(),
            near: None,
            known: known.iter().copied().map(Cow::Borrowed).collect(),
        }
    }

    /// The error of a dtype's name that a system does not have.
    #[cold]
    pub(crate) fn in_dialect(
        dialect: &'static str,
        name: &str,
        known: impl Iterator<Item = Cow<'static, str>>,
    ) -> Self {
        let (what, name) = ("dtype", name.to_owned());
        Self { what, dialect: Some(dialect), name, near: None, known: known.collect() }
    }

    /// Adds the name that was probably meant, if there is one.
    pub(crate) fn near(self, near: Option<&'static str>) -> Self {
        Self { near, ..self }
    }

    /// Returns the name that was given.
    ///
    /// ```
    /// assert_eq!("float8".parse::<lanecast::DType>().unwrap_err().name(), "float8");
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, dialect, name, near, known } = self;
        let known = known.join(", ");
        match dialect {
            Some(dialect) => {
                write!(f, "there is no {what} here that {dialect} names {name:?}; its names are {known}")
            }
            None => match near {
                None => write!(f, "no {what} is named {name:?}; the names are {known}"),
                Some(near) => {
                    write!(f, "no {what} is named {name:?}; did you mean {near}? The names are {known}")
                }
            },
        }
    }
}

impl core::error::Error for NameError {}

/// Implements `ALL`, `name`, `Display` and `FromStr` for the values of an option. Their names are spelt as in Python and in serde's formats.
macro_rules! named {
    ($($what:literal$( in $module:literal)?: $type:ident { $($variant:ident = $name:literal),* $(,)? })*) => {$(
        impl $type {
            /// Every value, in the order of the codes. Its length grows with new values: take it as a slice.
            ///
            #[doc = concat!("```\nuse lanecast::", $($module, "::",)? stringify!($type), ";")]
            #[doc = concat!("assert!(", stringify!($type), "::ALL.iter().enumerate().all(|(code, x)| *x as usize == code));\n```")]
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Returns the name, which [`FromStr`](core::str::FromStr) parses.
            ///
            #[doc = concat!("```\nuse lanecast::", $($module, "::",)? stringify!($type), ";")]
            #[doc = concat!("let names = ", stringify!($type), "::ALL.map(", stringify!($type), "::name);")]
            #[doc = concat!("assert_eq!(names, [", $("\"", $name, "\", ",)* "]);")]
            #[doc = concat!("assert_eq!(names[1].parse(), Ok(", stringify!($type), "::ALL[1]));\n```")]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }

        impl core::fmt::Display for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }

        impl core::str::FromStr for $type {
            type Err = $crate::formats::name::NameError;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.into_iter().find(|one| one.name() == name);
                found.ok_or_else(|| $crate::formats::name::NameError::new($what, name, &Self::ALL.map(Self::name)))
            }
        }
    )*};
}
pub(crate) use named;
