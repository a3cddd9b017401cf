//! Sequences of calls of the C functions, with buffers of the right sizes and otherwise arbitrary arguments: no call
//! crashes, an error writes nothing, and results are those of the Rust library.

#![no_main]

extern crate lanecast as rust;

#[allow(dead_code, missing_docs, unused_imports)]
#[path = "../../capi/src/lib.rs"]
mod capi;

use core::ffi::c_void;
use core::ptr::{null, null_mut};

use capi::*;
use libfuzzer_sys::fuzz_target;
use rust::{CastOptions, Caster, DType};

const CANARY: u8 = 0xC5;

/// A function, two dtypes, a length, choices as bits, and the bytes of the options after their field `size`.
type Call = (u8, u8, u8, u16, u8, [u8; 16]);

fuzz_target!(|input: (Vec<Call>, &[u8])| {
    let (calls, bytes) = input;
    // The results of one call may be the source of the next.
    let mut data = bytes.to_vec();
    for (function, from, to, n, choices, raw) in calls.into_iter().take(16) {
        let mut options = defaults();
        if choices & 1 == 1 {
            set(&mut options, raw, choices & 2 == 2);
        }
        let o = if choices & 4 == 4 { null() } else { &raw const options };
        match function % 12 {
            0..=3 => cast(&mut data, from, to, n, choices, o),
            4 => names(from, &raw),
            5 => promotion(from, to, &raw),
            6 => profiles(&raw),
            7 => small(from),
            8 | 9 => parallel(&mut data, [from, to], n, choices, o, &raw),
            10 => in_place(&mut data, [from, to], n, choices, o),
            _ => strided(&data, [from, to], o, &raw),
        }
    }
});

fn defaults() -> lanecast_options {
    // The C function sets only the first block, so the rest is zeroed here.
    let mut options = core::mem::MaybeUninit::zeroed();
    // SAFETY: the structure is writable, zeroed, and initialised by the call if that is no error, which is asserted.
    unsafe {
        assert_eq!(lanecast_options_init(options.as_mut_ptr()), LANECAST_OK);
        options.assume_init()
    }
}

/// Sets every option: to valid values if `valid`, otherwise to arbitrary bytes.
fn set(options: &mut lanecast_options, raw: [u8; 16], valid: bool) {
    let limits = [5, 5, 4, 2, 2, 3, 3, 4, 3, 3, 3, 3, 6, 3, 1, 1];
    for (i, (byte, limit)) in raw.into_iter().zip(limits).enumerate() {
        // SAFETY: one of the 16 bytes after the size, in a structure of 20 bytes whose fields are all integers.
        unsafe { (&raw mut *options).cast::<u8>().add(4 + i).write(if valid { byte % limit } else { byte }) };
    }
}

/// Returns the caster of the Rust library and its options, if the arguments are valid.
fn caster([from, to]: [u8; 2], o: *const lanecast_options) -> Option<(Caster, CastOptions)> {
    let options = if o.is_null() {
        CastOptions::new()
    } else {
        // SAFETY: it is not null, so it points to a whole structure.
        CastOptions::try_from(unsafe { &*o }).ok()?
    };
    Some((Caster::new(DType::from_code(from)?, DType::from_code(to)?, &options).ok()?, options))
}

/// Returns the bytes of `n` elements on both sides: of the largest elements if the arguments are not valid.
fn sizes(known: Option<&(Caster, CastOptions)>, n: usize) -> [usize; 2] {
    let sizes = known.and_then(|(caster, options)| {
        Some([caster.from().byte_len(n, options.src_packing)?, caster.to().byte_len(n, options.dst_packing)?])
    });
    sizes.unwrap_or([16 * n; 2])
}

/// Returns `len` bytes with no spare capacity, so that the sanitizer sees every access beyond them.
fn repeated(data: &[u8], len: usize) -> Box<[u8]> {
    let mut all: Vec<u8> = data.iter().copied().cycle().take(if data.is_empty() { 0 } else { len }).collect();
    all.resize(len, 0);
    all.into_boxed_slice()
}

/// Asserts that a status is an error with a message, and that nothing was written.
fn refused<'a>(status: lanecast_status, written: impl IntoIterator<Item = &'a u8>) {
    assert!((LANECAST_ERR_PACKED..0).contains(&status), "{status}");
    // SAFETY: the message is a C string, valid until the next call of this thread fails.
    assert!(!unsafe { core::ffi::CStr::from_ptr(lanecast_error_message()) }.is_empty());
    assert!(written.into_iter().all(|byte| *byte == CANARY), "written on error {status}");
}

