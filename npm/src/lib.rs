//! The functions that the module exports to `js/index.js`. It has one job at a time, and room for one chunk of elements of the source and
//! one of the destination, so that its memory does not grow with the buffers, and chunks stay in the caches while they are copied and cast.
//!
//! `prepare` reads the job as text from the source's room: a line for each dtype, then one for each option. `run` casts a chunk. If they
//! fail, `error_length` bytes of text are in the destination's room.

#[cfg(feature = "scaled")]
mod scaled;

use std::cell::{Cell, RefCell, UnsafeCell};

use lanecast::checked::CastReport;
use lanecast::{
    ByteOrder, CastOptions, Caster, DType, E8m0Rounding, Isa, NanToFinite, Overflow, Packing, Rounding,
    Saturation,
};

/// The bytes of either room.
const ROOM: usize = 256 << 10;
/// The elements of a chunk are a multiple of this, so that they fill whole bytes, whatever their bits.
const GROUP: usize = 64;

/// Memory that the host writes and reads between two calls.
#[repr(C, align(64))]
struct Room(UnsafeCell<[u8; ROOM]>);

// SAFETY: the module has a single thread.
unsafe impl Sync for Room {}

static SOURCE: Room = Room(UnsafeCell::new([0; ROOM]));
static DESTINATION: Room = Room(UnsafeCell::new([0; ROOM]));

/// A cast, as the host asked for it.
struct Job {
    caster: Caster,
    options: CastOptions,
    /// The dtype and the packing of the source, and of the destination.
    sides: [(DType, Packing); 2],
}

thread_local! {
    static JOB: RefCell<Option<Job>> = const { RefCell::new(None) };
    static ERROR: Cell<usize> = const { Cell::new(0) };
    /// What [`report`] returns.
    static REPORT: Cell<[f64; 10]> = const { Cell::new([0.0; 10]) };
}

fn source() -> &'static [u8; ROOM] {
    // SAFETY: only the host writes it, between two calls, so nothing writes it while this borrow is used.
    unsafe { &*SOURCE.0.get() }
}

/// Calls a function with the destination's room.
fn with_destination<T>(run: impl FnOnce(&mut [u8; ROOM]) -> T) -> T {
    // SAFETY: the host reads it between two calls. During a call it is borrowed only here, and no closure `run` calls this function again.
    run(unsafe { &mut *DESTINATION.0.get() })
}

/// Leaves the text of an error in the destination's room, for the host.
fn fail(error: &dyn core::fmt::Display) {
    let text = error.to_string();
    let bytes = text.as_bytes().get(..ROOM).unwrap_or(text.as_bytes());
    with_destination(|room| room[..bytes.len()].copy_from_slice(bytes));
    ERROR.set(bytes.len());
}

/// Returns the value of one of several names.
fn one_of<T: Copy>(option: &str, value: &str, all: &[(&str, T)]) -> Result<T, String> {
    let found = all.iter().find(|(name, _)| *name == value);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|&(name, _)| name).collect();
        format!("{option} is {value:?}; it must be one of {}", names.join(", "))
    })
}

/// As [`one_of`], for values that have names, which JavaScript spells in camel case.
fn named<T: Copy, const N: usize>(
    option: &str,
    value: &str,
    all: [T; N],
    name: fn(T) -> &'static str,
) -> Result<T, String> {
    let camel = all.map(|one| {
        let mut words = name(one).split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |all, word| all + &word[..1].to_uppercase() + &word[1..])
    });
    one_of(option, value, &std::array::from_fn::<_, N, _>(|i| (&camel[i][..], all[i])))
}

fn rounding(option: &str, value: &str) -> Result<Rounding, String> {
    named(option, value, Rounding::ALL, Rounding::name)
}

fn overflow(option: &str, value: &str) -> Result<Overflow, String> {
    named(option, value, Overflow::ALL, Overflow::name)
}

fn packing(option: &str, value: &str) -> Result<Packing, String> {
    named(option, value, Packing::ALL, Packing::name)
}

fn order(option: &str, value: &str) -> Result<ByteOrder, String> {
    named(option, value, ByteOrder::ALL, ByteOrder::name)
}

/// Sets an option of this name to a value.
type Set = fn(CastOptions, &str, &str) -> Result<CastOptions, String>;

