//! What the functions touch: between pages that fault, nothing but their elements.

use rust::{Caster, Isa, Packing};

use super::*;

#[path = "../../../tests/bridge/guarded.rs"]
mod guarded;

use guarded::{CANARY, Guarded};

/// Every kind of width on either side.
const PAIRS: [(DType, DType); 9] = [
    (DType::F32, DType::BF16),
    (DType::F16, DType::F32),
    (DType::U8, DType::I8),
    (DType::F64, DType::I32),
    (DType::C64, DType::C128),
    (DType::I64, DType::I64),
    (DType::I4, DType::F32),
    (DType::F32, DType::F4E2M1),
    (DType::F6E2M3, DType::U2),
];

/// A pair, on one instruction set.
struct Pair {
    from: DType,
    to: DType,
    caster: Caster,
    options: lanecast_options,
}

impl Pair {
    fn all() -> impl Iterator<Item = Self> {
        Isa::available().iter().flat_map(|&isa| {
            PAIRS.map(|(from, to)| {
                let options = CastOptions::new().isa(isa);
                let caster = Caster::new(from, to, &options).expect("an instruction set of this machine");
                Self { from, to, caster, options: lanecast_options::from(&options) }
            })
        })
    }

    /// Bytes of `n` elements on both sides.
    fn sizes(&self, n: usize) -> [usize; 2] {
        [self.from, self.to].map(|dtype| dtype.byte_len(n, Packing::LowFirst).expect("a few bytes"))
    }

    /// Has `call` cast `n` elements, for many lengths, from a source that cannot be written to a destination, each of which
    /// begins or ends at a guard.
    fn check(&self, name: &str, call: impl Fn(*const c_void, *mut c_void, usize) -> i32) {
        for n in (0..=131).chain([1000, 4099, 40_001]) {
            let [s, d] = self.sizes(n);
            let (src, mut dst) = (Guarded::source(s.max(1)), Guarded::new(d.max(1)));
            for (src_at, dst_at) in [(0, dst.len - d), (src.len - s, 0), (src.len - s, dst.len - d)] {
                let mut expected = vec![CANARY; dst.len];
                let elements = &src.bytes()[src_at..][..s];
                self.caster.cast(elements, &mut expected[dst_at..][..d], n).expect("sizes that fit");
                let whole = dst.bytes_mut();
                whole.fill(CANARY);
                let status = call(elements.as_ptr().cast(), whole[dst_at..].as_mut_ptr().cast(), n);
                assert!([LANECAST_OK, LANECAST_ERR_LOSSY].contains(&status), "{name}, {n}: {status}");
                assert!(*whole == *expected, "{name} of {n}, from {src_at} to {dst_at}: {:?}", self.caster);
            }
        }
    }
}

#[test]
fn casts_touch_nothing_but_their_elements() {
    for pair in Pair::all() {
        let (from, to, o) = (pair.from.code(), pair.to.code(), &raw const pair.options);
        // SAFETY: as many elements as `check` promises, and whole structures; so for all of these.
        pair.check("cast", |src, dst, n| unsafe { lanecast_cast(from, src, to, dst, n, o) });
        // SAFETY: as above.
        pair.check("parallel", |src, dst, n| unsafe { lanecast_cast_parallel(from, src, to, dst, n, o, 2) });
    }
}

#[test]
fn chunks_touch_nothing_but_their_elements() {
    let mut how = MaybeUninit::uninit();
    // SAFETY: room for the structure, which the call fills.
    let mut how = unsafe {
        assert_eq!(lanecast_parallel_init(how.as_mut_ptr()), LANECAST_OK);
        how.assume_init()
    };
    (how.threads, how.chunk) = (1, 24);
    for pair in Pair::all() {
        let (from, to, o) = (pair.from.code(), pair.to.code(), &raw const pair.options);
        // SAFETY: as above.
        pair.check("chunks", |src, dst, n| unsafe {
            lanecast_cast_parallel_with(from, src, to, dst, n, o, &how)
        });
    }
}

#[test]
fn checked_casts_touch_nothing_but_their_elements_and_their_bitmap() {
    for pair in Pair::all() {
        let (from, to, o) = (pair.from.code(), pair.to.code(), &raw const pair.options);
        pair.check("checked", |src, dst, n| {
            let bits = n.div_ceil(8);
            let mut valid = Guarded::new(bits.max(1));
            let at = valid.len - bits;
            let first = valid.bytes_mut()[at..].as_mut_ptr();
            let mut report = MaybeUninit::uninit();
            // SAFETY: as above; the bitmap has a bit for each element.
            let status =
                unsafe { lanecast_cast_checked(from, src, to, dst, n, o, report.as_mut_ptr(), first) };
            assert!(valid.bytes()[..at].iter().all(|&byte| byte == CANARY), "before the bitmap of {n}");
            status
        });
    }
}

#[test]
fn strided_casts_touch_nothing_but_their_elements() {
    for pair in Pair::all().filter(|pair| pair.from.bits() >= 8 && pair.to.bits() >= 8) {
        let (from, to, o) = (pair.from.code(), pair.to.code(), &raw const pair.options);
        let [s, d] = pair.sizes(1).map(|bytes| bytes as isize);
        // Rows backwards on both sides: one dimension forwards, the other not, so that they stay two.
        pair.check("strided", |src, dst, n| {
            let columns = [7, 3, 2, 1].into_iter().find(|&columns| n % columns == 0).unwrap_or(1);
            let shape = [n / columns, columns];
            let strides = |size: isize| [columns as isize * size, -size];
            let last = |size: isize| if n == 0 { 0 } else { (columns as isize - 1) * size };
            let (src, dst) = (src.wrapping_byte_offset(last(s)), dst.wrapping_byte_offset(last(d)));
            let (src_strides, dst_strides) = (strides(s), strides(d));
            // SAFETY: as above: every row lies among the elements.
            unsafe {
                let (a, b) = (src_strides.as_ptr(), dst_strides.as_ptr());
                lanecast_cast_strided(from, src, a, to, dst, b, shape.as_ptr(), 2, o)
            }
        });
    }
}

#[test]
fn casts_in_place_touch_nothing_but_their_buffer() {
    for pair in Pair::all() {
        let (from, to, o) = (pair.from.code(), pair.to.code(), &raw const pair.options);
        pair.check("in place", |src, dst, n| {
            let [s, d] = pair.sizes(n);
            let size = s.max(d);
            let mut buffer = Guarded::new(size.max(1));
            for at in [0, buffer.len - size] {
                let whole = buffer.bytes_mut();
                whole.fill(CANARY);
                let place = &raw mut whole[at..][..size];
                // SAFETY: as above; the buffer has room for both, and the destination for the result.
                unsafe {
                    place.cast::<u8>().copy_from(src.cast(), s);
                    let status = lanecast_cast_in_place(from, to, place.cast(), size, n, o);
                    assert_eq!(status, LANECAST_OK);
                    dst.cast::<u8>().copy_from(place.cast(), d);
                }
                let is_canary = |&byte: &u8| byte == CANARY;
                assert!(whole[..at].iter().chain(&whole[at + size..]).all(is_canary), "around {n} in place");
            }
            LANECAST_OK
        });
    }
}
