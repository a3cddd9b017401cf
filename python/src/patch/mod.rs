//! `patch`: makes NumPy's own casts run our kernels.
//!
//! For every cast, NumPy calls a function of the method for its pair of dtypes, which chooses a loop. That function is replaced by one that
//! chooses a loop of ours. Our loop leaves elements to the original loop for which that may give other results than our kernels.

mod numpy;
mod pair;
mod scan;

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::numpy::npyffi::PyArray_Descr;
use ::numpy::{PyArrayDescr, PyArrayDescrMethods};
use lanecast::{DType, Kind};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::dtypes::Table;
use numpy::{Asked, Method, Numpy};
use pair::{EXACT, FEW, HAS_FLAGS, Pair, Scratch, THREADS};

/// The casts that are patched.
#[derive(Default)]
struct State {
    /// The arguments exact, threads and numpy of the last call of `patch`. None if nothing is patched.
    config: Option<(bool, usize, bool)>,
    pairs: Vec<&'static Pair>,
    skipped: Skipped,
}

static STATE: Mutex<State> = Mutex::new(State { config: None, pairs: Vec::new(), skipped: Vec::new() });

fn state() -> MutexGuard<'static, State> {
    // Nothing panics under the lock.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether NumPy itself has a dtype.
fn is_numpys(dtype: DType) -> bool {
    use DType::*;
    matches!(dtype, Bool | U8 | I8 | U16 | I16 | U32 | I32 | U64 | I64 | F16 | F32 | F64 | C64 | C128)
}

/// Whether the casts of a dtype are not patched, because no scan of elements can tell where the originals differ.
fn is_left(dtype: DType) -> bool {
    dtype.bits() == 1 || (matches!(dtype.kind(), Kind::Complex(_)) && !is_numpys(dtype))
}

type Skipped = Vec<(DType, DType, String)>;

/// A cast of NumPy whose method has the known layout.
struct Candidate {
    dtypes: [DType; 2],
    method: *mut Method,
    kind: numpy::Kind,
    /// The loops of a cast of registered dtypes for which there is no pair yet.
    asked: Option<Asked>,
    descriptors: [*mut PyArray_Descr; 2],
}