/// Every option except `profile` and those that `index.js` reads itself.
const OPTIONS: &[(&str, Set)] = &[
    ("rounding", |o, name, value| Ok(o.rounding(rounding(name, value)?))),
    // A profile may have separate settings for integers of fewer than 8 bits; this and floatToInt override those too.
    ("intRounding", |o, name, value| {
        let rounding = rounding(name, value)?;
        Ok(o.int_rounding(rounding).narrow_int_rounding(rounding))
    }),
    ("saturate", |o, name, value| Ok(o.saturate(one_of(name, value, &[("true", true), ("false", false)])?))),
    ("saturation", |o, name, value| Ok(o.saturation(named(name, value, Saturation::ALL, Saturation::name)?))),
    ("floatToInt", |o, name, value| {
        let overflow = overflow(name, value)?;
        Ok(o.float_to_int(overflow).narrow_float_to_int(overflow))
    }),
    ("intToInt", |o, name, value| Ok(o.int_to_int(overflow(name, value)?))),
    ("nanToFinite", |o, name, value| {
        Ok(o.nan_to_finite(named(name, value, NanToFinite::ALL, NanToFinite::name)?))
    }),
    ("e8m0Rounding", |o, name, value| {
        Ok(o.e8m0_rounding(named(name, value, E8m0Rounding::ALL, E8m0Rounding::name)?))
    }),
    ("srcPacking", |o, name, value| Ok(o.src_packing(packing(name, value)?))),
    ("dstPacking", |o, name, value| Ok(o.dst_packing(packing(name, value)?))),
    ("srcOrder", |o, name, value| Ok(o.src_order(order(name, value)?))),
    ("dstOrder", |o, name, value| Ok(o.dst_order(order(name, value)?))),
    ("stochastic", |o, name, value| {
        let numbers =
            value.split_once(' ').map(|(seed, first)| Some((seed.parse().ok()?, first.parse().ok()?)));
        let (seed, first) = numbers
            .flatten()
            .ok_or_else(|| format!("{name} is {value:?}; it must be a seed, or {{ seed, first }}"))?;
        Ok(o.stochastic(seed, first))
    }),
    ("isa", |o, _, value| Ok(o.isa(value.parse::<Isa>().map_err(|error| error.to_string())?))),
];

/// Returns the options with one more set. `others` names those that are read elsewhere, and `without` those that do not apply, for the
/// text of an error.
fn set(
    options: CastOptions,
    name: &str,
    value: &str,
    others: &str,
    without: &[&str],
) -> Result<CastOptions, String> {
    let found = OPTIONS.iter().find(|(known, _)| *known == name);
    let Some((_, set)) = found else {
        let names: Vec<&str> =
            OPTIONS.iter().map(|&(name, _)| name).filter(|name| !without.contains(name)).collect();
        return Err(format!("there is no option {name:?}; the options are {others}, {}", names.join(", ")));
    };
    set(options, name, value)
}

fn job(text: &[u8]) -> Result<Job, String> {
    let text = core::str::from_utf8(text).map_err(|error| error.to_string())?;
    let mut lines = text.lines();
    let mut dtype = || lines.next().unwrap_or("").parse::<DType>().map_err(|error| error.to_string());
    let (from, to) = (dtype()?, dtype()?);
    // The profile is applied first, because the other options override it, whatever their order.
    let lines = lines.map(|line| line.split_once(' ').unwrap_or((line, "")));
    let profile = lines.clone().find(|(name, _)| *name == "profile");
    let mut options = match profile {
        Some((_, name)) => CastOptions::profile(name).map_err(|error| error.to_string())?,
        None => CastOptions::new(),
    };
    for (name, value) in lines.filter(|(name, _)| *name != "profile") {
        options = set(options, name, value, "length, out, profile", &[])?;
    }
    let caster = Caster::new(from, to, &options).map_err(|error| error.to_string())?;
    Ok(Job { caster, options, sides: [(from, options.src_packing), (to, options.dst_packing)] })
}

/// The bits that an element takes in memory.
fn bits(dtype: DType, packing: Packing) -> usize {
    dtype.byte_len(8, packing).unwrap_or(0)
}

fn with_job<T>(run: impl FnOnce(&Job) -> T) -> Option<T> {
    JOB.with_borrow(|job| job.as_ref().map(run))
}

