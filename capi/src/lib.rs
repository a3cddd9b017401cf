//! The C interface of lanecast: thin, total, and stable.
//!
//! Every function checks its arguments, returns a status instead of panicking, and writes nothing when it fails, but for these
//! statuses:
//! - `LANECAST_ERR_LOSSY` says what a cast found. The cast was done.
//! - `LANECAST_ERR_CANCELLED` says that a callback stopped a cast, which has written some of its results.
//! - After `LANECAST_ERR_MEMORY`, what a scaled or a checked cast writes has unspecified contents, and the bits of `validity`
//!   may be 0.
//! - After `LANECAST_ERR_INTERNAL`, whatever a call writes has unspecified contents.
//!
//! Names, codes and the layout of `lanecast_options` never change; new ones are added at the end.

#![allow(non_camel_case_types, reason = "C names")]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use std::panic::catch_unwind;

use rust::checked::CastReport;
use rust::promotion::{Casting, DTypeSet, Rules};
use rust::{
    ByteOrder, CastOptions, Caster, DType, E8m0Rounding, Error, Isa, NanToFinite, Overflow, Packing,
    Rounding, Saturation,
};

mod codes;
mod message;
pub use codes::*;
pub use message::lanecast_error_message;
use message::{null, overlapping, say, unknown};

/// A dtype: one of `LANECAST_DTYPE_*`.
pub type lanecast_dtype = u8;
/// `LANECAST_OK`, or one of `LANECAST_ERR_*`.
pub type lanecast_status = i32;

/// The call succeeded. A call with any other status has written nothing, except with LANECAST_ERR_LOSSY,
/// LANECAST_ERR_CANCELLED, LANECAST_ERR_INTERNAL, and LANECAST_ERR_MEMORY of scaled and checked casts.
pub const LANECAST_OK: i32 = 0;
/// A pointer that must not be NULL is NULL.
pub const LANECAST_ERR_NULL: i32 = -1;
/// No dtype has this code, or there is no scaled cast of these dtypes.
pub const LANECAST_ERR_DTYPE: i32 = -2;
/// No dtype, profile, scaling, ruleset or level of casting has this name.
pub const LANECAST_ERR_NAME: i32 = -3;
/// A structure has a size that is too small, a value out of range, or unknown bytes that are not zero. Or there is no such
/// scaled cast: scaling, dtypes and arguments do not go together.
pub const LANECAST_ERR_OPTIONS: i32 = -4;
/// The instruction set that the options or the environment variable LANECAST_ISA name is not available here.
pub const LANECAST_ERR_ISA: i32 = -5;
/// The size of a buffer overflows size_t or is not that of its elements, or the buffer would extend beyond the end of the
/// address space. Or a pointer to a shape or to strides is not aligned.
pub const LANECAST_ERR_SIZE: i32 = -6;
/// Buffers overlap, or elements of a strided destination do.
pub const LANECAST_ERR_OVERLAP: i32 = -7;
/// The library has a defect. Please report it.
pub const LANECAST_ERR_INTERNAL: i32 = -8;
/// The ruleset defines no common dtype of the operands, or there are no operands.
pub const LANECAST_ERR_UNDEFINED: i32 = -9;
/// The progress callback stopped the cast: some chunks of the destination are written, and others are not.
pub const LANECAST_ERR_CANCELLED: i32 = -11;
/// A strided view is of packed elements. Elements of fewer than 8 bits must lie one per byte there.
pub const LANECAST_ERR_PACKED: i32 = -12;
/// There is no memory for what the call needs. (The first pairs of dtypes and options need none: the library has static room
/// for them.)
pub const LANECAST_ERR_MEMORY: i32 = -13;

/// The blocks of a scaling do not fit the shape of the data: the blocks have more dimensions than the data, the data have
/// more than 8, or a row takes more bytes than there are from one row to the next.
pub const LANECAST_ERR_SHAPE: i32 = -14;

/// The cast loses elements. A function that casts has done so all the same; lanecast_check and lanecast_check_strided cast
/// nothing.
pub const LANECAST_ERR_LOSSY: i32 = -10;

/// The version of this interface. It increases with a release that adds something.
pub const LANECAST_ABI_VERSION: u32 = 5;

