//! Casts on several threads give what a cast on the calling thread gives: for every number of threads and size of chunk, in
//! every kind of pool, in a hostile floating-point environment, with a host that skips work, after a fork, and without threads.

mod bridge;

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Condvar, LazyLock, Mutex};
use std::time::Duration;

use bridge::{Suite, bytes, share};
use lanecast::parallel::{Parallel, ParallelFor, Progress};
use lanecast::{CastOptions, Caster, DType, Error, Isa, Packing};
use lanecast_oracle as oracle;
use rayon::ThreadPool;

const THREADS: [usize; 6] = [1, 2, 3, 4, 7, 16];
const CHUNKS: [usize; 6] = [1, 7, 63, 64, 65, 4096];
const CANARY: u8 = 0xC5;

fn main() {
    #[cfg(unix)]
    if let Ok(name) = std::env::var(child::VARIABLE) {
        return child::run(&name);
    }
    let mut suite = Suite::new();
    for from in DType::ALL {
        suite.test(&format!("threads and chunks of {from}"), move |isa| invariant(isa, from));
        suite.test(&format!("the oracle on {from}"), move |isa| against_the_oracle(isa, from));
    }
    suite.test("around the threshold, and past the caches", sizes);
    suite.test("several threads at once", at_once);
    suite.test("sizes that do not fit", wrong_sizes);
    suite.test("progress", progress);
    suite.test("cancelled", cancelled);
    suite.test("hosts that do too little or too much", odd_hosts);
    suite.test("panics", panics);
    suite.test("a pool that is busy", busy);
    suite.test("uninitialised memory", uninitialised);
    #[cfg(target_arch = "x86_64")]
    suite.test("a pool in a bad environment", environment::in_a_pool);
    #[cfg(unix)]
    for name in child::NAMES {
        suite.test(name, move |isa| child::start(name, isa));
    }
    suite.run().exit();
}

/// Returns a pool of so many threads. All tests share the pools, since starting one takes longer than most tests.
fn pool(threads: usize) -> &'static ThreadPool {
    static POOLS: LazyLock<BTreeMap<usize, ThreadPool>> = LazyLock::new(|| {
        let pool = |n| rayon::ThreadPoolBuilder::new().num_threads(n).build().expect("threads can start");
        THREADS.into_iter().map(|n| (n, pool(n))).collect()
    });
    &POOLS[&threads]
}

/// A host with threads of its own: it spawns each task in a pool.
struct Host<'a>(&'a ThreadPool);

impl ParallelFor for Host<'_> {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.0.scope(|scope| (0..tasks).for_each(|i| scope.spawn(move |_| task(i))));
    }
}

fn caster(isa: Isa, from: DType, to: DType, options: CastOptions) -> Caster {
    Caster::new(from, to, &options.isa(isa)).expect("it is available")
}

/// A destination between canaries.
struct Guarded {
    bytes: Vec<u8>,
    at: usize,
    len: usize,
}

impl Guarded {
    fn new(at: usize, len: usize) -> Self {
        Self { bytes: vec![CANARY; at + len + 64], at, len }
    }

    fn reset(&mut self, old: u8) -> &mut [u8] {
        let dst = &mut self.bytes[self.at..][..self.len];
        dst.fill(old);
        dst
    }

    fn check(&self, expected: &[u8], what: &dyn Fn() -> String) {
        assert!(self.bytes[self.at..][..self.len] == *expected, "another result: {}", what());
        let around = [&self.bytes[..self.at], &self.bytes[self.at + self.len..]];
        assert!(around.iter().all(|part| part.iter().all(|&b| b == CANARY)), "written around: {}", what());
    }
}

