//! A patched cast: the loop that NumPy gets for it.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use lanecast::{CastOptions, Caster, DType, Packing};

use super::numpy::{
    Asked, Aux, Chosen, Context, GetLoop, Kind, Loop, Method, REQUIRES_PYAPI, RUNTIME_FLAGS, Registered,
    SAME_VALUE,
};
use super::scan::{self, Found, Rules};

/// For each loop, the least of these numbers of elements is found that a kernel casts faster than the original.
const LADDER: [usize; 9] = [8, 16, 32, 64, 128, 256, 512, 1024, 4096];
/// The index at which the search begins.
const MIDDLE: usize = 3;
/// How many elements the memory for timing has room for: the last of the ladder.
const SCRATCH: usize = LADDER[LADDER.len() - 1];
/// Strided elements are timed at this many times their size apart.
const SPREAD: usize = 3;
/// A kernel must be this many times as fast as the original, so that it does not win by chance.
const MARGIN: f64 = 1.15;
/// By how many nanoseconds a kernel is slower in a single call than in the sequence of calls by which it is timed: about 80, measured with
/// calls by NumPy of 20 and 47 elements, of float16 to and from integers.
const FIRST: f64 = 100.0;
/// As [`FIRST`], if NumPy warns when it chooses a loop, after which nothing of a kernel is left in the caches of code and branches.
const FIRST_WARNED: f64 = 400.0;
/// An original that takes fewer nanoseconds per element than this may be faster than a kernel, whatever the number of elements.
const QUICK: f64 = 2.0;
/// A kernel must be this many times as fast as an original below [`QUICK`]: there is little to gain, and the addresses of buffers make as
/// much of a difference.
const WORTH: f64 = 1.75;
/// As [`QUICK`] and [`WORTH`], for the fastest originals: their calls of 20 elements take 8 ns, and in one of three processes 1 ns more if
/// any code runs before the loop.
const QUICKEST: f64 = 0.2;
const WORTH_OF_QUICKEST: f64 = 2.5;
/// How many runs are timed, of which the fastest counts, and how many nanoseconds each takes at least.
const GLANCE: (usize, f64) = (3, 400.0);
/// As [`GLANCE`], for a second, longer timing if the first one does not decide: a loop that has run few times is slower, until its branches
/// are predicted.
const LOOK: (usize, f64) = (3, 2000.0);
/// The first timing decides if the kernel is this many times as fast.
const CLEAR: f64 = 1.7;
/// [`Variant::few`] if all calls are left to the original, which is as fast.
const NEVER: isize = isize::MAX;
/// [`Variant::few`] if no calls are left to the original, which gives other results.
const ALWAYS: isize = 0;
/// The elements of a block that is scanned and then cast, and the most bytes of its source, so that it stays in L1.
const BLOCK: usize = 2048;
const BLOCK_BYTES: usize = 8 * BLOCK;
/// How many elements a thread takes at a time.
const SHARE: usize = 64 * BLOCK;
/// The elements of a block that is not contiguous, and is copied to or from a tile.
const TILE: usize = 512;
/// The elements of the first block of a call of several, and of a block after one that the original has cast: that block is likely to be
/// left to it, too, which a scan of few elements shows.
const PROBE: usize = 128;
/// At most this many elements are left to the original without a scan.
const UNSEEN: usize = 64 * BLOCK;
/// The original casts at most this many elements to find one that raises a flag; then it casts the whole block.
const TRIES: u32 = 64;
/// Numbers by which a cast is proven: ties and their neighbours, which tell one rounding from two, what is beyond the range of integers and
/// of floats, and NaN.
const HARD: [f64; 42] = {
    const TINY: f64 = 1.0 / (1u64 << 40) as f64;
    [
        0.0,
        -0.0,
        1.0,
        2.0,
        3.0,
        -1.0,
        -2.5,
        0.5,
        1.03125 + TINY,
        1.0625,
        1.0625 + TINY,
        1.125 + TINY,
        1.1875,
        1.25 + TINY,
        1.25 - TINY,
        5.0 + TINY,
        1.0 + 1.0 / 256.0 + TINY,
        1.0 + 3.0 / 256.0 - TINY,
        1.0 + 1.0 / 2048.0 + TINY,
        -7.5,
        -8.0,
        -9.0,
        15.5,
        16.0,
        100.0,
        127.0,
        200.0,
        -129.0,
        448.0,
        465.0,
        65519.0,
        65520.0,
        122880.0,
        1e-5,
        1e-7,
        1e-40,
        16777217.0,
        16842753.0,
        2147483583.0,
        4e9,
        1e19,
        f64::NAN,
    ]
};
/// The size of the largest element.
const WIDEST: usize = 16;
/// From this many bytes read and written on, several threads cast, if they may.
const THREADED: usize = 8 << 20;

/// Whether a context of NumPy has flags: see [`Context`].
pub(super) static HAS_FLAGS: AtomicBool = AtomicBool::new(false);
/// Whether results have the bits of the original's.
pub(super) static EXACT: AtomicBool = AtomicBool::new(true);
/// For tests: calls of fewer elements than this are left to the originals. 0: the calls that these cast faster.
pub(super) static FEW: AtomicIsize = AtomicIsize::new(0);
/// How many threads a large cast may take; 0: as many as there are cores.
pub(super) static THREADS: AtomicUsize = AtomicUsize::new(1);

/// The size of the table, a power of two: many more than there are methods of casts, so that few searches go beyond the first slot.
const SLOTS_BITS: u32 = 14;
const SLOTS: usize = 1 << SLOTS_BITS;
/// A method that was ever patched, and its pair, which is stored before the method.
struct Slot {
    method: AtomicPtr<Method>,
    pair: AtomicPtr<Pair>,
}
/// A hash table with open addressing. Methods that NumPy has freed stay in it, and are never looked up again.
static TABLE: [Slot; SLOTS] =
    [const { Slot { method: AtomicPtr::new(ptr::null_mut()), pair: AtomicPtr::new(ptr::null_mut()) } };
        SLOTS];

