//! Casts in any host process: one that forks, at any time; where no thread can start; without memory; and on small stacks.
//!
//! Each test is a process of its own. `LANECAST_HOSTS=all` lets forks race for minutes instead of seconds.

mod bridge;

#[cfg(unix)]
use bridge::Suite;

fn main() {
    #[cfg(unix)]
    hosts::main();
    #[cfg(not(unix))]
    println!("NOT RUN: hosts (they are made with the calls of Unix)");
}

#[cfg(unix)]
mod hosts {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::Command;
    use std::ptr;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use lanecast::onnx::{
        Cast, DataType, DequantizeLinear, FnuzInfinity, Options, QuantizeLinear, Strings, Tensor,
    };
    use lanecast::parallel::Parallel;
    use lanecast::records::{RecordCaster, StructDType};
    use lanecast::scaled::{self, Dequantizer, Profile, Quantizer, Requantizer, Scaling};
    use lanecast::text::{self, Notation};
    use lanecast::views::{StridedView, StridedViewMut};
    use lanecast::zarr::{ValueCaster, ZarrError};
    use lanecast::{CastOptions, Caster, DType, Error, Isa, Kind, Overflow, Packing, Rounding, f16};

    use super::Suite;
    use super::bridge::{self, bytes};

    const VARIABLE: &str = "LANECAST_TEST_CHILD";
    /// The name of each test, and what its process runs.
    const TESTS: [(&str, fn()); 23] = [
        ("a fork after casts on threads", || after(casts)),
        ("a fork after scaled casts on threads", || after(scaled_casts)),
        ("a fork after texts on threads", || after(texts)),
        ("a fork after ONNX strings on threads", || after(onnx_strings)),
        ("forks while tables are made", || race(tables, usize::MAX)),
        ("forks while the tables of texts are made", || race(tables_of_texts, 13)),
        ("forks while the pool starts", || race(first_casts, 1)),
        ("no room for the stack of a thread", no_threads_by_memory),
        ("a limit of one process", no_threads_by_number),
        ("a limit of memory", a_limit_of_memory),
        ("the memory of scaled casts", memory_of_scaled_casts),
        ("no memory for a result", no_memory_for_results),
        ("no memory at all: casts", no_memory_for_casts),
        ("no memory from some allocation on: texts", no_memory_for_texts),
        ("no memory from some allocation on: ONNX", no_memory_for_onnx),
        ("no memory from some allocation on: zarr", no_memory_for_zarr),
        (ANOTHERS, another_machines_isa),
        ("the stacks of casts", stacks_of_casts),
        ("the stacks of checked casts", stacks_of_checks),
        ("the stacks of strided casts", stacks_of_views),
        ("the stacks of scaled casts", stacks_of_scaled_casts),
        ("the stacks of records", stacks_of_records),
        ("the stacks of texts, ONNX and zarr", stacks_of_systems),
    ];
    const ANOTHERS: &str = "a variable that names another machine's instruction set";
    /// The beginning of the names of those tests that are repeated until their time is over.
    const RACES: &str = "forks while";

    pub(super) fn main() {
        if let Ok(name) = std::env::var(VARIABLE) {
            let test = TESTS.iter().find(|test| test.0 == name).expect("a test has this name");
            // Ends the process if something waits forever.
            // SAFETY: sets a timer; there is no handler, and no memory is touched.
            unsafe { libc::alarm(120) };
            return (test.1)();
        }
        let mut suite = Suite::new();
        // The kernel of this machine cannot start a program that needs an emulator; `ci/cross` sets the variable.
        let starts_itself = std::env::var_os("LANECAST_EMULATED").is_none();
        for (name, _) in &TESTS {
            suite.test_if(starts_itself, "emulated programs cannot start themselves", name, move |isa| {
                start(name, isa)
            });
        }
        suite.run().exit();
    }

    fn start(name: &str, isa: Isa) {
        if (name.starts_with("no room") || name.starts_with("a limit")) && !cfg!(target_os = "linux") {
            return println!("NOT RUN: {name} (how to set that is known for Linux alone)");
        }
        let milliseconds = match (name.starts_with(RACES), std::env::var("LANECAST_HOSTS").as_deref()) {
            (false, _) => 0,
            (true, Ok("all")) => 60_000,
            // Five seconds for the three races on all instruction sets together.
            (true, _) => 5000 / 3 / Isa::available().len() as u64,
        };
        let end = Instant::now() + Duration::from_millis(milliseconds);
        let mut times = 0;
        loop {
            let program = std::env::current_exe().expect("a test has a file");
            let mut command = Command::new(program);
            // At least two threads, whatever the machine has, with stacks that exceed the memory left where a test limits it.
            command.env("RAYON_NUM_THREADS", "3").env("RUST_MIN_STACK", STACK.to_string());
            let isa_name = if name == ANOTHERS { another(isa).name() } else { isa.name() };
            let output = command.env(VARIABLE, name).env("LANECAST_ISA", isa_name).output();
            let output = output.expect("it starts");
            let [text, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
            assert!(output.status.success(), "{name}: {}\n{text}{errors}", output.status);
            times += 1;
            if Instant::now() >= end {
                print!("{text}");
                if name.starts_with(RACES) {
                    println!("{isa}, {name}: {times} processes");
                }
                return;
            }
        }
    }

    // Forks.

    /// Enough texts to be divided among threads.
    const TEXTS: usize = 40_000;
    const BYTES: usize = 4 << 20;

    fn casts() {
        let (src, mut dst) = (vec![1; BYTES], vec![0; BYTES]);
        let caster = Caster::new(DType::U8, DType::I8, &CastOptions::new()).expect("it is available");
        caster.par_cast(&src, &mut dst, BYTES).expect("sizes that fit");
        assert!(src == dst);
        dst.fill(0);
        caster.par_cast_with(&src, &mut dst, BYTES, &Parallel::new().threads(3)).expect("sizes that fit");
        assert!(src == dst);
    }

    /// Scaled casts in both directions, in the pool and on threads that they start, give what one thread gives.
    fn scaled_casts() {
        let n = BYTES / 4;
        let data: Vec<u8> = (0..n).flat_map(|i| (i as f32 / 8.0).to_ne_bytes()).collect();
        let (shape, options) = ([n / 256, 256], CastOptions::new());
        let (from, to, scaling) = (DType::F32, DType::F4E2M1, Scaling::mx());
        let q = Quantizer::new(from, to, &scaling, &options).expect("it is available");
        let d = Dequantizer::new(to, from, &scaling, &options).expect("it is available");
        let made = |how: Option<&Parallel<'_>>| {
            let (mut codes, mut scales, mut back) = (vec![0; n / 2], vec![0; n / 32], vec![0; 4 * n]);
            match how {
                Some(how) => {
                    q.par_quantize_with(&data, &shape, &mut codes, &mut scales, how).expect("sizes that fit");
                    d.par_dequantize_with(&codes, &shape, &scales, None, &mut back, how).expect("as above");
                }
                None => {
                    q.quantize(&data, &shape, &mut codes, &mut scales).expect("sizes that fit");
                    d.dequantize(&codes, &shape, &scales, None, &mut back).expect("as above");
                }
            }
            (codes, scales, back)
        };
        let alone = made(None);
        for how in [Parallel::new(), Parallel::new().threads(3), Parallel::new().threads(3).chunk(1 << 16)] {
            assert!(made(Some(&how)) == alone, "another result on threads");
        }
    }

