//! The casts of slices, bytes and single values, and the [`Caster`] that they all run.

use alloc::vec::Vec;
use core::fmt;
use core::hint;
use core::mem::{MaybeUninit, size_of_val};

use crate::choice::known;
use crate::error::{Error, Side};
use crate::formats::dtype::DType;
use crate::formats::element::Element;
use crate::formats::isa::Isa;
#[cfg(feature = "text")]
use crate::formats::layout::ByteOrder;
use crate::formats::layout::Packing;
use crate::formats::options::CastOptions;
use crate::formats::route::{Layout, Route, route};
use crate::kernels::memory::Destination;
use crate::kernels::plan::{Plan, Planned};
use crate::kernels::present::Present;
use crate::kernels::{plans, scalar};
use crate::room::{allocated, vec_with_capacity};

/// A resolved cast: dtypes, options, instruction set and kernel. It is small and `Copy`: make one,
/// keep it, and use it from any thread. Making the first one for a source of 8 bits or fewer and given options takes
/// longer, because it makes a table, which is kept.
///
/// Buffers are passed as bytes and a number of elements, at any alignment. [`DType::byte_len`] says how many bytes
/// the elements take; a buffer must have exactly that many.
///
/// ```
/// use lanecast::{CastOptions, Caster, DType};
///
/// let caster = Caster::new(DType::F32, DType::F4E2M1, &CastOptions::new())?;
/// let weights: Vec<u8> = [1.0f32, -6.0, 0.4].iter().flat_map(|x| x.to_ne_bytes()).collect();
/// let mut packed = [0u8; 2]; // three elements of 4 bits
/// caster.cast(&weights, &mut packed, 3)?;
/// assert_eq!(packed, [0xF2, 0x01]);
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// `Debug` prints what does the casting, too: a copy, a number of kernels one after the other, or the scalar reference.
///
/// ```
/// use lanecast::{CastOptions, Caster, DType, Isa};
/// let caster = Caster::new(DType::F32, DType::F16, &CastOptions::new().isa(Isa::Scalar))?;
/// assert!(format!("{caster:?}").starts_with("Caster { from: float32, to: float16, by: Reference, options:"));
/// # Ok::<(), lanecast::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Caster {
    plan: Planned,
}

const _: () = assert!(size_of::<Caster>() <= 32);

impl fmt::Debug for Caster {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caster")
            .field("from", &self.from())
            .field("to", &self.to())
            .field("by", &self.plan.by())
            .field("options", &self.options())
            .finish()
    }
}

impl Caster {
    /// Resolves the cast of `from` to `to` under `options`.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::I64, DType::BF16, &CastOptions::new())?;
    /// assert_eq!((caster.from(), caster.to()), (DType::I64, DType::BF16));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The instruction set that the options or `LANECAST_ISA` name is not available, or there is no memory for the plan.
    #[inline]
    pub fn new(from: DType, to: DType, options: &CastOptions) -> Result<Self, Error> {
        match plan(from, to, options) {
            Some(plan) => Ok(Self { plan: Planned::new(plan, options) }),
            None => Err(not_planned(from, to, options)),
        }
    }

    /// Returns the caster of the same dtypes and options on another instruction set.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType, Isa};
    /// let caster = Caster::new(DType::F32, DType::F16, &CastOptions::new())?;
    /// assert_eq!(caster.with_isa(Isa::Scalar)?.isa(), Isa::Scalar);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The instruction set is not available, or there is no memory for the plan.
    pub fn with_isa(self, isa: Isa) -> Result<Self, Error> {
        Self::new(self.from(), self.to(), &self.options().isa(isa))
    }