fn cast(data: &mut Vec<u8>, from: u8, to: u8, n: u16, choices: u8, o: *const lanecast_options) {
    let n = usize::from(n % 2048);
    let known = caster([from, to], o);
    let [src_len, dst_len] = sizes(known.as_ref(), n);
    let src = repeated(data, src_len);
    let mut dst = vec![CANARY; dst_len];
    let mut valid = vec![CANARY; n.div_ceil(8)];
    let mut report = core::mem::MaybeUninit::<lanecast_report>::uninit();
    let s = if choices & 8 == 8 { null() } else { src.as_ptr().cast::<c_void>() };
    let d = dst.as_mut_ptr().cast::<c_void>();
    let bits = if choices & 16 == 16 { null_mut() } else { valid.as_mut_ptr() };
    let is_checked = choices & 32 == 32;
    // SAFETY: the buffers have the size of the elements, or of the largest ones if the dtypes are not known; a pointer is NULL
    // only where that is an error.
    let status = unsafe {
        match is_checked {
            true => lanecast_cast_checked(from, s, to, d, n, o, report.as_mut_ptr(), bits),
            false => lanecast_cast(from, s, to, d, n, o),
        }
    };
    match (status, known) {
        (LANECAST_OK | LANECAST_ERR_LOSSY, Some((caster, _))) => {
            let mut expected = vec![0; dst_len];
            let report_of = caster.cast_checked(&src, &mut expected, n).expect("the sizes are right");
            assert!(dst == expected, "{caster:?}, {n}");
            if is_checked {
                // SAFETY: the call writes the report if the status is one of these two.
                let report = unsafe { report.assume_init() };
                assert_eq!(report, lanecast_report::from(report_of));
                assert_eq!(status == LANECAST_ERR_LOSSY, report_of.lost() > 0);
                let ones: usize = valid.iter().map(|byte| byte.count_ones() as usize).sum();
                assert!(bits.is_null() || n - ones == report_of.lost());
            }
            *data = dst;
        }
        (status, _) => refused(status, dst.iter().chain(&valid)),
    }
    assert!(!lanecast_strerror(status).is_null());
}

/// Casts on threads, or on a host that runs tasks too often or leaves some out, with a callback that may stop the cast.
fn parallel(
    data: &mut Vec<u8>,
    dtypes: [u8; 2],
    n: u16,
    choices: u8,
    o: *const lanecast_options,
    raw: &[u8; 16],
) {
    /// Calls every task, or every second one, one to three times, the last first.
    unsafe extern "C" fn host(context: *mut c_void, tasks: usize, task: lanecast_task, job: *mut c_void) {
        // SAFETY: the context points to a byte; the task is called with its own job.
        unsafe {
            let how = *context.cast::<u8>();
            for i in (0..tasks).rev().filter(|i| how & 1 == 0 || i % 2 == 0) {
                for _ in 0..1 + how % 3 {
                    task.expect("a task")(job, i);
                }
            }
        }
    }
    /// Stops the cast once the thirds that the context says are done: none, one or two; a greater number never stops it.
    unsafe extern "C" fn progress(context: *mut c_void, done: usize, total: usize) -> i32 {
        // SAFETY: the context points to a byte.
        let thirds = usize::from(unsafe { *context.cast::<u8>() });
        assert!(done <= total && total > 0);
        i32::from(thirds < 3 && done >= thirds * total / 3)
    }

    let [from, to] = dtypes;
    let n = usize::from(n % 2048);
    let known = caster(dtypes, o);
    let [src_len, dst_len] = sizes(known.as_ref(), n);
    let src = repeated(data, src_len);
    let mut dst = vec![CANARY; dst_len].into_boxed_slice();
    let (s, d) = (src.as_ptr().cast::<c_void>(), dst.as_mut_ptr().cast::<c_void>());
    let (mut does, mut stops) = (raw[0], raw[1] % 8);
    let mut how = core::mem::MaybeUninit::uninit();
    // SAFETY: the buffers have the size of the elements, or of the largest ones if the dtypes are not known; the structure is
    // initialised, and the contexts live as long as the call.
    let status = unsafe {
        if choices & 8 == 8 {
            lanecast_cast_parallel(from, s, to, d, n, o, u32::from(raw[2] % 4))
        } else {
            assert_eq!(lanecast_parallel_init(how.as_mut_ptr()), LANECAST_OK);
            let mut how = how.assume_init();
            how.threads = u32::from(raw[2] % 4);
            how.chunk = usize::from(raw[3]) << (raw[4] % 8);
            if choices & 16 == 16 {
                how.parallel_for = Some(host);
                how.parallel_for_context = (&raw mut does).cast();
            }
            if choices & 32 == 32 {
                how.progress = Some(progress);
                how.progress_context = (&raw mut stops).cast();
            }
            if choices & 64 == 64 {
                how.size = u32::from(raw[5]).min(how.size);
            }
            lanecast_cast_parallel_with(from, s, to, d, n, o, &raw const how)
        }
    };
    match (status, known) {
        (LANECAST_OK, Some((caster, _))) => {
            let mut expected = vec![0; dst_len];
            caster.cast(&src, &mut expected, n).expect("the sizes are right");
            assert!(*dst == *expected, "{caster:?}, {n}");
            *data = expected;
        }
        (LANECAST_ERR_CANCELLED, Some(_)) => {
            assert!(choices & 32 == 32 && stops < 3, "nobody has stopped it")
        }
        (status, _) => refused(status, dst.iter()),
    }
}

