//! The C interface of lanecast: thin, total, and stable.
//!
//! Every function checks its arguments, returns a status instead of panicking, and writes nothing when
//! it fails. Two statuses are no such failures: `LANECAST_ERR_LOSSY` says what a cast found, and
//! `LANECAST_ERR_CANCELLED` that a callback has stopped it in the middle. (After the `LANECAST_ERR_MEMORY` of a scaled cast
//! what it writes has unspecified contents, and after that of a checked one the bits of `validity` may be 0.) Names, codes and the layout of `lanecast_options` never change; new ones are
//! added at the end.

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

/// Done.
pub const LANECAST_OK: i32 = 0;
/// A pointer is NULL that must not be.
pub const LANECAST_ERR_NULL: i32 = -1;
/// No dtype has this code, or there is no cast under scales of these.
pub const LANECAST_ERR_DTYPE: i32 = -2;
/// No dtype, profile, scaling, ruleset or level of casting has this name.
pub const LANECAST_ERR_NAME: i32 = -3;
/// The options: a size that is too small, a value out of its range, or something unknown that is not zero; or there is no
/// such scaling.
pub const LANECAST_ERR_OPTIONS: i32 = -4;
/// The instruction set that the options or LANECAST_ISA name is not available here.
pub const LANECAST_ERR_ISA: i32 = -5;
/// The size of a buffer overflows size_t or is not that of its elements, or the buffer would pass the end of the
/// address space; or the numbers of a shape or of strides are not aligned.
pub const LANECAST_ERR_SIZE: i32 = -6;
/// The buffers overlap, or elements of a strided destination do.
pub const LANECAST_ERR_OVERLAP: i32 = -7;
/// A defect of the library. Please report it.
pub const LANECAST_ERR_INTERNAL: i32 = -8;
/// The ruleset defines no common dtype of the operands, or there are none.
pub const LANECAST_ERR_UNDEFINED: i32 = -9;
/// The progress callback has stopped the cast: some chunks of the destination are written, and others are not.
pub const LANECAST_ERR_CANCELLED: i32 = -11;
/// A strided view of elements of fewer than 8 bits that are packed.
pub const LANECAST_ERR_PACKED: i32 = -12;
/// There is no memory for what a call needs: the room that comes with the library is enough for the first pairs and options.
pub const LANECAST_ERR_MEMORY: i32 = -13;

/// The blocks of a scaling do not go with the shape of the data: they have more dimensions than those, or there are more
/// than 8, or a row is longer than the bytes from one to the next.
pub const LANECAST_ERR_SHAPE: i32 = -14;

/// The cast loses elements. It is done all the same; or it was lanecast_check, which casts nothing.
pub const LANECAST_ERR_LOSSY: i32 = -10;

/// The version of this interface. It grows when something is added.
pub const LANECAST_ABI_VERSION: u32 = 5;

/// How to cast. lanecast_options_init sets the defaults; an all-zero structure is not a valid one.
///
/// New fields are only ever added at the end, and `size` says how much of the structure the caller knows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lanecast_options {
    /// The number of bytes the caller has set, this field included. A larger one than the library knows
    /// is fine while the unknown rest is zero.
    pub size: u32,
    /// To floats: LANECAST_ROUNDING_*. Default: nearest, ties to even.
    pub rounding: u8,
    /// Float to integer: LANECAST_ROUNDING_*. Default: toward zero.
    pub int_rounding: u8,
    /// Floats of 8 bits or fewer whose overflow gives the largest value, not Inf or NaN: LANECAST_SATURATE_*. Default: all of them.
    pub saturate: u8,
    /// Float to integer, out of range: LANECAST_FLOAT_TO_INT_*. Default: saturate.
    pub float_to_int: u8,
    /// Integer to integer, out of range: LANECAST_INT_TO_INT_*. Default: wrap.
    pub int_to_int: u8,
    /// NaN to float4 and float6: LANECAST_NAN_TO_FINITE_*. Default: negative zero.
    pub nan_to_finite: u8,
    /// To float8_e8m0fnu: LANECAST_E8M0_ROUNDING_*. Default: up.
    pub e8m0_rounding: u8,
    /// The instruction set: LANECAST_ISA_*. Default: the best.
    pub isa: u8,
    /// Source of fewer than 8 bits an element: LANECAST_PACKING_*. Default: low bits first.
    pub src_packing: u8,
    /// Destination: the same.
    pub dst_packing: u8,
    /// Byte order of the source, and of scales and zero points beside it: LANECAST_ORDER_*. Default: native.
    pub src_order: u8,
    /// Byte order of the destination, and of scales and zero points beside that: the same.
    pub dst_order: u8,
    /// Float to integers of fewer than 8 bits: 0 as int_rounding (default), or 1 + LANECAST_ROUNDING_*.
    pub narrow_int_rounding: u8,
    /// Float to integers of fewer than 8 bits: 0 as float_to_int (default), or 1 + LANECAST_FLOAT_TO_INT_*.
    pub narrow_float_to_int: u8,
    /// Zero.
    pub reserved: [u8; 2],
    /// To floats of 16 bits or fewer, but not to float8_e8m0fnu: 1 chance rounds, by seed and first, and rounding does not;
    /// 0 no (default). This field and those behind it are not read unless `size` covers them, which it does not after
    /// lanecast_options_init: lanecast_options_stochastic sets them, and `size`.
    pub stochastic: u8,
    /// Zero.
    pub reserved2: [u8; 11],
    /// What makes one cast round otherwise than another. Not read unless `size` covers it.
    pub seed: u64,
    /// The number of the first element: whoever casts in pieces counts on. Not read unless `size` covers it.
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
            // Wrapping, the default of this one, is code 0 here.
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
            return Err(say(LANECAST_ERR_OPTIONS, &"a reserved field of the options is not zero"));
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
                return Err(say(LANECAST_ERR_OPTIONS, &format_args!("stochastic is {other}; it is 0 or 1")));
            }
        }
        Ok(options)
    }
}