    /// The dtype of the source.
    ///
    /// ```
    /// # use lanecast::{CastOptions, Caster, DType};
    /// assert_eq!(Caster::new(DType::I8, DType::F16, &CastOptions::new())?.from(), DType::I8);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn from(&self) -> DType {
        self.plan.plan.from
    }

    /// The dtype of the destination.
    ///
    /// ```
    /// # use lanecast::{CastOptions, Caster, DType};
    /// assert_eq!(Caster::new(DType::I8, DType::F16, &CastOptions::new())?.to(), DType::F16);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn to(&self) -> DType {
        self.plan.plan.to
    }

    /// The instruction set that the cast runs on.
    ///
    /// ```
    /// # use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::F32, DType::F16, &CastOptions::new())?;
    /// assert!(caster.isa().is_available());
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn isa(&self) -> Isa {
        self.present().isa()
    }

    /// The number of bytes of a source of `n` elements; None if that overflows.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::F4E2M1, DType::F32, &CastOptions::new())?;
    /// assert_eq!((caster.source_bytes(5), caster.destination_bytes(5)), (Some(3), Some(20)));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn source_bytes(&self, n: usize) -> Option<usize> {
        self.plan.plan.route.src.byte_len(n)
    }

    /// The number of bytes of a destination of `n` elements; None if that overflows.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::U8, DType::BF16, &CastOptions::new())?;
    /// let mut out = vec![0; caster.destination_bytes(3).expect("a few bytes")];
    /// caster.cast(&[1, 2, 3], &mut out, 3)?;
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn destination_bytes(&self, n: usize) -> Option<usize> {
        self.plan.plan.route.dst.byte_len(n)
    }

    /// The instruction set, as proof that it is available.
    pub(crate) const fn present(&self) -> Present {
        self.plan.plan.isa
    }

    /// Casts `n` elements.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::U8, DType::F32, &CastOptions::new())?;
    /// let mut out = [0u8; 8];
    /// caster.cast(&[3, 4], &mut out, 2)?;
    /// assert_eq!(out[4..], 4f32.to_ne_bytes());
    ///
    /// let error = caster.cast(&[3, 4], &mut out, 3).unwrap_err();
    /// assert_eq!(error.to_string(), "the source has 2 bytes; 3 elements of uint8 need exactly 3");
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size of `n` elements. Nothing was written.
    pub fn cast(&self, src: &[u8], dst: &mut [u8], n: usize) -> Result<(), Error> {
        if self.ran(src, &mut dst.into(), n) { Ok(()) } else { self.refuse(src.len(), dst.len(), n) }
    }

    /// Casts `n` elements to memory that need not be initialised, and returns it initialised.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::I16, DType::I8, &CastOptions::new())?;
    /// let mut memory = [MaybeUninit::uninit(); 1];
    /// let out = caster.cast_uninit(&200i16.to_ne_bytes(), &mut memory, 1)?;
    /// assert_eq!(out, [-56i8 as u8]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size of `n` elements. Nothing was written.
    pub fn cast_uninit<'a>(
        &self,
        src: &[u8],
        dst: &'a mut [MaybeUninit<u8>],
        n: usize,
    ) -> Result<&'a mut [u8], Error> {
        self.fill(src, dst.into(), n)
    }

    /// Casts the last `n` elements of a source of `offset + n` elements. Elements of fewer than 8 bits may begin within a byte,
    /// as in Arrow's bitmaps, which are `uint1`. (To make one of numbers, cast to bool, and that to `uint1`. As `uint1` itself 2 wraps to 0, and 0.5 is 0.) In stochastic rounding element `offset` has the number that [`Stochastic::first`](crate::Stochastic::first) says.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::U1, DType::Bool, &CastOptions::new())?;
    /// let mut out = [0u8; 4];
    /// caster.cast_from(&[0b1010_0000, 0b1], 5, &mut out, 4)?;
    /// assert_eq!(out, [1, 0, 1, 1]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size of its elements. Nothing was written.
    pub fn cast_from(&self, src: &[u8], offset: usize, dst: &mut [u8], n: usize) -> Result<(), Error> {
        self.fill_from(src, offset, dst.into(), n).map(drop)
    }

    /// As [`Caster::cast_from`], to memory that need not be initialised and is returned initialised.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::U4, DType::U8, &CastOptions::new())?;
    /// let mut memory = [MaybeUninit::uninit(); 2];
    /// assert_eq!(caster.cast_uninit_from(&[0x21, 0x43], 1, &mut memory, 2)?, [2, 3]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size of its elements. Nothing was written.
    pub fn cast_uninit_from<'a>(
        &self,
        src: &[u8],
        offset: usize,
        dst: &'a mut [MaybeUninit<u8>],
        n: usize,
    ) -> Result<&'a mut [u8], Error> {
        self.fill_from(src, offset, dst.into(), n)
    }

    #[allow(unsafe_code, reason = "what was written is initialised")]
    fn fill_from<'a>(
        &self,
        src: &[u8],
        offset: usize,
        mut dst: Destination<'a, u8>,
        n: usize,
    ) -> Result<&'a mut [u8], Error> {
        /// How many elements are shifted to a byte boundary at a time; they are whole bytes on both sides.
        const TILE: usize = 4096;
        let (from, options) = (self.from(), self.options());
        let Some(all) = offset.checked_add(n) else {
            return Err(Error::SizeOverflow { side: Side::Source, dtype: from, elements: usize::MAX });
        };
        check_size(Side::Source, from, options.src_packing, all, src.len())?;
        check_size(Side::Destination, self.to(), options.dst_packing, n, dst.size())?;
        let [source, target] = self.layouts();
        let bits = source.size(8);
        // The bytes of 8 elements are the bits of one.
        let (begin, shift) = (source.size(offset / 8 * 8) + offset % 8 * bits / 8, offset % 8 * bits % 8);
        let src = &src[begin.min(src.len())..];
        if shift == 0 {
            return self.fill(src, dst, n);
        }
        let mut room = [0; TILE * 6 / 8];
        let part = self.part_of(n);
        for done in (0..n).step_by(TILE) {
            let len = TILE.min(n - done);
            let src = &src[source.size(done)..];
            let room = &mut room[..source.size(len)];
            let next = src[1..].iter().copied().chain([0]);
            match options.src_packing {
                Packing::HighFirst => shifted(room, src, next, |a, b| a << shift | b >> (8 - shift)),
                _ => shifted(room, src, next, |a, b| a >> shift | b << (8 - shift)),
            }
            let to = target.size(done)..target.size(done + len);
            part.at(done).fill::<u8, u8>(room, dst.part(to), len)?;
        }
        // SAFETY: the tiles cover the whole destination, and `fill` has initialised each of them.
        Ok(unsafe { dst.assume_init() })
    }

    /// Checks that two buffers of these sizes hold exactly `n` elements.
    pub(crate) fn check(&self, source: usize, destination: usize, n: usize) -> Result<(), Error> {
        if self.holds(source, destination, n) { Ok(()) } else { self.refuse(source, destination, n) }
    }

    #[inline(always)]
    fn holds(&self, source: usize, destination: usize, n: usize) -> bool {
        let route = &self.plan.route;
        route.src.holds(n, source) && route.dst.holds(n, destination)
    }

    /// The error of [`Caster::check`]. It is not inlined, so that the caller saves no registers for it.
    #[cold]
    #[inline(never)]
    fn refuse(&self, source: usize, destination: usize, n: usize) -> Result<(), Error> {
        Err(self.wrong_size(source, destination, n))
    }

    /// Finds out which buffer has the wrong size.
    #[cold]
    fn wrong_size(&self, source: usize, destination: usize, n: usize) -> Error {
        let options = self.options();
        match check_size(Side::Source, self.from(), options.src_packing, n, source) {
            Err(error) => error,
            Ok(()) => wrong_size(Side::Destination, self.to(), options.dst_packing, n, destination),
        }
    }

    pub(crate) fn plan(&self) -> &Planned {
        &self.plan
    }

    /// The layouts of both sides.
    pub(crate) fn layouts(&self) -> [Layout; 2] {
        [self.plan.route.src, self.plan.route.dst]
    }

    /// The caster for some elements of a cast of `n`: whether results are streamed depends on all `n`.
    pub(crate) fn part_of(mut self, n: usize) -> Self {
        self.plan = self.plan.part_of(n);
        self
    }

    /// The route.
    pub(crate) fn route(&self) -> &Route {
        &self.plan.route
    }

    /// The options that the caster was made from, or equivalent ones for this pair.
    pub(crate) fn options(&self) -> CastOptions {
        let (stream_from, stochastic) = (self.plan.stream_option(), self.plan.stochastic());
        CastOptions { isa: Some(self.isa()), stream_from, stochastic, ..self.plan.options }
    }

    /// The caster for some elements of a cast, from this one on: under stochastic rounding it has the random words of those elements.
    pub(crate) fn at(mut self, element: usize) -> Self {
        self.plan = self.plan.at(element);
        self
    }

    /// Casts to elements that need not be initialised. `D` must be an unsigned integer or the element type of the destination.
    #[allow(unsafe_code, reason = "what was written is initialised")]
    pub(crate) fn fill<'a, S: Element, D: Element>(
        &self,
        src: &[S],
        mut dst: Destination<'a, D>,
        n: usize,
    ) -> Result<&'a mut [D], Error> {
        let is_bits = matches!(D::DTYPE, DType::U8 | DType::U16 | DType::U32 | DType::U64);
        debug_assert!(is_bits || D::DTYPE == self.to());
        if self.ran(src, &mut dst, n) {
            // SAFETY: the kernel has initialised every byte with elements of the destination, which are valid as `D`: every caller passes
            // an integer type, for which all bits are valid, or the element type that the caster was made for.
            Ok(unsafe { dst.assume_init() })
        } else {
            Err(self.wrong_size(size_of_val(src), dst.size(), n))
        }
    }

    /// Casts to a new vector of `len` elements of `D`, which must be u8 or the element type of the destination.
    pub(crate) fn vec<S: Element, D: Element>(
        &self,
        src: &[S],
        n: usize,
        len: usize,
    ) -> Result<Vec<D>, Error> {
        let no_memory = |_| Error::Allocation { dtype: self.to(), elements: n };
        let mut out = vec_with_capacity(len).map_err(no_memory)?;
        let spare = &mut out.spare_capacity_mut()[..len];
        let filled = self.fill::<S, D>(src, spare.into(), n)?.len();
        #[allow(unsafe_code, reason = "the vector takes over what the kernel has filled")]
        // SAFETY: `fill` has initialised the first `filled` elements of the spare capacity of an empty vector.
        unsafe {
            out.set_len(filled);
        }
        Ok(out)
    }

    /// Casts elements, whose types must be those of the caster, to a new vector. None if there is no memory.
    #[cfg(feature = "ndarray")]
    #[inline(always)]
    pub(crate) fn new_vec<S: Element, D: Element>(&self, src: &[S]) -> Option<Vec<D>> {
        let mut new = allocated(src.len());
        let has_room = new.capacity() >= src.len();
        (has_room && self.append(src, &mut new)).then_some(new)
    }

    /// Casts elements and appends them to a vector that has room for them. False if their types are not those of the caster.
    #[cfg(feature = "ndarray")]
    #[inline(always)]
    #[allow(unsafe_code, reason = "the vector takes over what the kernel has filled")]
    pub(crate) fn append<S: Element, D: Element>(&self, src: &[S], new: &mut Vec<D>) -> bool {
        let n = src.len();
        let ran = self.ran::<S, D>(src, &mut Destination::from(&mut new.spare_capacity_mut()[..n]), n);
        if ran {
            // SAFETY: the kernel has initialised `n` elements behind those that the vector has.
            unsafe { new.set_len(new.len() + n) };
        }
        ran
    }

    /// Runs the kernel if both buffers have the size of `n` elements, and returns whether they do. Finding out what is wrong is left to the
    /// caller: for few elements every instruction counts.
    #[inline(always)]
    #[allow(unsafe_code, reason = "the one place that calls a kernel")]
    fn ran<S: Element, D: Element>(&self, src: &[S], dst: &mut Destination<'_, D>, n: usize) -> bool {
        let sizes = (size_of_val(src), dst.size());
        // SAFETY: both buffers have exactly the size of `n` elements in their layout, which the plan took from
        // the same options. They do not overlap, because one is borrowed and the other borrowed mutably.
        unsafe {
            if self.plan.is_quick(n) {
                let route = &self.plan.route;
                let holds = route.src.holds_few(n, sizes.0) && route.dst.holds_few(n, sizes.1);
                if holds {
                    self.plan.run_quick(src.as_ptr().cast(), dst.as_mut_ptr(), n);
                }
                holds
            } else {
                let holds = self.holds(sizes.0, sizes.1, n);
                if holds {
                    (self.plan.kernel)(&self.plan, src.as_ptr().cast(), dst.as_mut_ptr(), n);
                }
                holds
            }
        }
    }
}

