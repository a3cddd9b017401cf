//! The structs by which NumPy finds the loop of a cast. They are private, so their layout is proven before they are used.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::AtomicPtr;

use pyo3::exceptions::{PyRuntimeError, PyWarning};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

pub(super) const REQUIRES_PYAPI: c_int = 1;
pub(super) const RUNTIME_FLAGS: c_int = 1 | 2;
/// All flags that methods of casts have in known releases: the above, unaligned, reorderable and, from NumPy 2.5 on, that it is a cast.
const KNOWN_FLAGS: c_int = 0x1F | 1 << 17;
/// Flags beside the level of casting: same_value is possible, and (before NumPy 2.0) the cast is a view.
const CASTING_FLAGS: c_int = 1 << 6 | 1 << 16;
pub(super) const SAME_VALUE: u64 = 1;
/// The feature version of the API from which a context has flags: NumPy 2.4.
const FEATURE_FLAGS: u32 = 0x15;

pub(super) type Loop =
    unsafe extern "C" fn(*mut Context, *const *mut u8, *const isize, *const isize, *mut Aux) -> c_int;
pub(super) type GetLoop = unsafe extern "C" fn(
    *mut Context,
    c_int,
    c_int,
    *const isize,
    *mut Option<Loop>,
    *mut *mut Aux,
    *mut c_int,
) -> c_int;
/// A loop, and its auxiliary data.
pub(super) type Chosen = (Loop, *mut Aux);

/// NpyAuxData.
#[repr(C)]
pub(super) struct Aux {
    pub(super) free: Option<unsafe extern "C" fn(*mut Aux)>,
    pub(super) clone: Option<unsafe extern "C" fn(*mut Aux) -> *mut Aux>,
    /// Reserved by NumPy, which does not use it. In our data, the loop that gets them.
    pub(super) own: Option<Loop>,
    pub(super) reserved: *mut c_void,
}

/// _strided_cast_data: the auxiliary data of NumPy's loops for casts of registered dtypes, with the function that they call.
#[repr(C)]
pub(super) struct Registered {
    _base: Aux,
    pub(super) cast: unsafe extern "C" fn(*mut u8, *mut u8, isize, *mut c_void, *mut c_void),
    pub(super) arrays: [*mut c_void; 2],
    needs_api: u8,
}

/// The loops that a method of a cast of registered dtypes has chosen.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) chosen: [Chosen; 2],
    /// Whether the auxiliary data are [`Registered`]: the loops only call its function, and do not need the GIL.
    pub(super) is_plain: bool,
}

/// PyArrayMethod_Context.
#[repr(C)]
pub(super) struct Context {
    pub(super) caller: *mut ffi::PyObject,
    pub(super) method: *mut Method,
    pub(super) descriptors: *const *mut numpy::npyffi::PyArray_Descr,
    _reserved: *mut c_void,
    /// From NumPy 2.4 on.
    pub(super) flags: u64,
    _parameters: *mut c_void,
}

impl Context {
    /// Makes a context for a call that is not NumPy's.
    pub(super) fn new(method: *mut Method, descriptors: *const *mut numpy::npyffi::PyArray_Descr) -> Self {
        let none = core::ptr::null_mut::<c_void>();
        Self { caller: none.cast(), method, descriptors, _reserved: none, flags: 0, _parameters: none }
    }
}

/// PyArrayMethodObject, as far as it is used here.
#[repr(C)]
pub(super) struct Method {
    _head: ffi::PyObject,
    pub(super) name: *const c_char,
    pub(super) nin: c_int,
    pub(super) nout: c_int,
    pub(super) casting: c_int,
    pub(super) flags: c_int,
    _static_data: *mut c_void,
    _resolve_with_scalars: *mut c_void,
    _resolve: *mut c_void,
    /// A [`GetLoop`].
    pub(super) get_strided_loop: AtomicPtr<c_void>,
    _get_reduction_initial: *mut c_void,
    pub(super) strided: Option<Loop>,
    pub(super) contiguous: Option<Loop>,
    pub(super) unaligned_strided: Option<Loop>,
    pub(super) unaligned_contiguous: Option<Loop>,
    _contiguous_indexed: *mut c_void,
}

/// PyBoundArrayMethodObject.
#[repr(C)]
struct BoundMethod {
    _head: ffi::PyObject,
    _dtypes: *mut c_void,
    method: *mut Method,
}