/// Casts in place, in a buffer of the right size or of a wrong one.
fn in_place(data: &mut Vec<u8>, dtypes: [u8; 2], n: u16, choices: u8, o: *const lanecast_options) {
    let [from, to] = dtypes;
    let n = usize::from(n % 2048);
    let known = caster(dtypes, o);
    let [src_len, dst_len] = sizes(known.as_ref(), n);
    let right = src_len.max(dst_len);
    let size = if choices & 8 == 8 { right + 1 } else { right };
    let mut buffer = repeated(data, size);
    let before = buffer.clone();
    // SAFETY: the buffer has `size` bytes, at least as many as the source has.
    let status = unsafe { lanecast_cast_in_place(from, to, buffer.as_mut_ptr().cast(), size, n, o) };
    match (status, known) {
        (LANECAST_OK, Some((caster, _))) => {
            assert_eq!(size, right);
            let mut expected = vec![0; dst_len];
            caster.cast(&before[..src_len], &mut expected, n).expect("the sizes are right");
            assert!(buffer[..dst_len] == expected, "{caster:?}, {n}");
            assert!(src_len > dst_len || buffer.len() == dst_len);
            assert!(buffer[dst_len..] == before[dst_len..], "written behind the destination");
            *data = buffer.into_vec();
        }
        (status, _) => {
            assert!((LANECAST_ERR_PACKED..0).contains(&status), "{status}");
            assert!(buffer == before, "written on error {status}");
        }
    }
}

/// Casts views of up to three dimensions, in buffers that begin and end with their elements.
fn strided(data: &[u8], dtypes: [u8; 2], o: *const lanecast_options, raw: &[u8; 16]) {
    let [from, to] = dtypes;
    let known = caster(dtypes, o);
    let sizes = dtypes.map(|code| DType::from_code(code).map_or(16, DType::itemsize));
    let ndim = usize::from(raw[0] % 4);
    let shape: [usize; 3] = core::array::from_fn(|i| usize::from(raw[1 + i] % 6));
    // Strides of either sign: zero, dense, overlapping, and with gaps.
    let strides = |side: usize| -> [isize; 3] {
        core::array::from_fn(|i| {
            let raw = raw[4 + 3 * side + i];
            let elements = [0, 1, 1, 2, 5, 25, 30, 7][usize::from(raw % 8)];
            let stride = (elements * sizes[side] + usize::from(raw >> 4 & 3)) as isize;
            if raw & 8 == 8 { -stride } else { stride }
        })
    };
    let strides = [strides(0), strides(1)];
    let mut indices = vec![[0; 3]];
    for (dim, &extent) in shape[..ndim].iter().enumerate() {
        indices = (0..extent)
            .flat_map(|i| {
                indices.iter().map(move |index| {
                    let mut index = *index;
                    index[dim] = i;
                    index
                })
            })
            .collect();
    }
    // The offset in bytes of each element on either side, from the element of index 0.
    let places = strides.map(|strides| -> Vec<isize> {
        indices.iter().map(|index| (0..ndim).map(|dim| strides[dim] * index[dim] as isize).sum()).collect()
    });
    let ends = [0, 1].map(|side| {
        let (low, high) = (places[side].iter().min(), places[side].iter().max());
        (low.copied().unwrap_or(0), high.map_or(0, |high| high + sizes[side] as isize))
    });
    let [src_len, dst_len] = ends.map(|(low, high)| (high - low) as usize);
    let src = repeated(data, src_len);
    let mut dst = vec![CANARY; dst_len].into_boxed_slice();
    // SAFETY: the element of index 0 is `-ends[..].0` bytes after the first byte, so that every element is in its buffer.
    let status = unsafe {
        let first = src.as_ptr().wrapping_offset(-ends[0].0).cast::<c_void>();
        let (src_strides, dst_strides) = (strides[0].as_ptr(), strides[1].as_ptr());
        let out = dst.as_mut_ptr().wrapping_offset(-ends[1].0).cast::<c_void>();
        lanecast_cast_strided(from, first, src_strides, to, out, dst_strides, shape.as_ptr(), ndim, o)
    };
    match (status, known) {
        (LANECAST_OK, Some((caster, _))) => {
            let mut written = vec![false; dst_len];
            let mut expected = vec![CANARY; dst_len];
            for (&from, &to) in places[0].iter().zip(&places[1]) {
                let from = (from - ends[0].0) as usize;
                let to = (to - ends[1].0) as usize;
                let out = to..to + sizes[1];
                if written[out.clone()].contains(&true) {
                    // Elements overlap, and it is not specified which one remains.
                    return;
                }
                written[out.clone()].fill(true);
                caster.cast(&src[from..from + sizes[0]], &mut expected[out], 1).expect("one element");
            }
            assert!(*dst == *expected, "{caster:?}, {shape:?}, {strides:?}");
        }
        (status, _) => refused(status, dst.iter()),
    }
}