/// The plan of a cast. It is returned as a pointer, in a register: a [`Caster`] would be returned in memory, and reading that back takes
/// longer than finding the plan.
#[inline(never)]
fn plan(from: DType, to: DType, options: &CastOptions) -> Option<&'static Plan> {
    let isa = match options.isa {
        Some(isa) if isa.is_available() => isa,
        Some(_) => return None,
        None => Isa::best().ok()?,
    };
    plans::plan(isa, from, to, options)
}

/// The error of a plan that could not be made.
#[cold]
#[inline(never)]
fn not_planned(from: DType, to: DType, options: &CastOptions) -> Error {
    match (options.isa, Isa::best()) {
        (Some(isa), _) if !isa.is_available() => Error::IsaUnavailable { isa },
        (None, Err(error)) => error,
        _ => Error::PlanAllocation { from, to },
    }
}

/// Copies elements that begin within a byte, so that they begin at a byte boundary: `both` makes a byte of two adjacent ones.
fn shifted(room: &mut [u8], src: &[u8], next: impl Iterator<Item = u8>, both: impl Fn(u8, u8) -> u8) {
    for ((to, &a), b) in room.iter_mut().zip(src).zip(next) {
        *to = both(a, b);
    }
}

/// The caster that reads elements from bytes laid out as the options say.
#[cfg(feature = "text")]
pub(crate) fn loader(dtype: DType, options: &CastOptions) -> Result<Caster, Error> {
    Caster::new(dtype, dtype, &options.dst_packing(Packing::OnePerByte).dst_order(ByteOrder::Native))
}