/// How to cast. lanecast_options_init sets the defaults; a structure of zeros is not valid.
///
/// New fields are only ever added at the end, and size says how much of the structure the caller knows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lanecast_options {
    /// How many bytes of the structure the caller has set, this field included. It may be more than the library knows, if the
    /// bytes that the library does not know are zero.
    pub size: u32,
    /// Rounding to a float, but not to float8_e8m0fnu: LANECAST_ROUNDING_*. Default: nearest, ties to even.
    pub rounding: u8,
    /// Rounding of a float to an integer: LANECAST_ROUNDING_*. Default: toward zero.
    pub int_rounding: u8,
    /// Which floats of 8 bits or fewer saturate, so that overflow gives the largest value and not Inf or NaN:
    /// LANECAST_SATURATE_*. Default: all of them.
    pub saturate: u8,
    /// What a float beyond the range of an integer dtype becomes: LANECAST_FLOAT_TO_INT_*. Default: saturate.
    pub float_to_int: u8,
    /// What an integer beyond the range of an integer dtype becomes: LANECAST_INT_TO_INT_*. Default: wrap.
    pub int_to_int: u8,
    /// What a NaN becomes in float4 and float6: LANECAST_NAN_TO_FINITE_*. Default: negative zero.
    pub nan_to_finite: u8,
    /// Rounding to float8_e8m0fnu: LANECAST_E8M0_ROUNDING_*. Default: up.
    pub e8m0_rounding: u8,
    /// The instruction set to run on: LANECAST_ISA_*. Default: the best.
    pub isa: u8,
    /// How a source of fewer than 8 bits per element is packed: LANECAST_PACKING_*. Default: low bits first.
    pub src_packing: u8,
    /// How a destination of fewer than 8 bits per element is packed: LANECAST_PACKING_*. Default: low bits first.
    pub dst_packing: u8,
    /// Byte order of the source, and of its scales and zero points: LANECAST_ORDER_*. Default: native.
    pub src_order: u8,
    /// Byte order of the destination, and of its scales and zero points: LANECAST_ORDER_*. Default: native.
    pub dst_order: u8,
    /// Rounding of a float to an integer of fewer than 8 bits: 1 + LANECAST_ROUNDING_*, or 0 for that of int_rounding
    /// (default).
    pub narrow_int_rounding: u8,
    /// What a float beyond the range of an integer of fewer than 8 bits becomes: 1 + LANECAST_FLOAT_TO_INT_*, or 0 for what
    /// float_to_int says (default).
    pub narrow_float_to_int: u8,
    /// Must be zero.
    pub reserved: [u8; 2],
    /// 1: casts to floats of 16 bits or fewer, but not to float8_e8m0fnu, round stochastically, by seed and first, not by the
    /// option rounding. 0: they do not (default). This field and those behind it are only read if size covers them. The size
    /// that lanecast_options_init sets does not; lanecast_options_stochastic sets the fields and a size that does.
    pub stochastic: u8,
    /// Must be zero.
    pub reserved2: [u8; 11],
    /// The seed: casts with different seeds round differently. Only read if size covers it.
    pub seed: u64,
    /// The number of the first element. A caller that casts in pieces adds the elements of the pieces before. Only read if
    /// size covers it.
    pub first: u64,
}

/// The size of the first block of lanecast_options, which every caller knows.
const FIRST_BLOCK: usize = core::mem::offset_of!(lanecast_options, stochastic);
const _: () = assert!(FIRST_BLOCK == 20 && size_of::<lanecast_options>() == 48, "blocks never change");

impl From<&CastOptions> for lanecast_options {
    fn from(o: &CastOptions) -> Self {
        Self {
            size: if o.stochastic.is_some() { size_of::<Self>() } else { FIRST_BLOCK } as u32,
            rounding: o.rounding as u8,
            int_rounding: o.int_rounding as u8,
            saturate: o.saturation as u8,
            float_to_int: o.float_to_int as u8,
            // Code 0 is wrapping, the default of this option; in `Overflow` it is saturating.
            int_to_int: matches!(o.int_to_int, Overflow::Saturate).into(),
            nan_to_finite: o.nan_to_finite as u8,
            e8m0_rounding: o.e8m0_rounding as u8,
            isa: o.isa.map_or(0, |isa| isa as u8),
            src_packing: o.src_packing as u8,
            dst_packing: o.dst_packing as u8,
            src_order: o.src_order as u8,
            dst_order: o.dst_order as u8,
            narrow_int_rounding: o.narrow_int_rounding.map_or(0, |rounding| 1 + rounding as u8),
            narrow_float_to_int: o.narrow_float_to_int.map_or(0, |overflow| 1 + overflow as u8),
            reserved: [0; 2],
            stochastic: o.stochastic.is_some().into(),
            reserved2: [0; 11],
            seed: o.stochastic.map_or(0, |stochastic| stochastic.seed),
            first: o.stochastic.map_or(0, |stochastic| stochastic.first),
        }
    }
}

impl TryFrom<&lanecast_options> for CastOptions {
    type Error = lanecast_status;