/// The kinds of methods of casts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// NumPy's, for the dtypes of ml_dtypes before 0.7: two loops, for contiguous elements and for others, which call one function.
    Legacy,
    /// Of ml_dtypes from 0.7 on: two loops of its own. NumPy chooses between them, except for casts from complex to real.
    Declared,
    /// NumPy's, for its own dtypes: four loops, of which two are for unaligned elements.
    Numeric,
}

impl Kind {
    /// Returns the kind of a method of this name.
    fn of(name: &[u8]) -> Option<Self> {
        match name {
            b"legacy_cast" => Some(Self::Legacy),
            b"ml_dtypes_custom_cast" | b"ml_dtypes_to_numpy_cast" | b"numpy_to_ml_dtypes_cast" => {
                Some(Self::Declared)
            }
            b"numeric_cast" => Some(Self::Numeric),
            _ => None,
        }
    }
}

/// What is needed to find NumPy's methods and to prove their layout.
pub(super) struct Numpy<'py> {
    casting_impl: Bound<'py, PyAny>,
    /// The addresses at which the files of NumPy's code and of ml_dtypes' are loaded.
    module: usize,
    registrar: Option<usize>,
    /// Whether a context has flags.
    pub(super) has_flags: bool,
}

impl<'py> Numpy<'py> {
    pub(super) fn new(py: Python<'py>) -> PyResult<Self> {
        let umath = py.import("numpy._core._multiarray_umath")?;
        let casting_impl = umath.getattr("_get_castingimpl").map_err(|_| {
            PyRuntimeError::new_err("this NumPy has no _get_castingimpl, by which patch() finds casts")
        })?;
        let capsule = umath.getattr("_ARRAY_API")?.cast_into::<PyCapsule>()?;
        // SAFETY: the capsule holds NumPy's table of functions. Entry 211 returns the feature version.
        let (api, feature) = unsafe {
            let api: *const *const c_void =
                ffi::PyCapsule_GetPointer(capsule.as_ptr(), core::ptr::null()).cast();
            if api.is_null() {
                return Err(PyErr::fetch(py));
            }
            let feature: unsafe extern "C" fn() -> u32 = core::mem::transmute(*api.add(211));
            (api, feature())
        };
        // SAFETY: the table has this entry.
        let module = module_of(unsafe { *api.add(211) }).ok_or_else(|| {
            PyRuntimeError::new_err("the address of NumPy's code is unknown on this system")
        })?;
        // Other releases of ml_dtypes may not have such a module. Without it, `is_plain` is false.
        let registrar = py.import("ml_dtypes._ml_dtypes_ext").ok().and_then(|registrar| {
            // SAFETY: it is an object; one without a definition, or none at all, is NULL.
            module_of(unsafe { ffi::PyModule_GetDef(registrar.as_ptr()) }.cast_const().cast())
        });
        drop(PyErr::take(py));
        Ok(Self { casting_impl, module, registrar, has_flags: feature >= FEATURE_FLAGS })
    }