/// Returns the first slot of a method: the high bits of this product depend on all bits of the address.
#[inline]
fn first_slot(method: *mut Method) -> usize {
    ((method.addr() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOTS_BITS)) as usize
}

/// Returns the slots of a method, in the order in which they are searched.
fn slots(method: *mut Method) -> impl Iterator<Item = &'static Slot> {
    let first = first_slot(method);
    (0..SLOTS).map(move |i| &TABLE[(first + i) % SLOTS])
}

/// Returns the pair of a method, if it was ever patched.
pub(super) fn find(method: *mut Method) -> Option<&'static Pair> {
    for slot in slots(method) {
        let known = slot.method.load(Ordering::Acquire);
        if known == method {
            // SAFETY: pairs are never freed.
            return unsafe { slot.pair.load(Ordering::Relaxed).as_ref() };
        }
        if known.is_null() {
            break;
        }
    }
    None
}

/// Enters a pair in the table. Returns false if there is no room. Only to be called under the lock of `patch`.
pub(super) fn enter(pair: &'static Pair) -> bool {
    let Some(free) = slots(pair.method).find(|slot| slot.method.load(Ordering::Relaxed).is_null()) else {
        return false;
    };
    free.pair.store(ptr::from_ref(pair).cast_mut(), Ordering::Relaxed);
    free.method.store(pair.method, Ordering::Release);
    true
}

/// One of the original's loops, and ours in its place: the auxiliary data of our loop, which NumPy hands from the choice of a loop to the
/// loop, and which are never freed. They take one cache line, as NumPy does so much around each call that no more is left in L1.
#[repr(C, align(64))]
pub(super) struct Variant {
    aux: Aux,
    /// Calls of fewer elements are left to the original, which casts them in the time that calling a kernel takes.
    few: AtomicIsize,
    /// The original loop, and its auxiliary data.
    original: Loop,
    original_aux: *mut Aux,
    pair: *const Pair,
}

impl Variant {
    fn new((original, original_aux): Chosen, own: Loop) -> Self {
        Self {
            aux: Aux { free: Some(keep), clone: Some(same), own: Some(own), reserved: ptr::null_mut() },
            few: AtomicIsize::new(NEVER),
            original,
            original_aux,
            pair: ptr::null(),
        }
    }

    /// Runs the loop that NumPy gets, for `n` elements.
    ///
    /// # Safety
    /// As that of a loop of NumPy.
    unsafe fn run_own(
        &self,
        context: *mut Context,
        data: [*mut u8; 2],
        n: usize,
        strides: [isize; 2],
    ) -> c_int {
        let (n, aux) = (n as isize, ptr::from_ref(self).cast_mut().cast());
        // SAFETY: the caller's promise; the auxiliary data are those of the loop.
        self.aux
            .own
            .map_or(-1, |own| unsafe { own(context, data.as_ptr(), &raw const n, strides.as_ptr(), aux) })
    }

    /// Runs the original loop, for `n` elements.
    ///
    /// # Safety
    /// As that of a loop of NumPy.
    #[inline]
    unsafe fn run(
        &self,
        context: *mut Context,
        [src, dst]: [*mut u8; 2],
        n: usize,
        strides: [isize; 2],
    ) -> c_int {
        let (data, n) = ([src, dst], n as isize);
        // SAFETY: the caller's promise: NumPy would have called it so.
        unsafe { (self.original)(context, data.as_ptr(), &raw const n, strides.as_ptr(), self.original_aux) }
    }
}

/// Returns the four loops of a method: strided, contiguous, and both for unaligned elements. Those of registered dtypes were chosen by it,
/// and their auxiliary data are kept.
///
/// # Safety
/// The layout of the method was proven, and the auxiliary data were made for this pair alone.
unsafe fn originals(method: *mut Method, asked: Option<Asked>) -> [Option<Chosen>; 4] {
    let Some(Asked { chosen: [strided, dense], .. }) = asked else {
        // SAFETY: the caller's promise.
        let loops = unsafe {
            [
                (*method).strided,
                (*method).contiguous,
                (*method).unaligned_strided,
                (*method).unaligned_contiguous,
            ]
        };
        return loops.map(|chosen| chosen.map(|chosen| (chosen, ptr::null_mut())));
    };
    for (_, aux) in [strided, dense] {
        // SAFETY: the caller's promise. NumPy may be asked to free and to clone these data, and from here on does neither.
        if let Some(aux) = unsafe { aux.as_mut() } {
            aux.free = Some(keep);
            aux.clone = Some(same);
        }
    }
    // Loops of registered dtypes are never called with unaligned elements.
    [strided, dense, strided, dense].map(Some)
}

/// A cast that is patched, or was. It is never freed, because its loops may be running. The fields that every choice of a loop reads come
/// first, in one cache line.
#[repr(C)]
pub(super) struct Pair {
    pub(super) method: *mut Method,
    pub(super) original: GetLoop,
    sizes: [usize; 2],
    /// The mask of the method's flags that are flags of its loops.
    flags: c_int,
    pub(super) kind: Kind,
    /// Whether the original warns when it chooses a loop, as for complex to real.
    warns: bool,
    variants: [Variant; 4],
    /// From how many elements on a kernel is faster, for each variant; 0 if that was not measured yet.
    measured: [AtomicIsize; 4],
    pub(super) from: DType,
    pub(super) to: DType,
    /// The first of two casts, to float32, if the original casts by way of that.
    first: Option<Caster>,
    caster: Caster,
    /// The cast with one rounding, for `exact=False`.
    direct: Caster,
    rules: Option<Rules>,
    /// Why the cast cannot be patched with `exact=True`, if it cannot.
    inexact: OnceLock<&'static str>,
    parts: usize,
    pub(super) calls: AtomicU64,
    pub(super) originals: AtomicU64,
}

