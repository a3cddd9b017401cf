//! The threads of the library: a pool that is kept, and threads that are started for one cast.
//!
//! They are started by POSIX calls, which return an error if there is no memory or no thread. Rust's standard library and its
//! thread pools allocate memory on the way, and end the process if there is none. Here, only the handles of threads are
//! allocated; if that fails, the caller casts alone.

use core::ffi::c_void;
use core::mem::{MaybeUninit, zeroed};
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rust::parallel::ParallelFor;

/// Bytes of the stack of a thread. A caller's callback may run on it, too.
const STACK: usize = 2 << 20;
/// The most threads that are started.
const MOST: usize = 1024;

/// Threads that are started for one cast: this many, the caller included.
pub(crate) struct Started(pub(crate) usize);

impl ParallelFor for Started {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let work = Work::new(self.0, tasks, task);
        let mut threads = Vec::new();
        if threads.try_reserve_exact(work.workers - 1).is_ok() {
            for _ in 1..work.workers {
                // SAFETY: the work lives until all of the threads have been joined, and a panic of a task does not skip that.
                match unsafe { start(help_work, ptr::from_ref(&work).cast_mut().cast(), false) } {
                    Some(thread) => threads.push(thread),
                    None => break,
                }
            }
        }
        let helped = catch_unwind(AssertUnwindSafe(|| work.help()));
        for thread in threads {
            // SAFETY: the thread was started, is not detached, and is joined once.
            unsafe { libc::pthread_join(thread, ptr::null_mut()) };
        }
        helped.unwrap_or_else(|panic| resume_unwind(panic));
    }

    fn starts_threads(&self) -> bool {
        true
    }
}

/// The body of a thread that is started for one cast.
extern "C" fn help_work(work: *mut c_void) -> *mut c_void {
    // SAFETY: it is the work that `Started::run` passed, which waits for this thread.
    let work = unsafe { &*work.cast::<Work<'_>>() };
    // No panic may go through frames of C. The work that it leaves undone is noticed in the end.
    _ = catch_unwind(AssertUnwindSafe(|| work.help()));
    ptr::null_mut()
}

/// Tasks that several threads share.
struct Work<'a> {
    task: &'a (dyn Fn(usize) + Sync),
    tasks: usize,
    /// How many tasks have been begun.
    begun: AtomicUsize,
    /// How many threads may help, and how many have come.
    workers: usize,
    joined: AtomicUsize,
}

impl<'a> Work<'a> {
    fn new(threads: usize, tasks: usize, task: &'a (dyn Fn(usize) + Sync)) -> Self {
        let workers = threads.clamp(1, MOST).min(tasks.max(1));
        Self { task, tasks, begun: AtomicUsize::new(0), workers, joined: AtomicUsize::new(0) }
    }

    /// Does tasks until all have been begun.
    ///
    /// Tasks with consecutive numbers are near to each other in memory, so each worker has a range of numbers for itself. It calls
    /// the task with the first of them each time, and a call does whatever is left of that range, or else of another one.
    fn help(&self) {
        let worker = self.joined.fetch_add(1, Ordering::Relaxed);
        let first = worker % self.workers * self.tasks.div_ceil(self.workers);
        while self.begun.fetch_add(1, Ordering::Relaxed) < self.tasks {
            (self.task)(first.min(self.tasks - 1));
        }
    }

    fn has_tasks(&self) -> bool {
        self.begun.load(Ordering::Relaxed) < self.tasks && self.joined.load(Ordering::Relaxed) < self.workers
    }
}

/// The pool: as many threads as there are cores, which are started for the first cast, and then wait for the next one. A cast does
/// not wait for threads that are busy with another cast.
pub(crate) struct Pool;

/// Work in the list of the pool. It lies in the stack frame of the thread that waits for it.
struct Ticket<'a> {
    work: Work<'a>,
    /// How many threads of the pool are working on it.
    inside: usize,
    next: *mut Ticket<'a>,
}

