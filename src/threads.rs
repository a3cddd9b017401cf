//! The threads that work is divided among: the calling thread, and those of the rayon pool that it belongs to, or of the global
//! pool, that are idle. Everything in the crate that runs on several threads goes through here. Where there are no other
//! threads, the calling thread does all of the work.

#[cfg(feature = "text")]
use core::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use lock::Lock;

/// Calls `task` with every number below `tasks`, on all threads; each thread takes the next number when it is free.
#[cfg(feature = "text")]
pub(crate) fn each(tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    let next = AtomicUsize::new(0);
    run(count().min(tasks), &|_| {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= tasks {
                break;
            }
            task(i);
        }
    });
}

#[cfg(feature = "parallel")]
pub(crate) use pool::{count, run};

/// The rayon pool that the calling thread belongs to, or the global one.
#[cfg(feature = "parallel")]
mod pool {
    use core::any::Any;
    use core::panic::AssertUnwindSafe;
    use core::ptr;
    use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use core::time::Duration;
    use std::error::Error;
    use std::panic::{catch_unwind, resume_unwind};
    use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
    use std::{process, thread};

    /// How long to wait for the first job on the global pool to run.
    const PATIENCE: Duration = Duration::from_millis(100);

    /// How many threads the pool has; 1 if it cannot be used.
    pub(crate) fn count() -> usize {
        // Rayon must not be asked before `is_there`: after a fork it would wait for threads that the child does not have, and it
        // panics if the global pool could not be started.
        if is_there() { rayon_core::current_num_threads() } else { 1 }
    }

    /// Calls `work(0)` on the calling thread, and `work(1)`, `work(2)`, … below `threads` on those threads of the pool that become
    /// idle before `work(0)` has returned. A scope of rayon would wait for the other threads, too, which are busy with something
    /// else, and may even be waiting for the calling thread.
    pub(crate) fn run(threads: usize, work: &(dyn Fn(usize) + Sync)) {
        if threads <= 1 {
            return work(0);
        }
        let gate = Arc::new(Gate::default());
        let closes = Closes(&gate);
        for worker in 1..threads {
            let (gate, work) = (gate.clone(), Work(ptr::from_ref(&work).cast()));
            rayon_core::spawn(move || gate.pass(&work, worker));
        }
        work(0);
        drop(closes);
        let panic = gate.state().panic.take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// A pointer to `work`, which is dangling once [`run`] has returned.
    struct Work(*const &'static (dyn Fn(usize) + Sync));

    #[allow(unsafe_code, reason = "a pointer, because what it points to may be gone")]
    // SAFETY: `work` is `Sync`, and `Gate::pass` dereferences the pointer only while `run` has not returned.
    unsafe impl Send for Work where &'static (dyn Fn(usize) + Sync): Sync {}

    /// Lets threads of the pool call `work` until [`run`] is about to return.
    #[derive(Default)]
    struct Gate {
        state: Mutex<State>,
        left: Condvar,
    }

    #[derive(Default)]
    struct State {
        closed: bool,
        /// How many threads are calling `work` now.
        inside: usize,
        /// The panic of one of them.
        panic: Option<Box<dyn Any + Send>>,
    }

    impl Gate {
        fn state(&self) -> MutexGuard<'_, State> {
            // Nothing panics under the lock.
            self.state.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn pass(&self, work: &Work, worker: usize) {
            let mut state = self.state();
            if state.closed {
                return;
            }
            state.inside += 1;
            drop(state);
            #[allow(unsafe_code, reason = "whoever has the work waits behind the gate")]
            // SAFETY: `work` lives until `Closes` is dropped, which waits until `inside` is 0.
            let result = catch_unwind(AssertUnwindSafe(|| unsafe { (*work.0)(worker) }));
            let mut state = self.state();
            state.inside -= 1;
            state.panic = state.panic.take().or(result.err());
            drop(state);
            self.left.notify_one();
        }
    }

    /// Closes a gate when it is dropped, also by a panic, and waits for the threads that are inside.
    struct Closes<'a>(&'a Gate);

    impl Drop for Closes<'_> {
        fn drop(&mut self) {
            let mut state = self.0.state();
            state.closed = true;
            while state.inside > 0 {
                state = self.0.left.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Whether the pool has running threads. The global one has none if it could not be started, or in the child of a fork, which
    /// would wait for them forever.
    fn is_there() -> bool {
        /// The process of the first call; 0 before that.
        static PROCESS: AtomicU32 = AtomicU32::new(0);
        /// Whether a job has been given to the global pool.
        static ASKED: AtomicBool = AtomicBool::new(false);
        static ANSWER: Answer =
            Answer { came: AtomicBool::new(false), is_over: Mutex::new(false), over: Condvar::new() };

        // WebAssembly has no threads here, and a failed attempt would leave the global pool unusable for the rest of the program.
        if cfg!(target_family = "wasm") {
            return false;
        }
        let this = process::id();
        if let Err(first) = PROCESS.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed)
            && first != this
        {
            return false;
        }
        if rayon_core::current_thread_index().is_some() {
            return true;
        }
        if !ASKED.swap(true, Ordering::Relaxed) {
            ask(&ANSWER);
        }
        // A pool that is busy runs the job later. After a fork the job never runs.
        ANSWER.came.load(Ordering::Acquire)
    }

    /// The answer of the pool. A channel would do the same with 16 KB of code.
    struct Answer {
        /// Whether the job has run.
        came: AtomicBool,
        /// Whether the job has run or never will.
        is_over: Mutex<bool>,
        over: Condvar,
    }

    impl Answer {
        fn is_over(&self) -> MutexGuard<'_, bool> {
            // Nothing panics under the lock.
            self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn end(&self) {
            *self.is_over() = true;
            self.over.notify_one();
        }
    }

    /// Starts the global pool if it has not been started, gives it a job, and waits at most [`PATIENCE`] for that to run.
    fn ask(answer: &'static Answer) {
        let ask = || {
            // An error without a source says that the pool exists already; it may even be that of the parent process.
            let started = rayon_core::ThreadPoolBuilder::new().build_global();
            if started.is_err_and(|error| error.source().is_some()) {
                return answer.end();
            }
            let job = || {
                answer.came.store(true, Ordering::Release);
                answer.end();
            };
            // `spawn` panics if the pool, which other code has set up, could not be started.
            if catch_unwind(|| rayon_core::spawn(job)).is_err() {
                answer.end();
            }
        };
        // This runs on a separate thread, because it blocks forever in the child of a fork that happened while the parent was starting
        // the pool. If that thread cannot be started, there are no threads for a pool either.
        if thread::Builder::new().spawn(ask).is_ok() {
            _ = answer.over.wait_timeout_while(answer.is_over(), PATIENCE, |is_over| !*is_over);
        }
    }
}

/// How many cores the process may use.
#[cfg(feature = "std")]
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, core::num::NonZero::get)
}

