//! Casts that check their own results, in one loop.

use core::marker::PhantomData;

use super::super::environment::Environment;
use super::super::memory::Destination;
use super::super::plan::Planned;
use super::super::simd::{Simd, Tally, Task};
use super::super::stage;
use super::found::{Fit, Found, Fused};
use super::lanes::{Compared, FloatLanes, Lanes, Register, Wide16, Wide32, Wide64};
use super::scan::{IntegerScan, Scanner};
use crate::formats::dtype::DType;
use crate::formats::options::Rounding;
use crate::formats::route::Parts;

/// Returns the loop that casts and checks, if there is one for the pair.
pub(super) fn fused<I: Simd>(_: I, plan: &Planned, counts: bool) -> Option<Fused<'_>> {
    by_registers::<I::Dynamic>(plan, counts)
}

fn by_registers<I: Simd>(plan: &Planned, counts: bool) -> Option<Fused<'_>> {
    let route = &plan.route;
    let is_native = !route.src.swapped && !route.dst.swapped;
    if !stage::is_plain(route) || route.parts != Parts::One || !is_native {
        return None;
    }
    let run: fn(&Planned, &Fit, &[u8], Destination<'_, u8>) -> Found =
        match (route.from, route.to, route.policy.rounding, counts) {
            (DType::I64, DType::I32, ..) => blocks::<I, I64ToI32<I>>,
            (_, _, Rounding::NearestAway, _) => return None,
            (DType::F64, DType::I32, _, true) => blocks::<I, F64ToI32<I, true>>,
            (DType::F64, DType::I32, _, false) => blocks::<I, F64ToI32<I, false>>,
            // In other rounding modes, what is too large may become the largest number.
            (DType::F64, DType::F32, Rounding::NearestEven, true) => blocks::<I, ToFloat<I, F64ToF32, true>>,
            (DType::F64, DType::F32, Rounding::NearestEven, false) => {
                blocks::<I, ToFloat<I, F64ToF32, false>>
            }
            (DType::F32, DType::F16, Rounding::NearestEven, true) => blocks::<I, ToFloat<I, F32ToF16, true>>,
            (DType::F32, DType::F16, Rounding::NearestEven, false) => {
                blocks::<I, ToFloat<I, F32ToF16, false>>
            }
            _ => return None,
        };
    Some(Fused { plan, block: I::BYTES, run })
}

/// A cast of native codes that checks its results.
trait CheckedCast<I: Simd> {
    /// Registers of a block of the source, twice those of the destination.
    const REGISTERS: usize;

    fn new(isa: I, fit: &Fit) -> Self;
    /// Casts two registers of the source to one.
    fn cast(&mut self, isa: I, x: [I::V; 2]) -> I::V;
    /// The result for `n` elements.
    fn found(&self, isa: I, fit: &Fit, n: usize) -> Found;
}

/// Checks by the scan of integers.
struct I64ToI32<I: Simd>(IntegerScan<I, Wide64>);

impl<I: Simd> CheckedCast<I> for I64ToI32<I> {
    const REGISTERS: usize = 8;

    #[inline(always)]
    fn new(isa: I, fit: &Fit) -> Self {
        Self(IntegerScan::new(isa, fit))
    }
    #[inline(always)]
    fn cast(&mut self, isa: I, x: [I::V; 2]) -> I::V {
        self.0.at(isa, x[0]);
        self.0.at(isa, x[1]);
        isa.low64(x)
    }
    #[inline(always)]
    fn found(&self, isa: I, fit: &Fit, _: usize) -> Found {
        self.0.found(isa, fit)
    }
}

/// Counts lanes that differ, by counting those that are equal.
struct Unlike<I: Simd, L> {
    same: Tally<I::V>,
    lanes: PhantomData<L>,
}

impl<I: Simd, L: FloatLanes<I>> Unlike<I, L> {
    #[inline(always)]
    fn new(isa: I) -> Self {
        Self { same: Tally { lanes: isa.splat64(0), others: 0 }, lanes: PhantomData }
    }
    #[inline(always)]
    fn add(&mut self, isa: I, a: [I::V; 2], b: [I::V; 2]) {
        for k in 0..2 {
            self.same = L::tally(isa, a[k], b[k], self.same);
        }
    }
    /// How many of `n` lanes differ.
    #[inline(always)]
    fn count(&self, isa: I, n: usize) -> usize {
        let counts = Register::new(isa, self.same.lanes);
        let (mut same, mut at) = (self.same.others, 0);
        while at < I::BYTES {
            same += counts.lane(at, L::BYTES) as usize;
            at += L::BYTES;
        }
        n - same
    }
}

/// Casts to int32 and back: elements that come back unchanged fit. What does not fit becomes the minimum, so if the minimum is
/// among the results, the elements are scanned again.
struct F64ToI32<I: Simd, const COUNTS: bool> {
    /// The smallest integer that was made.
    least: I::V,
    /// The bits in which any element differs after the way back. A difference in the sign alone does not matter: it is the sign
    /// of a zero, or of 2^31, which has become the minimum.
    differ: I::V,
    fractions: Unlike<I, Wide64>,
}

impl<I: Simd, const COUNTS: bool> CheckedCast<I> for F64ToI32<I, COUNTS> {
    const REGISTERS: usize = 8;

