//! Casts inside one buffer ([`Caster::cast_in_place`]) and inside the allocation of a vector.
//!
//! ```
//! use lanecast::in_place;
//! let ints: Vec<i32> = in_place::cast_vec(vec![1.5f32, -2.5])?;
//! assert_eq!(ints, [1, -2]);
//! # Ok::<(), lanecast::Error>(())
//! ```

// Elements that become narrower are cast from the front, those that become wider from the back, so nothing is overwritten before it
// has been read. The memory that has been read grows from step to step, and kernels cast directly into it. While it is
// too small, elements go through a tile.

use alloc::vec::Vec;
use core::mem::{ManuallyDrop, MaybeUninit, replace, size_of};
use core::ops::Range;
use core::slice;

use crate::cast::{self, Caster, typed};
use crate::error::{Error, Side};
use crate::formats::element::Element;
use crate::formats::options::CastOptions;
use crate::formats::route::Layout;
use crate::kernels::scratch::Scratch;

/// The bytes of a tile, which holds elements of the source.
const TILE: usize = 8 << 10;
/// The bytes of a tile on the stack, which may be small. It is used for few elements, and if there is no memory for a larger tile.
const SMALL_TILE: usize = 512;
/// Elements are cast directly if there is room for the results of at least this many. For fewer, a tile is faster.
const DIRECT: usize = 1024;

impl Caster {
    /// Casts `n` elements at the start of a buffer, and writes the results to its start. The buffer must have the size of the source
    /// or of the destination, whichever is larger. Bytes behind the results stay as they are.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    ///
    /// let mut buffer: Vec<u8> = [1.5f32, 300.0, -1.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let narrow = Caster::new(DType::F32, DType::U8, &CastOptions::new())?;
    /// narrow.cast_in_place(&mut buffer, 3)?;
    /// assert_eq!(buffer[..3], [1, 255, 0]);
    ///
    /// let wide = Caster::new(DType::U8, DType::I32, &CastOptions::new())?;
    /// wide.cast_in_place(&mut buffer, 3)?;
    /// assert_eq!(buffer, [1i32, 255, 0].map(i32::to_ne_bytes).concat());
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The buffer does not have this size. Nothing was written.
    pub fn cast_in_place(&self, buffer: &mut [u8], n: usize) -> Result<(), Error> {
        let (first, len) = (buffer.as_mut_ptr().cast(), buffer.len());
        #[allow(unsafe_code, reason = "the same buffer by another name")]
        // SAFETY: the bytes are borrowed mutably and initialised. They stay so, because only results of casts are written.
        unsafe {
            self.cast_in_place_uninit(slice::from_raw_parts_mut(first, len), n)
        }
    }

    /// As [`Caster::cast_in_place`], in a buffer that need not be initialised behind the source.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use lanecast::{CastOptions, Caster, DType};
    /// let mut buffer = [MaybeUninit::new(7u8), MaybeUninit::uninit()];
    /// let caster = Caster::new(DType::U8, DType::U16, &CastOptions::new())?;
    /// // SAFETY: one element of 8 bits is there.
    /// unsafe { caster.cast_in_place_uninit(&mut buffer, 1)? };
    /// // SAFETY: and now one of 16.
    /// assert_eq!(unsafe { buffer.assume_init_ref() }, 7u16.to_ne_bytes());
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Safety
    ///
    /// The bytes of `n` elements of the source are initialised.
    ///
    /// # Errors
    ///
    /// As [`Caster::cast_in_place`].
    #[allow(unsafe_code, reason = "memory that nothing says is initialised")]
    pub unsafe fn cast_in_place_uninit(&self, buffer: &mut [MaybeUninit<u8>], n: usize) -> Result<(), Error> {
        let [from, to] = self.layouts();
        let side = Side::Both;
        let size = |layout: Layout, dtype| {
            layout.byte_len(n).ok_or(Error::SizeOverflow { side, dtype, elements: n })
        };
        let (source, destination) = (size(from, self.from())?, size(to, self.to())?);
        let (dtype, needed) =
            if source < destination { (self.to(), destination) } else { (self.from(), source) };
        if buffer.len() != needed {
            return Err(Error::BufferSize { side, dtype, elements: n, needed, given: buffer.len() });
        }
        let scratch = if source > SMALL_TILE { Scratch::new(TILE) } else { None };
        match scratch {
            // SAFETY: the caller's promise.
            Some(mut scratch) => unsafe { self.by_tiles(buffer, n, scratch.bytes()) },
            // SAFETY: the caller's promise.
            None => unsafe { self.by_small_tiles(buffer, n) },
        }
    }