/// The list of all work of the pool, by its first ticket.
struct Tickets(*mut Ticket<'static>);

// SAFETY: the tickets lie in the frames of threads that wait for them. Without the lock, nobody looks at anything in a ticket but
// its work, which any thread may do.
unsafe impl Send for Tickets {}

static TICKETS: Mutex<Tickets> = Mutex::new(Tickets(ptr::null_mut()));
/// Signals that there is work.
static COMES: Condvar = Condvar::new();
/// Signals that a thread of the pool has left a ticket.
static LEFT: Condvar = Condvar::new();
/// The process that has the pool; 0 if there is none. A forked child of that process has none of its threads, and its copy of the
/// lock may be held.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn tickets() -> MutexGuard<'static, Tickets> {
    // Nothing panics under the lock.
    TICKETS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a>(for_what: &Condvar, tickets: MutexGuard<'a, Tickets>) -> MutexGuard<'a, Tickets> {
    for_what.wait(tickets).unwrap_or_else(PoisonError::into_inner)
}

impl ParallelFor for Pool {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let threads = cores();
        let mut ticket = Ticket { work: Work::new(threads, tasks, task), inside: 0, next: ptr::null_mut() };
        if ticket.work.workers == 1 || !is_there(threads) {
            return ticket.work.help();
        }
        let ticket = (&raw mut ticket).cast::<Ticket<'static>>();
        // SAFETY: the ticket lies in this frame. The frame is left, by a panic too, only after the ticket was taken from the list and
        // no thread is inside. The ticket is changed only under the lock; its work is shared.
        unsafe {
            let mut first = tickets();
            (*ticket).next = first.0;
            first.0 = ticket;
            drop(first);
            COMES.notify_all();
            let helped = catch_unwind(AssertUnwindSafe(|| (*ticket).work.help()));
            let mut first = tickets();
            let mut place = &raw mut first.0;
            while *place != ticket {
                place = &raw mut (**place).next;
            }
            *place = (*ticket).next;
            while is_used(ticket) {
                first = wait(&LEFT, first);
            }
            drop(first);
            helped.unwrap_or_else(|panic| resume_unwind(panic));
        }
    }
}

/// Whether a thread of the pool is working on a ticket.
///
/// # Safety
/// The ticket exists, and the lock is held.
unsafe fn is_used(ticket: *const Ticket<'static>) -> bool {
    // SAFETY: the caller's promise.
    unsafe { (*ticket).inside > 0 }
}

/// The body of a thread of the pool.
extern "C" fn help_all(_: *mut c_void) -> *mut c_void {
    let mut first = tickets();
    loop {
        let mut ticket = first.0;
        // SAFETY: tickets in the list exist while the lock is held. The one that this thread works on exists until no thread is
        // inside.
        unsafe {
            while !ticket.is_null() && !(*ticket).work.has_tasks() {
                ticket = (*ticket).next;
            }
            if ticket.is_null() {
                first = wait(&COMES, first);
                continue;
            }
            (*ticket).inside += 1;
            drop(first);
            _ = catch_unwind(AssertUnwindSafe(|| (*ticket).work.help()));
            first = tickets();
            (*ticket).inside -= 1;
        }
        LEFT.notify_all();
    }
}

/// Whether this process has a pool. Starts the pool if no process has one.
fn is_there(threads: usize) -> bool {
    let this = std::process::id();
    match PROCESS.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            // SAFETY: the body needs nothing, and the threads are never joined.
            let started =
                (1..threads).take_while(|_| unsafe { start(help_all, ptr::null_mut(), true) }.is_some());
            let any = started.count() > 0;
            if !any {
                // A later cast tries again.
                PROCESS.store(0, Ordering::Relaxed);
            }
            any
        }
        Err(process) => process == this,
    }
}

/// Starts a thread that no signal interrupts. Returns None if that fails.
///
/// # Safety
/// The body may be called with the argument on another thread. If the thread is not detached, the caller joins it.
unsafe fn start(
    body: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
    detached: bool,
) -> Option<libc::pthread_t> {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: every structure is initialised by a call before the calls that read it. The caller makes the promise for the body.
    unsafe {
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return None;
        }
        // If the size cannot be set, it stays the default.
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
        let mut can = true;
        if detached {
            can = libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED)
                == 0;
        }
        let (mut all, mut callers) = (zeroed(), zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut callers);
        let mut thread = zeroed();
        can = can && libc::pthread_create(&mut thread, attributes.as_ptr(), body, argument) == 0;
        libc::pthread_sigmask(libc::SIG_SETMASK, &callers, ptr::null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        can.then_some(thread)
    }
}

/// Returns how many cores the process may use, as [`std::thread::available_parallelism`] does, but allocates no memory.
pub(crate) fn cores() -> usize {
    /// 0 until the number is known.
    static CORES: AtomicUsize = AtomicUsize::new(0);
    match CORES.load(Ordering::Relaxed) {
        0 => {
            let cores = quota().map_or(usize::MAX, |quota| quota).min(online()).clamp(1, MOST);
            CORES.store(cores, Ordering::Relaxed);
            cores
        }
        known => known,
    }
}