// SAFETY: the pointers are to methods and functions of NumPy, which live as long as the process.
unsafe impl Sync for Pair {}
// SAFETY: as above.
unsafe impl Send for Pair {}

unsafe extern "C" fn keep(_: *mut Aux) {}

unsafe extern "C" fn same(aux: *mut Aux) -> *mut Aux {
    aux
}

impl Pair {
    /// Makes the pair of two dtypes. The error says why the cast cannot be patched.
    pub(super) fn new(
        [from, to]: [DType; 2],
        [from_ml, to_ml]: [bool; 2],
        method: *mut Method,
        kind: Kind,
        asked: Option<Asked>,
    ) -> Result<&'static Self, String> {
        let options = if from_ml || to_ml { CastOptions::ml_dtypes() } else { CastOptions::numpy() };
        let options = options.src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
        let caster = |from, to| Caster::new(from, to, &options).map_err(|error| error.to_string());
        let direct = caster(from, to)?;
        let (mut exact, mut first) = (direct, None);
        let is_declared = kind == Kind::Declared;
        let is_wide_int = matches!(from, DType::U32 | DType::I32 | DType::U64 | DType::I64);
        let by_float32 = match to {
            _ if is_declared => false,
            DType::BF16 | DType::F8E8M0 => is_wide_int || from.part() == DType::F64,
            to => to_ml && from.part() == DType::F64 && to.float_format().is_some(),
        };
        if by_float32 {
            first = Some(caster(from, DType::F32)?);
            exact = caster(DType::F32, to)?;
        }
        let (rules, inexact) = match Rules::new(from, to, is_declared) {
            Ok(rules) => (rules, OnceLock::new()),
            Err(why) => (None, OnceLock::from(why)),
        };
        // SAFETY: the layout of the method was proven.
        let (original, loops) = unsafe {
            let original = (*method).get_strided_loop.load(Ordering::Acquire);
            (core::mem::transmute::<*mut c_void, GetLoop>(original), originals(method, asked))
        };
        let [Some(first_loop), Some(second_loop), Some(third_loop), Some(fourth_loop)] = loops else {
            return Err("NumPy has no loop for it".to_owned());
        };
        // Loops that may set an exception are called with the GIL, as NumPy calls them.
        let is_plain = asked.is_some_and(|asked| asked.is_plain);
        let flags = if is_plain { RUNTIME_FLAGS & !REQUIRES_PYAPI } else { RUNTIME_FLAGS };
        let dense_loop: Loop = if is_plain { registered_loop } else { cast_loop };
        let pair = Box::leak(Box::new(Self {
            from,
            to,
            kind,
            method,
            original,
            first,
            caster: exact,
            direct,
            rules,
            inexact,
            warns: from != from.part() && to == to.part() && to != DType::Bool,
            sizes: [from.itemsize(), to.itemsize()],
            parts: if from == from.part() { 1 } else { 2 },
            flags,
            variants: [
                Variant::new(first_loop, cast_loop),
                Variant::new(second_loop, dense_loop),
                Variant::new(third_loop, cast_loop),
                Variant::new(fourth_loop, dense_loop),
            ],
            measured: [const { AtomicIsize::new(0) }; 4],
            calls: AtomicU64::new(0),
            originals: AtomicU64::new(0),
        }));
        let this: *const Self = pair;
        for variant in &mut pair.variants {
            variant.pair = this;
        }
        Ok(pair)
    }

    /// Casts contiguous elements by our kernels.
    ///
    /// # Safety
    /// `n` elements are readable at `src` and writable at `dst`, and they do not overlap.
    #[inline]
    unsafe fn run_kernel(&self, src: *const u8, dst: *mut u8, n: usize, is_exact: bool) {
        // SAFETY: the caller's promise.
        let (source, result) = unsafe {
            (
                core::slice::from_raw_parts(src, n * self.sizes[0]),
                core::slice::from_raw_parts_mut(dst, n * self.sizes[1]),
            )
        };
        let done = match &self.first {
            Some(first) if is_exact => self.run_two_steps(first, source, result),
            _ => if is_exact { &self.caster } else { &self.direct }.cast(source, result, n),
        };
        debug_assert!(done.is_ok(), "the sizes are those of the dtypes");
    }

    /// Casts by way of float32, in blocks that stay in L1.
    #[inline(never)]
    fn run_two_steps(&self, first: &Caster, source: &[u8], result: &mut [u8]) -> Result<(), lanecast::Error> {
        let mut between = [MaybeUninit::<u8>::uninit(); 4 * BLOCK];
        let blocks = source.chunks(BLOCK * self.sizes[0]).zip(result.chunks_mut(BLOCK * self.sizes[1]));
        for (source, result) in blocks {
            let n = source.len() / self.sizes[0];
            let between = first.cast_uninit(source, &mut between[..4 * n], n)?;
            self.caster.cast(between, result, n)?;
        }
        Ok(())
    }

    /// Has the original cast single elements of a block that our kernels cast, until it has raised the flags that it would raise for the
    /// whole block. Returns false if that takes too long.
    ///
    /// # Safety
    /// As that of a loop of NumPy.
    #[expect(clippy::too_many_arguments, reason = "what a loop of NumPy has, and the block")]
    unsafe fn raise(
        &self,
        variant: &Variant,
        context: *mut Context,
        rules: &Rules,
        wanted: u32,
        block: &[u8],
        from: *mut u8,
        stride: isize,
    ) -> bool {
        let part = self.sizes[0] / self.parts;
        let mut scratch = [0u64; WIDEST / 8];
        for flag in [scan::INVALID, scan::OVERFLOW, scan::UNDERFLOW] {
            let Some((least, most)) = rules.range_of(flag).filter(|_| wanted & flag != 0) else { continue };
            let mut tries = 0;
            for (i, code) in block.chunks_exact(part).enumerate() {
                if !(least..=most).contains(&scan::magnitude(rules.reading, code)) {
                    continue;
                }
                let at = from.wrapping_offset((i / self.parts) as isize * stride);
                let to = scratch.as_mut_ptr().cast();
                let strides = [stride, self.sizes[1] as isize];
                // SAFETY: one element of the block, and room for a result.
                if unsafe { variant.run(context, [at, to], 1, strides) } < 0 {
                    return false;
                }
                if scan::raised() & flag != 0 {
                    break;
                }
                tries += 1;
                if tries > TRIES {
                    return false;
                }
            }
        }
        true
    }

    /// Casts the elements of a call, with the same results and flags as the original.
    ///
    /// # Safety
    /// As that of a loop of NumPy. Source and destination do not overlap, and neither do elements of the destination.
    unsafe fn run(
        &self,
        variant: &Variant,
        context: *mut Context,
        [src, dst]: [*mut u8; 2],
        n: usize,
        strides: [isize; 2],
        is_exact: bool,
    ) -> c_int {
        let dense = [0, 1].map(|i| strides[i] == self.sizes[i] as isize);
        let rules = if is_exact { self.rules.as_ref() } else { None };
        if dense == [true, true] {
            let threads = threads_for(n.saturating_mul(self.sizes[0] + self.sizes[1]));
            if threads > 1 {
                // SAFETY: the caller's promise.
                return unsafe { self.run_threads(variant, context, [src, dst], n, is_exact, threads) };
            }
        }
        if rules.is_none() && dense == [true, true] {
            // SAFETY: the caller's promise.
            unsafe { self.run_kernel(src, dst, n, is_exact) };
            return 0;
        }
        if rules.is_none() && self.first.is_none() && n >= TILE {
            let caster = if is_exact { &self.caster } else { &self.direct };
            // SAFETY: the caller's promise.
            let done = unsafe { caster.cast_strided_raw(src, &strides[..1], dst, &strides[1..], &[n]) };
            if done.is_ok() {
                return 0;
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            if dense == [true, true] {
                self.run_blocks::<true>(variant, context, [src, dst], n, strides, rules, is_exact)
            } else {
                self.run_blocks::<false>(variant, context, [src, dst], n, strides, rules, is_exact)
            }
        }
    }

    /// Scans and casts block after block, by way of tiles if the elements are not contiguous.
    ///
    /// # Safety
    /// As that of `run`.
    #[expect(clippy::too_many_arguments, reason = "what a loop of NumPy has, and the rules")]
    #[inline(never)]
    unsafe fn run_blocks<const DENSE: bool>(
        &self,
        variant: &Variant,
        context: *mut Context,
        [src, dst]: [*mut u8; 2],
        n: usize,
        strides: [isize; 2],
        rules: Option<&Rules>,
        is_exact: bool,
    ) -> c_int {
        let dense = [0, 1].map(|i| DENSE || strides[i] == self.sizes[i] as isize);
        let most = if DENSE { BLOCK.min(BLOCK_BYTES / self.sizes[0]) } else { TILE };
        let mut block = if rules.is_some() && n > most { PROBE } else { most };
        // Not initialised, which would take longer than casting a few elements.
        let mut tiles = [const { MaybeUninit::<[u64; TILE * WIDEST / 8]>::uninit() }; 2];
        // How many elements after a block that is left to the original are left to it without a scan: more each time, until a block is not
        // left to it.
        let mut unseen = 0;
        let mut at = 0;
        while at < n {
            let len = block.min(n - at);
            let [from, to] =
                [(src, 0), (dst, 1)].map(|(first, i)| first.wrapping_offset(at as isize * strides[i]));
            let [source, result] = &mut tiles;
            let source: *const u8 = if dense[0] {
                from
            } else {
                let tile = source.as_mut_ptr().cast::<u8>();
                // SAFETY: these are the elements of the block, and a tile with room for them.
                unsafe { copy::<true>(from, strides[0], tile, len, self.sizes[0]) };
                tile
            };
            if let Some(rules) = rules {
                // SAFETY: these are the elements of the block, in place or in the tile.
                let bytes = unsafe { core::slice::from_raw_parts(source, len * self.sizes[0]) };
                let found = rules.look(bytes);
                let is_original = match found {
                    Found::Nothing => false,
                    Found::Whole => {
                        count(&self.originals);
                        // SAFETY: the caller's promise. The source is unchanged, so all of it can be cast again.
                        return unsafe { variant.run(context, [src, dst], n, strides) };
                    }
                    Found::Block => true,
                    // SAFETY: the caller's promise, for one element after the other.
                    Found::Flags(wanted) => unsafe {
                        !self.raise(variant, context, rules, wanted, bytes, from, strides[0])
                    },
                };
                if is_original {
                    count(&self.originals);
                    let len = (len + unseen).min(n - at);
                    unseen = (4 * unseen).clamp(4 * PROBE, UNSEEN);
                    block = PROBE;
                    // SAFETY: the caller's promise.
                    if unsafe { variant.run(context, [from, to], len, strides) } < 0 {
                        return -1;
                    }
                    at += len;
                    continue;
                }
            }
            // SAFETY: these are the elements of the block, or tiles with room for them.
            unsafe {
                if dense[1] {
                    self.run_kernel(source, to, len, is_exact);
                } else {
                    let tile = result.as_mut_ptr().cast::<u8>();
                    self.run_kernel(source, tile, len, is_exact);
                    copy::<false>(to, strides[1], tile, len, self.sizes[1]);
                }
            }
            (block, unseen) = (most, 0);
            at += len;
        }
        0
    }
}

