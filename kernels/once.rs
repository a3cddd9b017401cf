//! Values that are made once per process and kept, without a lock: threads that need one at the same time each make it, and one
//! of these is kept. So a process that forks meanwhile leaves nothing locked to its child.
//!
//! Their memory comes with the library (zeros in `.bss`), so that nothing is allocated for the first few hundred tables. When
//! that is used up, more is allocated; if there is no memory, the value is not made.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::sizes::LINE;

/// A value that is made when it is first needed.
#[derive(Debug)]
pub(crate) struct Once<T>(AtomicPtr<T>);

impl<T: Send + Sync + 'static> Once<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value, if it has been made.
    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: the pointer is null, or what `make` has kept: a value that was written before the pointer to it was, and that
        // nobody changes or frees.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the value, and makes it if it has not been made. None if it could not be made, or if there is no memory for it.
    #[inline]
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Option<T>) -> Option<&'static T> {
        self.get_or_make_in(|place| Some(place.write(make()?)))
    }

    /// As [`Once::get_or_make`], for a large value: `make` writes it to its place and returns a reference to it.
    #[inline]
    pub(crate) fn get_or_make_in(
        &self,
        make: impl FnOnce(&mut MaybeUninit<T>) -> Option<&mut T>,
    ) -> Option<&'static T> {
        match self.get() {
            Some(made) => Some(made),
            None => self.make(make),
        }
    }

    #[cold]
    #[inline(never)]
    fn make(&self, make: impl FnOnce(&mut MaybeUninit<T>) -> Option<&mut T>) -> Option<&'static T> {
        let room = Room::take(Layout::new::<T>())?;
        let place = room.place.cast::<T>().as_ptr();
        // SAFETY: the room has the layout of a value, and nobody else has it.
        let made = make(unsafe { &mut *place.cast() }).map(ptr::from_mut);
        if made != Some(place) {
            return None;
        }
        match self.0.compare_exchange(ptr::null_mut(), place, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                room.keep();
                self.get()
            }
            Err(first) => {
                // SAFETY: the value at `place` was just written, and nobody has seen it. The first one is kept, as in `get`.
                unsafe {
                    place.drop_in_place();
                    Some(&*first)
                }
            }
        }
    }
}

/// Makes a copy of some values that is never freed. None if there is no memory for it.
#[cfg(isa = "vector")]
pub(super) fn keep<T: Copy>(values: &[T]) -> Option<&'static [T]> {
    if size_of_val(values) == 0 {
        return Some(&[]);
    }
    let place = Room::take(Layout::for_value(values))?.keep().cast::<T>();
    // SAFETY: the room has the layout of the values, nobody else has it, and it is never given back.
    unsafe {
        place.as_ptr().copy_from_nonoverlapping(values.as_ptr(), values.len());
        Some(core::slice::from_raw_parts(place.as_ptr(), values.len()))
    }
}

/// The number of bytes that come with the library, which take physical memory only when they are first touched. All tables of
/// the default options, some 300, and the plans of all pairs fit in.
const BROUGHT: usize = 2 << 20;

/// The memory that comes with the library. Of its bytes, the first `taken` are in use.
#[repr(C, align(64))]
struct Brought {
    bytes: UnsafeCell<[MaybeUninit<u8>; BROUGHT]>,
    taken: AtomicUsize,
}

const _: () = assert!(align_of::<Brought>() == LINE);

// SAFETY: every byte is used only by whoever has taken it.
unsafe impl Sync for Brought {}

static BROUGHT_ROOM: Brought =
    Brought { bytes: UnsafeCell::new([MaybeUninit::uninit(); BROUGHT]), taken: AtomicUsize::new(0) };

/// Memory for a value, owned by this object, which gives it back when it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    place: NonNull<u8>,
    layout: Layout,
    /// Its range in the memory that came with the library; None if it was allocated.
    brought: Option<[usize; 2]>,
}