/// The address of the source's room, for a chunk of the source or the text for `prepare`.
#[unsafe(no_mangle)]
pub extern "C" fn source_room() -> *mut u8 {
    SOURCE.0.get().cast()
}

/// The address of the destination's room, for a chunk of the result or the text of an error.
#[unsafe(no_mangle)]
pub extern "C" fn destination_room() -> *mut u8 {
    DESTINATION.0.get().cast()
}

/// The bytes of the text of the last error.
#[unsafe(no_mangle)]
pub extern "C" fn error_length() -> usize {
    ERROR.get()
}

/// Writes all dtypes to the destination's room, a line with name and bits for each, and returns the bytes of the text.
#[unsafe(no_mangle)]
pub extern "C" fn dtypes() -> usize {
    let text: String =
        DType::ALL.iter().map(|dtype| format!("{} {}\n", dtype.name(), dtype.bits())).collect();
    with_destination(|room| room[..text.len()].copy_from_slice(text.as_bytes()));
    text.len()
}

/// Reads a job from `length` bytes of text. Returns how many elements a chunk may have, or 0 for an error.
#[unsafe(no_mangle)]
pub extern "C" fn prepare(length: usize) -> usize {
    let made =
        source().get(..length).ok_or_else(|| "more text than there is room for".to_string()).and_then(job);
    match made {
        Ok(job) => {
            let widest =
                job.sides.map(|(dtype, packing)| bits(dtype, packing)).into_iter().fold(1, usize::max);
            JOB.set(Some(job));
            ROOM * 8 / widest / GROUP * GROUP
        }
        Err(error) => {
            fail(&error);
            0
        }
    }
}

/// The bits that an element of the job's source (0) or destination (1) takes in memory.
#[unsafe(no_mangle)]
pub extern "C" fn element_bits(side: usize) -> usize {
    with_job(|job| job.sides.get(side).map_or(0, |&(dtype, packing)| bits(dtype, packing))).unwrap_or(0)
}

impl Job {
    /// The caster of a chunk that begins with the element of this index, which for stochastic rounding decides its random words.
    fn caster(&self, first: f64) -> Result<Caster, lanecast::Error> {
        match self.options.stochastic {
            Some(words) if first > 0.0 => {
                let options = self.options.stochastic(words.seed, words.first.wrapping_add(first as u64));
                Caster::new(self.caster.from(), self.caster.to(), &options)
            }
            _ => Ok(self.caster),
        }
    }
}

/// Casts a chunk of `elements`, with a report if `checked` is not 0; `first` is the index of its first element. Returns 1, or 0 for an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn run(elements: usize, checked: u32, first: f64) -> u32 {
    let done = with_job(|job| {
        let caster = job.caster(first).map_err(|error| error.to_string())?;
        let [src, dst] = job.sides.map(|(dtype, packing)| dtype.byte_len(elements, packing));
        let src = src.and_then(|bytes| source().get(..bytes)).ok_or("a chunk larger than its room")?;
        with_destination(|room| {
            let dst = dst.and_then(|bytes| room.get_mut(..bytes)).ok_or("a chunk larger than its room")?;
            let report = if checked == 0 {
                caster.cast(src, dst, elements).map(|()| CastReport::default())
            } else {
                caster.cast_checked(src, dst, elements)
            };
            report.map_err(|error| error.to_string())
        })
    });
    match done.unwrap_or_else(|| Err("no job".into())) {
        Ok(report) => {
            let index = |at: Option<usize>| at.map_or(-1.0, |at| at as f64);
            REPORT.set([
                report.elements as f64,
                report.above as f64,
                report.below as f64,
                report.negative as f64,
                report.nan as f64,
                report.inf as f64,
                report.imaginary as f64,
                report.inexact as f64,
                index(report.first),
                index(report.first_inexact),
            ]);
            1
        }
        Err(error) => {
            fail(&error);
            0
        }
    }
}

/// The address of ten f64: what the last chunk lost, in the order of `CastReport`. An index that is not there is -1.
#[unsafe(no_mangle)]
pub extern "C" fn report() -> *const f64 {
    REPORT.with(|report| report.as_ptr().cast_const().cast())
}

/// The number of the instruction set that the module is compiled for, or 0 for an error.
#[unsafe(no_mangle)]
pub extern "C" fn isa() -> u32 {
    Isa::best().map_or(0, |isa| isa as u32)
}