    /// Returns the method of the cast between two dtypes. None if there is no such cast. Fails if its layout is not the known one.
    pub(super) fn method(
        &self,
        from: &Bound<'py, PyAny>,
        to: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(*mut Method, Kind)>> {
        let Ok(bound) = self.casting_impl.call1((from.get_type(), to.get_type())) else { return Ok(None) };
        if bound.is_none() {
            return Ok(None);
        }
        let odd = |what: &str| PyRuntimeError::new_err(format!("the cast of {from} to {to}: {what}"));
        // The name tells its type before any pointer is dereferenced.
        let text = bound.repr()?.to_string();
        let name = text.split('`').nth(1).unwrap_or_default();
        let kind = Kind::of(name.as_bytes()).ok_or_else(|| odd(&format!("its method is {text}")))?;
        let size = bound.get_type().getattr("__basicsize__")?.extract::<usize>()?;
        if size < size_of::<BoundMethod>() {
            return Err(odd("its bound method is too small"));
        }
        // SAFETY: an object of this size; its type says that it holds a method.
        let method = unsafe { (*bound.as_ptr().cast::<BoundMethod>()).method };
        if method.is_null() || !method.is_aligned() {
            return Err(odd("its bound method has no method"));
        }
        // SAFETY: the second pointer of a bound method is an object: its method.
        let size = unsafe {
            let class = ffi::Py_TYPE(method.cast());
            Bound::from_borrowed_ptr(bound.py(), class.cast()).getattr("__basicsize__")?.extract::<usize>()?
        };
        if size < size_of::<Method>() {
            return Err(odd("its method is smaller than it must be"));
        }
        // SAFETY: the object has that many bytes. The name is read last, after everything else was checked.
        let proven = unsafe {
            let get = (*method).get_strided_loop.load(core::sync::atomic::Ordering::Acquire);
            let loops = [
                (*method).strided,
                (*method).contiguous,
                (*method).unaligned_strided,
                (*method).unaligned_contiguous,
            ];
            let is_ours = get == super::pair::get_loop as *mut c_void;
            let is_numpys = |at: *const c_void| module_of(at) == Some(self.module);
            let is_known = |at: *const c_void| match kind {
                Kind::Declared => self.registrar.is_some() && module_of(at) == self.registrar,
                _ => is_numpys(at),
            };
            let loops_are_known = loops.iter().all(|at| at.is_none_or(|at| is_known(at as *const c_void)));
            let has_loops = kind != Kind::Numeric || loops.iter().all(Option::is_some);
            (*method).nin == 1
                && (*method).nout == 1
                && (0..=5).contains(&((*method).casting & !CASTING_FLAGS))
                && (*method).flags & !KNOWN_FLAGS == 0
                && (is_ours || is_numpys(get) || is_known(get))
                && loops_are_known
                && has_loops
                && Kind::of(CStr::from_ptr((*method).name).to_bytes()) == Some(kind)
        };
        if !proven {
            return Err(odd("its method does not have the layout of NumPy 2.0 to 2.5"));
        }
        Ok(Some((method, kind)))
    }
}

/// Returns what the original chooses for elements of an alignment and strides: the loop, its auxiliary data and its flags. None: an error.
///
/// # Safety
/// The method is that of the descriptors, its layout was proven, and it is not patched.
unsafe fn ask(
    py: Python<'_>,
    method: *mut Method,
    descriptors: [*mut numpy::npyffi::PyArray_Descr; 2],
    is_aligned: bool,
    strides: [isize; 2],
) -> Option<(Option<Loop>, *mut Aux, c_int)> {
    let mut context = Context::new(method, descriptors.as_ptr());
    let (mut chosen, mut aux, mut flags) = (None, core::ptr::null_mut(), 0);
    // SAFETY: the caller's promise. The function is called as NumPy calls it, with the GIL.
    let answer = unsafe {
        let ask: GetLoop =
            core::mem::transmute((*method).get_strided_loop.load(core::sync::atomic::Ordering::Acquire));
        let (aligned, strides) = (c_int::from(is_aligned), strides.as_ptr());
        ask(&raw mut context, aligned, 0, strides, &raw mut chosen, &raw mut aux, &raw mut flags)
    };
    if answer < 0 {
        drop(PyErr::take(py));
        return None;
    }
    Some((chosen, aux, flags))
}

/// Runs a function without warnings: the originals of casts from complex to real warn when they choose a loop.
///
/// Filters belong to the process, and `catch_warnings` saves and restores all of them, so that filters which other threads set meanwhile
/// are lost. Instead, a filter is put before them and taken away, with no Python code and so no other thread in between.
fn in_silence<T>(py: Python<'_>, run: impl FnOnce() -> T) -> PyResult<T> {
    let warnings = py.import("warnings")?;
    let flags = py.import("sys")?.getattr("flags")?;
    let is_of_context =
        flags.getattr("context_aware_warnings").is_ok_and(|flag| flag.is_truthy().unwrap_or(false));
    if let (false, Ok(filters)) = (is_of_context, warnings.getattr("filters")?.cast_into::<PyList>()) {
        let nothing = py.None();
        let ignore = ("ignore", &nothing, py.get_type::<PyWarning>(), &nothing, 0).into_pyobject(py)?;
        filters.insert(0, &ignore)?;
        let done = run();
        filters.del_item(0)?;
        return Ok(done);
    }
    let silence = warnings.call_method0("catch_warnings")?;
    silence.call_method0("__enter__")?;
    let done = warnings.call_method1("simplefilter", ("ignore",)).map(|_| run());
    silence.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    done
}

impl Numpy<'_> {
    /// Returns the loops that the original chooses for strided and for contiguous elements. Their auxiliary data, which the loops only
    /// read, are never freed. None: it chooses none.
    ///
    /// # Safety
    /// The method is that of the descriptors, its layout was proven, and it is not patched.
    pub(super) unsafe fn loops(
        &self,
        method: *mut Method,
        descriptors: [*mut numpy::npyffi::PyArray_Descr; 2],
        sizes: [usize; 2],
    ) -> PyResult<Option<Asked>> {
        let py = self.casting_impl.py();
        let choose = |spread: usize| {
            let strides = sizes.map(|size| (spread * size) as isize);
            // SAFETY: the caller's promise.
            let (chosen, aux, _) = unsafe { ask(py, method, descriptors, true, strides)? };
            Some((chosen?, aux))
        };
        let chosen = in_silence(py, || choose(2).zip(choose(1)))?;
        Ok(chosen.map(|(strided, dense)| {
            let chosen = [strided, dense];
            Asked { chosen, is_plain: chosen.iter().all(|&(_, aux)| self.is_plain(aux)) }
        }))
    }