/// Returns the number of cores that the process may be scheduled on.
fn online() -> usize {
    #[cfg(target_os = "linux")]
    // SAFETY: the call writes no more than the set, which is counted only if the call succeeded.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &mut set) == 0 {
            return libc::CPU_COUNT(&set) as usize;
        }
    }
    // SAFETY: the call only asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Returns the number of cores whose time the process's control group may use, rounded down: the least of the group and of those
/// that it is in.
fn quota() -> Option<usize> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let mut room = [0; 4096];
    let groups = read("/proc/self/cgroup", &mut room)?;
    // Version 2 of control groups: a line `0::/path`.
    let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
        // Version 1, at the path where a container sees it.
        let number = |name: &str| read(name, &mut [0; 64])?.trim().parse::<usize>().ok();
        let quota = number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")?;
        return Some((quota / number("/sys/fs/cgroup/cpu/cpu.cfs_period_us")?.max(1)).max(1));
    };
    let (mut group, mut least) = (group.trim_end_matches('/'), None);
    loop {
        let mut path = Text::default();
        let has_room = ["/sys/fs/cgroup", group, "/cpu.max"].iter().all(|part| path.push(part));
        let mut room = [0; 64];
        if has_room
            && let Some(max) = read(path.text(), &mut room)
            && let Some((quota, period)) = max.trim().split_once(' ')
            && let (Ok(quota), Ok(period)) = (quota.parse::<usize>(), period.parse::<usize>())
        {
            let cores = (quota / period.max(1)).max(1);
            least = Some(least.map_or(cores, |least: usize| least.min(cores)));
        }
        match group.rsplit_once('/') {
            Some((outer, _)) => group = outer,
            None => return least,
        }
    }
}

/// A path, no longer than those that the standard library opens without allocating.
struct Text {
    bytes: [u8; 300],
    len: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self { bytes: [0; 300], len: 0 }
    }
}

impl Text {
    /// Appends to the path. Returns false if there is no room.
    fn push(&mut self, more: &str) -> bool {
        let room = self.bytes.get_mut(self.len..self.len + more.len());
        room.map(|room| room.copy_from_slice(more.as_bytes())).map(|()| self.len += more.len()).is_some()
    }

    fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }
}

/// Reads the beginning of a file, as much as `room` holds.
fn read<'r>(path: &str, room: &'r mut [u8]) -> Option<&'r str> {
    let n = File::open(path).ok()?.read(room).ok()?;
    core::str::from_utf8(&room[..n]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_cores_as_the_standard_library_says() {
        assert_eq!(cores(), std::thread::available_parallelism().unwrap().get().min(MOST));
    }

    /// Every task is begun as often as it should be, whoever comes.
    #[test]
    fn all_tasks_are_done() {
        for threads in [1, 2, 3, 9] {
            for tasks in [0, 1, 2, 7, 1000] {
                let started = Started(threads);
                for host in [&started as &dyn ParallelFor, &Pool] {
                    let done = AtomicUsize::new(0);
                    host.run(tasks, &|i| {
                        assert!(i < tasks);
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                    assert_eq!(done.into_inner(), tasks);
                }
            }
        }
    }

    /// A task that panics on the thread of the caller leaves no other thread behind that works on what is gone.
    #[test]
    fn panics_wait_for_the_other_threads() {
        let caller = std::thread::current().id();
        for host in [&Started(4) as &dyn ParallelFor, &Pool] {
            for _ in 0..20 {
                let (inside, panicked) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let task = |_: usize| {
                    if std::thread::current().id() == caller {
                        panicked.fetch_add(1, Ordering::Relaxed);
                        // (Without the message of a panic.)
                        resume_unwind(Box::new(()));
                    }
                    inside.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    inside.fetch_sub(1, Ordering::SeqCst);
                };
                let ended = catch_unwind(AssertUnwindSafe(|| host.run(40, &task)));
                assert_eq!(inside.into_inner(), 0);
                assert_eq!(ended.is_err(), panicked.into_inner() > 0);
            }
            let done = AtomicUsize::new(0);
            host.run(40, &|_| _ = done.fetch_add(1, Ordering::Relaxed));
            assert_eq!(done.into_inner(), 40);
        }
    }

    /// Several casts use the pool at the same time.
    #[test]
    fn callers_share_the_pool() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let sum = AtomicUsize::new(0);
                        Pool.run(50, &|_| _ = sum.fetch_add(1, Ordering::Relaxed));
                        assert_eq!(sum.into_inner(), 50);
                    }
                });
            }
        });
    }
}
