//! Casts codes of 4 bits by the products of all codes with each scale.

use super::super::Codec;
use super::super::job::{Job, Table};
use super::super::lookup::{Nibble, Scope, floats};
use super::super::source::Input;
use super::super::width::{Bits, registers};
use super::arrays::numbers;
use super::times::product;
use super::under::{Reads, Scaled, Under};
use crate::formats::dtype::DType;
use crate::kernels::scaled::operands::{LEAST_GROUP, Scale};
use crate::kernels::simd::{Extras, NarrowsByF16, Simd};

/// The products of all 16 codes of 4 bits with the scale of each group of 16 elements.
pub(in crate::kernels) struct Products;

impl Reads for Products {
    type Width = Bits<4>;
    const FLOATS: bool = true;
    /// All codes as floats.
    type Loaded<I: Simd> = [I::V; 4];

    #[inline(always)]
    fn loaded<I: Simd>(isa: I, table: &Table) -> [I::V; 4] {
        static CODES: [[u8; 16]; 4] = [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]; 4];
        // SAFETY: a register has no more bytes than `CODES`.
        let codes = unsafe { isa.load(CODES.as_ptr().cast()) };
        floats::<I, Nibble>(isa, &Nibble::loaded(isa, table), codes)
    }

    #[inline(always)]
    fn begin<I: Simd>(isa: I, loaded: &mut [I::V; 4], scale: &Scale, is_kept: bool) {
        if !is_kept && scale.others.loses_sign {
            *loaded = registers!(4, K => isa.add_f32(loaded[K], isa.splat32(0)));
        }
    }
}

/// Codes of 4 bits by the [products](Products) of all codes as words of float16 or bfloat16: each code picks its word.
pub(in crate::kernels) struct ByProducts;

/// How products become words.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Halves {
    extras: Extras,
    /// Whether they become float16; otherwise bfloat16.
    are_f16: bool,
}

impl Halves {
    /// Products as words. No product is a NaN, or a subnormal bfloat16.
    #[inline(always)]
    fn words<I: Simd>(self, isa: I, x: [I::V; 4]) -> [I::V; 2] {
        registers!(2, K => {
            let x = [x[2 * K], x[2 * K + 1]];
            if self.are_f16 { isa.f32_to_nearest_f16(x) } else { isa.normal_to_bf16(x, self.extras) }
        })
    }
}

impl<I: NarrowsByF16> Codec<I> for ByProducts {
    type From = Scaled<Products>;
    type To = Bits<16>;
    const FLOATS: bool = true;
    type Setup = Halves;

    #[inline(always)]
    fn setup(_: I, job: &Job) -> Halves {
        Halves { extras: job.extras, are_f16: job.to == DType::F16.kind() }
    }

    #[inline(always)]
    fn block(
        isa: I,
        &halves: &Halves,
        Input { loaded: Under { loaded, scale }, .. }: Input<I, Scaled<Products>>,
    ) -> [I::V; 2] {
        if !scale.is_alone {
            let s = numbers(isa, &scale, scale.scales);
            return halves.words(isa, product(isa, loaded, s, &scale));
        }
        // SAFETY: as in `numbers`, for scales of groups.
        let splat = |k: usize| unsafe {
            let at = scale.at + k * I::BYTES / 4;
            isa.splat32(scale.scales.add(at >> scale.shift).cast::<u32>().read())
        };
        if scale.shift > const { LEAST_GROUP.trailing_zeros() } {
            // A second 16 elements of the same group have the same words.
            let x = registers!(4, K => {
                let first = if I::BYTES == 64 { K & 2 } else { K & 1 };
                isa.mul_f32(loaded[first], splat(first))
            });
            return halves.words(isa, x);
        }
        halves.words(isa, registers!(4, K => isa.mul_f32(loaded[K], splat(K))))
    }

    #[inline(always)]
    unsafe fn write(
        isa: I,
        _: &Under<[I::V; 4]>,
        words: [I::V; 2],
        src: *const u8,
        dst: *mut u8,
        [high, _]: [bool; 2],
    ) {
        // SAFETY: the caller's promise.
        unsafe { isa.pick_words(words, src, high, dst) };
    }
}