/// The value of a code.
fn one_of<T: Copy>(what: &str, values: &[T], code: u8) -> Result<T, lanecast_status> {
    values.get(usize::from(code)).copied().ok_or_else(|| no_such(what, code, values.len() - 1))
}

/// The same, of codes that begin at 1; 0 is None.
fn some_of<T: Copy>(what: &str, values: &[T], code: u8) -> Result<Option<T>, lanecast_status> {
    let Some(index) = code.checked_sub(1) else { return Ok(None) };
    let found = values.get(usize::from(index)).copied();
    found.map(Some).ok_or_else(|| no_such(what, code, values.len()))
}

/// A code beyond the last one.
fn no_such(what: &str, code: u8, last: usize) -> lanecast_status {
    say(LANECAST_ERR_OPTIONS, &format_args!("{what} is {code}; the codes are 0 to {last}"))
}

/// The dtype of a code.
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
        // Destinations are the caller's, and there is one shape: the others cannot happen.
        _ => LANECAST_ERR_INTERNAL,
    };
    say(status, &error)
}

/// Runs the body of an entry point: no panic leaves it.
fn guard(body: impl FnOnce() -> Result<(), lanecast_status> + std::panic::UnwindSafe) -> lanecast_status {
    match catch_unwind(body) {
        Ok(Ok(())) => LANECAST_OK,
        Ok(Err(status)) => message::settle(status),
        Err(_) => message::settle(LANECAST_ERR_INTERNAL),
    }
}

/// A structure of a caller that begins with its size, an u32. It may be longer than ours while the unknown rest is zero, and
/// shorter, but for its first block: what is missing is zero.
///
/// # Safety
/// NULL, or `size` bytes are readable. Every field of `T` is a number or a pointer, for which zeros are a value.
unsafe fn read_sized<T: Copy>(what: &str, from: *const T, least: usize) -> Result<T, lanecast_status> {
    if from.is_null() {
        return Err(null(what));
    }
    let bytes = from.cast::<u8>();
    // SAFETY: not NULL, hence so many bytes are readable by the caller's promise, at any alignment. Zeros are a value.
    unsafe {
        let size = from.cast::<u32>().read_unaligned() as usize;
        if size < least {
            let text = format_args!(
                "the size of {what} is {size}; it is {least} at least (the init functions set it)"
            );
            return Err(say(LANECAST_ERR_OPTIONS, &text));
        }
        if let Some(i) = (size_of::<T>()..size).find(|&i| bytes.add(i).read() != 0) {
            let known = size_of::<T>();
            let text =
                format_args!("byte {i} of {what} is not zero; this library knows {known} of its {size}");
            return Err(say(LANECAST_ERR_OPTIONS, &text));
        }
        let mut ours = MaybeUninit::<T>::zeroed();
        ours.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes, size.min(size_of::<T>()));
        Ok(ours.assume_init())
    }
}