/// Returns the casts that can be patched; `descrs` hold their descriptors.
fn candidates(
    system: &Numpy<'_>,
    descrs: &[(DType, Bound<'_, PyAny>)],
    numpy: bool,
    skipped: &mut Skipped,
) -> PyResult<Vec<Candidate>> {
    let mut found = Vec::new();
    for ((from, from_descr), (to, to_descr)) in
        descrs.iter().flat_map(|from| descrs.iter().map(move |to| (from, to)))
    {
        let are_numpys = is_numpys(*from) && is_numpys(*to);
        if from == to || (are_numpys && *from != DType::F16 && *to != DType::F16) {
            continue;
        }
        let mut skip = |why: &str| skipped.push((*from, *to, why.to_owned()));
        if are_numpys && !numpy {
            skip("numpy=False leaves out NumPy's own casts");
            continue;
        }
        let Some((method, kind)) = system.method(from_descr, to_descr)? else {
            skip("NumPy has no such cast");
            continue;
        };
        let (py, dtypes) = (from_descr.py(), [*from, *to]);
        let descriptors = [from_descr, to_descr].map(|descr| descr.as_ptr().cast());
        let mut asked = None;
        if pair::find(method).is_none() {
            let sizes = dtypes.map(DType::itemsize);
            // SAFETY: the method is that of these dtypes, and was never patched.
            unsafe {
                if kind != numpy::Kind::Numeric {
                    asked = system.loops(method, descriptors, sizes)?;
                }
                let is_plain = || numpy::chooses_plainly(py, method, descriptors, sizes, asked);
                if kind != numpy::Kind::Legacy && !is_plain()? {
                    skip("NumPy chooses its loop in an unknown way");
                    continue;
                }
            }
        }
        found.push(Candidate { dtypes, method, kind, asked, descriptors });
    }
    Ok(found)
}

/// Returns the pair of a cast, which is made and proven if there is none yet. None if the cast is skipped.
///
/// # Safety
/// The caller has the GIL and the lock, and the descriptors are those of the dtypes.
unsafe fn proven(candidate: &Candidate, skipped: &mut Skipped) -> PyResult<Option<&'static Pair>> {
    let &Candidate { dtypes, method, kind, asked, descriptors } = candidate;
    if let Some(pair) = pair::find(method) {
        return Ok(Some(pair));
    }
    let mut skip = |why: String| {
        skipped.push((dtypes[0], dtypes[1], why));
        Ok(None)
    };
    let are_registered = dtypes.map(|dtype| !is_numpys(dtype));
    let pair = match Pair::new(dtypes, are_registered, method, kind, asked) {
        Ok(pair) => pair,
        Err(why) => return skip(why),
    };
    // SAFETY: the caller's promise.
    if let Err(why) = unsafe { pair.prove(descriptors) } {
        let message = format!("the cast of {} to {}: {why}", dtypes[0], dtypes[1]);
        return Err(PyRuntimeError::new_err(message));
    }
    if !pair::enter(pair) {
        return skip("the table of patched casts is full".to_owned());
    }
    Ok(Some(pair))
}

/// Patches NumPy's casts; or changes how they are patched. `threads` 0: as many as there are cores.
#[pyfunction]
pub(crate) fn patch(py: Python<'_>, exact: bool, threads: usize, numpy: bool) -> PyResult<()> {
    // Everything that may run Python code comes before the lock is taken.
    let system = Numpy::new(py)?;
    let mut descrs = Vec::new();
    for &(number, dtype) in Table::get(py)?.numbers() {
        if !is_left(dtype) {
            descrs.push((dtype, descr_of_number(py, number)?));
        }
    }
    let mut skipped = Vec::new();
    let found = candidates(&system, &descrs, numpy, &mut skipped)?;
    let mut state = state();
    HAS_FLAGS.store(system.has_flags, Ordering::Relaxed);
    let mut pairs = Vec::new();
    let before = EXACT.load(Ordering::Relaxed);
    EXACT.store(exact, Ordering::Relaxed);
    for candidate in &found {
        // SAFETY: with the GIL, and the descriptors are those of the dtypes.
        let pair = match unsafe { proven(candidate, &mut skipped) } {
            Ok(Some(pair)) => pair,
            Ok(None) => continue,
            Err(error) => {
                EXACT.store(before, Ordering::Relaxed);
                return Err(error);
            }
        };
        match pair.refused(exact) {
            Some(why) => skipped.push((pair.from, pair.to, why.to_owned())),
            None => pairs.push((pair, candidate.descriptors)),
        }
    }
    // All pairs are proven. Now measure how few elements are left to the originals, and replace the functions.
    THREADS.store(threads, Ordering::Relaxed);
    let mut scratch = Scratch::new();
    for (pair, descriptors) in &pairs {
        // SAFETY: with the GIL, and the dtypes are those of the pair.
        unsafe { pair.leave_few(*descriptors, exact, &mut scratch) };
    }
    let pairs: Vec<_> = pairs.into_iter().map(|(pair, _)| pair).collect();
    let ours = pair::get_loop as *mut c_void;
    let gone = state.pairs.iter().filter(|old| !pairs.iter().any(|pair| core::ptr::eq(*pair, **old)));
    for pair in gone {
        restore(pair);
    }
    for pair in &pairs {
        // SAFETY: the layout of the method was proven.
        let pointer = unsafe { &(*pair.method).get_strided_loop };
        if pointer.load(Ordering::Acquire) != ours {
            pointer.store(ours, Ordering::Release);
        }
    }
    state.pairs = pairs;
    state.skipped = skipped;
    state.config = Some((exact, threads, numpy));
    Ok(())
}

/// For tests: sets how few elements are left to the originals, from the next `patch` on. 0: as few as they cast faster.
#[pyfunction]
pub(crate) fn leave_few(elements: isize) {
    FEW.store(elements, Ordering::Relaxed);
}

/// Returns NumPy's dtype of a type number.
fn descr_of_number(py: Python<'_>, number: c_int) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the API returns a new reference, or sets an error.
    unsafe {
        let descr = ::numpy::npyffi::PY_ARRAY_API.PyArray_DescrFromType(py, number);
        let descr: Bound<'_, PyAny> = Bound::from_owned_ptr_or_err(py, descr.cast())?;
        debug_assert_eq!(descr.cast::<PyArrayDescr>().map(|descr| descr.num()).ok(), Some(number));
        Ok(descr)
    }
}

/// Restores the function of a method. Returns false if other code has changed it since.
fn restore(pair: &Pair) -> bool {
    // SAFETY: the layout of the method was proven.
    let pointer = unsafe { &(*pair.method).get_strided_loop };
    let (ours, original) = (pair::get_loop as *mut c_void, pair.original as *mut c_void);
    pointer.compare_exchange(ours, original, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Undoes `patch`, except for functions that other code has changed since.
#[pyfunction]
pub(crate) fn unpatch() {
    let mut state = state();
    let pairs = core::mem::take(&mut state.pairs);
    state.skipped.clear();
    for pair in pairs {
        if !restore(pair) {
            let why = "other code has changed it since patch(); it was left as it is".to_owned();
            state.skipped.push((pair.from, pair.to, why));
        }
    }
    state.config = None;
}

type Shown<'py> = (Option<(bool, usize, bool)>, Bound<'py, PyList>, Bound<'py, PyDict>);

/// What is patched: (exact, threads, numpy) or None; the pairs, with the number of their calls and of the originals' blocks,
/// and from how many elements on they are cast by kernels; and what was skipped.
#[pyfunction]
pub(crate) fn patch_state(py: Python<'_>) -> PyResult<Shown<'_>> {
    // No Python objects are made under the lock, as that may run any code.
    let (config, pairs, skipped) = {
        let state = state();
        let pairs = state.pairs.iter().map(|pair| {
            let counts = (pair.calls.load(Ordering::Relaxed), pair.originals.load(Ordering::Relaxed));
            (pair.from.name(), pair.to.name(), counts.0, counts.1, pair.least())
        });
        (state.config, pairs.collect::<Vec<_>>(), state.skipped.clone())
    };
    let table = PyDict::new(py);
    for (from, to, why) in skipped {
        table.set_item((from.name(), to.name()), why)?;
    }
    Ok((config, PyList::new(py, pairs)?, table))
}