    fn try_from(o: &lanecast_options) -> Result<Self, lanecast_status> {
        if o.reserved != [0; 2] || o.reserved2 != [0; 11] {
            return Err(say(LANECAST_ERR_OPTIONS, &"the reserved fields of the options must be zero"));
        }
        let mut options = Self::new()
            .rounding(one_of("rounding", &Rounding::ALL, o.rounding)?)
            .int_rounding(one_of("int_rounding", &Rounding::ALL, o.int_rounding)?)
            .saturation(one_of("saturate", &Saturation::ALL, o.saturate)?)
            .float_to_int(one_of("float_to_int", &Overflow::ALL, o.float_to_int)?)
            .int_to_int(one_of("int_to_int", &[Overflow::Wrap, Overflow::Saturate], o.int_to_int)?)
            .nan_to_finite(one_of("nan_to_finite", &NanToFinite::ALL, o.nan_to_finite)?)
            .e8m0_rounding(one_of("e8m0_rounding", &E8m0Rounding::ALL, o.e8m0_rounding)?)
            .src_packing(one_of("src_packing", &Packing::ALL, o.src_packing)?)
            .dst_packing(one_of("dst_packing", &Packing::ALL, o.dst_packing)?)
            .src_order(one_of("src_order", &ByteOrder::ALL, o.src_order)?)
            .dst_order(one_of("dst_order", &ByteOrder::ALL, o.dst_order)?);
        if let Some(isa) = some_of("isa", &Isa::ALL, o.isa)? {
            options = options.isa(isa);
        }
        if let Some(rounding) = some_of("narrow_int_rounding", &Rounding::ALL, o.narrow_int_rounding)? {
            options = options.narrow_int_rounding(rounding);
        }
        if let Some(overflow) = some_of("narrow_float_to_int", &Overflow::ALL, o.narrow_float_to_int)? {
            options = options.narrow_float_to_int(overflow);
        }
        match o.stochastic {
            0 => {}
            1 => options = options.stochastic(o.seed, o.first),
            other => {
                return Err(say(
                    LANECAST_ERR_OPTIONS,
                    &format_args!("stochastic is {other}; it must be 0 or 1"),
                ));
            }
        }
        Ok(options)
    }
}

/// Returns the value of a code that begins at 0; `what` names the field in the message of an error.
fn one_of<T: Copy>(what: &str, values: &[T], code: u8) -> Result<T, lanecast_status> {
    values.get(usize::from(code)).copied().ok_or_else(|| no_such(what, code, values.len() - 1))
}

/// As [`one_of`], but of codes that begin at 1; 0 is None.
fn some_of<T: Copy>(what: &str, values: &[T], code: u8) -> Result<Option<T>, lanecast_status> {
    let Some(index) = code.checked_sub(1) else { return Ok(None) };
    let found = values.get(usize::from(index)).copied();
    found.map(Some).ok_or_else(|| no_such(what, code, values.len()))
}

/// Returns the status of a code beyond the last one.
fn no_such(what: &str, code: u8, last: usize) -> lanecast_status {
    say(LANECAST_ERR_OPTIONS, &format_args!("{what} is {code}; the codes are 0 to {last}"))
}

/// Returns the dtype of a code.
fn dtype(code: lanecast_dtype) -> Result<DType, lanecast_status> {
    DType::from_code(code)
        .ok_or_else(|| say(LANECAST_ERR_DTYPE, &format_args!("no dtype has the code {code}")))
}

fn status(error: Error) -> lanecast_status {
    let status = match error {
        Error::IsaUnavailable { .. } | Error::IsaOverride { .. } => LANECAST_ERR_ISA,
        Error::SizeOverflow { .. } | Error::BufferSize { .. } => LANECAST_ERR_SIZE,
        Error::Overlap | Error::ViewOverlap { .. } => LANECAST_ERR_OVERLAP,
        Error::ViewPacked { .. } => LANECAST_ERR_PACKED,
        Error::Cancelled { .. } => LANECAST_ERR_CANCELLED,
        Error::Allocation { .. } | Error::PlanAllocation { .. } => LANECAST_ERR_MEMORY,
        // The others cannot happen: the caller gives the destinations, and one shape for both sides.
        _ => LANECAST_ERR_INTERNAL,
    };
    say(status, &error)
}

/// Runs the body of an entry point, and returns its status. No panic leaves it.
fn guard(body: impl FnOnce() -> Result<(), lanecast_status> + std::panic::UnwindSafe) -> lanecast_status {
    match catch_unwind(body) {
        Ok(Ok(())) => LANECAST_OK,
        Ok(Err(status)) => message::settle(status),
        Err(_) => message::settle(LANECAST_ERR_INTERNAL),
    }
}

