//! Sequences of calls of the C functions, with buffers of the right sizes and arguments that may be anything: none
//! crashes, an error writes nothing, and what is cast is what the Rust library casts.

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

/// A function, dtypes, a length, choices, and the bytes of the options behind their size.
type Call = (u8, u8, u8, u16, u8, [u8; 16]);

fuzz_target!(|input: (Vec<Call>, &[u8])| {
    let (calls, bytes) = input;
    // What one call leaves, the next may read.
    let mut data = bytes.to_vec();
    for (function, from, to, n, choices, raw) in calls.into_iter().take(16) {
        let mut options = defaults();
        if choices & 1 == 1 {
            set(&mut options, raw, choices & 2 == 2);
        }
        let o = if choices & 4 == 4 { null() } else { &raw const options };
        match function % 8 {
            0..=3 => cast(&mut data, from, to, n, choices, o),
            4 => names(from, &raw),
            5 => promotion(from, to, &raw),
            6 => profiles(&raw),
            _ => small(from),
        }
    }
});

fn defaults() -> lanecast_options {
    let mut options = core::mem::MaybeUninit::uninit();
    // SAFETY: writable, and initialised when that is no error.
    unsafe {
        assert_eq!(lanecast_options_init(options.as_mut_ptr()), LANECAST_OK);
        options.assume_init()
    }
}

/// Sets every option, to values that exist or to whatever there is.
fn set(options: &mut lanecast_options, raw: [u8; 16], valid: bool) {
    let limits = [5, 5, 4, 2, 2, 3, 3, 4, 3, 3, 3, 3, 6, 3, 1, 1];
    for (i, (byte, limit)) in raw.into_iter().zip(limits).enumerate() {
        // SAFETY: a byte behind the size, in a structure of 20 bytes that are all integers.
        unsafe { (&raw mut *options).cast::<u8>().add(4 + i).write(if valid { byte % limit } else { byte }) };
    }
}

fn cast(data: &mut Vec<u8>, from: u8, to: u8, n: u16, choices: u8, o: *const lanecast_options) {
    let n = usize::from(n % 2048);
    // The largest elements there are.
    let mut src: Vec<u8> = data.iter().copied().cycle().take(if data.is_empty() { 0 } else { 16 * n }).collect();
    src.resize(16 * n, 0);
    let options = if o.is_null() {
        Ok(CastOptions::new())
    } else {
        // SAFETY: it points to a whole structure.
        CastOptions::try_from(unsafe { &*o })
    };
    // Exact sizes where they are known, so that the sanitizer sees every byte beyond.
    let sizes = options.ok().and_then(|options| {
        let (from, to) = (DType::from_code(from)?, DType::from_code(to)?);
        Some((from.byte_len(n, options.src_packing)?, to.byte_len(n, options.dst_packing)?, from, to, options))
    });
    let (src_len, dst_len) = sizes.as_ref().map_or((16 * n, 16 * n), |sizes| (sizes.0, sizes.1));
    src.truncate(src_len);
    src.shrink_to_fit();
    let mut dst = vec![CANARY; dst_len];
    let mut valid = vec![CANARY; n.div_ceil(8)];
    let mut report = core::mem::MaybeUninit::<lanecast_report>::uninit();
    let s = if choices & 8 == 8 { null() } else { src.as_ptr().cast::<c_void>() };
    let d = dst.as_mut_ptr().cast::<c_void>();
    let bits = if choices & 16 == 16 { null_mut() } else { valid.as_mut_ptr() };
    let is_checked = choices & 32 == 32;
    // SAFETY: buffers of the size of the elements, or of the largest ones; NULL where that is an error.
    let status = unsafe {
        match is_checked {
            true => lanecast_cast_checked(from, s, to, d, n, o, report.as_mut_ptr(), bits),
            false => lanecast_cast(from, s, to, d, n, o),
        }
    };
    match (status, sizes) {
        (LANECAST_OK | LANECAST_ERR_LOSSY, Some((_, _, from, to, options))) => {
            let caster = Caster::new(from, to, &options).expect("the call made one");
            let mut expected = vec![0; dst_len];
            let report_of = caster.cast_checked(&src, &mut expected, n).expect("the sizes are right");
            assert!(dst == expected, "{from} -> {to}, {n}");
            if is_checked {
                // SAFETY: written when it is no other error.
                let report = unsafe { report.assume_init() };
                assert_eq!(report, lanecast_report::from(report_of));
                assert_eq!(status == LANECAST_ERR_LOSSY, report_of.lost() > 0);
                let ones: usize = valid.iter().map(|byte| byte.count_ones() as usize).sum();
                assert!(bits.is_null() || n - ones == report_of.lost());
            }
            *data = dst;
        }
        (status, _) => {
            assert!((LANECAST_ERR_PACKED..0).contains(&status), "{status}");
            assert!(dst.iter().chain(&valid).all(|byte| *byte == CANARY), "written on error {status}");
        }
    }
    assert!(!lanecast_strerror(status).is_null());
}

/// A C string of arbitrary bytes.
fn string(raw: &[u8; 16]) -> [u8; 17] {
    let mut text = [0; 17];
    text[..16].copy_from_slice(raw);
    text
}

fn names(code: u8, raw: &[u8; 16]) {
    let text = string(raw);
    let mut out = CANARY;
    // SAFETY: C strings, or NULL, and a variable.
    unsafe {
        let status = lanecast_dtype_from_name(text.as_ptr().cast(), &mut out);
        assert!(status == LANECAST_OK || (status == LANECAST_ERR_NAME && out == CANARY));
        let name = lanecast_dtype_name(code);
        let status = lanecast_dtype_from_name(name, &mut out);
        assert_eq!(status, if name.is_null() { LANECAST_ERR_NULL } else { LANECAST_OK });
        assert!(name.is_null() || out == code);
    }
    assert_eq!(lanecast_dtype_bits(code) != 0, code < 30);
}

fn promotion(from: u8, to: u8, raw: &[u8; 16]) {
    let names = [c"numpy", c"jax", c"jax_x32", c"jax_strict", c"torch", c"array_api", c"mindspore", c"onnx", c"no"];
    let levels = [c"no", c"equiv", c"safe", c"same_kind", c"same_value", c"unsafe", c"sometimes"];
    let name = names[usize::from(raw[0]) % names.len()];
    let level = levels[usize::from(raw[1]) % levels.len()];
    let operands: Vec<u8> = raw[3..3 + usize::from(raw[2] % 13)].to_vec();
    let (mut out, mut can) = (CANARY, -1);
    // SAFETY: C strings, a slice and variables.
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
    // SAFETY: a variable and a C string.
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