/// How many cores the process may use: taken to be 1, because core cannot ask.
#[cfg(not(feature = "std"))]
pub(crate) fn cores() -> usize {
    1
}

/// Calls `work(0)` on the calling thread, and `work(1)`, `work(2)`, … below `threads` on threads that are started for it, until one
/// cannot be started. The panic of a thread is resumed here when all have ended; the scope would panic with a message of its own.
#[cfg(feature = "std")]
pub(crate) fn start(threads: usize, work: &(dyn Fn(usize) + Sync)) {
    use core::panic::AssertUnwindSafe;
    use std::panic::{catch_unwind, resume_unwind};

    let first = Lock::new(None);
    std::thread::scope(|scope| {
        for worker in 1..threads {
            let first = &first;
            let caught = move || {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(worker))) {
                    first.lock().get_or_insert(panic);
                }
            };
            if std::thread::Builder::new().spawn_scoped(scope, caught).is_err() {
                break;
            }
        }
        work(0);
    });
    if let Some(panic) = first.lock().take() {
        resume_unwind(panic);
    }
}

/// Calls `work(0)`: without the standard library no thread can be started.
#[cfg(not(feature = "std"))]
pub(crate) fn start(_threads: usize, work: &(dyn Fn(usize) + Sync)) {
    work(0);
}

/// A mutex that ignores poisoning: no code of this crate panics between two changes that belong together.
#[cfg(feature = "std")]
mod lock {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    #[derive(Debug, Default)]
    pub(crate) struct Lock<T>(Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        #[cfg(any(feature = "scaled", feature = "text"))]
        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

/// A spin lock, because a thread cannot be put to sleep without the standard library. It is held for a few instructions at a time,
/// and only waited for where a host has threads ([`ParallelFor`](crate::parallel::ParallelFor)).
#[cfg(not(feature = "std"))]
#[allow(unsafe_code, reason = "core has no lock")]
mod lock {
    use core::cell::UnsafeCell;
    use core::hint::spin_loop;
    use core::marker::PhantomData;
    use core::ops::{Deref, DerefMut};
    use core::sync::atomic::{AtomicBool, Ordering};

    #[derive(Debug, Default)]
    pub(crate) struct Lock<T> {
        is_taken: AtomicBool,
        value: UnsafeCell<T>,
    }

    // SAFETY: the value is only reached through a `Guard`, and `is_taken` makes sure that there is one `Guard` at a time.
    unsafe impl<T: Send> Sync for Lock<T> {}

    impl<T> Lock<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
        }

        pub(crate) fn lock(&self) -> Guard<'_, T> {
            while self.is_taken.swap(true, Ordering::Acquire) {
                spin_loop();
            }
            Guard(self, PhantomData)
        }

        #[cfg(any(feature = "scaled", feature = "text"))]
        pub(crate) fn into_inner(self) -> T {
            self.value.into_inner()
        }
    }

    /// Gives access to the value. Dropping it releases the lock.
    pub(crate) struct Guard<'a, T>(&'a Lock<T>, PhantomData<*const T>);

    // SAFETY: a shared reference to a guard gives a shared reference to the value, and nothing else.
    unsafe impl<T: Sync> Sync for Guard<'_, T> {}

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            // SAFETY: this is the only `Guard`.
            unsafe { &*self.0.value.get() }
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: this is the only `Guard`, and it is borrowed exclusively.
            unsafe { &mut *self.0.value.get() }
        }
    }

    impl<T> Drop for Guard<'_, T> {
        fn drop(&mut self) {
            self.0.is_taken.store(false, Ordering::Release);
        }
    }
}

/// How many threads there are: only the calling one.
#[cfg(not(feature = "parallel"))]
pub(crate) fn count() -> usize {
    1
}

/// Calls `work(0)`.
#[cfg(not(feature = "parallel"))]
pub(crate) fn run(_threads: usize, work: &(dyn Fn(usize) + Sync)) {
    work(0);
}