/// Reads a structure of a caller that begins with its size, a u32. It may be longer than ours, if the bytes that we do not know
/// are zero. It may be shorter, but not than `least`; what is missing is taken as zero.
///
/// # Safety
/// `from` is NULL, or `size` bytes are readable. Every field of `T` is a number or a pointer, for which zeros are a value.
unsafe fn read_sized<T: Copy>(what: &str, from: *const T, least: usize) -> Result<T, lanecast_status> {
    if from.is_null() {
        return Err(null(what));
    }
    let bytes = from.cast::<u8>();
    // SAFETY: `from` is not NULL, hence `size` bytes are readable by the caller's promise; they are read at any alignment. Zeros
    // are a value of `T`.
    unsafe {
        let size = from.cast::<u32>().read_unaligned() as usize;
        if size < least {
            let text = format_args!(
                "the size of {what} is {size}; it must be at least {least} (the init functions set it)"
            );
            return Err(say(LANECAST_ERR_OPTIONS, &text));
        }
        if let Some(i) = (size_of::<T>()..size).find(|&i| bytes.add(i).read() != 0) {
            let known = size_of::<T>();
            let text = format_args!(
                "byte {i} of {what} is not zero; this library knows only the first {known} of its {size} bytes"
            );
            return Err(say(LANECAST_ERR_OPTIONS, &text));
        }
        let mut ours = MaybeUninit::<T>::zeroed();
        ours.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes, size.min(size_of::<T>()));
        Ok(ours.assume_init())
    }
}

/// Reads the options of a caller; NULL stands for the defaults.
///
/// # Safety
/// `o` is NULL, or `size` bytes are readable.
unsafe fn read_options(o: *const lanecast_options) -> Result<CastOptions, lanecast_status> {
    if o.is_null() {
        return Ok(CastOptions::new());
    }
    // SAFETY: the caller's promise; all fields are numbers, for which zeros are a value.
    CastOptions::try_from(&unsafe { read_sized("o", o, FIRST_BLOCK) }?)
}

/// Writes the first block of the options, for which every caller has room.
///
/// # Safety
/// `o` is NULL, or writable for that block.
unsafe fn write_options(o: *mut lanecast_options, options: &CastOptions) -> Result<(), lanecast_status> {
    if o.is_null() {
        return Err(null("o"));
    }
    let options = lanecast_options::from(options);
    // SAFETY: not NULL, hence writable by the caller's promise.
    unsafe { o.cast::<u8>().copy_from_nonoverlapping((&raw const options).cast(), FIRST_BLOCK) };
    Ok(())
}

/// Reads a name of a caller, which must be UTF-8. `what` is the name of the argument.
///
/// # Safety
/// `name` is NULL, or a C string that lives as long as the result is used.
unsafe fn read_name<'a>(what: &str, name: *const c_char) -> Result<&'a str, lanecast_status> {
    if name.is_null() {
        return Err(null(what));
    }
    // SAFETY: not NULL, hence a C string by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map_err(|_| {
        let bytes = name.to_bytes().escape_ascii();
        say(LANECAST_ERR_NAME, &format_args!("{what} is \"{bytes}\", which is not UTF-8, and names nothing"))
    })
}

/// Sets every option to its default. Fields from stochastic on are not written, and size is set so that they are not read.
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (o).
///
/// # Safety
/// o is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_options_init(o: *mut lanecast_options) -> lanecast_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { write_options(o, &CastOptions::new()) })
}

/// Makes casts round stochastically: sets the fields from stochastic on, and a size that covers them. seed and first are the
/// values of the fields of these names. Options that were set before stay as they are. The random word of an element depends on
/// the seed and the number of the element alone.
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (o), _OPTIONS (the size in o, or what is behind the structure).
///
/// # Safety
/// o is NULL, or a whole structure of this header, writable, that an init function has set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_options_stochastic(
    o: *mut lanecast_options,
    seed: u64,
    first: u64,
) -> lanecast_status {
    guard(|| {
        // Callers of today's header have room for two blocks. If a third one is added, this must still write only two.
        const BOTH: () = assert!(size_of::<lanecast_options>() == 48);
        let () = BOTH;
        // SAFETY: the caller's promise: NULL, or as many bytes are readable as `size` says, and as a whole structure has.
        let known = unsafe { read_sized("o", o, FIRST_BLOCK) }?;
        let size = size_of::<lanecast_options>() as u32;
        let all = lanecast_options { size, stochastic: 1, reserved2: [0; 11], seed, first, ..known };
        // SAFETY: not NULL, hence writable by the caller's promise.
        unsafe { o.write_unaligned(all) };
        Ok(())
    })
}

