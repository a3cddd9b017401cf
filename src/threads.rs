//! The threads that work is divided among: the caller, and those of the rayon pool that it is in, or of the global one, which
//! have time. All that runs on several threads asks here for them; where there are none, the caller does the work alone.

#[cfg(feature = "text")]
use core::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use lock::Lock;

/// Calls `task` with every number below `tasks`, in that order, on so many threads as there are.
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

/// The rayon pool that the caller is in, or the global one.
#[cfg(feature = "parallel")]
mod pool {
    use core::any::Any;
    use core::panic::AssertUnwindSafe;
    use core::ptr;
    use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use core::time::Duration;
    use std::error::Error;
    use std::panic::{catch_unwind, resume_unwind};
    use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
    use std::{process, thread};

    /// How long the global pool may take to answer for the first time.
    const PATIENCE: Duration = Duration::from_millis(100);

    /// How many threads it has; 1 if it cannot be used.
    pub(crate) fn count() -> usize {
        // Not before it is known that there are threads: rayon would wait for what a fork has cut off, and panics where the
        // global pool could not start.
        if is_there() { rayon_core::current_num_threads() } else { 1 }
    }

    /// Calls `work` with 0 on the caller, and with the other numbers below `threads` on those of them that come before the
    /// caller has returned from that. A scope of rayon would wait for those too that are busy with something else, and may
    /// be waiting for the caller.
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

    /// Work that may be over.
    struct Work(*const &'static (dyn Fn(usize) + Sync));

    #[allow(unsafe_code, reason = "a pointer, because what it points to may be gone")]
    // SAFETY: what it points to is called by several threads at once, and only where it is there: see `Gate::pass`.
    unsafe impl Send for Work where &'static (dyn Fn(usize) + Sync): Sync {}

    /// The way to some work, until that is over.
    #[derive(Default)]
    struct Gate {
        state: Mutex<State>,
        left: Condvar,
    }

    #[derive(Default)]
    struct State {
        closed: bool,
        /// Workers behind the gate.
        inside: usize,
        /// Of one of them.
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
            // SAFETY: the work lives until `Closes` is dropped, and that waits for who is inside.
            let result = catch_unwind(AssertUnwindSafe(|| unsafe { (*work.0)(worker) }));
            let mut state = self.state();
            state.inside -= 1;
            state.panic = state.panic.take().or(result.err());
            drop(state);
            self.left.notify_one();
        }
    }

    /// Closes a gate, even if there is a panic, and waits for who is inside.
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

    /// Are there threads behind the pool? If the global one could not start, there are none; nor are there in a child that was
    /// forked, which would wait for them forever.
    fn is_there() -> bool {
        /// The first process that has asked; 0 before.
        static PROCESS: AtomicU32 = AtomicU32::new(0);
        /// Has the global pool been asked?
        static ASKED: AtomicBool = AtomicBool::new(false);
        /// Has it answered?
        static ANSWERED: AtomicBool = AtomicBool::new(false);

        // There are no threads at all there, and to try breaks the pool for others.
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
            ask(&ANSWERED);
        }
        // Busy with something else the pool may answer later; after a fork it never does.
        ANSWERED.load(Ordering::Acquire)
    }

    /// Starts the global pool, unless somebody has, and waits a while for its answer.
    fn ask(answered: &'static AtomicBool) {
        let (send, receive) = mpsc::channel();
        let ask = move || {
            // It may have started long ago, and even before a fork that we know nothing of.
            let started = rayon_core::ThreadPoolBuilder::new().build_global();
            if started.is_err_and(|error| error.source().is_some()) {
                return;
            }
            let job = move || {
                answered.store(true, Ordering::Release);
                // Nobody may be waiting any more.
                _ = send.send(());
            };
            // It panics if the pool of somebody else could not start.
            _ = catch_unwind(AssertUnwindSafe(|| rayon_core::spawn(job)));
        };
        // On a thread of its own: somebody else may have been starting the pool when this process was forked, and then it waits
        // for that forever. Where no thread can start, there is no pool.
        if thread::Builder::new().spawn(ask).is_ok() {
            _ = receive.recv_timeout(PATIENCE);
        }
    }
}

/// The cores that the process may use.
#[cfg(feature = "std")]
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, core::num::NonZero::get)
}

/// As many as there may be: nobody can be asked.
#[cfg(not(feature = "std"))]
pub(crate) fn cores() -> usize {
    1
}

/// Calls `work` with 0 on the caller, and with the other numbers below `threads` on threads that start for it, as many as can.
#[cfg(feature = "std")]
pub(crate) fn start(threads: usize, work: &(dyn Fn(usize) + Sync)) {
    std::thread::scope(|scope| {
        for worker in 1..threads {
            if std::thread::Builder::new().spawn_scoped(scope, move || work(worker)).is_err() {
                break;
            }
        }
        work(0);
    });
}

/// Calls `work` with 0: no thread can start.
#[cfg(not(feature = "std"))]
pub(crate) fn start(_threads: usize, work: &(dyn Fn(usize) + Sync)) {
    work(0);
}

/// What one thread at a time has. A panic of who had it leaves it as it was: nothing panics between two changes that belong
/// together.
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

/// The same for a host's threads where nobody can be asked to let a thread sleep: who waits turns round and round. It is held
/// for a few instructions.
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

    // SAFETY: who has the `Guard` has the value, and `is_taken` lets one have it at a time.
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

    /// The value, until it is dropped.
    pub(crate) struct Guard<'a, T>(&'a Lock<T>, PhantomData<*const T>);

    // SAFETY: who has a reference to it has one to the value, and nothing else.
    unsafe impl<T: Sync> Sync for Guard<'_, T> {}

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            // SAFETY: nobody else has it before this is dropped.
            unsafe { &*self.0.value.get() }
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: nobody else has it before this is dropped.
            unsafe { &mut *self.0.value.get() }
        }
    }

    impl<T> Drop for Guard<'_, T> {
        fn drop(&mut self) {
            self.0.is_taken.store(false, Ordering::Release);
        }
    }
}

/// The caller alone.
#[cfg(not(feature = "parallel"))]
pub(crate) fn count() -> usize {
    1
}

/// Calls `work` with 0.
#[cfg(not(feature = "parallel"))]
pub(crate) fn run(_threads: usize, work: &(dyn Fn(usize) + Sync)) {
    work(0);
}