    fn texts() {
        let values: Vec<f32> = (0..TEXTS).map(|i| i as f32 / 8.0).collect();
        let texts = text::format_slice(&values).expect("real numbers");
        let mut parsed = vec![0f32; TEXTS];
        text::parse_slice(&texts, &mut parsed).expect("numbers");
        assert!(values == parsed);
        let (offsets, joined) =
            text::format_offsets_with::<f32, i64>(&values, Notation::Plain).expect("real numbers");
        parsed.fill(0.0);
        text::parse_offsets_with(&offsets, &joined, &mut parsed, &CastOptions::new()).expect("numbers");
        assert!(values == parsed);
        // With many wrong texts, the error names the first, whichever thread finds another before.
        let mut wrong = texts;
        for i in (TEXTS / 3..TEXTS).step_by(997) {
            wrong[i].push('x');
        }
        match text::parse_slice(&wrong, &mut parsed) {
            Err(text::Error::Element { index, .. }) => assert_eq!(index, TEXTS / 3),
            other => panic!("{other:?}"),
        }
    }

    fn onnx_strings() {
        let values: Vec<u8> = (0..TEXTS).flat_map(|i| (i as f32 / 8.0).to_le_bytes()).collect();
        let input = Tensor::new(&[TEXTS], DataType::Float, &values).expect("so many");
        let to = |to: DataType| Cast::new(21, to, &[]).expect("a valid operator");
        let strings = to(DataType::String).run(&input).expect("real numbers");
        assert_eq!(to(DataType::Float).run(&strings).expect("numbers"), input);
    }

    /// Runs `run` here, then in a forked child.
    fn after(run: fn()) {
        run();
        let ended = wait(fork(run));
        assert!(ended, "the child did not end well");
    }

    /// Forks a child that runs `run` and exits; an alarm ends it if that takes more than some seconds.
    fn fork(run: impl FnOnce()) -> libc::pid_t {
        // SAFETY: the child only calls what is tested, and exits.
        unsafe {
            let child = libc::fork();
            assert_ne!(child, -1);
            if child == 0 {
                libc::alarm(10);
                let result = catch_unwind(AssertUnwindSafe(run));
                libc::_exit(result.is_err().into());
            }
            child
        }
    }