/// Every target, number of threads and size of chunk: in a pool, on threads that the cast starts, and on those of a host.
fn invariant(isa: Isa, from: DType) {
    const N: usize = 9003;
    // Chunks of one element take a lock each.
    const FEW: usize = 331;
    for (i, to) in share("threads", isa, from, 6).enumerate() {
        // Both packed layouts; and a whole cast may stream where a chunk alone would not.
        let packing = [Packing::LowFirst, Packing::HighFirst][i % 2];
        let options = CastOptions::new().src_packing(packing).dst_packing(packing).stream_from(4 << 10);
        let caster = caster(isa, from, to, options);
        for chunk in CHUNKS {
            let n = if chunk < 63 { FEW } else { N };
            let size = |dtype: DType| dtype.byte_len(n, packing).expect("a size that fits");
            let src = bytes(size(from));
            let mut expected = vec![0; size(to)];
            caster.cast(&src, &mut expected, n).expect("sizes that fit");
            for threads in THREADS {
                // An odd offset, and one of a whole cache line.
                let at = [5, 64][threads % 2];
                let mut dst = Guarded::new(at, expected.len());
                let how = Parallel::new().chunk(chunk);
                let mut check = |what: &str, cast: &(dyn Fn(&mut [u8]) -> Result<(), Error> + Sync)| {
                    cast(dst.reset(0x5A)).expect("sizes that fit");
                    dst.check(&expected, &|| format!("{what}, {threads} threads, chunk {chunk}, {caster:?}"));
                };
                check("in a pool", &|dst| pool(threads).install(|| caster.par_cast_with(&src, dst, n, &how)));
                check("on a host", &|dst| {
                    caster.par_cast_with(&src, dst, n, &how.host(&Host(pool(threads))))
                });
                // Starting threads takes long, so not for every target.
                if i % 6 == 0 {
                    check("own threads", &|dst| caster.par_cast_with(&src, dst, n, &how.threads(threads)));
                }
            }
        }
    }
}

fn against_the_oracle(isa: Isa, from: DType) {
    for to in share("oracle", isa, from, 4) {
        let step = if from.bits() <= 8 { 1 } else { 11 };
        let codes: Vec<u128> = bridge::codes(from, to).iter().copied().step_by(step).collect();
        let mode = oracle::Mode::default();
        let caster = bridge::caster(isa, from, to, &mode);
        let src = bridge::bytes_of(from, &codes);
        let mut dst = vec![0xA5; bridge::size(to, codes.len())];
        let how = Parallel::new().chunk(codes.len() / 5 + 1);
        pool(3).install(|| caster.par_cast_with(&src, &mut dst, codes.len(), &how)).expect("sizes that fit");
        let got = bridge::codes_of(to, &dst, codes.len());
        bridge::compare("par_cast", from, to, &mode, &codes, &got);
    }
}

/// Sizes around that from which casts are divided by default, and around that from which they start threads of their
/// own; with and without non-temporal stores.
fn sizes(isa: Isa) {
    use DType::*;
    for (from, to) in [(F32, BF16), (F4E2M1, F32), (F32, F6E3M2), (I64, I64), (C64, I8), (U2, U4)] {
        let bits = (from.bits() + to.bits()) as usize;
        let least = if isa == Isa::Scalar { 256 << 10 } else { 4 << 20 } * 8 / bits;
        // The last two are around the size from which a cast starts threads of its own.
        for n in [least - 1, least, least + 1, 2 * least + 3, 4 * least - 1, 4 * least] {
            for options in [CastOptions::new(), CastOptions::new().stream_from(0)] {
                let caster = caster(isa, from, to, options);
                let src = bytes(bridge::size(from, n));
                let mut expected = vec![0; bridge::size(to, n)];
                caster.cast(&src, &mut expected, n).expect("sizes that fit");
                let mut dst = Guarded::new(24, expected.len());
                for threads in [2, 7] {
                    let dst_bytes = dst.reset(0x5A);
                    pool(threads).install(|| caster.par_cast(&src, dst_bytes, n)).expect("sizes that fit");
                    dst.check(&expected, &|| format!("{n} elements, {caster:?}"));
                    let how = Parallel::new().threads(threads);
                    caster.par_cast_with(&src, dst.reset(0xA5), n, &how).expect("sizes that fit");
                    dst.check(&expected, &|| format!("{n} elements, own threads, {caster:?}"));
                }
                caster.par_cast(&src, dst.reset(0xA5), n).expect("sizes that fit");
                dst.check(&expected, &|| format!("{n} elements, global pool, {caster:?}"));
            }
        }
    }
}

/// Two threads cast chunks at the same time: the first to end a chunk waits in the callback for another thread.
fn at_once(isa: Isa) {
    const N: usize = 1 << 12;
    let caster = caster(isa, DType::U8, DType::F32, CastOptions::new());
    let src = bytes(N);
    // Not a shared pool, because threads wait for each other here.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads can start");
    for what in ["in a pool", "own threads", "on a host"] {
        let (seen, another) = (Mutex::new(HashSet::new()), Condvar::new());
        let both = |_: Progress| {
            let mut seen = seen.lock().expect("nothing panics while it is held");
            seen.insert(std::thread::current().id());
            another.notify_all();
            let patience = Duration::from_secs(60);
            _ = another.wait_timeout_while(seen, patience, |seen| seen.len() < 2).expect("as above");
            ControlFlow::Continue(())
        };
        let how = Parallel::new().chunk(N / 8).progress(&both);
        let mut dst = vec![0; 4 * N];
        match what {
            "in a pool" => pool.install(|| caster.par_cast_with(&src, &mut dst, N, &how)),
            "own threads" => caster.par_cast_with(&src, &mut dst, N, &how.threads(2)),
            _ => caster.par_cast_with(&src, &mut dst, N, &how.host(&Host(&pool))),
        }
        .expect("sizes that fit");
        let threads = seen.lock().expect("as above").len();
        assert_eq!(threads, 2, "{isa}, {what}: threads that have cast");
    }
}

