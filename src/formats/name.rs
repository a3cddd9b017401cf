//! What is wrong with a name that nothing has.

use alloc::borrow::Cow;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A name that nothing has: of a dtype, a ruleset, a level of casting, a category, an instruction set. It says which
/// names there are.
///
/// ```
/// let error = "sse9".parse::<lanecast::Isa>().unwrap_err();
/// assert_eq!(error.to_string(), "no instruction set is named \"sse9\"; the names are scalar, avx2, avx512, neon, simd128");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameError {
    /// What it should be the name of.
    what: &'static str,
    /// Whose name of that, if it depends.
    dialect: Option<&'static str>,
    name: String,
    known: Vec<Cow<'static, str>>,
}

impl NameError {
    #[cold]
    pub(crate) fn new<const N: usize>(what: &'static str, name: &str, known: [&'static str; N]) -> Self {
        Self { what, dialect: None, name: name.to_owned(), known: known.map(Cow::Borrowed).into() }
    }

    /// A dtype that a system does not know.
    #[cold]
    pub(crate) fn in_dialect(
        dialect: &'static str,
        name: &str,
        known: impl Iterator<Item = Cow<'static, str>>,
    ) -> Self {
        Self { what: "dtype", dialect: Some(dialect), name: name.to_owned(), known: known.collect() }
    }

    /// The name that was given.
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
        let Self { what, dialect, name, known } = self;
        let known = known.join(", ");
        match dialect {
            Some(dialect) => write!(f, "{dialect} has no {what} named {name:?}; its names are {known}"),
            None => write!(f, "no {what} is named {name:?}; the names are {known}"),
        }
    }
}

impl core::error::Error for NameError {}