    #[inline(always)]
    fn new(isa: I, _: &Fit) -> Self {
        Self { least: isa.splat64(0), differ: isa.splat64(0), fractions: Unlike::new(isa) }
    }
    #[inline(always)]
    fn cast(&mut self, isa: I, x: [I::V; 2]) -> I::V {
        let whole = [isa.round_f64(x[0]), isa.round_f64(x[1])];
        if COUNTS {
            self.fractions.add(isa, whole, x);
        }
        let [integers, bits] = isa.f64_to_i32_or_bits(x, whole);
        self.least = isa.min_s32(self.least, integers);
        self.differ = isa.or(self.differ, bits);
        integers
    }
    #[inline(always)]
    fn found(&self, isa: I, _: &Fit, n: usize) -> Found {
        let beyond = <Wide32 as Compared<I>>::eq(isa, self.least, isa.splat32(1 << 31));
        let any = Register::new(isa, isa.or(self.differ, beyond)).any();
        Found { fits: any << 1 == 0, inexact: if COUNTS { self.fractions.count(isa, n) } else { 0 } }
    }
}

/// A cast of a float to a narrower one, to nearest even, and back.
trait RoundTrip<I: Simd> {
    type Wide: FloatLanes<I>;
    type Narrow: Lanes<I>;
    const INF: u64;

    fn there(isa: I, x: [I::V; 2]) -> I::V;
    fn back(isa: I, x: I::V) -> [I::V; 2];
    /// The larger of two magnitudes.
    fn max(isa: I, a: I::V, b: I::V) -> I::V;
}

struct F64ToF32;
struct F32ToF16;

macro_rules! round_trips {
    ($($name:ident: $wide:ident to $narrow:ident, $inf:literal, $there:ident, $back:ident, $max:ident;)*) => {$(
        impl<I: Simd> RoundTrip<I> for $name {
            type Wide = $wide;
            type Narrow = $narrow;
            const INF: u64 = $inf;

            #[inline(always)]
            fn there(isa: I, x: [I::V; 2]) -> I::V {
                isa.$there(x)
            }
            #[inline(always)]
            fn back(isa: I, x: I::V) -> [I::V; 2] {
                isa.$back(x)
            }
            #[inline(always)]
            fn max(isa: I, a: I::V, b: I::V) -> I::V {
                isa.$max(a, b)
            }
        }
    )*};
}
round_trips! {
    F64ToF32: Wide64 to Wide32, 0x7F80_0000, f64_to_f32, f32_to_f64, max_u32;
    F32ToF16: Wide32 to Wide16, 0x7C00, f32_to_f16, f16_to_f32, max_u16;
}

/// Casts to a narrower float: elements fit if none becomes Inf or NaN.
struct ToFloat<I: Simd, N: RoundTrip<I>, const COUNTS: bool> {
    largest: I::V,
    rounded: Unlike<I, N::Wide>,
}

impl<I: Simd, N: RoundTrip<I>, const COUNTS: bool> CheckedCast<I> for ToFloat<I, N, COUNTS> {
    const REGISTERS: usize = N::Wide::BYTES;

    #[inline(always)]
    fn new(isa: I, _: &Fit) -> Self {
        Self { largest: isa.splat64(0), rounded: Unlike::new(isa) }
    }
    #[inline(always)]
    fn cast(&mut self, isa: I, x: [I::V; 2]) -> I::V {
        let narrow = N::there(isa, x);
        let magnitude = N::Narrow::splat(isa, u64::MAX >> (65 - 8 * N::Narrow::BYTES));
        self.largest = N::max(isa, self.largest, isa.and(narrow, magnitude));
        if COUNTS {
            self.rounded.add(isa, N::back(isa, narrow), x);
        }
        narrow
    }
    #[inline(always)]
    fn found(&self, isa: I, _: &Fit, n: usize) -> Found {
        let largest = Register::new(isa, self.largest);
        let (mut fits, mut at) = (true, 0);
        while at < I::BYTES {
            fits &= largest.lane(at, N::Narrow::BYTES) < N::INF;
            at += N::Narrow::BYTES;
        }
        Found { fits, inexact: if COUNTS { self.rounded.count(isa, n) } else { 0 } }
    }
}

/// Runs a cast that checks its results on all blocks that both buffers have.
fn blocks<I: Simd, P: CheckedCast<I>>(
    plan: &Planned,
    fit: &Fit,
    src: &[u8],
    dst: Destination<'_, u8>,
) -> Found {
    struct Blocks<'a, P>(&'a Fit, &'a [u8], Destination<'a, u8>, PhantomData<P>);

    impl<I: Simd, P: CheckedCast<I>> Task<I> for Blocks<'_, P> {
        type Output = Found;

        #[inline(always)]
        fn call(self, isa: I) -> Found {
            let Self(fit, mut src, mut dst, _) = self;
            let (mut checked, mut n) = (P::new(isa, fit), 0);
            while let Some((mut from, rest)) = src.split_at_checked(P::REGISTERS * I::BYTES)
                && let Some(mut to) = dst.take_all(P::REGISTERS / 2 * I::BYTES)
            {
                while let (Some(a), Some(b)) = (isa.load_next(&mut from), isa.load_next(&mut from)) {
                    isa.store_next(&mut to, checked.cast(isa, [a, b]));
                }
                (src, n) = (rest, n + I::BYTES);
            }
            checked.found(isa, fit, n)
        }
    }

    let _environment = Environment::new(plan.route.policy.rounding);
    let found = I::of(plan.isa).map(|isa| isa.run(Blocks::<P>(fit, src, dst, PhantomData)));
    // The plan is one of this instruction set, so there is a result.
    found.unwrap_or(Found { fits: false, inexact: 0 })
}