fn wrong_sizes(isa: Isa) {
    let caster = caster(isa, DType::F32, DType::U4, CastOptions::new());
    for (src, dst, n) in [(40, 5, 11), (40, 6, 10), (39, 5, 10), (0, 0, usize::MAX), (0, 1, 0)] {
        let mut out = vec![CANARY; dst];
        let how = Parallel::new().threads(2).chunk(1);
        let error = caster.par_cast_with(&vec![0; src], &mut out, n, &how).unwrap_err();
        assert_eq!(Err(error), caster.cast(&vec![0; src], &mut vec![0; dst], n));
        assert!(out.iter().all(|&b| b == CANARY), "written in spite of {error}");
    }
    caster.par_cast_with(&[], &mut [], 0, &Parallel::new().threads(2).chunk(1)).expect("nothing to do");
}

fn progress(isa: Isa) {
    let caster = caster(isa, DType::U8, DType::F32, CastOptions::new());
    let (n, src) = (10_000, bytes(10_000));
    for threads in THREADS {
        let seen = Mutex::new(Vec::new());
        let note = |progress: Progress| {
            assert_eq!(progress.total, n);
            seen.lock().unwrap().push(progress.done);
            ControlFlow::Continue(())
        };
        let how = Parallel::new().threads(threads).chunk(100).progress(&note);
        caster.par_cast_with(&src, &mut vec![0; 4 * n], n, &how).expect("nobody stops it");
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, (1..=100).map(|i| 100 * i).collect::<Vec<_>>(), "{threads} threads");
    }
    // A cast on one thread has chunks, too.
    let calls = AtomicUsize::new(0);
    let count = |_: Progress| {
        calls.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    caster.par_cast_with(&src, &mut vec![0; 4 * n], n, &Parallel::new().progress(&count)).unwrap();
    assert_eq!(calls.into_inner(), 1, "less than a chunk");
}

fn cancelled(isa: Isa) {
    let caster = caster(isa, DType::U8, DType::I8, CastOptions::new());
    let (n, src) = (10_000, vec![1; 10_000]);
    for threads in THREADS {
        let mut dst = vec![0; n];
        let stop = |_: Progress| ControlFlow::Break(());
        let how = Parallel::new().threads(threads).chunk(64).progress(&stop);
        match caster.par_cast_with(&src, &mut dst, n, &how) {
            Err(Error::Cancelled { done, elements }) => {
                assert_eq!(elements, n);
                assert_eq!(dst.iter().filter(|&&x| x == 1).count(), done, "it counts what was written");
                assert!((64..=64 * threads).contains(&done), "{done} elements on {threads} threads");
            }
            other => panic!("{other:?} on {threads} threads"),
        }
        // After the last chunk, it is too late to stop.
        let late = |progress: Progress| match progress.done == n {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        caster.par_cast_with(&src, &mut dst, n, &how.progress(&late)).expect("all elements");
        assert_eq!(dst, src);
    }
}

fn odd_hosts(isa: Isa) {
    struct Lazy;
    impl ParallelFor for Lazy {
        fn run(&self, _: usize, _: &(dyn Fn(usize) + Sync)) {}
    }
    struct Eager;
    impl ParallelFor for Eager {
        fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
            Host(pool(4)).run(2 * tasks, &|i| task(i.wrapping_mul(usize::MAX)));
        }
    }
    let caster = caster(isa, DType::F16, DType::F4E2M1, CastOptions::new());
    let (n, src) = (5001, bytes(10_002));
    let mut expected = vec![0; 2501];
    caster.cast(&src, &mut expected, n).unwrap();
    for host in [&Lazy as &dyn ParallelFor, &Eager] {
        let mut dst = vec![0x5A; 2501];
        caster.par_cast_with(&src, &mut dst, n, &Parallel::new().host(host).chunk(9)).unwrap();
        assert!(dst == expected);
    }
}