/// The options behind a pointer of a caller.
///
/// # Safety
/// NULL, or `size` bytes are readable.
unsafe fn read_options(o: *const lanecast_options) -> Result<CastOptions, lanecast_status> {
    if o.is_null() {
        return Ok(CastOptions::new());
    }
    // SAFETY: the caller's promise; all fields are numbers.
    CastOptions::try_from(&unsafe { read_sized("o", o, FIRST_BLOCK) }?)
}

/// Writes the first block, for which every caller has room.
///
/// # Safety
/// `o` is writable for that.
unsafe fn write_options(o: *mut lanecast_options, options: &CastOptions) -> Result<(), lanecast_status> {
    if o.is_null() {
        return Err(null("o"));
    }
    let options = lanecast_options::from(options);
    // SAFETY: not NULL, hence writable by the caller's promise.
    unsafe { o.cast::<u8>().copy_from_nonoverlapping((&raw const options).cast(), FIRST_BLOCK) };
    Ok(())
}

/// A string of a caller.
///
/// # Safety
/// NULL, or a C string that lives as long as the answer is used.
unsafe fn read_name<'a>(what: &str, name: *const c_char) -> Result<&'a str, lanecast_status> {
    if name.is_null() {
        return Err(null(what));
    }
    // SAFETY: not NULL, hence a C string by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map_err(|_| {
        let bytes = name.to_bytes().escape_ascii();
        say(LANECAST_ERR_NAME, &format_args!("{what} is \"{bytes}\", which is no UTF-8 and names nothing"))
    })
}

/// Sets every option to its default, and `size` to the size of the first block: what is behind it is not read.
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (o).
///
/// # Safety
/// `o` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_options_init(o: *mut lanecast_options) -> lanecast_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { write_options(o, &CastOptions::new()) })
}

/// Sets the options behind the first block, which `size` then has: chance rounds, by this seed, and the first element has this
/// number. The options before are those that were set. Results depend on nothing else than the seed and the number of an element.
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (o), _OPTIONS (the size in o, or what is behind the structure).
///
/// # Safety
/// `o` is NULL or writable for a whole structure of this header, and an init function has set it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_options_stochastic(
    o: *mut lanecast_options,
    seed: u64,
    first: u64,
) -> lanecast_status {
    guard(|| {
        // (Whoever calls this has both blocks. A third would be none of theirs: this writes two, then, too.)
        const BOTH: () = assert!(size_of::<lanecast_options>() == 48);
        let () = BOTH;
        // SAFETY: the caller's promise: NULL, or there are as many bytes as `size` says, and as many as a whole structure.
        let known = unsafe { read_sized("o", o, FIRST_BLOCK) }?;
        let size = size_of::<lanecast_options>() as u32;
        let all = lanecast_options { size, stochastic: 1, reserved2: [0; 11], seed, first, ..known };
        // SAFETY: not NULL, hence writable by the caller's promise.
        unsafe { o.write_unaligned(all) };
        Ok(())
    })
}

/// Sets every option to what a system does: "onnx" "numpy" "torch" "ml_dtypes" "rust_as".
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (o, name), _NAME.
///
/// # Safety
/// `o` is NULL or writable; `name` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_options_profile(
    o: *mut lanecast_options,
    name: *const c_char,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { read_name("name", name) }?;
        // Not by `profile`, whose error allocates.
        let found = CastOptions::PROFILES.into_iter().find(|(known, _)| *known == name);
        let (_, options) = found
            .ok_or_else(|| unknown("profile", name, CastOptions::PROFILES.iter().map(|(known, _)| *known)))?;
        // SAFETY: the caller's promise.
        unsafe { write_options(o, &options) }
    })
}

/// The dtype of a canonical name, such as "float8_e4m3fn".
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (name, out), _NAME.
///
/// # Safety
/// `name` is NULL or a C string; `out` is NULL or writable.
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
        // Not by `parse`, whose error allocates.
        let dtype = DType::ALL.into_iter().find(|dtype| dtype.name() == name);
        let dtype =
            dtype.ok_or_else(|| unknown("dtype", name, DType::ALL.iter().map(|dtype| dtype.name())))?;
        // SAFETY: not NULL, hence writable by the caller's promise.
        unsafe { out.write(dtype.code()) };
        Ok(())
    })
}