/// The caster that writes elements to bytes laid out as the options say.
#[cfg(feature = "text")]
pub(crate) fn storer(dtype: DType, options: &CastOptions) -> Result<Caster, Error> {
    Caster::new(dtype, dtype, &options.src_packing(Packing::OnePerByte).src_order(ByteOrder::Native))
}

pub(crate) fn check_size(
    side: Side,
    dtype: DType,
    packing: Packing,
    elements: usize,
    given: usize,
) -> Result<(), Error> {
    match dtype.byte_len(elements, packing) {
        Some(needed) if needed == given => Ok(()),
        _ => Err(wrong_size(side, dtype, packing, elements, given)),
    }
}

/// The error of a buffer of the wrong size.
#[cold]
fn wrong_size(side: Side, dtype: DType, packing: Packing, elements: usize, given: usize) -> Error {
    match dtype.byte_len(elements, packing) {
        Some(needed) => Error::BufferSize { side, dtype, elements, needed, given },
        None => Error::SizeOverflow { side, dtype, elements },
    }
}

/// The caster of two element types, for slices: elements of fewer than 8 bits have a byte each.
#[inline(always)]
pub(crate) fn typed<S: Element, D: Element>(options: &CastOptions) -> Result<Caster, Error> {
    // Elements of 8 bits or more have no packing, and for few elements a copy of the options would take noticeable time.
    if const { S::DTYPE.bits() >= 8 && D::DTYPE.bits() >= 8 } {
        return Caster::new(S::DTYPE, D::DTYPE, options);
    }
    let options = options.src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
    Caster::new(S::DTYPE, D::DTYPE, &options)
}