/// A panic of another job in the pool does not affect a cast, and one of a callback reaches the caller.
fn panics(isa: Isa) {
    let caster = caster(isa, DType::U8, DType::F32, CastOptions::new());
    let (n, src) = (100_000, bytes(100_000));
    let mut expected = vec![0; 4 * n];
    caster.cast(&src, &mut expected, n).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).panic_handler(|_| {}).build().unwrap();
    let mut dst = vec![0; 4 * n];
    let how = Parallel::new().chunk(1000);
    for _ in 0..20 {
        dst.fill(0x5A);
        // `resume_unwind` does not call the panic hook, so nothing is printed.
        pool.spawn(|| std::panic::resume_unwind(Box::new("somebody else")));
        pool.install(|| caster.par_cast_with(&src, &mut dst, n, &how)).unwrap();
        assert!(dst == expected);
    }
    let bad = |progress: Progress| match progress.done {
        ..50_000 => ControlFlow::Continue(()),
        _ => std::panic::resume_unwind(Box::new("the callback")),
    };
    let cast = || pool.install(|| caster.par_cast_with(&src, &mut dst, n, &how.progress(&bad)));
    assert!(catch_unwind(AssertUnwindSafe(cast)).is_err(), "the panic of a callback comes out");
    // A panic on another thread reaches the caller too, with its payload. The calling thread waits until it happens.
    let (here, another) = (std::thread::current().id(), Barrier::new(2));
    let bad = |_: Progress| {
        another.wait();
        if std::thread::current().id() == here {
            return ControlFlow::Break(());
        }
        std::panic::resume_unwind(Box::new("the callback"))
    };
    let on_own = Parallel::new().threads(2).chunk(50_000).progress(&bad);
    let cast = || caster.par_cast_with(&src, &mut dst, n, &on_own);
    let panic = catch_unwind(AssertUnwindSafe(cast)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the callback"), "own threads");
    pool.install(|| caster.par_cast_with(&src, &mut dst, n, &how)).unwrap();
    assert!(dst == expected);
}

