//! Allocates memory for results.

use alloc::alloc::{Layout, alloc};
use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use crate::error::Error;
use crate::formats::dtype::DType;

/// Returns an empty vector with room for `len` elements of a result: [`cast_slice_uninit`](crate::cast_slice_uninit) and similar functions
/// fill its [spare capacity](Vec::spare_capacity_mut).
///
/// From 4 MiB on, Linux is asked for large pages (`madvise`), as NumPy does for its arrays. New memory is faulted in page by page at
/// the first touch, which with pages of 4 KiB takes several times as long as a cast that fills them. Elsewhere this is
/// [`Vec::try_reserve_exact`]. [`cast_vec`](crate::cast_vec) allocates its results with this function.
///
/// ```
/// let src = [1.5f32, -2.0];
/// let mut dst = lanecast::vec_with_capacity::<f64>(src.len())?;
/// let n = lanecast::cast_slice_uninit(&src, &mut dst.spare_capacity_mut()[..2])?.len();
/// // SAFETY: the cast has initialised so many.
/// unsafe { dst.set_len(n) };
/// assert_eq!(dst, [1.5, -2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// There is no memory for so many elements. It is the error of `Vec`, not [`Error`], since elements may be of any type: in a
/// function that returns that, `.map_err(|_| Error::Allocation { dtype, elements: len })?`.
pub fn vec_with_capacity<T>(len: usize) -> Result<Vec<T>, TryReserveError> {
    let mut room = allocated(len);
    // Returns at once if there is room already; else it tries again, for the error.
    room.try_reserve_exact(len)?;
    #[cfg(all(feature = "std", target_os = "linux", not(miri)))]
    large_pages::ask(room.spare_capacity_mut());
    Ok(room)
}

/// A buffer of `bytes` zeros, for elements of `dtype`.
pub(crate) fn zeros(dtype: DType, bytes: usize) -> Result<Vec<u8>, Error> {
    let no_memory = |_| Error::Allocation { dtype, elements: bytes / dtype.itemsize() };
    let mut room = vec_with_capacity(bytes).map_err(no_memory)?;
    room.resize(bytes, 0);
    Ok(room)
}

/// An empty vector with room for `len` elements, or without room if the allocation fails. It allocates directly: the code by which a vector
/// grows takes as long as casting hundreds of bytes.
#[inline(always)]
pub(crate) fn allocated<T>(len: usize) -> Vec<T> {
    match Layout::array::<T>(len) {
        Ok(layout) if layout.size() > 0 => {
            #[allow(unsafe_code, reason = "the allocation becomes a vector at once")]
            // SAFETY: the layout is not empty. It is that of a vector's allocation for `len` elements, and the vector's length is 0.
            unsafe {
                let first = alloc(layout).cast::<T>();
                if first.is_null() { Vec::new() } else { Vec::from_raw_parts(first, 0, len) }
            }
        }
        _ => Vec::new(),
    }
}

/// A vector of copies of a value, if there is memory for it.
#[cfg(any(feature = "onnx", feature = "zarr"))]
pub(crate) fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>, TryReserveError> {
    let mut room = vec_with_capacity(len)?;
    room.resize(len, value);
    Ok(room)
}

/// Collects an iterator, if there is memory for it.
#[cfg(feature = "zarr")]
pub(crate) fn collected<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, TryReserveError> {
    let mut room = vec_with_capacity(items.len())?;
    room.extend(items);
    Ok(room)
}

#[cfg(all(feature = "std", target_os = "linux", not(miri)))]
mod large_pages {
    use core::ffi::{c_int, c_void};
    use core::mem::MaybeUninit;

    /// Bytes from which large pages are asked for: two large pages of x86-64. NumPy has the same threshold.
    const FROM: usize = 4 << 20;
    /// A multiple of every page size of Linux, which are 4 to 64 KiB.
    const PAGE: usize = 64 << 10;
    const MADV_HUGEPAGE: c_int = 14;

    #[allow(unsafe_code, reason = "a function of the C library, which the standard library links")]
    unsafe extern "C" {
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }

    /// Asks for large pages. Where there are none, nothing happens.
    #[inline(always)]
    pub(super) fn ask<T>(room: &mut [MaybeUninit<T>]) {
        let bytes = size_of_val(room);
        if bytes >= FROM {
            advise(room.as_mut_ptr().cast(), bytes);
        }
    }

    /// Asks for large pages for the whole pages of some memory.
    #[inline(never)]
    fn advise(first: *mut u8, bytes: usize) {
        let before = first.align_offset(PAGE);
        let whole = bytes.saturating_sub(before) / PAGE * PAGE;
        #[allow(unsafe_code, reason = "whole pages, and those of the room alone")]
        // SAFETY: these are whole pages within the room. The advice leaves their bytes as they are, and an error changes nothing.
        unsafe {
            madvise(first.wrapping_add(before).cast(), whole, MADV_HUGEPAGE);
        }
    }
}

#[cfg(all(test, feature = "std", target_os = "linux", not(miri)))]
mod tests {
    /// The flags of the mapping that contains an address, if the system has them.
    fn flags(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut is_it = false;
        maps.lines().find_map(|line| {
            let range = line.split(' ').next()?.split_once('-');
            let ends = range.map(|(a, b)| (usize::from_str_radix(a, 16), usize::from_str_radix(b, 16)));
            if let Some((Ok(first), Ok(end))) = ends {
                is_it = (first..end).contains(&address);
            }
            line.strip_prefix("VmFlags:").filter(|_| is_it).map(Into::into)
        })
    }

    #[test]
    fn large_rooms_ask_for_large_pages() {
        let room = super::vec_with_capacity::<u16>(8 << 20).unwrap();
        let flags = flags(room.as_ptr() as usize + (8 << 20));
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() || flags.is_none() {
            println!("not run: this system has no large pages, or does not say where");
            return;
        }
        assert!(flags.as_ref().is_some_and(|flags| flags.split(' ').any(|flag| flag == "hg")), "{flags:?}");
    }
}
