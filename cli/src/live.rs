//! A file of the result while it is being written: under a temporary name, hashed from its beginning, and read back for verification.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tempfile::{Builder, NamedTempFile};
use twox_hash::XxHash3_128;

use crate::checkpoint::hex;
use crate::error::{Failure, Result, on_output};
use crate::lock;
use crate::loss::Loss;
use crate::source::file_name;
use crate::system;

/// How many bytes are read back at a time, and how many buffers of this size go to the thread that hashes.
const SOME: usize = 1 << 18;
const AHEAD: usize = 4;
/// How many bytes of a file are synchronised with the disk and read back together; in a file system in memory, as many as a cache holds.
const WINDOW: u64 = 16 << 20;
const WINDOW_IN_MEMORY: u64 = 1 << 20;
/// How many tiles may wait to be hashed before workers wait.
const WAITING: usize = 4;

/// A file that is being written.
pub(crate) struct Live {
    pub(crate) shard: usize,
    temp: Mutex<Option<NamedTempFile>>,
    /// Locked to write: the system lets one thread write to a file at a time, and others would spin.
    file: Mutex<File>,
    reader: File,
    pub(crate) path: PathBuf,
    window: u64,
    /// The pieces that were written and not yet read back, by their offsets.
    pieces: Mutex<BTreeMap<u64, Piece>>,
    /// Shared by workers that read back pieces which they have taken, so that the last one waits for them.
    reading: RwLock<()>,
    hashed: Mutex<Hashed>,
    /// Signalled when fewer tiles wait to be hashed.
    turn: Condvar,
    /// How many tiles the file is made of.
    tiles: AtomicUsize,
    pub(crate) losses: Mutex<BTreeMap<usize, Loss>>,
}

#[derive(Clone, Copy)]
struct Piece {
    len: u64,
    hash: u128,
}

/// The hash of a file up to the offset `until`, and the number of the next tile to be hashed.
#[derive(Default)]
struct Hashed {
    sha: Sha256,
    until: u64,
    next: usize,
    /// The tiles that wait to be hashed, by their numbers; and whether a worker is hashing now.
    waiting: BTreeMap<usize, Waiting>,
    is_busy: bool,
    /// How many workers wait for `waiting` to become shorter.
    asleep: usize,
    /// Buffers of tiles that were hashed, to be used again.
    spare: Vec<Vec<u8>>,
}

/// Bytes at an offset of a file: the first `n` of a buffer.
struct Waiting {
    offset: u64,
    n: usize,
    bytes: Vec<u8>,
}

impl Live {
    /// Creates a temporary file of `bytes` bytes, and allocates them on the disk.
    pub(crate) fn new(shard: usize, path: PathBuf, dir: &Path, bytes: u64) -> Result<Self> {
        let temp = temporary(dir, &file_name(&path))?;
        let file = temp.as_file().try_clone().map_err(on_output(&path))?;
        file.set_len(bytes).map_err(on_output(&path))?;
        let in_memory = system::is_in_memory(dir);
        if !in_memory {
            system::allocate(&file, bytes).map_err(on_output(&path))?;
        }
        Ok(Self {
            shard,
            temp: Mutex::new(Some(temp)),
            reader: file.try_clone().map_err(on_output(&path))?,
            file: Mutex::new(file),
            path,
            window: if in_memory { WINDOW_IN_MEMORY } else { WINDOW },
            pieces: Mutex::default(),
            reading: RwLock::default(),
            hashed: Mutex::default(),
            turn: Condvar::new(),
            tiles: AtomicUsize::new(0),
            losses: Mutex::new(BTreeMap::new()),
        })
    }

    /// Sets the number of tiles, before the first one is hashed.
    pub(crate) fn expect(&self, tiles: usize) {
        self.tiles.store(tiles, Ordering::SeqCst);
    }