/// A cast does not wait for threads that are busy with something else, because they may be waiting for the caller. When
/// such threads are free at last, they cast nothing.
fn busy(isa: Isa) {
    let caster = caster(isa, DType::U8, DType::F32, CastOptions::new());
    let (n, src) = (102_400, bytes(102_400));
    let mut expected = vec![0; 4 * n];
    caster.cast(&src, &mut expected, n).unwrap();
    let mut dst = vec![0; 4 * n];
    // Not a shared pool, because all threads are busy here.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let (of_caller, all_wait) = (Mutex::new(()), Barrier::new(3));
    let casts = AtomicUsize::new(0);
    let count = |_: Progress| {
        casts.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    pool.in_place_scope(|scope| {
        let held = of_caller.lock().unwrap();
        for _ in 0..2 {
            scope.spawn(|_| {
                all_wait.wait();
                drop(of_caller.lock().unwrap());
            });
        }
        let (all_wait, src, dst, count) = (&all_wait, &src, &mut dst, &count);
        pool.install(|| {
            all_wait.wait();
            caster.par_cast_with(src, dst, n, &Parallel::new().chunk(1024).progress(count)).unwrap();
        });
        drop(held);
    });
    assert!(dst == expected);
    assert_eq!(casts.into_inner(), n / 1024);
}

fn uninitialised(isa: Isa) {
    let caster = caster(isa, DType::U8, DType::F16, CastOptions::new());
    let (n, src) = (3000, bytes(3000));
    let mut expected = vec![0; 2 * n];
    caster.cast(&src, &mut expected, n).unwrap();
    let mut memory = Vec::with_capacity(2 * n);
    let how = Parallel::new().threads(3).chunk(100);
    let out = caster.par_cast_uninit_with(&src, &mut memory.spare_capacity_mut()[..2 * n], n, &how).unwrap();
    assert!(*out == *expected);
}

/// Threads of a pool inherit the floating-point environment of the thread that started it.
#[cfg(target_arch = "x86_64")]
mod environment {
    use core::arch::asm;

    use super::*;

    /// Flush-to-zero, denormals are zero, rounding up.
    const BAD: u32 = 0xDFC0;

    fn set(bits: u32) {
        // SAFETY: the bits are valid. Only casts run on these threads, and they guard themselves against them.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &bits, options(nostack)) };
    }

    fn get() -> u32 {
        let mut bits = 0u32;
        // SAFETY: only reads the register.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut bits, options(nostack)) };
        bits
    }

    pub(super) fn in_a_pool(isa: Isa) {
        let pool =
            rayon::ThreadPoolBuilder::new().num_threads(3).start_handler(|_| set(BAD)).build().unwrap();
        for (from, to) in [(DType::F32, DType::F16), (DType::F64, DType::F32), (DType::F32, DType::F8E4M3FN)]
        {
            let codes = bridge::codes(from, to);
            let caster = bridge::caster(isa, from, to, &oracle::Mode::default());
            let src = bridge::bytes_of(from, &codes);
            let mut dst = vec![0; bridge::size(to, codes.len())];
            let how = Parallel::new().chunk(100);
            pool.install(|| caster.par_cast_with(&src, &mut dst, codes.len(), &how)).unwrap();
            let got = bridge::codes_of(to, &dst, codes.len());
            bridge::compare("in a bad pool", from, to, &oracle::Mode::default(), &codes, &got);
        }
        assert_eq!(pool.broadcast(|_| get()), [BAD; 3], "the threads keep their environment");
    }
}

/// Tests that need a process of their own.
#[cfg(unix)]
mod child {
    use std::process::Command;

    use super::*;

    pub(super) const VARIABLE: &str = "LANECAST_TEST_CHILD";
    pub(super) const NAMES: [&str; 4] = [
        "a fork after casts",
        "a fork after somebody else's jobs",
        "no threads for the pool",
        "no threads at all",
    ];
    /// Enough elements that casts are divided.
    const N: usize = 1 << 22;

    pub(super) fn start(name: &str, isa: Isa) {
        if name.starts_with("no threads") && !cfg!(target_os = "linux") {
            return println!("NOT RUN: {name} (how to forbid threads is known for Linux alone)");
        }
        let program = std::env::current_exe().expect("a test has a file");
        let mut command = Command::new(program);
        let output = command.env(VARIABLE, name).env("LANECAST_ISA", isa.name()).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {}\n{errors}", output.status);
    }

    pub(super) fn run(name: &str) {
        let (src, mut dst) = (vec![1; N], vec![0; N]);
        // At least two threads, whatever the machine has.
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var("RAYON_NUM_THREADS", "3") };
        // Ends the process if something waits forever.
        // SAFETY: sets a timer; there is no handler, and no memory is touched.
        unsafe { libc::alarm(20) };
        match name {
            "a fork after casts" => {
                cast(&src, &mut dst, &Parallel::new());
                forked(|| cast(&src, &mut dst, &Parallel::new()));
            }
            "a fork after somebody else's jobs" => {
                assert_eq!(rayon::join(|| 1, || 2), (1, 2));
                forked(|| cast(&src, &mut dst, &Parallel::new()));
            }
            "no threads for the pool" => {
                forbid_threads();
                cast(&src, &mut dst, &Parallel::new());
                cast(&src, &mut dst, &Parallel::new());
            }
            "no threads at all" => {
                forbid_threads();
                cast(&src, &mut dst, &Parallel::new().threads(4));
            }
            _ => panic!("no test has the name {name:?}"),
        }
    }

    fn cast(src: &[u8], dst: &mut [u8], how: &Parallel<'_>) {
        let caster =
            Caster::new(DType::U8, DType::I8, &CastOptions::new()).expect("LANECAST_ISA is available");
        dst.fill(0);
        caster.par_cast_with(src, dst, N, how).expect("sizes that fit");
        assert!(src == dst, "another result");
    }

    /// Runs `run` in a child process, which has no other thread.
    fn forked(run: impl FnOnce()) {
        let mut status = 0;
        // SAFETY: the child only casts, which is what this tests, and exits.
        unsafe {
            let child = libc::fork();
            assert_ne!(child, -1);
            if child == 0 {
                libc::alarm(5);
                let result = catch_unwind(AssertUnwindSafe(run));
                libc::_exit(result.is_err().into());
            }
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
        }
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "the child ended with {status:#x}"
        );
    }

    /// Leaves no address space for the stack of another thread.
    fn forbid_threads() {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
        let pages: u64 = pages.split(' ').next().and_then(|n| n.parse().ok()).expect("numbers");
        // SAFETY: asks for the page size, and lowers a limit of this process.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as u64;
            let limit = pages * page + (1 << 20);
            let limit = limit as libc::rlim_t;
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
            assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0);
        }
        assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "threads can still start");
    }
}