/// The default options, for slices.
const BY_DEFAULT: CastOptions =
    CastOptions::new().src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);

/// The plan of two element types with the default options, if it has been made. It is inlined because it is only two loads.
#[inline(always)]
fn plan_by_default<S: Element, D: Element>() -> Option<&'static Plan> {
    plans::first(known(), S::DTYPE, D::DTYPE, const { BY_DEFAULT.key(S::DTYPE, D::DTYPE) })
}

/// [`typed`] with the default options.
#[inline(always)]
pub(crate) fn typed_by_default<S: Element, D: Element>() -> Result<Caster, Error> {
    match plan_by_default::<S, D>() {
        Some(plan) => Ok(Caster { plan: Planned::new(plan, &BY_DEFAULT) }),
        None => Caster::new(S::DTYPE, D::DTYPE, &BY_DEFAULT),
    }
}

/// Casts few elements to a new vector with the default options, calling nothing but the allocator and the kernel. None if the plan has not
/// been made or does not cast so many elements at once, or if there is no memory.
#[inline(always)]
#[allow(unsafe_code, reason = "the vector takes over what the kernel has filled")]
pub(crate) fn few_by_default<S: Element, D: Element>(src: &[S]) -> Option<Vec<D>> {
    let plan = plan_by_default::<S, D>().filter(|plan| plan.casts_at_once(src.len()))?;
    debug_assert!(plan.route.src.has_size(size_of::<S>()) && plan.route.dst.has_size(size_of::<D>()));
    let mut new = allocated::<D>(src.len());
    if new.capacity() < src.len() {
        return None;
    }
    // SAFETY: `src.len()` is the length of the slice, and the vector has room for as many elements. Each is one element of the plan's dtype,
    // as the options say by whose key the plan was found. The vector is new, so it does not overlap the slice. The kernel initialises all
    // of its elements.
    unsafe {
        // Checked above, but the compiler forgets it across the allocation; `run_quick` would then keep the plan in memory for its other branch.
        hint::assert_unchecked(plan.casts_at_once(src.len()));
        Planned::new(plan, &BY_DEFAULT).run_quick(src.as_ptr().cast(), new.as_mut_ptr().cast(), src.len());
        new.set_len(src.len());
    }
    Some(new)
}