    /// # Safety
    /// As for [`Caster::cast_in_place_uninit`], whose buffer this is.
    #[inline(never)] // For the stack.
    #[allow(unsafe_code, reason = "the promise of who knows the buffer")]
    unsafe fn by_small_tiles(&self, buffer: &mut [MaybeUninit<u8>], n: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.by_tiles(buffer, n, &mut [MaybeUninit::uninit(); SMALL_TILE]) }
    }

    /// Casts all elements, some in each step; `room` holds a tile of the source.
    ///
    /// # Safety
    /// As for [`Caster::cast_in_place_uninit`], whose buffer this is.
    #[allow(unsafe_code, reason = "the promise of who knows the buffer")]
    unsafe fn by_tiles(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        n: usize,
        room: &mut [MaybeUninit<u8>],
    ) -> Result<(), Error> {
        let [from, to] = self.layouts();
        // How many elements a tile holds: a multiple of 8, which are whole bytes.
        let tile = room.len() / from.size(8) * 8;
        // The range of the elements that have not been cast.
        let (mut first, mut end) = (0, n);
        while first < end {
            let step = if from.size(8) < to.size(8) {
                // Results from this index on lie behind all bytes that have not been read.
                let free = from.size(end).div_ceil(to.size(8)).saturating_mul(8);
                let is_direct = free < end && end - free >= DIRECT;
                let start = if is_direct { free } else { end.saturating_sub(tile).next_multiple_of(8) };
                start..replace(&mut end, start)
            } else {
                // So many results fit between those that are written and the source elements that are left.
                let free = (from.size(first) - to.size(first)) / to.size(8);
                let (free, left) = (free.saturating_mul(8), end - first);
                let len = if free >= DIRECT.min(left) { free } else { tile };
                let next = first + len.min(left);
                replace(&mut first, next)..next
            };
            // SAFETY: the caller's promise: the source elements that have not been cast are still as they were.
            unsafe { self.step([from, to], buffer, step, room)? };
        }
        Ok(())
    }

    /// Casts some elements: directly if their results do not overlap them, else through the tile, which has room for them.
    ///
    /// # Safety
    /// The bytes of these elements of the source are initialised.
    #[allow(unsafe_code, reason = "the promise of who knows the buffer")]
    unsafe fn step(
        &self,
        [from, to]: [Layout; 2],
        buffer: &mut [MaybeUninit<u8>],
        elements: Range<usize>,
        room: &mut [MaybeUninit<u8>],
    ) -> Result<(), Error> {
        let [source, results] =
            [from, to].map(|layout| layout.size(elements.start)..layout.size(elements.end));
        if let Ok([source, results]) = buffer.get_disjoint_mut([source.clone(), results.clone()]) {
            // SAFETY: the caller's promise.
            let source = unsafe { source.assume_init_ref() };
            return self.at(elements.start).cast_uninit(source, results, elements.len()).map(drop);
        }
        let tile = &mut room[..source.len()];
        tile.copy_from_slice(&buffer[source]);
        // SAFETY: a copy of bytes that are initialised, by the caller's promise.
        let tile = unsafe { tile.assume_init_ref() };
        self.at(elements.start).cast_uninit(tile, &mut buffer[results], elements.len()).map(drop)
    }
}

/// Casts a vector to one of another type with the default options, in the same allocation if it fits.
///
/// It fits if both types have the same alignment, as the allocator demands, if the capacity is a whole number of new
/// elements, and if these are enough. So f32 to i32, f64 to u64, complex64 to f32, and 8-bit types to one another always
/// fit. If it does not fit, the result is a new vector.
///
/// ```
/// use lanecast::in_place;
/// let floats = vec![1.5f32, -2.5, 1e10];
/// let place = floats.as_ptr().cast();
/// let ints: Vec<i32> = in_place::cast_vec(floats)?;
/// assert_eq!(ints, [1, -2, i32::MAX]);
/// assert_eq!(ints.as_ptr(), place);
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// There is no memory for a new vector or for the plan, which the first cast of a pair makes, or `LANECAST_ISA` names an
/// instruction set that is not available. The vector has been dropped.
pub fn cast_vec<S: Element, D: Element>(vec: Vec<S>) -> Result<Vec<D>, Error> {
    cast_vec_with(vec, &CastOptions::new())
}

/// As [`cast_vec`], with options.
///
/// ```
/// use lanecast::{in_place, CastOptions, Overflow};
/// let wrap = CastOptions::new().float_to_int(Overflow::Wrap);
/// let ints: Vec<u32> = in_place::cast_vec_with(vec![-1.0f32, 4294967296.0], &wrap)?;
/// assert_eq!(ints, [u32::MAX, 0]);
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// As [`cast_vec`]; or the instruction set that the options name is not available.
pub fn cast_vec_with<S: Element, D: Element>(
    mut vec: Vec<S>,
    options: &CastOptions,
) -> Result<Vec<D>, Error> {
    let (n, bytes) = (vec.len(), vec.capacity() * size_of::<S>());
    let enough = n.checked_mul(size_of::<D>()).is_some_and(|needed| needed <= bytes);
    if align_of::<S>() != align_of::<D>() || bytes % size_of::<D>() != 0 || !enough {
        return cast::cast_vec_with(&vec, options);
    }
    let caster = typed::<S, D>(options)?;
    let needed = n * size_of::<S>().max(size_of::<D>());
    vec.clear();
    let mut vec = ManuallyDrop::new(vec);
    let first = vec.as_mut_ptr();
    #[allow(unsafe_code, reason = "one allocation, elements of two types")]
    // SAFETY: the allocation has `bytes` bytes, of which `needed` are used. The first ones are the elements of the old vector,
    // without padding, hence initialised. Nothing else owns the allocation: the old vector is forgotten, and has no elements.
    // After the cast, the first `n` elements of `D` are valid: they are of the dtype of `D`, with at most one element per byte.
    // The new vector frees what the old one has allocated: as many bytes, with the same alignment.
    unsafe {
        let buffer = slice::from_raw_parts_mut(first.cast(), needed);
        if let Err(error) = caster.cast_in_place_uninit(buffer, n) {
            ManuallyDrop::drop(&mut vec);
            return Err(error);
        }
        Ok(Vec::from_raw_parts(first.cast::<D>(), n, bytes / size_of::<D>()))
    }
}