    /// Waits for a child, and returns whether it ended without an error.
    fn wait(child: libc::pid_t) -> bool {
        let mut status = 0;
        // SAFETY: waits for a child process, and writes its status to a local variable.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }

    /// Runs `make` for one number after the other on a thread, each for the first time in the process. Meanwhile children are
    /// forked, which run it for the number that the thread is at, and for the next.
    fn race(make: fn(usize) -> bool, things: usize) {
        let (at, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        // First, what the test itself initialises once.
        make(usize::MAX);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while at.load(Ordering::SeqCst) < things && make(at.load(Ordering::SeqCst)) {
                    at.fetch_add(1, Ordering::SeqCst);
                }
                done.store(true, Ordering::SeqCst);
            });
            let mut forks = 0;
            while !done.load(Ordering::SeqCst) && forks < 200 {
                let child = fork(|| {
                    let at = at.load(Ordering::SeqCst);
                    (at..(at + 2).min(things)).for_each(|i| _ = make(i));
                });
                assert!(
                    wait(child),
                    "child {forks}, forked at {}, did not end well",
                    at.load(Ordering::SeqCst)
                );
                forks += 1;
            }
        });
    }

    /// Makes the first cast of a pair in a mode, among those with tables; returns false if there is none of this number.
    fn tables(number: usize) -> bool {
        static ALL: LazyLock<Vec<(DType, DType, CastOptions)>> = LazyLock::new(|| {
            let narrow = || DType::ALL.into_iter().filter(|dtype| dtype.bits() <= 8);
            let targets = narrow().chain([DType::F16, DType::BF16, DType::I16]);
            let pairs = targets.flat_map(|to| narrow().map(move |from| (from, to)));
            let modes =
                |(from, to)| bridge::every_mode(from, to).into_iter().map(move |mode| (from, to, mode));
            let all = pairs.flat_map(modes).map(|(from, to, mode)| (from, to, bridge::options(&mode)));
            // Only some, so that a process ends soon.
            all.step_by(3).collect()
        });
        let Some(&(from, to, options)) = ALL.get(number) else { return false };
        let caster = Caster::new(from, to, &options).expect("it is available");
        let mut out = [0; 64];
        caster
            .cast(&[1; 16][..bridge::size(from, 16)], &mut out[..bridge::size(to, 16)], 16)
            .expect("sizes that fit");
        true
    }

    fn tables_of_texts(number: usize) -> bool {
        let floats = DType::ALL.into_iter().filter(|t| t.float_format().is_some() && t.bits() <= 16);
        let Some(dtype) = floats.into_iter().nth(number) else { return false };
        // Enough elements for a table, but not for threads.
        let n = 4 * 4096 - 1;
        let src = vec![0; bridge::size(dtype, n)];
        let texts = text::format_bytes_with::<i32>(&src, dtype, n, &CastOptions::new(), Notation::Plain);
        texts.expect("real numbers");
        true
    }

    fn first_casts(number: usize) -> bool {
        if number > 0 {
            return false;
        }
        casts();
        texts();
        true
    }

    // Threads.

    /// The stack size of threads that must fail to start: more memory than a test leaves.
    const STACK: usize = 64 << 20;

    fn no_threads_by_memory() {
        limit_memory(STACK * 3 / 4);
        without_threads();
    }

    /// Limits the memory that this process can get from here on to `more` bytes, as `ulimit -v` does.
    fn limit_memory(more: usize) {
        // SAFETY: asks for the page size, and lowers a limit of this process.
        unsafe {
            let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
            let pages: u64 = pages.split(' ').next().and_then(|n| n.parse().ok()).expect("numbers");
            let page = libc::sysconf(libc::_SC_PAGESIZE) as u64;
            let limit = pages * page + more as u64;
            let limit = limit as libc::rlim_t;
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
            assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0);
        }
    }

    fn no_threads_by_number() {
        #[cfg(target_os = "linux")]
        // SAFETY: gives up the privileges that override the limit, and lowers it, in this process.
        unsafe {
            if libc::geteuid() == 0 {
                assert_eq!(libc::setresuid(65534, 65534, 65534), 0);
            }
            let limit = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
            assert_eq!(libc::setrlimit(libc::RLIMIT_NPROC, &limit), 0);
        }
        without_threads();
    }

    fn without_threads() {
        assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "threads can still start");
        for _ in 0..2 {
            texts();
            onnx_strings();
            casts();
            scaled_casts();
        }
    }

    // Memory.

    /// An allocator with limits: `MOST` bytes for any one allocation, and `LEFT` allocations of more than `SMALL` bytes.
    struct Limited;

    static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);
    static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);
    static SMALL: AtomicUsize = AtomicUsize::new(0);
    /// Bytes that are allocated; [`PEAK`] is their maximum.
    static NOW: AtomicUsize = AtomicUsize::new(0);
    static PEAK: AtomicUsize = AtomicUsize::new(0);

    #[global_allocator]
    static ALLOCATOR: Limited = Limited;

    // SAFETY: every pointer is that of the system's allocator, or null.
    unsafe impl GlobalAlloc for Limited {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let next = |left: usize| if left == usize::MAX { Some(left) } else { left.checked_sub(1) };
            let is_left = || LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok();
            if layout.size() > MOST.load(Ordering::Relaxed)
                || layout.size() > SMALL.load(Ordering::Relaxed) && !is_left()
            {
                return ptr::null_mut();
            }
            let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
            PEAK.fetch_max(now, Ordering::Relaxed);
            // SAFETY: the caller's promise.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, first: *mut u8, layout: Layout) {
            NOW.fetch_sub(layout.size(), Ordering::Relaxed);
            // SAFETY: the caller's promise.
            unsafe { System.dealloc(first, layout) }
        }
    }

    /// The memory that a scaled cast allocates on a thread is bounded, however much there is to cast.
    fn memory_of_scaled_casts() {
        const SHAPE: [usize; 2] = [512, 512];
        const MOST: usize = 384 << 10;
        let n = SHAPE[0] * SHAPE[1];
        let values: Vec<u8> = (0..n).flat_map(|i| (i as f64 / 8.0).to_ne_bytes()).collect();
        let (mut data, mut codes, mut back) = (vec![0; 8 * n], vec![0; 8 * n], vec![0; 8 * n]);
        let (mut scales, mut narrow, mut others) = (vec![0; 4 * n], vec![0; n / 2], vec![0; n / 32]);
        let options = CastOptions::new();
        let mut most = 0;
        let mut memory = |run: &mut dyn FnMut() -> bool| {
            let before = NOW.load(Ordering::Relaxed);
            PEAK.store(before, Ordering::Relaxed);
            assert!(run(), "sizes that fit");
            most = most.max(PEAK.load(Ordering::Relaxed) - before);
        };
        let schemes = [
            Scaling::mx(),
            Scaling::nvfp4(),
            Scaling::deepseek(),
            Scaling::per_axis(0),
            Scaling::per_axis(1),
        ];
        for (from, scaling) in
            [DType::F32, DType::F64].into_iter().flat_map(|from| schemes.map(|s| (from, s)))
        {
            let size = bridge::size(from, n);
            let (data, back) = (&mut data[..size], &mut back[..size]);
            lanecast::cast_bytes(&values, DType::F64, data, from, n).expect("sizes that fit");
            let data = &*data;
            for to in [DType::F8E4M3FN, DType::F8E3M4, DType::F4E2M1, DType::I8] {
                let q = Quantizer::new(from, to, &scaling, &options).expect("it is available");
                let d = Dequantizer::new(to, from, &scaling, &options).expect("it is available");
                let codes = &mut codes[..bridge::size(to, n)];
                let scales = &mut scales[..q.scale_bytes(&SHAPE).expect("whole blocks")];
                memory(&mut || q.quantize(data, &SHAPE, codes, scales).is_ok());
                memory(&mut || q.quantize_given(data, &SHAPE, scales, None, codes).is_ok());
                memory(&mut || d.dequantize(codes, &SHAPE, scales, None, back).is_ok());
                memory(&mut || q.losses(data, &SHAPE, codes, scales, None, None).is_ok());
                memory(&mut || q.quantize_losses(data, &SHAPE, codes, scales, None).is_ok());
                let mx = (DType::F4E2M1, &Scaling::mx());
                let Ok(r) = Requantizer::new((to, &scaling), mx, &options) else { continue };
                memory(&mut || r.requantize(codes, &SHAPE, scales, None, &mut narrow, &mut others).is_ok());
                memory(&mut || {
                    let made = (&mut narrow[..], &mut others[..]);
                    r.requantize_losses(codes, &SHAPE, scales, None, made, None).is_ok()
                });
            }
        }
        println!("{}: a scaled cast takes {most} bytes of memory", Isa::best().expect("it is available"));
        assert!(most <= MOST, "a scaled cast takes {most} bytes, not {MOST}");
    }

    /// With little memory left, large casts return an error if they need memory, and succeed if they need none.
    fn a_limit_of_memory() {
        const N: usize = 4 << 20;
        let floats = vec![1.5f32; N];
        let mut dst = vec![0u8; 4 * N];
        limit_memory(4 << 20);
        assert_eq!(
            lanecast::cast_vec::<f32, f64>(&floats).unwrap_err(),
            Error::Allocation { dtype: DType::F64, elements: N }
        );
        let mut place: Vec<f32> = floats;
        for (from, to) in [(DType::F32, DType::F16), (DType::F16, DType::F32), (DType::F32, DType::I32)] {
            let caster = Caster::new(from, to, &CastOptions::new()).expect("it is available");
            // SAFETY: these are the same bytes, as u8.
            let bytes = unsafe { std::slice::from_raw_parts_mut(place.as_mut_ptr().cast::<u8>(), 4 * N) };
            let sizes = [from, to].map(|dtype| bridge::size(dtype, N));
            caster.cast(&bytes[..sizes[0]], &mut dst[..sizes[1]], N).expect("sizes that fit");
            caster.par_cast(&bytes[..sizes[0]], &mut dst[..sizes[1]], N).expect("sizes that fit");
            let _ = caster.cast_checked(&bytes[..sizes[0]], &mut dst[..sizes[1]], N).expect("sizes that fit");
            caster.cast_in_place(&mut bytes[..sizes[0].max(sizes[1])], N).expect("sizes that fit");
        }
        assert!(place.iter().all(|x| x.to_bits() == 1));
    }

    fn no_memory_for_results() {
        const N: usize = 1 << 20;
        let floats = vec![1.5f32; N];
        let values: Vec<u8> = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
        let strings: Strings = (0..N).map(|_| "1.5").collect();
        let of_numbers = Tensor::new(&[N], DataType::Float, &values).expect("so many");
        let of_strings = Tensor::borrowed_strings(&[N], &strings).expect("so many");
        let small = f16::INFINITY.to_le_bytes();
        let small = Tensor::new(&[1], DataType::Float16, &small).expect("so many");
        let to = |to: DataType| Cast::new(21, to, &[]).expect("a valid operator");
        let allocation = |dtype| lanecast::onnx::Error::Cast(Error::Allocation { dtype, elements: N });
        let no_text = |error: text::Error| matches!(error, text::Error::Allocation { .. });

        MOST.store(N / 2, Ordering::Relaxed);
        assert!(no_text(text::format_offsets_with::<f32, i32>(&floats, Notation::Plain).unwrap_err()));
        // Here the offsets can be allocated, but not the texts.
        assert!(no_text(
            text::format_offsets_with::<f64, i32>(&[1e300; N / 16], Notation::Plain).unwrap_err()
        ));
        assert_eq!(to(DataType::Double).run(&of_numbers).unwrap_err(), allocation(DType::F64));
        assert_eq!(to(DataType::Float16).run(&of_strings).unwrap_err(), allocation(DType::F16));
        for input in [&of_numbers, &of_strings] {
            match to(DataType::String).run(input).unwrap_err() {
                lanecast::onnx::Error::Text(error) => assert!(no_text(error)),
                other => panic!("{other}"),
            }
        }
        // The way to a small result needs no other allocation of that size.
        MOST.store(N + 1, Ordering::Relaxed);
        let nan = Options::new().fnuz_infinity(FnuzInfinity::Nan);
        let result =
            to(DataType::Float8E4M3FNUZ).with(nan).run(&of_numbers).expect("so much memory there is");
        assert_eq!(result.bytes().map(|bytes| bytes[N - 1]), Some(0x44));
        assert_eq!(to(DataType::Float8E4M3FNUZ).with(nan).run(&small).unwrap().bytes(), Some(&[0x80][..]));
    }

    /// Whichever allocation is the first to fail, `run` returns an error for which `is_memory` holds, and the process does not end.
    fn from_some_allocation_on<T, E: std::fmt::Debug>(
        what: &str,
        run: impl Fn() -> Result<T, E>,
        is_memory: fn(&E) -> bool,
    ) {
        for allocations in 0.. {
            LEFT.store(allocations, Ordering::Relaxed);
            let result = run();
            LEFT.store(usize::MAX, Ordering::Relaxed);
            match result {
                Ok(_) => return println!("{what}: {allocations} allocations"),
                Err(error) => assert!(is_memory(&error), "{what}: {error:?}"),
            }
        }
    }

    fn no_memory_for_texts() {
        const N: usize = 300;
        let is_memory =
            |error: &text::Error| matches!(error, text::Error::Allocation { .. } | text::Error::Cast(_));
        let values: [f64; N] = std::array::from_fn(|i| i as f64 / 7.0);
        let halves = values.map(|x| f16::from_f32(x as f32));
        let texts = text::format_slice(&values).expect("real numbers");
        let (offsets, joined) = text::format_offsets::<f64, i32>(&values).expect("real numbers");
        // Texts longer than any float needs, and near a tie.
        let long = [format!("0.{}1", "5".repeat(2000)), "1e-400".into(), "9007199254740993".into()];
        from_some_allocation_on("texts of float64", || text::format_slice(&values), is_memory);
        from_some_allocation_on("texts of float16", || text::format_slice(&halves), is_memory);
        from_some_allocation_on("joined texts", || text::format_offsets::<f64, i64>(&values), is_memory);
        from_some_allocation_on("float64 of texts", || text::parse_slice(&texts, &mut [0f64; N]), is_memory);
        from_some_allocation_on(
            "float16 of long texts",
            || text::parse_slice(&long, &mut [f16::ZERO; 3]),
            is_memory,
        );
        let parsed = || text::parse_offsets(&offsets, &joined, &mut [0f32; N]);
        from_some_allocation_on("float32 of joined texts", parsed, is_memory);
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_ne_bytes()).collect();
        for dtype in [DType::F64, DType::I16] {
            let n = bytes.len() / dtype.itemsize();
            let formatted = || text::format_bytes::<i32>(&bytes, dtype, n);
            from_some_allocation_on(&format!("texts of bytes of {dtype}"), formatted, is_memory);
            let (offsets, joined) = formatted().expect("real numbers");
            let out = RefCell::new(bytes.clone());
            let parsed = || text::parse_bytes(&offsets, &joined, &mut out.borrow_mut(), dtype);
            from_some_allocation_on(&format!("{dtype} of joined texts"), parsed, is_memory);
        }
    }

    fn no_memory_for_onnx() {
        const N: usize = 300;
        fn is_memory(error: &lanecast::onnx::Error) -> bool {
            use lanecast::onnx::Error::{Cast, Scaled, Text};
            let is_of_cast =
                |error: &Error| matches!(error, Error::Allocation { .. } | Error::PlanAllocation { .. });
            match error {
                Cast(error) => is_of_cast(error),
                Scaled(error) => matches!(&**error, scaled::Error::Cast(error) if is_of_cast(error)),
                Text(error) => matches!(error, text::Error::Allocation { .. }),
                _ => false,
            }
        }
        // The shapes of tensors are allocated infallibly, so small allocations must succeed.
        SMALL.store(256, Ordering::Relaxed);
        let values: Vec<u8> = (0..N).flat_map(|i| (i as f32 / 8.0).to_le_bytes()).collect();
        let strings: Strings = (0..N).map(|_| "1.5").collect();
        let of_numbers = Tensor::new(&[N], DataType::Float, &values[..]).expect("so many");
        let of_strings = Tensor::borrowed_strings(&[N], &strings).expect("so many");
        for (what, input) in [("numbers", &of_numbers), ("strings", &of_strings)] {
            for to in [DataType::Float16, DataType::Float8E4M3FN, DataType::Int4, DataType::String] {
                let run = || Cast::new(21, to, &[])?.run(input);
                from_some_allocation_on(&format!("Cast of {what} to {to:?}"), run, is_memory);
            }
        }
        let scale = 0.5f32.to_le_bytes();
        let scale = Tensor::new(&[], DataType::Float, &scale[..]).expect("one");
        let run = || QuantizeLinear::new(21, &[])?.run(&of_numbers, &scale, None);
        from_some_allocation_on("QuantizeLinear", run, is_memory);
        let codes = run().expect("memory");
        let run = || DequantizeLinear::new(21, &[])?.run(&codes, &scale, None);
        from_some_allocation_on("DequantizeLinear", run, is_memory);
    }

    fn no_memory_for_zarr() {
        const N: usize = 300;
        let is_memory = |error: &ZarrError| {
            matches!(error, ZarrError::Cast(Error::Allocation { .. } | Error::PlanAllocation { .. }))
        };
        let src: Vec<u8> = (0..N).flat_map(|i| (i as f32 / 2.0).to_ne_bytes()).collect();
        for map in [&[][..], &[(0x3F80_0000, 7), (0x7FC0_0000, 9)]] {
            for to in [DType::U8, DType::F8E5M2, DType::U4] {
                let run = || {
                    let rule = Some(Overflow::Saturate);
                    let caster = ValueCaster::new(DType::F32, to, Rounding::NearestEven, rule, map)?;
                    caster.cast(&src, &mut [0; N], N)
                };
                from_some_allocation_on(
                    &format!("cast_value to {to} with {} mapped", map.len()),
                    run,
                    is_memory,
                );
            }
        }
    }

    /// No cast on one thread allocates, not even the first of a pair, which makes a table.
    fn no_memory_for_casts() {
        const N: usize = 5000;
        let (src, mut dst, mut bits) = (bytes(1 << 18), vec![0; 1 << 18], vec![0; N.div_ceil(8)]);
        // Lets the standard library make its one-time allocations first.
        assert!(Isa::best().is_ok());
        MOST.store(0, Ordering::Relaxed);
        for (from, to) in pairs() {
            let caster = Caster::new(from, to, &CastOptions::new()).expect("it is available");
            let sizes = [from, to].map(|dtype| bridge::size(dtype, N));
            for n in [1, 17, N] {
                let [from, to] = [from, to].map(|dtype| bridge::size(dtype, n));
                caster.cast(&src[..from], &mut dst[..to], n).expect("sizes that fit");
            }
            let (src, dst) = (&src[..sizes[0]], &mut dst[..sizes[1].max(sizes[0])]);
            caster.cast_in_place(dst, N).expect("sizes that fit");
            let dst = &mut dst[..sizes[1]];
            let _ = caster.cast_checked(src, dst, N).expect("sizes that fit");
            _ = caster.try_cast(src, dst, N);
            caster.cast_validity(src, None, dst, &mut bits, N).expect("sizes that fit");
        }
        // Large views ask for memory, but do without it if there is none.
        for (from, to) in pairs() {
            views(from, to, &src, &mut dst);
        }
        MOST.store(usize::MAX, Ordering::Relaxed);
    }

    fn pairs() -> impl Iterator<Item = (DType, DType)> {
        DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|to| (from, to)))
    }

    /// Casts views: rows, small and large transposes, and more dimensions than usual.
    fn views(from: DType, to: DType, src: &[u8], dst: &mut [u8]) {
        let single = CastOptions::new().src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
        let [s, d] = [from, to].map(|dtype| dtype.itemsize() as isize);
        for options in [single, single.stream_from(0)] {
            let caster = Caster::new(from, to, &options).expect("it is available");
            let mut cast = |shape: &[usize], src_strides: &[isize], dst_strides: &[isize]| {
                let view = StridedView::new(src, 0, shape, src_strides);
                let mut into = StridedViewMut::new(dst, 0, shape, dst_strides);
                caster.cast_strided(&view, &mut into).expect("inside");
                let (src, dst) = (src.as_ptr(), dst.as_mut_ptr());
                // SAFETY: the same views, which the cast above has found to be inside of the buffers.
                unsafe { caster.cast_strided_raw(src, src_strides, dst, dst_strides, shape) }
                    .expect("not the same memory");
            };
            cast(&[5, 300], &[300 * s, s], &[300 * d, d]);
            cast(&[60, 50], &[s, 60 * s], &[50 * d, d]);
            cast(&[3, 2], &[s, 3 * s], &[2 * d, d]);
            cast(&[2000], &[2 * s], &[d]);
            let halves: [isize; 8] = std::array::from_fn(|i| 1 << (7 - i));
            cast(&[2; 8], &halves.map(|n| 2 * n * s), &halves.map(|n| 3 * n * d));
        }
        // A plane large enough for a panel.
        let (wide, high) = (512 / s, 4096 / 16);
        if wide * high * s.max(d) <= src.len() as isize {
            let caster = Caster::new(from, to, &single.stream_from(0)).expect("it is available");
            let (shape, src_strides, dst_strides) =
                ([high as usize, wide as usize], [wide * s, s], [d, high * d]);
            let src = StridedView::new(src, 0, &shape, &src_strides);
            let mut dst = StridedViewMut::new(dst, 0, &shape, &dst_strides);
            caster.cast_strided(&src, &mut dst).expect("inside");
        }
    }

    // The variable.

    /// Returns an instruction set that no machine with `isa` has.
    fn another(isa: Isa) -> Isa {
        if isa == Isa::Neon || Isa::available().contains(&Isa::Neon) { Isa::Avx2 } else { Isa::Neon }
    }

    /// Casts whose options name no instruction set return an error and write nothing; those that name one are unaffected.
    fn another_machines_isa() {
        let wrong = Isa::best().expect_err("it is not available");
        assert!(
            matches!(&wrong, Error::IsaOverride { value } if ["neon", "avx2"].contains(value)),
            "{wrong}"
        );
        let mut dst = [7f32; 2];
        assert_eq!(lanecast::cast_slice(&[1u8, 2], &mut dst), Err(wrong));
        assert_eq!(lanecast::checked::cast_slice(&[1u8, 2], &mut dst).unwrap_err(), wrong);
        assert!(Quantizer::new(DType::F32, DType::I8, &Scaling::per_axis(0), &CastOptions::new()).is_err());
        let zarr = ValueCaster::new(DType::U8, DType::F32, Rounding::NearestEven, None, &[]);
        assert_eq!(zarr.unwrap_err(), ZarrError::Cast(wrong));
        assert_eq!(dst, [7.0; 2]);
        for &isa in Isa::available() {
            let options = CastOptions::new().isa(isa);
            lanecast::cast_slice_with(&[1u8, 2], &mut dst, &options).expect("it is available");
            assert_eq!(std::mem::replace(&mut dst, [7.0; 2]), [1.0, 2.0]);
        }
    }

    // Stacks.

    /// The most bytes that something takes of a thread's stack, and the pair for which it does.
    #[derive(Clone, Copy)]
    struct Peak {
        bytes: usize,
        pair: (DType, DType),
    }

    impl Peak {
        const NONE: Self = Self { bytes: 0, pair: (DType::Bool, DType::Bool) };

        fn of(&mut self, pair: (DType, DType), mut run: impl FnMut()) {
            static NOTHING: LazyLock<usize> = LazyLock::new(|| painted(&mut || ()));
            let bytes = painted(&mut run).saturating_sub(*NOTHING);
            if bytes > self.bytes {
                *self = Self { bytes, pair };
            }
        }

        fn at_most(self, what: &str, most: usize) {
            let Self { bytes, pair: (from, to) } = self;
            let isa = Isa::best().expect("it is available");
            println!("{isa}: {what} takes {bytes} bytes of the stack ({from} -> {to})");
            assert!(
                bytes <= most,
                "{isa}: {what} takes {bytes} bytes of the stack ({from} -> {to}), not {most}"
            );
        }
    }

    /// Runs `run` on a thread whose stack is filled with a pattern, and returns how many bytes of it were overwritten.
    fn painted(run: &mut dyn FnMut()) -> usize {
        const SIZE: usize = 256 << 10;
        const PAINT: u8 = 0xA7;
        // Mapped and filled once; what a thread overwrites is filled again after it was measured.
        static STACK: LazyLock<usize> = LazyLock::new(|| {
            let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
            // SAFETY: maps new memory, and writes no more than that.
            unsafe {
                let stack = libc::mmap(ptr::null_mut(), SIZE, access, kind, -1, 0);
                assert_ne!(stack, libc::MAP_FAILED);
                stack.cast::<u8>().write_bytes(PAINT, SIZE);
                stack.expose_provenance()
            }
        });

        extern "C" fn body(run: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: this is the pointer that `painted` passes; it stays valid, because `painted` waits for this thread.
            let run = unsafe { &mut *run.cast::<&mut dyn FnMut()>() };
            let result = catch_unwind(AssertUnwindSafe(run));
            if result.is_err() { 1 as _ } else { ptr::null_mut() }
        }

        let mut run = run;
        let stack = ptr::with_exposed_provenance_mut::<libc::c_void>(*STACK);
        // SAFETY: the thread's stack is memory mapped for it, and is read only after the thread has ended; every call is
        // checked. Only one thread of the process calls this function.
        unsafe {
            let mut attributes = std::mem::zeroed();
            assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
            assert_eq!(libc::pthread_attr_setstack(&mut attributes, stack, SIZE), 0);
            let (mut thread, mut failed) = (std::mem::zeroed(), ptr::null_mut());
            assert_eq!(libc::pthread_create(&mut thread, &attributes, body, (&raw mut run).cast()), 0);
            assert_eq!(libc::pthread_join(thread, &mut failed), 0);
            assert!(failed.is_null(), "a panic");
            assert_eq!(libc::pthread_attr_destroy(&mut attributes), 0);
            let bytes = std::slice::from_raw_parts_mut(stack.cast::<u8>(), SIZE);
            // Lines of 64 bytes are precise enough.
            let untouched = 64 * bytes.chunks(64).take_while(|line| **line == [PAINT; 64]).count();
            bytes[untouched..].fill(PAINT);
            SIZE - untouched
        }
    }

    /// The bytes of the stack that casts, casts in place and checked casts may take, including the first of a pair, which makes its table.
    const CASTS: usize = 12 << 10;
    const SHARED: usize = 16 << 10;
    const STRIDED: usize = 20 << 10;
    const STRIDED_CHECKED: usize = 28 << 10;
    const SCALED: usize = 40 << 10;
    const RECORDS: usize = 80 << 10;
    const SYSTEMS: usize = 24 << 10;

    fn stacks_of_casts() {
        const N: usize = 5001;
        let (src, mut dst) = (bytes(16 * N), vec![0; 16 * N]);
        let [mut plain, mut in_place] = [Peak::NONE; 2];
        for (from, to) in pairs() {
            for n in [N, 100, 3] {
                let sizes = [from, to].map(|dtype| bridge::size(dtype, n));
                plain.of((from, to), || {
                    let caster = Caster::new(from, to, &CastOptions::new()).expect("it is available");
                    caster.cast(&src[..sizes[0]], &mut dst[..sizes[1]], n).expect("sizes that fit");
                });
                for options in [CastOptions::new().stream_from(0), CastOptions::new().stochastic(7, 0)] {
                    plain.of((from, to), || {
                        let Ok(caster) = Caster::new(from, to, &options) else { return };
                        caster.cast(&src[..sizes[0]], &mut dst[..sizes[1]], n).expect("sizes that fit");
                    });
                }
                in_place.of((from, to), || {
                    let caster = Caster::new(from, to, &CastOptions::new()).expect("it is available");
                    caster.cast_in_place(&mut dst[..sizes[0].max(sizes[1])], n).expect("sizes that fit");
                });
            }
        }
        plain.at_most("a cast", CASTS);
        in_place.at_most("a cast in place", CASTS);
    }

    fn stacks_of_checks() {
        const N: usize = 5001;
        let (src, mut dst, mut bits) = (bytes(16 * N), vec![0; 16 * N], vec![0; N.div_ceil(8)]);
        let [mut checked, mut shared] = [Peak::NONE; 2];
        for (from, to) in pairs() {
            // Zeros are in the range of every dtype; random bits are not.
            for src in [&src[..], &vec![0; 16 * N]] {
                for n in [N, 100] {
                    let sizes = [from, to].map(|dtype| bridge::size(dtype, n));
                    let (src, dst, bits) =
                        (&src[..sizes[0]], &mut dst[..sizes[1]], &mut bits[..n.div_ceil(8)]);
                    checked.of((from, to), || {
                        let caster = Caster::new(from, to, &CastOptions::new()).expect("it is available");
                        let _ = caster.cast_checked(src, dst, n).expect("sizes that fit");
                        caster.cast_validity(src, None, dst, bits, n).expect("sizes that fit");
                        _ = caster.try_cast(src, dst, n);
                        _ = caster.same_value(src, dst, n);
                        let _ = caster.report(src, n).expect("sizes that fit");
                    });
                    shared.of((from, to), || {
                        let caster = Caster::new(from, to, &CastOptions::new()).expect("it is available");
                        let how = Parallel::new().threads(1).chunk(1000);
                        let _ = caster.par_cast_checked_with(src, dst, n, &how).expect("sizes that fit");
                    });
                }
            }
        }
        checked.at_most("a checked cast", CASTS);
        shared.at_most("a checked cast on threads", SHARED);
    }

    fn stacks_of_views() {
        let (src, mut dst) = (bytes(1 << 18), vec![0; 1 << 18]);
        let [mut strided, mut sliced, mut checked, mut reported] = [Peak::NONE; 4];
        for (from, to) in pairs() {
            strided.of((from, to), || views(from, to, &src, &mut dst));
            // Rows, boxes along the memory of the source, then in row-major order, and more dimensions than usual.
            let single = CastOptions::new().src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
            let [s, d] = [from, to].map(|dtype| dtype.itemsize() as isize);
            let halves: [isize; 8] = std::array::from_fn(|i| 1 << i);
            let views: [(&[usize], &[isize], &[isize]); 3] = [
                (&[5000], &[s], &[d]),
                (&[60, 50], &[s, 60 * s], &[50 * d, d]),
                (&[2; 8], &halves.map(|n| 2 * n * s), &halves.map(|n| 3 * n * d)),
            ];
            for (options, (shape, src_strides, dst_strides)) in
                [single, single.stochastic(7, 0)].into_iter().flat_map(|one| views.map(|view| (one, view)))
            {
                sliced.of((from, to), || {
                    let caster = Caster::new(from, to, &options).expect("it is available");
                    let from = StridedView::new(&src, 0, shape, src_strides);
                    let mut to = StridedViewMut::new(&mut dst, 0, shape, dst_strides);
                    let how = Parallel::new().threads(1).chunk(1000);
                    caster.par_cast_strided_with(&from, &mut to, &how).expect("inside");
                });
                checked.of((from, to), || {
                    let caster = Caster::new(from, to, &options).expect("it is available");
                    let from = StridedView::new(&src, 0, shape, src_strides);
                    let mut to = StridedViewMut::new(&mut dst, 0, shape, dst_strides);
                    let _ = caster.cast_strided_checked(&from, &mut to).expect("inside");
                    _ = caster.try_cast_strided(&from, &mut to);
                    _ = caster.same_value_strided(&from, &mut to);
                    let _ = caster.report_strided(&from).expect("inside");
                });
                reported.of((from, to), || {
                    let caster = Caster::new(from, to, &options).expect("it is available");
                    let from = StridedView::new(&src, 0, shape, src_strides);
                    let how = Parallel::new().threads(1).chunk(1000);
                    let _ = caster.par_report_strided_with(&from, &how).expect("inside");
                });
            }
        }
        reported.at_most("a report on threads", STRIDED_CHECKED);
        strided.at_most("a strided cast", STRIDED);
        sliced.at_most("a strided cast in slices", STRIDED);
        checked.at_most("a checked strided cast", STRIDED_CHECKED);
    }

    /// The stacks of casts of records nested as deep as they may be, some of them arrays whose elements are not adjacent.
    fn stacks_of_records() {
        let nested = |element: &str| {
            (1..32).fold(format!("'{element}'"), |inner, level| {
                let shape = if level % 3 == 0 { ", (2,)" } else { "" };
                format!("[('a', {inner}{shape}), ('b', 'u1')]")
            })
        };
        let (from, to) = (nested("<f4"), nested("<i2"));
        let mut records = Peak::NONE;
        records.of((DType::F32, DType::I16), || {
            let [from, to] =
                [&from, &to].map(|text| text.parse::<StructDType>().expect("no deeper than it may be"));
            let caster = RecordCaster::new(&from, &to, &CastOptions::new()).expect("the same fields");
            let (src, mut dst) = (vec![0; from.itemsize()], vec![0; to.itemsize()]);
            caster.cast(&src, &mut dst, 1).expect("sizes that fit");
        });
        records.at_most("a cast of records", RECORDS);
    }

    /// The largest stack of some casts of each system, with texts that take exact decimals.
    fn stacks_of_systems() {
        const N: usize = 5000;
        let is_of = |run: &mut dyn FnMut()| {
            let mut peak = Peak::NONE;
            peak.of((DType::F32, DType::F32), run);
            peak
        };
        let values: Vec<f32> = (0..N).map(|i| i as f32 / 7.0).collect();
        let texts = text::format_slice(&values).expect("real numbers");
        let long = [format!("0.{}1", "5".repeat(2000)), "1e-400".into(), "9007199254740993".into()];
        let parsed = is_of(&mut || {
            text::parse_slice(&texts, &mut vec![f16::ZERO; N]).expect("numbers");
            text::parse_slice(&long, &mut [f16::ZERO; 3]).expect("numbers");
            text::parse_slice(&long, &mut [0f64; 3]).expect("numbers");
            let (offsets, joined) = text::format_offsets::<f32, i64>(&values).expect("real numbers");
            text::parse_offsets(&offsets, &joined, &mut vec![0f32; N]).expect("numbers");
        });
        parsed.at_most("a cast of texts", SYSTEMS);
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let scale = 0.5f32.to_le_bytes();
        let onnx = is_of(&mut || {
            let input = Tensor::new(&[N], DataType::Float, &bytes[..]).expect("so many");
            for to in [DataType::String, DataType::Float8E4M3FN, DataType::Int4] {
                _ = Cast::new(21, to, &[]).expect("a valid operator").run(&input).expect("real numbers");
            }
            let scale = Tensor::new(&[], DataType::Float, &scale[..]).expect("one");
            let codes =
                QuantizeLinear::new(21, &[]).and_then(|q| q.run(&input, &scale, None)).expect("floats");
            _ = DequantizeLinear::new(21, &[]).and_then(|d| d.run(&codes, &scale, None)).expect("codes");
        });
        onnx.at_most("an operator of ONNX", SYSTEMS);
        let zarr = is_of(&mut || {
            let map = [(0x3F80_0000, 7), (0x7FC0_0000, 9)];
            let rule = Some(Overflow::Saturate);
            let caster = ValueCaster::new(DType::F32, DType::U8, Rounding::NearestEven, rule, &map);
            caster.and_then(|caster| caster.cast(&bytes, &mut vec![0; N], N)).expect("finite numbers");
        });
        zarr.at_most("cast_value", SYSTEMS);
    }

    /// The stacks of every pair of each scheme, with scales found and given, in registers and on the reference; of floats, by each profile.
    fn stacks_of_scaled_casts() {
        const SHAPE: [usize; 2] = [16, 640];
        let n = SHAPE[0] * SHAPE[1];
        let data = bytes(16 * n);
        let (mut codes, mut narrow, mut back) = (vec![0; 16 * n], vec![0; n], vec![0; 16 * n]);
        let (mut scales, mut others) = (vec![0; 8 * n], vec![0; n]);
        let [mut casts, mut reports] = [Peak::NONE; 2];
        let plain = CastOptions::new();
        let schemes = [
            (Scaling::mx(), plain),
            (Scaling::mx(), plain.stochastic(7, 0)),
            (Scaling::nvfp4(), plain),
            (Scaling::deepseek(), plain),
            (Scaling::per_axis(0), plain),
        ];
        let profiles = Profile::ALL.map(|profile| (Scaling::per_tensor(DType::F32).profile(profile), plain));
        for (from, to) in pairs() {
            let profiles = matches!(from.kind(), Kind::Float(_)).then_some(profiles).into_iter().flatten();
            for (scaling, options) in schemes.into_iter().chain(profiles) {
                let size = |dtype| bridge::size(dtype, n);
                let (data, codes, back) =
                    (&data[..size(from)], &mut codes[..size(to)], &mut back[..size(from)]);
                let mut quantizer = None;
                casts.of((from, to), || {
                    let Ok(q) = Quantizer::new(from, to, &scaling, &options) else { return };
                    let bytes = q.scale_bytes(&SHAPE).expect("a shape of whole blocks");
                    let scales = &mut scales[..bytes];
                    let found = q.quantize(data, &SHAPE, codes, scales);
                    q.quantize_given(data, &SHAPE, scales, None, codes).expect("sizes that fit");
                    // Some profiles cannot find scales.
                    match found {
                        Ok(_) => quantizer = Some((q, bytes)),
                        Err(error) => assert!(matches!(error, scaled::Error::ProfileNeeds { .. }), "{error}"),
                    }
                });
                let Some((q, bytes)) = quantizer else { continue };
                let scales = &mut scales[..bytes];
                casts.of((to, from), || {
                    let Ok(d) = Dequantizer::new(to, from, &scaling, &options) else { return };
                    d.dequantize(codes, &SHAPE, scales, None, back).expect("sizes that fit");
                });
                reports.of((from, to), || {
                    q.losses(data, &SHAPE, codes, scales, None, None).expect("sizes that fit");
                    q.quantize_losses(data, &SHAPE, codes, scales, None).expect("as above");
                });
                let (codes, narrow, others) = (&codes[..], &mut narrow[..n / 2], &mut others[..n / 32]);
                let mut requantizer = None;
                casts.of((to, DType::F4E2M1), || {
                    let pair = (DType::F4E2M1, &Scaling::mx());
                    let Ok(r) = Requantizer::new((to, &scaling), pair, &options) else { return };
                    r.requantize(codes, &SHAPE, scales, None, narrow, others).expect("sizes that fit");
                    requantizer = Some(r);
                });
                let Some(r) = requantizer else { continue };
                reports.of((to, DType::F4E2M1), || {
                    let made = (&narrow[..], &others[..]);
                    r.losses(codes, &SHAPE, scales, None, made, None).expect("sizes that fit");
                    let made = (&mut narrow[..], &mut others[..]);
                    r.requantize_losses(codes, &SHAPE, scales, None, made, None).expect("as above");
                });
            }
        }
        casts.at_most("a scaled cast", SCALED);
        reports.at_most("a report of what a scaled cast has lost", SCALED);
    }
}