/// Sets every option so that casts do what another system does, where name is "onnx", "numpy", "torch", "ml_dtypes" or
/// "rust_as". Sets size as lanecast_options_init does.
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (o, name), _NAME.
///
/// # Safety
/// o is NULL or writable; name is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_options_profile(
    o: *mut lanecast_options,
    name: *const c_char,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { read_name("name", name) }?;
        // `CastOptions::profile` would do, but its error allocates.
        let found = CastOptions::PROFILES.into_iter().find(|(known, _)| *known == name);
        let (_, options) = found
            .ok_or_else(|| unknown("profile", name, CastOptions::PROFILES.iter().map(|(known, _)| *known)))?;
        // SAFETY: the caller's promise.
        unsafe { write_options(o, &options) }
    })
}

/// Writes the dtype of a canonical name, such as "float8_e4m3fn", to out.
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (name, out), _NAME.
///
/// # Safety
/// name is NULL or a C string; out is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_dtype_from_name(
    name: *const c_char,
    out: *mut lanecast_dtype,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { read_name("name", name) }?;
        if out.is_null() {
            return Err(null("out"));
        }
        // `parse` would do, but its error allocates.
        let dtype = DType::ALL.into_iter().find(|dtype| dtype.name() == name);
        let dtype =
            dtype.ok_or_else(|| unknown("dtype", name, DType::ALL.iter().map(|dtype| dtype.name())))?;
        // SAFETY: not NULL, hence writable by the caller's promise.
        unsafe { out.write(dtype.code()) };
        Ok(())
    })
}

/// Returns the canonical name of a dtype, a static string; NULL if no dtype has this code.
#[unsafe(no_mangle)]
pub extern "C" fn lanecast_dtype_name(t: lanecast_dtype) -> *const c_char {
    /// Every name, followed by zeros.
    static NAMES: [[u8; 24]; DType::ALL.len()] = {
        let mut names = [[0; 24]; DType::ALL.len()];
        let mut i = 0;
        while i < names.len() {
            let name = DType::ALL[i].name().as_bytes();
            let (start, rest) = names[i].split_at_mut(name.len());
            start.copy_from_slice(name);
            assert!(!rest.is_empty(), "no room for the NUL");
            i += 1;
        }
        names
    };
    NAMES.get(usize::from(t)).map_or(core::ptr::null(), |name| name.as_ptr().cast())
}

/// Returns the width of an element in bits; 0 if no dtype has this code.
#[unsafe(no_mangle)]
pub extern "C" fn lanecast_dtype_bits(t: lanecast_dtype) -> u32 {
    DType::from_code(t).map_or(0, DType::bits)
}

/// Casts n elements from src to dst.
///
/// src and dst may have any alignment, and must not overlap. They may be NULL if n is 0. A packed buffer of n elements of w
/// bits has ceil(n * w / 8) bytes. o may be NULL for the default options.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src, dst), _SIZE (n), _OVERLAP, _MEMORY.
///
/// # Safety
/// src is readable and dst writable for n elements; o is NULL or points to o->size readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_cast(
    from: lanecast_dtype,
    src: *const c_void,
    to: lanecast_dtype,
    dst: *mut c_void,
    n: usize,
    o: *const lanecast_options,
) -> lanecast_status {
    // SAFETY: the caller's promise.
    unsafe { lanecast_cast_from(from, src, 0, to, dst, n, o) }
}

/// Casts the n elements from index offset on of a source of offset + n elements.
///
/// A packed element at that index may begin within a byte, as in an Arrow bitmap with an offset, whose dtype is uint1. All else
/// is as for lanecast_cast. With stochastic rounding, the element at index offset has the number that
/// the field first of the options says.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src, dst), _SIZE (offset + n), _OVERLAP, _MEMORY.
///
/// # Safety
/// src is readable for offset + n elements and dst writable for n; o is NULL or points to o->size readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_cast_from(
    from: lanecast_dtype,
    src: *const c_void,
    offset: usize,
    to: lanecast_dtype,
    dst: *mut c_void,
    n: usize,
    o: *const lanecast_options,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let Some((caster, src, dst)) = (unsafe { whole_buffers(from, src, offset, to, dst, n, o) })? else {
            return Ok(());
        };
        caster.cast_uninit_from(src, offset, dst, n).map(drop).map_err(status)
    })
}

/// What a checked cast lost: how many elements of each class. Output only. An element is in one class at most. There is no size,
/// because this structure never gets another field.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct lanecast_report {
    /// Elements that were checked.
    pub elements: u64,
    /// Elements that are, once rounded, larger than the largest value of the target.
    pub above: u64,
    /// Elements that are, once rounded, smaller than the smallest value of the target: negative ones, if it is unsigned.
    pub below: u64,
    /// NaNs that the target cannot hold.
    pub nan: u64,
    /// Infs that the target cannot hold, or that the options do not let it become.
    pub inf: u64,
    /// Elements with an imaginary part other than zero, which is dropped.
    pub imaginary: u64,
    /// Elements that are in range, but are rounded.
    pub inexact: u64,
    /// The index of the first element of any class but inexact; UINT64_MAX if there is none.
    pub first: u64,
    /// The index of the first inexact element; UINT64_MAX if there is none.
    pub first_inexact: u64,
}

