//! What differs between operating systems: reading at offsets, the cache of files, and the room on a disk.
//!
//! Hints that a system does not have are left out. They only change how long something takes, and whether a file is read back from the
//! disk or from memory.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

#[cfg(target_os = "linux")]
pub(crate) use linux::{allocate, forget, is_in_memory, will_be_read};
#[cfg(not(target_os = "linux"))]
pub(crate) use others::{allocate, forget, is_in_memory, will_be_read};
#[cfg(unix)]
pub(crate) use unix::{check_size, free, mtime, open_many, read_at, shared, sync_directory, write_at};
#[cfg(windows)]
pub(crate) use windows::{check_size, free, mtime, open_many, read_at, shared, sync_directory, write_at};

#[cfg(unix)]
mod unix {
    use std::fs::Permissions;
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

    use rustix::process::{Resource, getrlimit, setrlimit};
    use tempfile::Builder;

    use super::*;

    /// Fails if this process may not write files of this many bytes. A signal would end the process then, and leave its temporary files.
    pub(crate) fn check_size(bytes: u64) -> io::Result<()> {
        match getrlimit(Resource::Fsize).current {
            Some(most) if bytes > most => Err(io::ErrorKind::FileTooLarge.into()),
            _ => Ok(()),
        }
    }

    /// Lets this process open as many files as the system allows: those of a checkpoint are open together.
    pub(crate) fn open_many() {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        // Where that is refused, the limit stays.
        let _ = setrlimit(Resource::Nofile, limit);
    }

    /// Fills the buffer from this offset on.
    pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        file.read_exact_at(buffer, offset)
    }

    pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    /// Returns the time of the last change, as two numbers that are only compared with others.
    pub(crate) fn mtime(metadata: &Metadata) -> io::Result<(i64, i64)> {
        Ok((metadata.mtime(), metadata.mtime_nsec()))
    }

    /// Gives temporary files the permissions that other new files have.
    pub(crate) fn shared<'a, 'b>(builder: &'a mut Builder<'b, 'b>) -> &'a mut Builder<'b, 'b> {
        builder.permissions(Permissions::from_mode(0o666))
    }

    /// Synchronises the names in a directory with the disk.
    pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
        match File::open(path) {
            // It may be written, but not read.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            directory => directory?.sync_all(),
        }
    }

    /// Returns how many bytes of room there are on the disk.
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

    /// Nothing to check: processes have no such limit.
    pub(crate) fn check_size(_: u64) -> io::Result<()> {
        Ok(())
    }

    /// Nothing to raise: processes have no such limit.
    pub(crate) fn open_many() {}

    pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = buffer.len();
        let read = |done: usize| file.seek_read(&mut buffer[done..], offset + done as u64);
        until_all(bytes, io::ErrorKind::UnexpectedEof, read)
    }

    pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let write = |done: usize| file.seek_write(&bytes[done..], offset + done as u64);
        until_all(bytes.len(), io::ErrorKind::WriteZero, write)
    }

    /// Calls a function, which returns how many bytes it has done, until all are done. A call that does none is the error `none`.
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
        // In units of 100 ns.
        Ok((metadata.last_write_time() as i64, 0))
    }

    /// Nothing to do: temporary files have the permissions of their directory, as other new files do.
    pub(crate) fn shared<'a, 'b>(builder: &'a mut Builder<'b, 'b>) -> &'a mut Builder<'b, 'b> {
        builder
    }

    /// Nothing to do: NTFS has a journal for names.
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

    /// Allocates the bytes of a file on the disk, if the file system can.
    pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells the system that a file will be read from its beginning to its end, so that it reads ahead further.
    pub(crate) fn will_be_read(file: &File) {
        let _ = fadvise(file, 0, None, Advice::Sequential);
    }

    /// Drops bytes that are on the disk from the system's cache, so that they are read from there.
    pub(crate) fn forget(file: &File, offset: u64, bytes: u64) {
        let _ = fadvise(file, offset, NonZeroU64::new(bytes), Advice::DontNeed);
    }

    /// Whether a path is in a file system in memory: there is no disk to wait for, and pages are allocated when they are written.
    pub(crate) fn is_in_memory(path: &Path) -> bool {
        const TMPFS: u64 = 0x0102_1994;
        statfs(path).is_ok_and(|system| system.f_type as u64 == TMPFS)
    }
}

#[cfg(not(target_os = "linux"))]
mod others {
    use super::*;

    /// Nothing to do: a full disk is noticed when the file is written.
    pub(crate) fn allocate(_: &File, _: u64) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn will_be_read(_: &File) {}

    /// Nothing to do: bytes may be read back from the system's cache.
    pub(crate) fn forget(_: &File, _: u64, _: u64) {}

    /// No: it cannot be found out.
    pub(crate) fn is_in_memory(_: &Path) -> bool {
        false
    }
}