    /// Returns the hash of the file once all of its `bytes` are written and hashed. Synchronises the file with the disk.
    pub(crate) fn sha256(&self, bytes: u64) -> Result<String> {
        let Hashed { sha, until, .. } = std::mem::take(&mut *lock(&self.hashed));
        if until != bytes {
            let what = format!("{}: {until} of {bytes} bytes were written", self.path.display());
            return Err(Failure::system(what));
        }
        self.reader.sync_all().map_err(on_output(&self.path))?;
        Ok(hex(&sha.finalize()))
    }

    /// Gives the file its name, as [`named`] does.
    pub(crate) fn publish(&self, replaces: bool) -> Result<()> {
        named(lock(&self.temp).take().expect("published once"), &self.path, replaces)
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let piece = Piece { len: bytes.len() as u64, hash: XxHash3_128::oneshot(bytes) };
        {
            let file = lock(&self.file);
            system::write_at(&file, bytes, offset).map_err(on_output(&self.path))?;
        }
        lock(&self.pieces).insert(offset, piece);
        Ok(())
    }

    /// Hashes tiles in the order of their numbers, as far as each continues the bytes that were hashed. The others are hashed when they are
    /// read back: scales lie before their weights in the file, but are complete only after them. While one worker hashes, the others hand
    /// it their buffers and get spare ones in exchange. Returns true if this call has done the last tile of the file.
    pub(crate) fn hash(
        &self,
        number: usize,
        offset: u64,
        bytes: &mut Vec<u8>,
        n: usize,
        stop: &AtomicBool,
    ) -> bool {
        let mut hashed = lock(&self.hashed);
        while hashed.waiting.len() >= WAITING && hashed.next != number {
            if stop.load(Ordering::SeqCst) {
                return false;
            }
            hashed.asleep += 1;
            let waited = self.turn.wait_timeout(hashed, Duration::from_millis(100));
            hashed = waited.expect("no panics").0;
            hashed.asleep -= 1;
        }
        let other = hashed.spare.pop().unwrap_or_default();
        hashed.waiting.insert(number, Waiting { offset, n, bytes: std::mem::replace(bytes, other) });
        if std::mem::replace(&mut hashed.is_busy, true) {
            return false;
        }
        loop {
            let next = hashed.next;
            let Some(Waiting { offset, n, bytes }) = hashed.waiting.remove(&next) else { break };
            if hashed.until == offset {
                let mut sha = std::mem::take(&mut hashed.sha);
                drop(hashed);
                sha.update(&bytes[..n]);
                hashed = lock(&self.hashed);
                hashed.sha = sha;
                hashed.until += n as u64;
            }
            hashed.next += 1;
            // The buffer of the header is not kept, as it may be long.
            if next > 0 {
                hashed.spare.push(bytes);
            }
            if hashed.asleep > 0 && hashed.waiting.len() <= WAITING / 2 {
                self.turn.notify_all();
            }
        }
        hashed.is_busy = false;
        if hashed.asleep > 0 {
            self.turn.notify_all();
        }
        hashed.next > self.tiles.load(Ordering::SeqCst)
    }

    /// Reads back the pieces that were hashed, if together they are at least a window.
    pub(crate) fn read_back(&self, buffer: &mut Vec<u8>) -> Result<()> {
        let until = lock(&self.hashed).until;
        let _reading = self.reading.read().unwrap_or_else(PoisonError::into_inner);
        let some = {
            let mut pieces = lock(&self.pieces);
            let bytes = |(_, piece): (_, &Piece)| piece.len;
            if pieces.range(..until).map(bytes).sum::<u64>() < self.window {
                return Ok(());
            }
            let later = pieces.split_off(&until);
            std::mem::replace(&mut *pieces, later)
        };
        buffer.resize(SOME, 0);
        let result = self.drop_cached(&some).and_then(|()| {
            some.iter().try_for_each(|(&offset, &piece)| {
                self.check(offset, piece, |at, n, hash| {
                    let some = &mut buffer[..n];
                    system::read_at(&self.reader, some, at).map_err(on_output(&self.path))?;
                    hash.write(some);
                    Ok(())
                })
            })
        });
        if result.is_err() {
            // Whoever completes the file finds it, too, and does not give it its name.
            lock(&self.pieces).extend(some);
        }
        result
    }