const _: () = assert!(size_of::<lanecast_report>() == 72, "it never changes");

impl From<CastReport> for lanecast_report {
    fn from(report: CastReport) -> Self {
        let index = |index: Option<usize>| index.map_or(u64::MAX, |index| index as u64);
        Self {
            elements: report.elements as u64,
            above: report.above as u64,
            below: report.below as u64,
            nan: report.nan as u64,
            inf: report.inf as u64,
            imaginary: report.imaginary as u64,
            inexact: report.inexact as u64,
            first: index(report.first),
            first_inexact: index(report.first_inexact),
        }
    }
}

/// Casts n elements as lanecast_cast does, and reports what that loses.
///
/// An element is lost if it is in any class of lanecast_report but inexact. If any is lost, the status is LANECAST_ERR_LOSSY;
/// the destination is written all the same. report may be NULL. validity is NULL, or receives a bitmap of ceil(n / 8) bytes:
/// bit i % 8 of byte i / 8 is 0 if element i is lost, and 1 if not. Unused bits of the last byte are 0. After
/// LANECAST_ERR_MEMORY, dst has unspecified contents, and bits of validity may be 0. No two buffers may overlap.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src, dst), _SIZE (n), _OVERLAP (validity, too), _MEMORY,
/// _LOSSY.
///
/// # Safety
/// As for lanecast_cast; report is NULL or writable, validity is NULL or writable for ceil(n / 8) bytes.
#[allow(clippy::too_many_arguments, reason = "the signature is that of the interface")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_cast_checked(
    from: lanecast_dtype,
    src: *const c_void,
    to: lanecast_dtype,
    dst: *mut c_void,
    n: usize,
    o: *const lanecast_options,
    report: *mut lanecast_report,
    validity: *mut u8,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let found = match unsafe { whole_buffers(from, src, 0, to, dst, n, o) }? {
            None => CastReport::default(),
            Some((caster, src, dst)) => {
                let validity = if validity.is_null() {
                    None
                } else {
                    let bits = memory("validity", validity, n.div_ceil(8))?;
                    if overlap(bits, src) {
                        return Err(overlapping("validity", "src"));
                    }
                    if overlap(bits, &raw const *dst) {
                        return Err(overlapping("validity", "dst"));
                    }
                    // SAFETY: writable by the caller's promise, initialised before it is borrowed, and it overlaps neither buffer.
                    Some(unsafe {
                        validity.write_bytes(0, bits.len());
                        &mut *bits.cast_mut()
                    })
                };
                caster.cast_checked_uninit(src, dst, n, validity).map_err(status)?.1
            }
        };
        // SAFETY: the caller's promise.
        unsafe { reported(found, report) }
    })
}

/// Reports what a cast of n elements would lose, as lanecast_cast_checked does, but casts nothing and needs no room for
/// results. report may be NULL.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src), _SIZE (n), _MEMORY, _LOSSY.
///
/// # Safety
/// src is readable for n elements; o is NULL or points to o->size readable bytes; report is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_check(
    from: lanecast_dtype,
    src: *const c_void,
    to: lanecast_dtype,
    n: usize,
    o: *const lanecast_options,
    report: *mut lanecast_report,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (caster, options) = unsafe { caster(from, to, o) }?;
        let found = if n == 0 {
            CastReport::default()
        } else {
            let size = caster.from().byte_len(n, options.src_packing).unwrap_or(usize::MAX);
            let src = memory("src", src.cast::<u8>(), size)?;
            // SAFETY: of the size of `n` elements, which the caller promises to be readable.
            caster.report(unsafe { &*src }, n).map_err(status)?
        };
        // SAFETY: the caller's promise.
        unsafe { reported(found, report) }
    })
}

/// Writes what was found, unless `report` is NULL, and returns `LANECAST_ERR_LOSSY` if an element was lost.
///
/// # Safety
/// `report` is NULL or writable.
unsafe fn reported(found: CastReport, report: *mut lanecast_report) -> Result<(), lanecast_status> {
    if !report.is_null() {
        // SAFETY: not NULL, hence writable by the caller's promise. Unaligned, because nothing says how it was allocated.
        unsafe { report.write_unaligned(found.into()) };
    }
    if found.first.is_some() { Err(LANECAST_ERR_LOSSY) } else { Ok(()) }
}