fn fill_slice<'a, S: Element, D: Element>(
    src: &[S],
    dst: Destination<'a, D>,
    caster: impl FnOnce() -> Result<Caster, Error>,
) -> Result<&'a mut [D], Error> {
    if src.len() != dst.len() {
        return Err(Error::LengthMismatch { source: src.len(), destination: dst.len() });
    }
    caster()?.fill(src, dst, src.len())
}

/// Casts a slice into another with the default options.
///
/// ```
/// use lanecast::{bf16, cast_slice};
/// let mut out = [bf16::ZERO; 3];
/// cast_slice(&[1.0f64, 3.14159265, 1e300], &mut out)?;
/// assert_eq!(out.map(bf16::to_f32), [1.0, 3.140625, f32::INFINITY]);
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// The lengths differ, `LANECAST_ISA` names an instruction set that is not available, or there is no memory for the plan, which the first
/// cast of a pair makes. Nothing was written.
pub fn cast_slice<S: Element, D: Element>(src: &[S], dst: &mut [D]) -> Result<(), Error> {
    fill_slice(src, dst.into(), typed_by_default::<S, D>).map(drop)
}

/// Casts a slice into another.
///
/// The packing options have no effect: a slice of a type of fewer than 8 bits holds one element per byte.
/// The byte orders do: they say in which order the bytes of the elements are.
///
/// ```
/// use lanecast::{bits::F8E4M3FN, CastOptions, cast_slice_with};
/// let mut out = [F8E4M3FN::default(); 2];
/// cast_slice_with(&[1.0f32, 1e9], &mut out, &CastOptions::ml_dtypes())?;
/// assert_eq!(out[0].to_f32(), 1.0);
/// assert!(out[1].to_f32().is_nan());
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// The lengths differ, the instruction set that the options or `LANECAST_ISA` name is not available, or there is no memory for the plan,
/// which the first cast of a pair makes. Nothing was written.
pub fn cast_slice_with<S: Element, D: Element>(
    src: &[S],
    dst: &mut [D],
    options: &CastOptions,
) -> Result<(), Error> {
    fill_slice(src, dst.into(), || typed::<S, D>(options)).map(drop)
}