    /// Reads back the rest of the pieces after all were written. Another thread hashes those that were not hashed yet.
    pub(crate) fn read_back_all(&self, verify: bool) -> Result<()> {
        let until = lock(&self.hashed).until;
        let mut pieces = {
            let _alone = self.reading.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *lock(&self.pieces))
        };
        if verify {
            self.drop_cached(&pieces)?;
        } else {
            pieces = pieces.split_off(&until);
        }
        let (to_hash, read) = sync_channel::<Vec<u8>>(AHEAD);
        let (done, buffers) = channel();
        (0..AHEAD).for_each(|_| done.send(Vec::new()).expect("the receiver is there"));
        let hashed = done.clone();
        thread::scope(|scope| {
            let hashing = thread::Builder::new().spawn_scoped(scope, move || {
                let mut sum = lock(&self.hashed);
                for some in read {
                    sum.sha.update(&some);
                    sum.until += some.len() as u64;
                    let _ = hashed.send(some);
                }
            });
            hashing.map_err(|error| Failure::system(format!("a thread: {error}")))?;
            // Moved in, so that it is dropped at the end of this closure, which ends the other thread.
            let to_hash = to_hash;
            pieces.into_iter().try_for_each(|(offset, piece)| {
                self.check(offset, piece, |at, n, hash| {
                    let mut some = buffers.recv().expect("all come back");
                    some.resize(n, 0);
                    system::read_at(&self.reader, &mut some, at).map_err(on_output(&self.path))?;
                    hash.write(&some);
                    let next =
                        if offset < until { done.send(some).is_ok() } else { to_hash.send(some).is_ok() };
                    assert!(next, "both ends are there");
                    Ok(())
                })
            })
        })
    }

    /// Checks that a piece, which `read` reads some bytes at a time, has the hash of what was written.
    fn check(
        &self,
        offset: u64,
        piece: Piece,
        mut read: impl FnMut(u64, usize, &mut XxHash3_128) -> Result<()>,
    ) -> Result<()> {
        let (mut hash, mut at, end) = (XxHash3_128::new(), offset, offset + piece.len);
        while at < end {
            let n = SOME.min((end - at) as usize);
            read(at, n, &mut hash)?;
            at += n as u64;
        }
        if hash.finish_128() == piece.hash {
            return Ok(());
        }
        let what = format!(
            "{}: bytes {offset} to {end}, read back, differ from what was written",
            self.path.display()
        );
        Err(Failure::system(what).help("the disk or the memory may be faulty"))
    }

    /// Makes the system drop these pieces from its cache where it can, so that they are read from the disk.
    fn drop_cached(&self, pieces: &BTreeMap<u64, Piece>) -> Result<()> {
        if let (Some((&first, _)), Some((&last, piece))) = (pieces.first_key_value(), pieces.last_key_value())
        {
            self.reader.sync_data().map_err(on_output(&self.path))?;
            system::forget(&self.reader, first, last + piece.len - first);
        }
        Ok(())
    }
}

/// How many letters and digits tell the names of temporary files apart.
const RANDOM: usize = 6;

/// Creates a file that is removed unless it gets its name. On Unix it is locked, so that other runs see that it is being written.
pub(crate) fn temporary(dir: &Path, name: &str) -> Result<NamedTempFile> {
    let (prefix, mut builder) = (format!(".{name}."), Builder::new());
    system::shared(builder.prefix(&prefix).rand_bytes(RANDOM).suffix(".tmp"));
    loop {
        let temp = builder.tempfile_in(dir).map_err(on_output(dir))?;
        // Not every file system has locks: `remove_abandoned` leaves what it cannot lock. On Windows, others cannot read a locked file.
        let is_locked = if cfg!(unix) { temp.as_file().try_lock() } else { Ok(()) };
        // Before it was locked, another run may have taken it for abandoned: then another file is made.
        let is_taken = matches!(is_locked, Err(TryLockError::WouldBlock)) || !temp.path().exists();
        if !is_taken {
            return Ok(temp);
        }
    }
}

