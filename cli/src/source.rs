//! Sources that are read at offsets.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Failure, Result, on};
use crate::system;

/// Bytes of a known length that are read at offsets, by several threads at the same time.
pub(crate) trait Source: Send + Sync {
    /// The length in bytes.
    fn len(&self) -> u64;
    /// Fills the buffer from this offset on.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Returns size and time, by which changes of the contents are noticed.
    fn stamp(&self) -> io::Result<Stamp>;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) len: u64,
    pub(crate) mtime: (i64, i64),
}

struct OnDisk {
    file: File,
    len: u64,
}

impl Source for OnDisk {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        system::read_at(&self.file, buffer, offset)
    }

    fn stamp(&self) -> io::Result<Stamp> {
        let metadata = self.file.metadata()?;
        Ok(Stamp { len: metadata.len(), mtime: system::mtime(&metadata)? })
    }
}

/// Opens a regular file.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Source>> {
    // Before it is opened, as opening a pipe would wait.
    if !std::fs::metadata(path).map_err(on(path))?.is_file() {
        return Err(Failure::refused(format!("{}: not a regular file", path.display())));
    }
    let file = File::open(path).map_err(on(path))?;
    let metadata = file.metadata().map_err(on(path))?;
    system::will_be_read(&file);
    Ok(Box::new(OnDisk { file, len: metadata.len() }))
}

/// Reads a small file. No more is allocated than the file has.
pub(crate) fn read_small(path: &Path, most: u64) -> Result<Vec<u8>> {
    let source = open(path)?;
    if source.len() > most {
        return Err(Failure::refused(format!(
            "{}: the file has {} bytes; at most {most} are read",
            path.display(),
            source.len()
        )));
    }
    let mut bytes = vec![0; source.len() as usize];
    source.read_at(&mut bytes, 0).map_err(on(path))?;
    Ok(bytes)
}

/// Returns the directory that a file lies in.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the name of a file without its directory.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Whether a text is the name of a file, without a directory.
pub(crate) fn is_plain_name(name: &str) -> bool {
    // On Windows, a colon comes after a drive, or before a stream of a file.
    let leads_on = |c: char| matches!(c, '/' | '\\' | '\0') || cfg!(windows) && c == ':';
    !name.is_empty() && name != "." && name != ".." && !name.contains(leads_on)
}

/// Returns a path with all existing links followed. Components that do not exist count as directories, which `..` leaves.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let mut real =
        if path.is_absolute() { PathBuf::new() } else { Path::new(".").canonicalize().unwrap_or_default() };
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = real.pop(),
            component => {
                real.push(component);
                real = real.canonicalize().unwrap_or(real);
            }
        }
    }
    real
}

#[cfg(test)]
mod tests {
    use super::is_plain_name;

    #[test]
    fn names_that_lead_elsewhere_are_none() {
        for name in ["", ".", "..", "a/b", "/a", "a\\b", "\\\\server\\a", "a\0"] {
            assert!(!is_plain_name(name), "{name:?}");
        }
        assert!(is_plain_name("model-00001-of-00002.safetensors"));
        // A drive, or a stream of a file.
        assert_eq!(is_plain_name("C:a"), cfg!(unix));
    }
}
