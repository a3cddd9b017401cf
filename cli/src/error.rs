//! What went wrong, in which tensor, and what to do about it.

use std::fmt;
use std::io;
use std::path::Path;

/// The kind of an error, which is the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A limit was exceeded, or a difference was found.
    Limit = 1,
    /// The command line.
    Usage = 2,
    /// The input is refused.
    Refused = 3,
    /// Disk, memory, permission.
    System = 4,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Usage => "usage",
            Self::Refused => "refused",
            Self::System => "system",
            Self::Interrupted => "interrupted",
        }
    }
}

/// An error that ends the program.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) tensor: Option<String>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// An option of `convert` that helps, besides `help` or instead of it.
    pub(crate) option: Option<String>,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, tensor: None, message: message.into(), help: None, option: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    pub(crate) fn system(message: impl Into<String>) -> Self {
        Self::new(Kind::System, message)
    }

    /// Returns the error of what the program cannot do yet.
    pub(crate) fn not_there(what: impl fmt::Display) -> Self {
        Self::usage(format!("{what}: not supported yet"))
    }

    pub(crate) fn tensor(mut self, name: &str) -> Self {
        self.tensor.get_or_insert_with(|| name.to_owned());
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn option(mut self, option: impl Into<String>) -> Self {
        self.option = Some(option.into());
        self
    }

    /// Adapts the error for commands that do not have the options of `convert`, and have another name for `--from`.
    pub(crate) fn of_side(mut self, from: &str) -> Self {
        self.option = None;
        self.message = self.message.replace("--from", from);
        self.help = self.help.map(|help| help.replace("--from", from));
        self
    }

    /// Returns what to do about the error.
    pub(crate) fn remedy(&self) -> Option<String> {
        match (&self.help, &self.option) {
            (Some(help), Some(option)) => Some(format!("{help}; or convert with {option}")),
            (None, Some(option)) => Some(format!("convert with {option}")),
            (help, None) => help.clone(),
        }
    }

    /// Returns an error of the system about a file. A file that is not there is an error of the input.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        let message = format!("{}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => Self::refused(message),
            io::ErrorKind::UnexpectedEof => {
                Self::refused(format!("{}: the file was cut short while it was read", path.display()))
                    .help("run the command again when no other process writes the file")
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::system(message).help("free some space, or write elsewhere")
            }
            io::ErrorKind::PermissionDenied => {
                Self::system(message).help("check the owner and the permissions of the file and of its directory")
            }
            io::ErrorKind::FileTooLarge => Self::system(message).help(
                "`ulimit -f` shows how large a file of a process may be; the file system may have a limit, too",
            ),
            io::ErrorKind::ReadOnlyFilesystem => Self::system(message).help("write elsewhere"),
            _ => Self::system(message),
        }
    }

    /// Returns an error of the system about a file of the result. What is not there has been removed since.
    pub(crate) fn output(path: &Path, error: &io::Error) -> Self {
        let failure = Self::io(path, error);
        let kind = if error.kind() == io::ErrorKind::NotFound { Kind::System } else { failure.kind };
        Self { kind, ..failure }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({ "error": {
            "kind": self.kind.name(), "tensor": self.tensor, "message": self.message, "help": self.remedy(),
        } })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tensor) = &self.tensor {
            write!(f, "{tensor}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Makes an error of the system one about a file (for `map_err`).
pub(crate) fn on(path: &Path) -> impl Fn(io::Error) -> Failure + '_ {
    move |error| Failure::io(path, &error)
}

/// Makes an error of the system one about a file of the result (for `map_err`).
pub(crate) fn on_output(path: &Path) -> impl Fn(io::Error) -> Failure + '_ {
    move |error| Failure::output(path, &error)
}

/// Returns the candidate that a misspelt word probably means.
pub(crate) fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let close = |candidate: &&str| {
        let mut row: Vec<usize> = (0..=candidate.len()).collect();
        for (i, a) in word.bytes().enumerate() {
            let mut corner = row[0];
            row[0] = i + 1;
            for (j, b) in candidate.bytes().enumerate() {
                let changed = corner + usize::from(a != b);
                corner = row[j + 1];
                row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
            }
        }
        row[candidate.len()]
    };
    let best = candidates.into_iter().min_by_key(close)?;
    // Any two very short words are similar.
    let near = 2.max(word.len() / 3).min(word.len().saturating_sub(1) / 2);
    (close(&best) <= near).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_cut_short_is_told() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let source = crate::source::open(place.path()).unwrap();
        let failure = source.read_at(&mut [0; 8], 0).map_err(on("x".as_ref())).unwrap_err();
        assert_eq!(failure.to_string(), "x: the file was cut short while it was read");
        assert!(failure.kind == Kind::Refused && failure.help.is_some());
    }
}