/// The canonical name of a dtype; NULL for a bad code. It lives forever.
#[unsafe(no_mangle)]
pub extern "C" fn lanecast_dtype_name(t: lanecast_dtype) -> *const c_char {
    /// Every name, with zeros behind it.
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

/// The width of an element in bits; 0 for a bad code.
#[unsafe(no_mangle)]
pub extern "C" fn lanecast_dtype_bits(t: lanecast_dtype) -> u32 {
    DType::from_code(t).map_or(0, DType::bits)
}

/// Casts n elements. o may be NULL. src and dst may have any alignment and may be NULL when n is 0; they
/// must not overlap. A packed buffer of n elements of w bits has ceil(n * w / 8) bytes.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src, dst), _SIZE (n), _OVERLAP, _MEMORY.
///
/// # Safety
/// `src` is readable and `dst` writable for `n` elements; `o` is NULL or points to `o->size` readable bytes.
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

/// Casts n elements from number first on, of a source of first + n: also where a packed one begins within a byte, as in a
/// bitmap of Arrow with an offset, whose dtype is uint1. All else is as for lanecast_cast: chance, too, counts from the first that
/// is cast on.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src, dst), _SIZE (first + n), _OVERLAP, _MEMORY.
///
/// # Safety
/// `src` is readable for `first + n` elements and `dst` writable for `n`; `o` is NULL or points to `o->size` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_cast_from(
    from: lanecast_dtype,
    src: *const c_void,
    first: usize,
    to: lanecast_dtype,
    dst: *mut c_void,
    n: usize,
    o: *const lanecast_options,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let Some((caster, src, dst)) = (unsafe { whole_buffers(from, src, first, to, dst, n, o) })? else {
            return Ok(());
        };
        caster.cast_uninit_from(src, first, dst, n).map(drop).map_err(status)
    })
}

/// What a checked cast lost. Output only. An element is in one class at most.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct lanecast_report {
    /// Elements that were looked at.
    pub elements: u64,
    /// Rounded, larger than the largest value of the target.
    pub above: u64,
    /// Rounded, smaller than the smallest value of the target; of unsigned targets, negative.
    pub below: u64,
    /// A NaN that the target cannot hold.
    pub nan: u64,
    /// An Inf that the target cannot hold, or that the options do not let it become.
    pub inf: u64,
    /// An imaginary part that is not zero, and is dropped.
    pub imaginary: u64,
    /// In range, but rounded.
    pub inexact: u64,
    /// The index of the first element of any class but inexact; UINT64_MAX when there is none.
    pub first: u64,
    /// The index of the first inexact element; UINT64_MAX when there is none.
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

/// Casts n elements as lanecast_cast does, and says what that loses. The destination is written in every case
/// that is no other error; LANECAST_ERR_LOSSY says that an element is of a class other than inexact. report may be
/// NULL. validity is NULL, or gets a bitmap of ceil(n / 8) bytes: bit i % 8 of byte i / 8 is 0 for an element i
/// of such a class, and 1 for any other; the bits of no element are 0. No two buffers may overlap.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src, dst), _SIZE (n), _OVERLAP (validity, too), _MEMORY,
/// _LOSSY.
///
/// # Safety
/// As for `lanecast_cast`; `report` is NULL or writable, `validity` NULL or writable for ceil(n / 8) bytes.
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
                    // SAFETY: writable by the caller's promise, initialised first, and it overlaps neither buffer.
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

/// What lanecast_cast_checked would find. Nothing is cast, and no room for the result is needed. report may be NULL.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src), _SIZE (n), _MEMORY, _LOSSY.
///
/// # Safety
/// `src` is readable for `n` elements; `o` is NULL or points to `o->size` readable bytes; `report` is NULL or writable.
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

/// Writes what was found, and says whether that is a loss.
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

/// The cast of two dtypes under some options.
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

/// What [`lanecast_cast`] and its like cast; None if there are no elements.
type WholeBuffers<'a> = Option<(Caster, &'a [u8], &'a mut [MaybeUninit<u8>])>;

/// # Safety
/// As for [`lanecast_cast_from`], as long as the buffers are used.
unsafe fn whole_buffers<'a>(
    from: lanecast_dtype,
    src: *const c_void,
    first: usize,
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
    let text = format_args!("there is no source of first + n elements: those are {first} + {n}");
    let all = first.checked_add(n).ok_or_else(|| say(LANECAST_ERR_SIZE, &text))?;
    // No memory is as large as what overflows.
    let size = |dtype: DType, n, packing| dtype.byte_len(n, packing).unwrap_or(usize::MAX);
    let src = memory("src", src.cast(), size(caster.from(), all, options.src_packing))?;
    let dst = memory("dst", dst.cast::<MaybeUninit<u8>>(), size(caster.to(), n, options.dst_packing))?;
    if overlap(src, dst) {
        return Err(overlapping("src", "dst"));
    }
    // SAFETY: of the size of `n` elements, which the caller promises to be readable and writable; not overlapping.
    Ok(Some(unsafe { (caster, &*src, &mut *dst.cast_mut()) }))
}