impl Room {
    fn take(layout: Layout) -> Option<Self> {
        Self::brought(layout).or_else(|| Self::allocated(layout))
    }

    /// Allocates memory. None if there is no memory, or if it would have no bytes.
    pub(super) fn allocated(layout: Layout) -> Option<Self> {
        if layout.size() == 0 {
            return None;
        }
        // SAFETY: the layout has bytes.
        let place = NonNull::new(unsafe { alloc(layout) })?;
        Some(Self { place, layout, brought: None })
    }

    /// Takes some of the memory that comes with the library.
    fn brought(layout: Layout) -> Option<Self> {
        if layout.align() > align_of::<Brought>() {
            return None;
        }
        let taken = &BROUGHT_ROOM.taken;
        let mut begin = taken.load(Ordering::Relaxed);
        loop {
            let first = begin.next_multiple_of(layout.align());
            let end = first.checked_add(layout.size()).filter(|&end| end <= BROUGHT)?;
            match taken.compare_exchange_weak(begin, end, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    let place = BROUGHT_ROOM.bytes.get().cast::<u8>().wrapping_add(first);
                    return Some(Self { place: NonNull::new(place)?, layout, brought: Some([begin, end]) });
                }
                Err(other) => begin = other,
            }
        }
    }

    /// The bytes of the room, which need not be initialised.
    pub(super) fn bytes(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: so many bytes are there, and nobody else has them.
        unsafe { core::slice::from_raw_parts_mut(self.place.as_ptr().cast(), self.layout.size()) }
    }

    /// Keeps the memory for ever: it is never given back.
    fn keep(self) -> NonNull<u8> {
        ManuallyDrop::new(self).place
    }
}

impl Drop for Room {
    /// Gives the memory back. Memory that comes with the library is given back only if none was taken after it.
    fn drop(&mut self) {
        match self.brought {
            Some([begin, end]) => {
                let taken = &BROUGHT_ROOM.taken;
                _ = taken.compare_exchange(end, begin, Ordering::AcqRel, Ordering::Relaxed);
            }
            // SAFETY: it was allocated with this layout, and nobody has it any more.
            None => unsafe { dealloc(self.place.as_ptr(), self.layout) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many threads make a value at the same time, all get the same one, as one of them made it.
    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "it has no threads")]
    fn one_is_kept() {
        static ONCE: [Once<[usize; 4]>; 200] = [const { Once::new() }; 200];
        let barrier = std::sync::Barrier::new(4);
        let all = |thread: usize| {
            barrier.wait();
            ONCE.each_ref().map(|once| once.get_or_make(|| Some([thread; 4])))
        };
        let found = std::thread::scope(|scope| {
            let threads = [0, 1, 2, 3].map(|thread| scope.spawn(move || all(thread)));
            threads.map(|thread| thread.join().unwrap())
        });
        for i in 0..ONCE.len() {
            let one = ONCE[i].get().expect("it was made");
            assert!(one.iter().all(|&x| x == one[0] && x < 4));
            assert!(found.iter().all(|found| ptr::eq(found[i].expect("there is memory"), one)));
        }
    }

    #[test]
    fn what_cannot_be_made_is_made_later() {
        static ONCE: Once<u8> = Once::new();
        assert_eq!(ONCE.get_or_make(|| None), None);
        assert_eq!(ONCE.get(), None);
        assert_eq!(ONCE.get_or_make(|| Some(7)), Some(&7));
        assert_eq!(ONCE.get_or_make(|| Some(8)), Some(&7));
    }

    /// What has no room in the memory that comes with the library is allocated.
    #[test]
    fn more_than_there_is_room_for() {
        static LARGE: [Once<[u8; BROUGHT / 4]>; 6] = [const { Once::new() }; 6];
        for (i, once) in LARGE.iter().enumerate() {
            let made = once.get_or_make(|| Some([i as u8; BROUGHT / 4])).expect("there is memory");
            assert!(*made == [i as u8; BROUGHT / 4]);
        }
    }
}