/// What threads have left to the calling thread.
#[derive(Default)]
struct Left {
    whole: AtomicBool,
    /// The first elements of blocks that are left to the original, or for which it must raise flags.
    blocks: Mutex<Vec<(usize, Found)>>,
}

/// Pointers that are used on several threads.
#[derive(Clone, Copy)]
struct Pointers([*mut u8; 2]);
// SAFETY: each thread has elements of its own.
unsafe impl Send for Pointers {}
// SAFETY: as above.
unsafe impl Sync for Pointers {}

impl Pair {
    /// Casts contiguous elements on several threads. Afterwards, the calling thread has the original cast what was left to it.
    ///
    /// # Safety
    /// As that of `run`.
    unsafe fn run_threads(
        &self,
        variant: &Variant,
        context: *mut Context,
        data: [*mut u8; 2],
        n: usize,
        is_exact: bool,
        threads: usize,
    ) -> c_int {
        let (next, left, pointers) = (AtomicUsize::new(0), Left::default(), Pointers(data));
        let rules = if is_exact { self.rules.as_ref() } else { None };
        let at = |start: usize| [0, 1].map(|i| { pointers }.0[i].wrapping_add(start * self.sizes[i]));
        let work = || {
            while !left.whole.load(Ordering::Relaxed) {
                let start = next.fetch_add(SHARE, Ordering::Relaxed);
                if start >= n {
                    break;
                }
                let mut mine = Vec::new();
                for start in (start..n.min(start + SHARE)).step_by(BLOCK) {
                    let (len, [from, to]) = (BLOCK.min(n - start), at(start));
                    // SAFETY: these are the elements of this block, which nobody else casts.
                    let block = unsafe { core::slice::from_raw_parts(from, len * self.sizes[0]) };
                    let found = rules.map_or(Found::Nothing, |rules| rules.look(block));
                    match found {
                        Found::Whole => return left.whole.store(true, Ordering::Relaxed),
                        Found::Nothing => {}
                        found => mine.push((start, found)),
                    }
                    if found != Found::Block {
                        // SAFETY: as above.
                        unsafe { self.run_kernel(from, to, len, is_exact) };
                    }
                }
                if !mine.is_empty() {
                    left.blocks.lock().unwrap_or_else(PoisonError::into_inner).append(&mut mine);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(n.div_ceil(SHARE)) {
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        let strides = self.sizes.map(|size| size as isize);
        if left.whole.into_inner() {
            count(&self.originals);
            // SAFETY: the caller's promise. The source is unchanged, so all of it can be cast again.
            return unsafe { variant.run(context, data, n, strides) };
        }
        let mut blocks = left.blocks.into_inner().unwrap_or_else(PoisonError::into_inner);
        blocks.sort_unstable_by_key(|block| block.0);
        for (start, found) in blocks {
            let (len, [from, to]) = (BLOCK.min(n - start), at(start));
            let is_ours = match (found, rules) {
                (Found::Flags(wanted), Some(rules)) => {
                    let wanted = wanted & !scan::raised();
                    // SAFETY: the elements of this block.
                    unsafe {
                        let bytes = core::slice::from_raw_parts(from, len * self.sizes[0]);
                        self.raise(variant, context, rules, wanted, bytes, from, strides[0])
                    }
                }
                _ => false,
            };
            if !is_ours {
                count(&self.originals);
                // SAFETY: the caller's promise, for this block.
                if unsafe { variant.run(context, [from, to], len, strides) } < 0 {
                    return -1;
                }
            }
        }
        0
    }
}

/// Copies elements that are `stride` bytes apart into a tile (`IN`), or from a tile to there.
///
/// # Safety
/// If `IN`, the elements are readable, and the tile has room for them; otherwise the tile has them, and the elements are writable.
unsafe fn copy<const IN: bool>(apart: *mut u8, stride: isize, tile: *mut u8, n: usize, size: usize) {
    /// Copies elements of `N` bytes.
    unsafe fn run<const IN: bool, const N: usize>(apart: *mut u8, stride: isize, tile: *mut u8, n: usize) {
        for i in 0..n {
            let apart = apart.wrapping_offset(i as isize * stride).cast::<[u8; N]>();
            // SAFETY: the caller's promise.
            unsafe {
                let packed = tile.cast::<[u8; N]>().add(i);
                if IN { packed.write(apart.read()) } else { apart.write(packed.read()) }
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => run::<IN, 1>(apart, stride, tile, n),
            2 => run::<IN, 2>(apart, stride, tile, n),
            4 => run::<IN, 4>(apart, stride, tile, n),
            8 => run::<IN, 8>(apart, stride, tile, n),
            _ => run::<IN, 16>(apart, stride, tile, n),
        }
    }
}

/// Whether source and destination overlap.
#[inline]
fn overlap(data: [*mut u8; 2], n: usize, strides: [isize; 2], sizes: [usize; 2]) -> bool {
    // Arrays are within the address space: nothing overflows.
    let reach = |i: usize| {
        let (first, way) = (data[i].addr() as isize, (n as isize - 1).wrapping_mul(strides[i]));
        (first.wrapping_add(way.min(0)), first.wrapping_add(way.max(0)).wrapping_add(sizes[i] as isize))
    };
    let (from, to) = (reach(0), reach(1));
    from.0 < to.1 && to.0 < from.1
}

/// Increments a counter. Two threads at once may count as one: an exact counter would take as long as casting a few elements.
#[inline]
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// The loop of patched casts. For a call that is left to the original, it adds only a comparison and a jump, without a stack frame.
pub(super) unsafe extern "C" fn cast_loop(
    context: *mut Context,
    data: *const *mut u8,
    dimensions: *const isize,
    strides: *const isize,
    aux: *mut Aux,
) -> c_int {
    // SAFETY: NumPy hands over one dimension, two pointers and two strides, and the auxiliary data that came with this loop.
    unsafe {
        let variant = &*aux.cast::<Variant>();
        if *dimensions < variant.few.load(Ordering::Relaxed) {
            return (variant.original)(context, data, dimensions, strides, variant.original_aux);
        }
        cast_many(context, data, dimensions, strides, aux)
    }
}

/// The loop of patched casts for contiguous elements of registered dtypes. Their original loop only calls a function, which is called from
/// here instead, so that few elements take no more calls and jumps than without the patch.
unsafe extern "C" fn registered_loop(
    context: *mut Context,
    data: *const *mut u8,
    dimensions: *const isize,
    strides: *const isize,
    aux: *mut Aux,
) -> c_int {
    // SAFETY: as above; the auxiliary data of the original were proven to be these.
    unsafe {
        let variant = &*aux.cast::<Variant>();
        let n = *dimensions;
        if n >= variant.few.load(Ordering::Relaxed) {
            return cast_many(context, data, dimensions, strides, aux);
        }
        let Registered { cast, arrays, .. } = &*variant.original_aux.cast::<Registered>();
        cast(*data, *data.add(1), n, arrays[0], arrays[1]);
        0
    }
}

/// The part of the loop that calls kernels. Not inlined, so that calls of few elements neither save its registers nor make its stack frame.
///
/// # Safety
/// As that of the loop.
#[inline(never)]
unsafe extern "C" fn cast_many(
    context: *mut Context,
    data: *const *mut u8,
    dimensions: *const isize,
    strides: *const isize,
    aux: *mut Aux,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let variant = &*aux.cast::<Variant>();
        let pair = &*variant.pair;
        let (data, strides) = ([*data, *data.add(1)], [*strides, *strides.add(1)]);
        let elements = usize::try_from(*dimensions).unwrap_or(0);
        let is_exact = EXACT.load(Ordering::Relaxed);
        count(&pair.calls);
        let is_same_value = HAS_FLAGS.load(Ordering::Relaxed) && (*context).flags & SAME_VALUE != 0;
        let lies_over =
            strides[1].unsigned_abs() < pair.sizes[1] || overlap(data, elements, strides, pair.sizes);
        // If elements overlap, the result depends on the order in which they are cast.
        if is_same_value || (is_exact && (lies_over || pair.inexact.get().is_some())) {
            count(&pair.originals);
            return variant.run(context, data, elements, strides);
        }
        if !lies_over {
            return pair.run(variant, context, data, elements, strides, is_exact);
        }
        for i in 0..elements as isize {
            let [from, to] = [0, 1].map(|side| data[side].wrapping_offset(i * strides[side]));
            let mut result = [0u8; WIDEST];
            pair.run_kernel(from, result.as_mut_ptr(), 1, false);
            ptr::copy_nonoverlapping(result.as_ptr(), to, pair.sizes[1]);
        }
        0
    }
}

/// The function by which NumPy chooses the loop of a patched cast. It is short and calls nothing: NumPy does so much between two choices
/// that neither its code nor the data that it reads are in a near cache.
pub(super) unsafe extern "C" fn get_loop(
    context: *mut Context,
    aligned: c_int,
    move_references: c_int,
    strides: *const isize,
    out_loop: *mut Option<Loop>,
    out_aux: *mut *mut Aux,
    flags: *mut c_int,
) -> c_int {
    // SAFETY: a context of NumPy has a method, and the pointers for the results are writable.
    unsafe {
        let method = (*context).method;
        let slot = &TABLE[first_slot(method)];
        if slot.method.load(Ordering::Acquire) == method && aligned != 0 {
            let pair = &*slot.pair.load(Ordering::Relaxed);
            if !pair.warns {
                return pair.choose(0, strides, out_loop, out_aux, flags);
            }
        }
        get_other_loop(context, aligned, move_references, strides, out_loop, out_aux, flags)
    }
}

/// As [`get_loop`], for methods that are not in their first slot, unaligned elements, and casts that warn.
///
/// # Safety
/// As that of [`get_loop`].
#[cold]
#[inline(never)]
unsafe extern "C" fn get_other_loop(
    context: *mut Context,
    aligned: c_int,
    move_references: c_int,
    strides: *const isize,
    out_loop: *mut Option<Loop>,
    out_aux: *mut *mut Aux,
    flags: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(pair) = find((*context).method) else {
            // Only methods of pairs in the table get this function.
            debug_assert!(false, "a cast that nobody patched");
            return -1;
        };
        let is_copied = aligned == 0 && pair.kind != Kind::Numeric;
        if pair.warns || is_copied {
            let answer =
                (pair.original)(context, aligned, move_references, strides, out_loop, out_aux, flags);
            if answer < 0 || is_copied {
                return answer;
            }
            let theirs = *out_aux;
            if !theirs.is_null()
                && let Some(free) = (*theirs).free
            {
                free(theirs);
            }
        }
        pair.choose(if aligned == 0 { 2 } else { 0 }, strides, out_loop, out_aux, flags)
    }
}

impl Pair {
    /// Chooses the loop for elements with these strides, between the variants `first` and `first + 1`. The original is not called, which
    /// would take longer than casting a few elements: what it would choose was proven.
    ///
    /// # Safety
    /// There are two strides, and the pointers for the results are writable.
    #[inline]
    unsafe fn choose(
        &self,
        first: usize,
        strides: *const isize,
        out_loop: *mut Option<Loop>,
        out_aux: *mut *mut Aux,
        flags: *mut c_int,
    ) -> c_int {
        // SAFETY: the caller's promise. The method lives as long as the process.
        unsafe {
            *flags = (*self.method).flags & self.flags;
            let apart = (*strides ^ self.sizes[0] as isize) | (*strides.add(1) ^ self.sizes[1] as isize);
            let variant = &self.variants[first + usize::from(apart == 0)];
            if variant.few.load(Ordering::Relaxed) == NEVER {
                // The original loop itself, with auxiliary data that are never freed, or none.
                *out_loop = Some(variant.original);
                *out_aux = variant.original_aux;
            } else {
                *out_loop = variant.aux.own;
                *out_aux = ptr::from_ref(variant).cast_mut().cast();
            }
        }
        0
    }
}

impl Pair {
    /// Returns the reason why the cast is not patched, if there is one.
    pub(super) fn refused(&self, is_exact: bool) -> Option<&'static str> {
        self.inexact.get().copied().filter(|_| is_exact)
    }

    /// Casts test vectors by the original and by our loops. Fails if the results differ.
    ///
    /// # Safety
    /// The caller has the GIL, and the descriptors are those of the pair.
    pub(super) unsafe fn prove(
        &self,
        descriptors: [*mut numpy::npyffi::PyArray_Descr; 2],
    ) -> Result<(), String> {
        const N: usize = HARD.len();
        let mut context = Context::new(self.method, descriptors.as_ptr());
        // SAFETY: as that of this function.
        if unsafe { self.rounds_otherwise(&mut context)? } {
            _ = self.inexact.set("this release of ml_dtypes rounds ties to float8_e8m0fnu differently");
        }
        let mut source = [0u64; N * WIDEST / 8];
        let strides = self.sizes.map(|size| size as isize);
        let src = source.as_mut_ptr().cast();
        // SAFETY: `source` has room for `N` elements.
        unsafe { self.fill(src, N, strides[0], |i| HARD[i])? };
        let mut results = [[0xA5A5_A5A5_A5A5_A5A5u64; N * WIDEST / 8]; 3];
        let [theirs, ours, few] = &mut results;
        for variant in self.variants_of_kind() {
            // SAFETY: all buffers have room for `N` elements, and the loops are those of the dtypes.
            let done = unsafe {
                let context = &raw mut context;
                let expected = variant.run(context, [src, theirs.as_mut_ptr().cast()], N, strides);
                variant.few.store(NEVER, Ordering::Relaxed);
                let left = variant.run_own(context, [src, few.as_mut_ptr().cast()], N, strides);
                let found = match self.inexact.get() {
                    None => self.run(variant, context, [src, ours.as_mut_ptr().cast()], N, strides, true),
                    Some(_) => variant.run(context, [src, ours.as_mut_ptr().cast()], N, strides),
                };
                [expected, left, found] == [0; 3]
            };
            if !done || theirs != ours || theirs != few {
                return Err("the kernel and the original give different results".to_owned());
            }
        }
        self.calls.store(0, Ordering::Relaxed);
        self.originals.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the original rounds 3, midway between two values of float8_e8m0fnu, in another way, as ml_dtypes 0.5.0 does.
    ///
    /// # Safety
    /// As that of `prove`. The context is that of the method.
    unsafe fn rounds_otherwise(&self, context: &mut Context) -> Result<bool, String> {
        if self.to != DType::F8E8M0 || self.inexact.get().is_some() {
            return Ok(false);
        }
        let (mut source, mut results) = ([0u64; WIDEST / 8], [0u8; 2]);
        let (src, strides) = (source.as_mut_ptr().cast(), self.sizes.map(|size| size as isize));
        // SAFETY: there is one element, of one byte in the destination.
        unsafe {
            self.fill(src, 1, strides[0], |_| 3.0)?;
            self.variants[1].run(context, [src, &raw mut results[0]], 1, strides);
            self.run_kernel(src, &raw mut results[1], 1, true);
        }
        Ok(results[0] != results[1])
    }

    /// Returns from how many elements on kernels cast, if these are contiguous and if not. None: never.
    pub(super) fn least(&self) -> [Option<isize>; 2] {
        [1, 0].map(|i| {
            let few = self.variants[i].few.load(Ordering::Relaxed);
            (few != NEVER).then_some(few)
        })
    }

    fn variants_of_kind(&self) -> &[Variant] {
        &self.variants[..if self.kind == Kind::Numeric { 4 } else { 2 }]
    }

    /// Writes numbers, or what the dtype has in their place, as elements of the source.
    ///
    /// # Safety
    /// `n` elements, `stride` bytes apart, are writable.
    unsafe fn fill(
        &self,
        to: *mut u8,
        n: usize,
        stride: isize,
        number: impl FnMut(usize) -> f64,
    ) -> Result<(), String> {
        let numbers: Vec<f64> = (0..n).map(number).collect();
        let options = CastOptions::new().dst_packing(Packing::OnePerByte);
        let caster = Caster::new(DType::F64, self.from, &options).map_err(|error| error.to_string())?;
        // SAFETY: the caller's promise.
        unsafe { caster.cast_strided_raw(numbers.as_ptr().cast(), &[8], to, &[stride], &[n]) }
            .map_err(|error| error.to_string())
    }

    /// Decides below how many elements a call is left to the original. If `exact`, these are the calls that it casts faster, which is
    /// measured once; otherwise no calls are left to it.
    ///
    /// # Safety
    /// As that of `prove`.
    pub(super) unsafe fn leave_few(
        &self,
        descriptors: [*mut numpy::npyffi::PyArray_Descr; 2],
        is_exact: bool,
        scratch: &mut Scratch,
    ) {
        let least = FEW.load(Ordering::Relaxed);
        if !is_exact || least > 0 {
            let few = if is_exact { least } else { ALWAYS };
            self.variants.iter().for_each(|variant| variant.few.store(few, Ordering::Relaxed));
            return;
        }
        let mut is_new = false;
        for (i, variant) in self.variants_of_kind().iter().enumerate() {
            let mut few = self.measured[i].load(Ordering::Relaxed);
            if few == 0 {
                let spread = if i % 2 == 1 { 1 } else { SPREAD };
                let mut context = Context::new(self.method, descriptors.as_ptr());
                // SAFETY: the caller's promise.
                few = unsafe { self.measure(variant, &mut context, spread, scratch) };
                self.measured[i].store(few, Ordering::Relaxed);
                is_new = true;
            }
            variant.few.store(few, Ordering::Relaxed);
        }
        if is_new {
            self.calls.store(0, Ordering::Relaxed);
            self.originals.store(0, Ordering::Relaxed);
        }
    }

    /// Measures from how many elements on a kernel is faster than the original, for elements that are `spread` times their size apart.
    ///
    /// # Safety
    /// As that of `leave_few`.
    unsafe fn measure(
        &self,
        variant: &Variant,
        context: &mut Context,
        spread: usize,
        scratch: &mut Scratch,
    ) -> isize {
        let strides = self.sizes.map(|size| (size * spread) as isize);
        let data: [*mut u8; 2] = [scratch.0.as_mut_ptr().cast(), scratch.1.as_mut_ptr().cast()];
        // 1 and 2, in an order that branch predictors cannot learn; without zeros, for which originals from float16 take 1.2 to 1.4 times
        // as long, and most others less.
        let small = |i: usize| f64::from(1 + ((((i * i) >> 3) ^ ((i * 5) >> 2)) % 7 % 2) as u8);
        // SAFETY: the scratch memory has room for `SCRATCH` elements.
        if unsafe { self.fill(data[0], SCRATCH, strides[0], small) }.is_err() {
            return NEVER;
        }
        // 0 for legacy casts, for which choosing our loop saves more than that.
        let first = match self.kind {
            _ if self.warns => FIRST_WARNED,
            Kind::Numeric | Kind::Declared => FIRST,
            Kind::Legacy => 0.0,
        };
        let mut compare = |n: usize| {
            let context: *mut Context = context;
            let count = n as isize;
            // SAFETY: the scratch memory has `n` elements, and the loop is that of the dtypes.
            let mut original = || unsafe {
                variant.run(context, data, n, strides);
            };
            // SAFETY: as above.
            let mut ours = || unsafe {
                let aux = ptr::from_ref(variant).cast_mut().cast();
                cast_many(context, data.as_ptr(), &raw const count, strides.as_ptr(), aux);
            };
            let mut took = time(n, [&mut original, &mut ours], GLANCE);
            let wins = |[original, ours]: [f64; 2], margin| ours * margin + first < original;
            let per_element = took[0] / n as f64;
            let margin = match per_element {
                ..QUICKEST if n == SCRATCH => WORTH_OF_QUICKEST,
                ..QUICK if n == SCRATCH => WORTH,
                _ => MARGIN,
            };
            if wins(took, margin) && !wins(took, margin.max(CLEAR)) {
                took = time(n, [&mut original, &mut ours], LOOK);
            }
            (wins(took, margin), per_element)
        };
        // Not only of whole registers: the elements that are left over cost a kernel more than the original.
        let mut is_faster = |n: usize| match compare(n) {
            (true, per_element) if n < SCRATCH => (compare(n + n / 2 - 1).0, per_element),
            answer => answer,
        };
        let mut step = MIDDLE;
        let (wins, per_element) = is_faster(LADDER[step]);
        if wins {
            while step > 0 && is_faster(LADDER[step - 1]).0 {
                step -= 1;
            }
        } else {
            loop {
                step += 1;
                let Some(&n) = LADDER.get(step) else { return NEVER };
                if is_faster(n).0 {
                    break;
                }
            }
        }
        // A kernel may be faster than a fast original up to some number of elements, and slower from there on.
        if per_element < QUICK && ![1024, SCRATCH].iter().all(|&n| n < LADDER[step] || is_faster(n).0) {
            return NEVER;
        }
        LADDER[step] as isize
    }
}

/// Returns how many nanoseconds each of two casts of `n` elements takes: the minimum of some runs, which take turns, so that other load on
/// the machine affects both.
fn time(n: usize, casts: [&mut dyn FnMut(); 2], (rounds, least): (usize, f64)) -> [f64; 2] {
    let mut turns = [(128 / n as u32).max(2); 2];
    let mut best = [f64::INFINITY; 2];
    for i in 0..2 * rounds {
        let which = i % 2;
        loop {
            let start = Instant::now();
            for _ in 0..turns[which] {
                casts[which]();
            }
            let took = start.elapsed().as_nanos() as f64;
            // The time that the clock itself takes must not matter.
            if took < least && turns[which] < 1 << 12 {
                turns[which] *= 4;
                continue;
            }
            best[which] = best[which].min(took / f64::from(turns[which]));
            break;
        }
    }
    best
}

/// Memory for timing casts.
pub(super) struct Scratch(Vec<u64>, Vec<u64>);

impl Scratch {
    pub(super) fn new() -> Self {
        let memory = || vec![0u64; SCRATCH * SPREAD * WIDEST / 8];
        Self(memory(), memory())
    }
}

/// Returns how many threads may cast `traffic` bytes, read and written together.
pub(super) fn threads_for(traffic: usize) -> usize {
    if traffic < THREADED {
        return 1;
    }
    match THREADS.load(Ordering::Relaxed) {
        0 => std::thread::available_parallelism().map_or(1, |most| most.get()),
        threads => threads,
    }
}
