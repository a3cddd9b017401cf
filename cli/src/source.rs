//! Files that are read at offsets. Whatever else can do that (an object store) can be a source.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::{Failure, Result, on};

/// Something of a known length that is read at offsets, by several threads at a time.
pub(crate) trait Source: Send + Sync {
    /// Bytes.
    fn len(&self) -> u64;
    /// Fills the buffer from this offset on.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// What changes when somebody changes the contents: size and time.
    fn stamp(&self) -> io::Result<Stamp>;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
        self.file.read_exact_at(buffer, offset)
    }

    fn stamp(&self) -> io::Result<Stamp> {
        let metadata = self.file.metadata()?;
        Ok(Stamp { len: metadata.len(), mtime: (metadata.mtime(), metadata.mtime_nsec()) })
    }
}

/// Opens a regular file.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Source>> {
    let file = File::open(path).map_err(on(path))?;
    let metadata = file.metadata().map_err(on(path))?;
    if !metadata.is_file() {
        return Err(Failure::refused(format!("{}: no regular file", path.display())));
    }
    // The kernel reads ahead further.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Sequential);
    Ok(Box::new(OnDisk { file, len: metadata.len() }))
}

/// Does it lie in a file system in memory? Nobody waits for a disk there, and its pages are allocated when they are written.
pub(crate) fn is_in_memory(path: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::statfs(path).is_ok_and(|system| system.f_type as u64 == TMPFS)
}

/// The whole of a small file. Nothing is allocated that the file does not have.
pub(crate) fn read_small(path: &Path, most: u64) -> Result<Vec<u8>> {
    let source = open(path)?;
    if source.len() > most {
        return Err(Failure::refused(format!(
            "{}: {} bytes; at most {most} are read",
            path.display(),
            source.len()
        )));
    }
    let mut bytes = vec![0; source.len() as usize];
    source.read_at(&mut bytes, 0).map_err(on(path))?;
    Ok(bytes)
}

/// The name of a file, without what leads to it.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Is this the name of a file in its directory, and nothing more?
pub(crate) fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

/// The path with all links followed; of one that does not exist yet, that of its directory and the name.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match path.file_name() {
        Some(name) => parent.canonicalize().unwrap_or_else(|_| parent.to_owned()).join(name),
        None => path.to_owned(),
    }
}