/// Casts a slice with the default options into memory that need not be initialised, and returns it initialised.
///
/// ```
/// use core::mem::MaybeUninit;
/// use lanecast::cast_slice_uninit;
/// let mut memory = [MaybeUninit::<i32>::uninit(); 3];
/// assert_eq!(cast_slice_uninit(&[1.9f32, -1e10, f32::NAN], &mut memory)?, [1, i32::MIN, 0]);
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// As [`cast_slice`].
pub fn cast_slice_uninit<'a, S: Element, D: Element>(
    src: &[S],
    dst: &'a mut [MaybeUninit<D>],
) -> Result<&'a mut [D], Error> {
    fill_slice(src, dst.into(), typed_by_default::<S, D>)
}

/// Casts a slice into memory that need not be initialised, and returns it initialised.
///
/// ```
/// use core::mem::MaybeUninit;
/// use lanecast::{cast_slice_uninit_with, CastOptions, Rounding};
/// let mut memory = [MaybeUninit::<i32>::uninit(); 2];
/// let up = CastOptions::new().int_rounding(Rounding::Up);
/// assert_eq!(cast_slice_uninit_with(&[1.1f32, -1.1], &mut memory, &up)?, [2, -1]);
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// As [`cast_slice_with`].
pub fn cast_slice_uninit_with<'a, S: Element, D: Element>(
    src: &[S],
    dst: &'a mut [MaybeUninit<D>],
    options: &CastOptions,
) -> Result<&'a mut [D], Error> {
    fill_slice(src, dst.into(), || typed::<S, D>(options))
}

/// Casts a slice to a new vector with the default options.
///
/// From 4 MiB on, Linux is asked for large pages (`madvise`), as NumPy does: faulting in new memory in small pages would take longer than
/// the cast. Casting into a vector that is kept, with [`cast_slice`], is faster still.
///
/// ```
/// use lanecast::cast_vec;
/// let out: Vec<u8> = cast_vec(&[1.5f32, 300.0, -1.0])?;
/// assert_eq!(out, [1, 255, 0]);
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// There is no memory for the result or for the plan, which the first cast of a pair makes, or `LANECAST_ISA` names an instruction set
/// that is not available.
pub fn cast_vec<S: Element, D: Element>(src: &[S]) -> Result<Vec<D>, Error> {
    match few_by_default(src) {
        Some(new) => Ok(new),
        None => cast_vec_with(src, const { &CastOptions::new() }),
    }
}

/// Casts a slice to a new vector.
///
/// ```
/// use lanecast::{CastOptions, Rounding, cast_vec_with};
/// let nearest = CastOptions::new().int_rounding(Rounding::NearestEven);
/// let out: Vec<i16> = cast_vec_with(&[1.5f64, 2.5], &nearest)?;
/// assert_eq!(out, [2, 2]);
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// There is no memory for the result or for the plan, which the first cast of a pair makes, or the instruction set that the options or
/// `LANECAST_ISA` name is not available.
pub fn cast_vec_with<S: Element, D: Element>(src: &[S], options: &CastOptions) -> Result<Vec<D>, Error> {
    typed::<S, D>(options)?.vec(src, src.len(), src.len())
}