/// Gives a temporary file its name. Unless it `replaces` a file of that name, one that has appeared there meanwhile is an error.
pub(crate) fn named(mut temp: NamedTempFile, path: &Path, replaces: bool) -> Result<()> {
    if !replaces {
        temp = match temp.persist_noclobber(path) {
            Ok(_) => return Ok(()),
            Err(_) if path.symlink_metadata().is_ok() => return Err(exists(path)),
            // Not every file system can rename without replacing.
            Err(error) => error.file,
        };
    }
    temp.persist(path).map(drop).map_err(|error| Failure::output(path, &error.error))
}

/// Returns the error of a result that exists already.
pub(crate) fn exists(dst: &Path) -> Failure {
    Failure::refused(format!("{} exists", dst.display())).help("--force replaces it")
}

/// Removes a temporary file that nobody writes any more: its writer would have it locked. Where there are no locks, `without_locks` says
/// whether to remove it.
pub(crate) fn remove_if_abandoned(path: &Path, without_locks: bool) -> io::Result<()> {
    let file = if cfg!(unix) { File::options().write(true).open(path).ok() } else { None };
    let is_abandoned = match file.as_ref().map(File::try_lock) {
        Some(Ok(())) => true,
        Some(Err(TryLockError::WouldBlock)) => false,
        Some(Err(TryLockError::Error(_))) | None => without_locks,
    };
    // `file` is locked until it is gone. Otherwise a writer that has just created it could lock it first, and lose it then.
    if is_abandoned { fs::remove_file(path) } else { Ok(()) }
}

/// Removes the temporary files for this name that killed runs left behind, if their writers would have them locked. The source is never
/// removed, whatever its name.
pub(crate) fn remove_abandoned(dir: &Path, name: &str, src: &Path) {
    let (prefix, src) = (format!(".{name}."), fs::canonicalize(src).ok());
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_random =
            |random: &str| random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric());
        let is_ours = |found: &str| {
            found.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".tmp")).is_some_and(is_random)
        };
        let is_src = || src.is_some() && fs::canonicalize(entry.path()).ok() == src;
        if entry.file_name().to_str().is_some_and(is_ours) && !is_src() {
            // A file that cannot be removed does no harm.
            _ = remove_if_abandoned(&entry.path(), false);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// What could not be read back is read again by the worker that completes the file, and fails there, too.
    #[test]
    fn pieces_that_were_not_read_back_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mut live = Live::new(0, dir.path().join("out"), dir.path(), 8).unwrap();
        live.window = 8;
        live.write(0, &[1; 8]).unwrap();
        live.hash(0, 0, &mut vec![1; 8], 8, &AtomicBool::new(false));
        // A pipe cannot be synchronised.
        let (pipe, _end) = io::pipe().unwrap();
        live.reader = File::from(std::os::fd::OwnedFd::from(pipe));
        assert!(live.read_back(&mut Vec::new()).is_err());
        assert!(live.read_back_all(true).is_err());
    }

    /// Another run may find a file between its creation and its lock: what `temporary` returns stays all the same.
    #[test]
    fn files_that_are_written_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, done) = (dir.path(), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::SeqCst) {
                        remove_abandoned(dir, "out", Path::new("none"));
                    }
                });
            }
            let lost = (0..2000).filter(|_| {
                let temp = temporary(dir, "out").unwrap();
                thread::yield_now();
                !temp.path().exists()
            });
            let lost = lost.count();
            done.store(true, Ordering::SeqCst);
            assert_eq!(lost, 0);
        });
    }

    /// The source may have the name of a temporary file, or be a link to such a file.
    #[test]
    fn a_source_is_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let [src, other] = [".out.aB3xyZ.tmp", ".out.Zb4xyZ.tmp"].map(at);
        std::os::unix::fs::symlink(&src, at("link")).unwrap();
        for given in [&src, &at("link")] {
            [&src, &other].iter().for_each(|path| drop(File::create(path).unwrap()));
            remove_abandoned(dir.path(), "out", given);
            assert_eq!([&src, &other].map(|path| path.exists()), [true, false], "{}", given.display());
        }
    }
}