/// Returns a C string of arbitrary bytes.
fn string(raw: &[u8; 16]) -> [u8; 17] {
    let mut text = [0; 17];
    text[..16].copy_from_slice(raw);
    text
}

fn names(code: u8, raw: &[u8; 16]) {
    let text = string(raw);
    let mut out = CANARY;
    // SAFETY: the names are C strings or NULL, and `out` is a variable.
    unsafe {
        let status = lanecast_dtype_from_name(text.as_ptr().cast(), &mut out);
        assert!(status == LANECAST_OK || (status == LANECAST_ERR_NAME && out == CANARY));
        let name = lanecast_dtype_name(code);
        let status = lanecast_dtype_from_name(name, &mut out);
        assert_eq!(status, if name.is_null() { LANECAST_ERR_NULL } else { LANECAST_OK });
        assert!(name.is_null() || out == code);
    }
    assert_eq!(lanecast_dtype_bits(code) != 0, usize::from(code) < DType::ALL.len());
}

fn promotion(from: u8, to: u8, raw: &[u8; 16]) {
    let names = [
        c"numpy",
        c"jax",
        c"jax_x32",
        c"jax_strict",
        c"torch",
        c"array_api",
        c"mindspore",
        c"megengine",
        c"onnx",
        c"lossless",
        c"no",
    ];
    let levels = [c"no", c"equiv", c"safe", c"same_kind", c"same_value", c"unsafe", c"sometimes"];
    let name = names[usize::from(raw[0]) % names.len()];
    let level = levels[usize::from(raw[1]) % levels.len()];
    let operands: Vec<u8> = raw[3..3 + usize::from(raw[2] % 13)].to_vec();
    let (mut out, mut can) = (CANARY, -1);
    // SAFETY: the names are C strings, the operands a slice with its length, and the results variables.
    unsafe {
        let status = lanecast_promote(name.as_ptr(), operands.as_ptr(), operands.len(), &mut out);
        assert!(status == LANECAST_OK || out == CANARY);
        let status = lanecast_can_cast(from, to, level.as_ptr(), &mut can);
        assert!((status == LANECAST_OK) == (can != -1));
    }
}

fn profiles(raw: &[u8; 16]) {
    let text = string(raw);
    let mut options = defaults();
    // SAFETY: the options are a variable that is initialised, and the name is a C string.
    unsafe {
        let status = lanecast_options_profile(&mut options, text.as_ptr().cast());
        assert!(status == LANECAST_OK || status == LANECAST_ERR_NAME);
    }
}

fn small(code: u8) {
    assert_eq!(lanecast_abi_version(), LANECAST_ABI_VERSION);
    assert!(code < 5 || lanecast_isa_available(code) == 0);
    assert!(!lanecast_strerror(-i32::from(code)).is_null());
}