/// Casts `n` elements whose dtypes are known at run time, with the default options.
///
/// ```
/// use lanecast::{cast_bytes, DType};
/// let mut out = [0u8; 4];
/// cast_bytes(&2.5f64.to_ne_bytes(), DType::F64, &mut out, DType::F32, 1)?;
/// assert_eq!(out, 2.5f32.to_ne_bytes());
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// A buffer does not have the size of `n` elements, `LANECAST_ISA` names an instruction set that is not available, or there is no memory
/// for the plan, which the first cast of a pair makes. Nothing was written.
pub fn cast_bytes(src: &[u8], from: DType, dst: &mut [u8], to: DType, n: usize) -> Result<(), Error> {
    cast_bytes_with(src, from, dst, to, n, &CastOptions::new())
}

/// Casts `n` elements whose dtypes are known at run time.
///
/// To cast many buffers of the same dtypes, keep a [`Caster`].
///
/// ```
/// use lanecast::{CastOptions, DType, cast_bytes_with};
///
/// // Five 6-bit floats in four bytes.
/// let packed = [0x08, 0x41, 0x10, 0x1F];
/// let mut out = [0u8; 20];
/// cast_bytes_with(&packed, DType::F6E2M3, &mut out, DType::F32, 5, &CastOptions::new())?;
/// let out: Vec<f32> = out.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect();
/// assert_eq!(out, [1.0, 0.5, 0.5, 0.5, 7.5]);
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// A buffer does not have the size of `n` elements, the instruction set that the options or `LANECAST_ISA` name is not available, or there
/// is no memory for the plan, which the first cast of a pair makes. Nothing was written.
pub fn cast_bytes_with(
    src: &[u8],
    from: DType,
    dst: &mut [u8],
    to: DType,
    n: usize,
    options: &CastOptions,
) -> Result<(), Error> {
    Caster::new(from, to, options)?.cast(src, dst, n)
}

/// Casts one value with the default options.
///
/// ```
/// use lanecast::{Complex, convert, f16};
/// assert_eq!(convert::<f64, f16>(1.0 + 2f64.powi(-11) + 2f64.powi(-40)).to_bits(), 0x3C01);
/// assert_eq!(convert::<Complex<f32>, i8>(Complex::new(-200.0, 7.0)), -128);
/// ```
#[must_use]
pub fn convert<S: Element, D: Element>(x: S) -> D {
    D::from_codes(scalar::convert(const { &route_of::<S, D>() }, x.to_codes()))
}

/// Casts one value. The options for packing, byte order and the instruction set have no effect.
///
/// ```
/// use lanecast::{bits::F8E5M2, CastOptions, Rounding, convert_with};
/// let down = CastOptions::new().rounding(Rounding::Down);
/// assert_eq!(convert_with::<f64, F8E5M2>(1.99, &down).to_f32(), 1.75);
/// ```
#[must_use]
pub fn convert_with<S: Element, D: Element>(x: S, options: &CastOptions) -> D {
    let route = Route { policy: options.policy(S::DTYPE, D::DTYPE), ..const { route_of::<S, D>() } };
    let codes = x.to_codes();
    D::from_codes(match options.stochastic {
        Some(stochastic) if const { rounds_stochastically::<S, D>() } => {
            scalar::convert_stochastic(&route, codes, stochastic.word(0))
        }
        _ => scalar::convert(&route, codes),
    })
}

/// The route of two element types. It is a constant, so that a conversion is compiled for each pair of types.
const fn route_of<S: Element, D: Element>() -> Route {
    route(S::DTYPE, D::DTYPE, &CastOptions::new())
}

/// Whether casts of these types can be rounded stochastically.
const fn rounds_stochastically<S: Element, D: Element>() -> bool {
    route(S::DTYPE, D::DTYPE, &CastOptions::new().stochastic(0, 0)).is_stochastic
}
