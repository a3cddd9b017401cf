//! What operating systems do each in their own way: files at offsets, what is kept of them in memory, and the room on a disk.
//!
//! Hints are taken where there are such, and change nothing but the time and what a file is read back from.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

#[cfg(target_os = "linux")]
pub(crate) use linux::{allocate, forget, is_in_memory, will_be_read};
#[cfg(not(target_os = "linux"))]
pub(crate) use others::{allocate, forget, is_in_memory, will_be_read};
#[cfg(unix)]
pub(crate) use unix::{free, mtime, read_at, shared, sync_directory, write_at};
#[cfg(windows)]
pub(crate) use windows::{free, mtime, read_at, shared, sync_directory, write_at};

#[cfg(unix)]
mod unix {
    use std::fs::Permissions;
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

    use tempfile::Builder;

    use super::*;

    /// Fills the buffer from this offset on.
    pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        file.read_exact_at(buffer, offset)
    }

    pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    /// When the contents changed, in two numbers that are compared.
    pub(crate) fn mtime(metadata: &Metadata) -> io::Result<(i64, i64)> {
        Ok((metadata.mtime(), metadata.mtime_nsec()))
    }

    /// A temporary file is what another new file is to other users.
    pub(crate) fn shared<'a, 'b>(builder: &'a mut Builder<'b, 'b>) -> &'a mut Builder<'b, 'b> {
        builder.permissions(Permissions::from_mode(0o666))
    }

    /// The names in a directory are on the disk.
    pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    /// Bytes that may still be written there.
    #[allow(clippy::unnecessary_cast, reason = "they are of 32 bits on some")]
    pub(crate) fn free(dir: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(dir)?;
        Ok((stat.f_bavail as u64).saturating_mul(stat.f_frsize as u64))
    }
}

#[cfg(windows)]
mod windows {
    use std::os::windows::fs::{FileExt, MetadataExt};

    use tempfile::Builder;

    use super::*;

    pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = buffer.len();
        let read = |done: usize| file.seek_read(&mut buffer[done..], offset + done as u64);
        until_all(bytes, io::ErrorKind::UnexpectedEof, read)
    }

    pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let write = |done: usize| file.seek_write(&bytes[done..], offset + done as u64);
        until_all(bytes.len(), io::ErrorKind::WriteZero, write)
    }

    /// Calls a function, which says how many bytes it has done, until it has done all; the error is what it means that it did none.
    fn until_all(
        bytes: usize,
        none: io::ErrorKind,
        mut some: impl FnMut(usize) -> io::Result<usize>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < bytes {
            match some(done) {
                Ok(0) => return Err(none.into()),
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn mtime(metadata: &Metadata) -> io::Result<(i64, i64)> {
        // Units of 100 ns.
        Ok((metadata.last_write_time() as i64, 0))
    }

    /// A new file has the rights of its directory, a temporary one too.
    pub(crate) fn shared<'a, 'b>(builder: &'a mut Builder<'b, 'b>) -> &'a mut Builder<'b, 'b> {
        builder
    }

    /// A directory is no file there; NTFS has a journal for names.
    pub(crate) fn sync_directory(_: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn free(dir: &Path) -> io::Result<u64> {
        fs4::available_space(dir)
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::num::NonZeroU64;

    use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, statfs};
    use rustix::io::Errno;

    use super::*;

    /// There is room for so many bytes of a file from now on, where the file system can say that.
    pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// All of it will be read, from its beginning: the system reads ahead further.
    pub(crate) fn will_be_read(file: &File) {
        let _ = fadvise(file, 0, None, Advice::Sequential);
    }

    /// These bytes are on the disk, and are read from there.
    pub(crate) fn forget(file: &File, offset: u64, bytes: u64) {
        let _ = fadvise(file, offset, NonZeroU64::new(bytes), Advice::DontNeed);
    }

    /// Does it lie in a file system in memory? Nobody waits for a disk there, and its pages are allocated when they are written.
    pub(crate) fn is_in_memory(path: &Path) -> bool {
        const TMPFS: u64 = 0x0102_1994;
        statfs(path).is_ok_and(|system| system.f_type as u64 == TMPFS)
    }
}

#[cfg(not(target_os = "linux"))]
mod others {
    use super::*;

    /// A full disk is told when the file is written.
    pub(crate) fn allocate(_: &File, _: u64) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn will_be_read(_: &File) {}

    /// The bytes that are read back may be those that the system keeps.
    pub(crate) fn forget(_: &File, _: u64, _: u64) {}

    /// Not known.
    pub(crate) fn is_in_memory(_: &Path) -> bool {
        false
    }
}