/// Returns the caster of two dtypes under the options of a caller, and these options.
///
/// # Safety
/// `o` is NULL or points to `o->size` readable bytes.
unsafe fn caster(
    from: lanecast_dtype,
    to: lanecast_dtype,
    o: *const lanecast_options,
) -> Result<(Caster, CastOptions), lanecast_status> {
    let from = dtype(from)?;
    let to = dtype(to)?;
    // SAFETY: the caller's promise.
    let options = unsafe { read_options(o) }?;
    Ok((Caster::new(from, to, &options).map_err(status)?, options))
}

/// What [`lanecast_cast`] and the functions like it cast: the caster, the source and the destination. None if there are no
/// elements.
type WholeBuffers<'a> = Option<(Caster, &'a [u8], &'a mut [MaybeUninit<u8>])>;

/// Checks the arguments of a cast of whole buffers.
///
/// # Safety
/// As for [`lanecast_cast_from`], as long as the buffers are used.
unsafe fn whole_buffers<'a>(
    from: lanecast_dtype,
    src: *const c_void,
    offset: usize,
    to: lanecast_dtype,
    dst: *mut c_void,
    n: usize,
    o: *const lanecast_options,
) -> Result<WholeBuffers<'a>, lanecast_status> {
    // SAFETY: the caller's promise.
    let (caster, options) = unsafe { caster(from, to, o) }?;
    if n == 0 {
        return Ok(None);
    }
    let text = format_args!("offset + n is {offset} + {n}, more than a size_t holds");
    let all = offset.checked_add(n).ok_or_else(|| say(LANECAST_ERR_SIZE, &text))?;
    // Where the number of bytes overflows, `memory` refuses the buffer.
    let size = |dtype: DType, n, packing| dtype.byte_len(n, packing).unwrap_or(usize::MAX);
    let src = memory("src", src.cast(), size(caster.from(), all, options.src_packing))?;
    let dst = memory("dst", dst.cast::<MaybeUninit<u8>>(), size(caster.to(), n, options.dst_packing))?;
    if overlap(src, dst) {
        return Err(overlapping("src", "dst"));
    }
    // SAFETY: the slices have the sizes of `offset + n` and of `n` elements, which the caller promises to be readable and
    // writable, and they do not overlap.
    Ok(Some(unsafe { (caster, &*src, &mut *dst.cast_mut()) }))
}

/// Returns the memory of `n` numbers of a caller, if that can exist: the pointer is not NULL and is aligned, and the memory is no
/// larger than an object can be and inside the address space. It can be borrowed as a slice if the caller promises that it is
/// readable or writable.
fn memory<T>(what: &str, first: *const T, n: usize) -> Result<*const [T], lanecast_status> {
    if first.is_null() {
        return Err(null(what));
    }
    let bytes = n.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
    let end = bytes.and_then(|bytes| first.addr().checked_add(bytes));
    if end.is_none() {
        return Err(say(LANECAST_ERR_SIZE, &format_args!("{what} does not fit into the address space")));
    }
    if !first.is_aligned() {
        let text = format_args!(
            "{what} is at the address {first:?}, which is not a multiple of {}",
            align_of::<T>()
        );
        return Err(say(LANECAST_ERR_SIZE, &text));
    }
    Ok(core::ptr::slice_from_raw_parts(first, n))
}

/// Whether two pieces of memory, as [`memory`] returns them, have a byte in common.
fn overlap<A, B>(a: *const [A], b: *const [B]) -> bool {
    let (a_at, b_at) = (a.cast::<A>().addr(), b.cast::<B>().addr());
    a_at < b_at + b.len() * size_of::<B>() && b_at < a_at + a.len() * size_of::<A>()
}

/// Promotes count operands by a ruleset, and writes their common dtype to out.
///
/// rules is the name of the ruleset: "numpy", "jax", "jax_x32", "jax_strict", "torch", "array_api", "mindspore", "megengine",
/// "onnx" or "lossless". Neither the order of the operands nor repetitions matter.
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (rules, operands, out), _NAME, _SIZE (count), _DTYPE (operands), _UNDEFINED.
///
/// # Safety
/// rules is NULL or a C string; operands is NULL or readable for count dtypes; out is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_promote(
    rules: *const c_char,
    operands: *const lanecast_dtype,
    count: usize,
    out: *mut lanecast_dtype,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { read_name("rules", rules) }?;
        let rules = Rules::ALL.into_iter().find(|rules| rules.name() == name);
        let rules =
            rules.ok_or_else(|| unknown("ruleset", name, Rules::ALL.iter().map(|rules| rules.name())))?;
        if out.is_null() {
            return Err(null("out"));
        }
        let mut set = DTypeSet::EMPTY;
        if count > 0 {
            let operands = memory("operands", operands, count)?;
            // SAFETY: readable by the caller's promise.
            for code in unsafe { &*operands } {
                set = set.with(dtype(*code)?);
            }
        }
        let dtype = rules.promote_all(set.iter()).map_err(|error| say(LANECAST_ERR_UNDEFINED, &error))?;
        // SAFETY: not NULL, hence writable by the caller's promise.
        unsafe { out.write(dtype.code()) };
        Ok(())
    })
}