/// The memory of `n` numbers of a caller, if it can be some: not NULL, aligned, no larger than objects are, and inside
/// the address space. A slice can be made of it where the caller promises that it is readable or writable.
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
        let text = format_args!("{what} is at {first:?}, which is no multiple of {}", align_of::<T>());
        return Err(say(LANECAST_ERR_SIZE, &text));
    }
    Ok(core::ptr::slice_from_raw_parts(first, n))
}

/// Have two pieces of memory a byte in common?
fn overlap<A, B>(a: *const [A], b: *const [B]) -> bool {
    let (a_at, b_at) = (a.cast::<A>().addr(), b.cast::<B>().addr());
    a_at < b_at + b.len() * size_of::<B>() && b_at < a_at + a.len() * size_of::<A>()
}

/// The dtype that count operands become together. Neither their order nor repetitions matter. rules: "numpy"
/// "jax" "jax_x32" "jax_strict" "torch" "array_api" "mindspore" "megengine" "onnx" "lossless".
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (rules, operands, out), _NAME, _SIZE (count), _DTYPE (operands), _UNDEFINED.
///
/// # Safety
/// `rules` is NULL or a C string; `operands` is NULL or readable for `count` dtypes; `out` is NULL or
/// writable.
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

/// Writes 1 if a cast may be done at this level, else 0: "no" "equiv" "safe" "same_kind" "same_value"
/// "unsafe".
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _NULL (level, out), _NAME.
///
/// # Safety
/// `level` is NULL or a C string; `out` is NULL or writable.
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

/// LANECAST_ABI_VERSION of the library.
#[unsafe(no_mangle)]
pub extern "C" fn lanecast_abi_version() -> u32 {
    LANECAST_ABI_VERSION
}

/// What a status means, in English; lanecast_error_message says more. Never NULL; it lives forever.
#[unsafe(no_mangle)]
pub extern "C" fn lanecast_strerror(s: lanecast_status) -> *const c_char {
    let text = match s {
        LANECAST_OK => c"done",
        LANECAST_ERR_NULL => c"a pointer is NULL that must not be",
        LANECAST_ERR_DTYPE => c"no dtype has this code, or there is no cast under scales of these",
        LANECAST_ERR_NAME => c"no dtype, profile, scaling, ruleset or level of casting has this name",
        LANECAST_ERR_OPTIONS => {
            c"the options have too small a size, a value out of range, or an unknown field that is not zero; or there is no such scaling"
        }
        LANECAST_ERR_ISA => {
            c"the instruction set that the options or LANECAST_ISA name is not available here"
        }
        LANECAST_ERR_SIZE => {
            c"a buffer overflows the address space, or is not of the size of its elements; or a shape or strides are not aligned"
        }
        LANECAST_ERR_OVERLAP => c"the buffers overlap, or elements of a strided destination do",
        LANECAST_ERR_INTERNAL => c"a defect of lanecast; please report it",
        LANECAST_ERR_LOSSY => c"the cast loses elements",
        LANECAST_ERR_UNDEFINED => c"the ruleset defines no common dtype of the operands",
        LANECAST_ERR_CANCELLED => c"the progress callback has stopped the cast",
        LANECAST_ERR_PACKED => c"a strided view of packed elements; they must lie one per byte",
        LANECAST_ERR_MEMORY => c"there is no memory for what the call needs",
        LANECAST_ERR_SHAPE => c"the blocks of a scaling do not go with the shape of the data",
        _ => c"no lanecast status",
    };
    text.as_ptr()
}

/// 1 if a cast with this `isa` option can run here, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn lanecast_isa_available(isa: u8) -> c_int {
    let available = catch_unwind(|| match isa {
        0 => Isa::best().is_ok(),
        code => Isa::ALL.iter().any(|isa| *isa as u8 == code && isa.is_available()),
    });
    available.unwrap_or(false).into()
}

mod scaled;
#[cfg(unix)]
mod threads;
mod views;
pub use scaled::*;
pub use views::*;

#[cfg(test)]
mod tests;