    /// Whether auxiliary data of NumPy are a [`Registered`] with a function of ml_dtypes, after which NumPy does not check for an
    /// exception, as it does for dtypes of ml_dtypes 0.5.0 and 0.5.1.
    fn is_plain(&self, aux: *mut Aux) -> bool {
        // SAFETY: NumPy made the auxiliary data. If they do not have such a function, they are not read further.
        unsafe {
            let theirs = aux.cast::<Registered>();
            // Not read as a pointer to a function, which it may not be.
            let at = || (&raw const (*theirs).cast).cast::<*const c_void>().read();
            !aux.is_null()
                && self.registrar.is_some()
                && module_of(at()) == self.registrar
                && !(*theirs).arrays.contains(&core::ptr::null_mut())
                && (*theirs).needs_api == 0
        }
    }
}

/// Whether the original's choice between its loops depends only on whether elements are aligned and contiguous, and comes without auxiliary
/// data. The loops are those that it was asked for, or else the four of its method.
///
/// # Safety
/// As that of [`Numpy::loops`].
pub(super) unsafe fn chooses_plainly(
    py: Python<'_>,
    method: *mut Method,
    descriptors: [*mut numpy::npyffi::PyArray_Descr; 2],
    sizes: [usize; 2],
    asked: Option<Asked>,
) -> PyResult<bool> {
    let spreads = [[1, 1], [1, 2], [2, 1], [3, 2], [0, 1], [1, 0], [-1, -1]];
    in_silence(py, || {
        [true, false].iter().filter(|&&is_aligned| is_aligned || asked.is_none()).all(|&is_aligned| {
            spreads.iter().all(|spread: &[isize; 2]| {
                let strides = [0, 1].map(|i| spread[i] * sizes[i] as isize);
                let is_dense = *spread == [1, 1];
                // SAFETY: the caller's promise.
                unsafe {
                    let expected = match (asked, is_aligned, is_dense) {
                        (Some(asked), ..) => Some(asked.chosen[usize::from(is_dense)].0),
                        (None, true, false) => (*method).strided,
                        (None, true, true) => (*method).contiguous,
                        (None, false, false) => (*method).unaligned_strided,
                        (None, false, true) => (*method).unaligned_contiguous,
                    };
                    let same = |chosen: Option<Loop>| {
                        chosen.map(|chosen| chosen as usize) == expected.map(|known| known as usize)
                    };
                    ask(py, method, descriptors, is_aligned, strides).is_some_and(|(chosen, aux, flags)| {
                        same(chosen) && aux.is_null() && flags == (*method).flags & RUNTIME_FLAGS
                    })
                }
            })
        })
    })
}

/// Returns the address at which the file is loaded that some code belongs to.
#[cfg(unix)]
fn module_of(at: *const c_void) -> Option<usize> {
    // SAFETY: any address may be asked for; the struct is plain data.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        (libc::dladdr(at, &raw mut info) != 0 && !info.dli_fbase.is_null()).then_some(info.dli_fbase.addr())
    }
}

#[cfg(windows)]
fn module_of(at: *const c_void) -> Option<usize> {
    unsafe extern "system" {
        fn GetModuleHandleExW(flags: u32, at: *const c_void, module: *mut *mut c_void) -> i32;
    }
    let mut module = core::ptr::null_mut();
    // 4: the name is an address; 2: the module is not kept.
    // SAFETY: any address may be asked for.
    let found = unsafe { GetModuleHandleExW(4 | 2, at, &raw mut module) };
    (found != 0).then_some(module.addr())
}

#[cfg(not(any(unix, windows)))]
fn module_of(_: *const c_void) -> Option<usize> {
    None
}