/// Writes 1 to out if a cast is permitted at a level of casting, else 0. level is "no", "equiv", "safe", "same_kind",
/// "same_value" or "unsafe".
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _NULL (level, out), _NAME.
///
/// # Safety
/// level is NULL or a C string; out is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_can_cast(
    from: lanecast_dtype,
    to: lanecast_dtype,
    level: *const c_char,
    out: *mut c_int,
) -> lanecast_status {
    guard(|| {
        let from = dtype(from)?;
        let to = dtype(to)?;
        // SAFETY: the caller's promise.
        let name = unsafe { read_name("level", level) }?;
        let level = Casting::ALL.into_iter().find(|level| level.name() == name);
        let level = level.ok_or_else(|| {
            unknown("level of casting", name, Casting::ALL.iter().map(|level| level.name()))
        })?;
        if out.is_null() {
            return Err(null("out"));
        }
        // SAFETY: not NULL, hence writable by the caller's promise.
        unsafe { out.write(from.can_cast(to, level).into()) };
        Ok(())
    })
}

/// Returns the LANECAST_ABI_VERSION of the library. If it is less than that of the header, the library is older than the header.
#[unsafe(no_mangle)]
pub extern "C" fn lanecast_abi_version() -> u32 {
    LANECAST_ABI_VERSION
}

/// Returns what a status means, in English: a static string, never NULL. lanecast_error_message says more.
#[unsafe(no_mangle)]
pub extern "C" fn lanecast_strerror(s: lanecast_status) -> *const c_char {
    let text = match s {
        LANECAST_OK => c"done",
        LANECAST_ERR_NULL => c"a pointer that must not be NULL is NULL",
        LANECAST_ERR_DTYPE => c"no dtype has this code, or there is no scaled cast of these dtypes",
        LANECAST_ERR_NAME => c"no dtype, profile, scaling, ruleset or level of casting has this name",
        LANECAST_ERR_OPTIONS => {
            c"the options have too small a size, a value out of range, or an unknown field that is not zero; or this scaled cast is not supported"
        }
        LANECAST_ERR_ISA => {
            c"the instruction set that the options or LANECAST_ISA name is not available here"
        }
        LANECAST_ERR_SIZE => {
            c"a buffer overflows the address space or does not have the size of its elements, or a shape or strides are not aligned"
        }
        LANECAST_ERR_OVERLAP => c"the buffers overlap, or elements of a strided destination do",
        LANECAST_ERR_INTERNAL => c"an internal error of lanecast; please report it",
        LANECAST_ERR_LOSSY => c"the cast loses elements",
        LANECAST_ERR_UNDEFINED => c"the ruleset defines no common dtype of the operands, or there are no operands",
        LANECAST_ERR_CANCELLED => c"the progress callback has stopped the cast",
        LANECAST_ERR_PACKED => c"a strided view has packed elements; they must lie one per byte",
        LANECAST_ERR_MEMORY => c"there is no memory for what the call needs",
        LANECAST_ERR_SHAPE => c"the blocks or rows of the scaling do not fit the shape of the data",
        _ => c"not a status of lanecast",
    };
    text.as_ptr()
}

/// Returns 1 if casts with this value of the option isa can run here, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn lanecast_isa_available(isa: u8) -> c_int {
    let available = catch_unwind(|| match isa {
        0 => Isa::best().is_ok(),
        code => Isa::ALL.iter().any(|isa| *isa as u8 == code && isa.is_available()),
    });
    available.unwrap_or(false).into()
}

/// Returns the instruction set that casts run on by default, as LANECAST_ISA_*; or LANECAST_ERR_ISA if the environment variable
/// LANECAST_ISA names one that is not available here.
#[unsafe(no_mangle)]
pub extern "C" fn lanecast_isa_best() -> c_int {
    match catch_unwind(|| Isa::best().map_err(status)) {
        Ok(Ok(isa)) => isa as c_int,
        Ok(Err(status)) => message::settle(status),
        Err(_) => message::settle(LANECAST_ERR_INTERNAL),
    }
}

mod scaled;
#[cfg(unix)]
mod threads;
mod views;
pub use scaled::*;
pub use views::*;

#[cfg(test)]
mod tests;
