//! Arrays of the crate ndarray, sliced, reversed and transposed, against a conversion of each element.

mod bridge;
#[cfg(unix)]
#[path = "bridge/guarded.rs"]
mod guarded;

use bridge::Suite;
use lanecast::bits::{F4E2M1, F8E4M3FN};
use lanecast::checked::try_cast_slice_with;
use lanecast::parallel::Parallel;
use lanecast::{
    CastOptions, Complex, DType, Element, Error, Isa, Lanecast, Overflow, bf16, convert_with, f16,
};
use ndarray::{Array, Array3, ArrayRef, Dimension, IxDyn, ShapeBuilder, s};

fn main() {
    let mut suite = Suite::new();
    suite.test("views of three dimensions", |isa| {
        views::<f32, bf16>(isa);
        views::<u8, f64>(isa);
        views::<f64, F8E4M3FN>(isa);
        views::<Complex<f32>, f16>(isa);
        views::<i16, Complex<f64>>(isa);
        views::<f16, F4E2M1>(isa);
        views::<f32, f32>(isa);
    });
    suite.test("arrays in every order in memory", orders);
    suite.test("stochastic rounding of arrays in every order", stochastic);
    suite.test("arrays without elements and without dimensions", few);
    suite.test("into arrays that exist", into);
    suite.test("arrays that no memory has room for", too_large);
    #[cfg(unix)]
    suite.test("nothing but the elements is touched", edges);
    suite.run().exit();
}

fn options(isa: Isa) -> CastOptions {
    CastOptions::new().isa(isa).float_to_int(Overflow::Wrap)
}

fn source<S: Element>() -> Array3<S> {
    let mut next = 0u16;
    Array::from_shape_simple_fn((7, 33, 41), || {
        next = next.wrapping_mul(25173).wrapping_add(13849);
        lanecast::convert::<u16, S>(next)
    })
}

fn check<S: Element, D: Element + PartialEq, Dim: Dimension>(isa: Isa, src: &ArrayRef<S, Dim>) {
    let options = options(isa);
    let got = src.lanecast_with::<D>(&options).expect("it is available");
    assert_eq!(got.shape(), src.shape());
    let same = got.iter().zip(src).all(|(&got, &x)| got == convert_with::<S, D>(x, &options));
    let what = || format!("{isa}: {} -> {}, {:?} {:?}", S::DTYPE, D::DTYPE, src.shape(), src.strides());
    assert!(same, "{}", what());
    let how = Parallel::new().threads(2).chunk(src.len() / 3);
    let shared = src.par_lanecast_with::<D>(&options, &how).expect("it is available");
    assert!(shared == got && shared.strides() == got.strides(), "{}", what());
    // Errors count elements in row-major order.
    let elements: Vec<S> = src.iter().copied().collect();
    let mut plain = vec![lanecast::convert::<u8, D>(0); elements.len()];
    match (src.try_lanecast_with::<D>(&options), try_cast_slice_with(&elements, &mut plain, &options)) {
        (Ok(all), Ok(())) => assert!(all == got && all.strides() == got.strides(), "{}", what()),
        (there, here) => assert_eq!(there.map(drop), here, "{}", what()),
    }
}

fn views<S: Element, D: Element + PartialEq>(isa: Isa) {
    let x = source::<S>();
    check::<S, D, _>(isa, &x);
    check::<S, D, _>(isa, &x.t());
    for axes in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1]] {
        check::<S, D, _>(isa, &x.view().permuted_axes(axes));
    }
    check::<S, D, _>(isa, &x.slice(s![..;-1, 1..;2, ..;-3]));
    check::<S, D, _>(isa, &x.slice(s![3, .., 5..6]));
    check::<S, D, _>(isa, &x.slice(s![.., 4, ..;4]).t());
    check::<S, D, _>(isa, &x.slice(s![1..2, .., ..]).broadcast((5, 33, 41)).expect("one becomes five"));
    check::<S, D, IxDyn>(isa, &x.view().into_dyn());
    // Rows with strides between elements, and arrays of few rows.
    for step in [1, 2, 3, 4, 5, -1, -2] {
        for all in [x.slice(s![.., 1.., 1..;step]), x.slice(s![..;-1, ..;3, 2..30;step])] {
            check::<S, D, _>(isa, &all);
            check::<S, D, _>(isa, &all.slice(s![..2, .., ..]));
            check::<S, D, _>(isa, &all.slice(s![.., 1..2, ..]));
            check::<S, D, _>(isa, &all.slice(s![3, 0, ..]));
            check::<S, D, _>(
                isa,
                &all.slice(s![0..1, .., ..]).broadcast((3, all.dim().1, all.dim().2)).unwrap(),
            );
            let by_default = CastOptions::new();
            let both = [all.lanecast::<D>(), all.lanecast_with::<D>(&by_default)].map(Result::unwrap);
            assert!(both[0] == both[1], "by default: {step}");
        }
    }
    let gaps = x.slice(s![..;2, .., ..]).t().lanecast_with::<D>(&options(isa)).unwrap();
    assert!(gaps.is_standard_layout(), "the order of C, where there are gaps");
}

/// The result of an array without gaps has the memory order of the source, whatever that is.
fn orders(isa: Isa) {
    let x = source::<f32>();
    for axes in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
        for view in [x.view(), x.slice(s![..;-1, .., ..]), x.slice(s![.., ..;-1, ..;-1])] {
            let view = view.permuted_axes(axes);
            let mut new = view.lanecast_with::<bf16>(&options(isa)).unwrap();
            assert_eq!(new.strides(), view.strides());
            check::<f32, bf16, _>(isa, &view);
            check::<bf16, f32, _>(isa, &new);
            let expected = new.clone();
            new.fill(bf16::ONE);
            view.lanecast_into_with(&mut new, &options(isa)).unwrap();
            assert!(new.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{axes:?}");
        }
    }
}

/// Stochastic rounding numbers elements in row-major order, wherever they lie in memory.
fn stochastic(isa: Isa) {
    let x = source::<f32>().mapv(|x| x * 1.001);
    let options = options(isa).stochastic(7, 0);
    let expected = x.lanecast_with::<bf16>(&options).unwrap();
    for axes in [[2, 1, 0], [1, 0, 2]] {
        // The same elements in another memory order: the axes are permuted, copied, and permuted back.
        let other = x.view().permuted_axes(axes).as_standard_layout().into_owned();
        let other = other.permuted_axes(axes);
        assert!(other == x && other.strides() != x.strides());
        let got = other.lanecast_with::<bf16>(&options).unwrap();
        assert!(got.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{isa}: {axes:?}");
        let mut out = other.mapv(|_| bf16::ONE);
        other.lanecast_into_with(&mut out, &options).unwrap();
        assert!(out.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{isa}: {axes:?}");
    }
}

fn few(isa: Isa) {
    check::<f32, u8, _>(isa, &ndarray::arr0(3.7));
    check::<f32, u8, _>(isa, &Array::zeros((3, 0, 2)));
    let x = source::<f32>();
    for none in [s![2..2, .., ..], s![2..2, ..;-1, ..;-3], s![..;-1, 5..5, ..;-1], s![..;-2, ..;2, 41..41;-1]]
    {
        let none = x.slice(none);
        check::<f32, u8, _>(isa, &none);
        check::<f32, u8, _>(isa, &none.t());
        none.lanecast_into_with(&mut Array3::<u8>::zeros(none.raw_dim()), &options(isa)).unwrap();
    }
    check::<f32, u8, IxDyn>(isa, &ArrayRef::<f32, IxDyn>::to_owned(&Array::zeros(IxDyn(&[]))));
}

fn too_large(isa: Isa) {
    let one = ndarray::arr1(&[1u8]);
    for elements in [usize::MAX / 4 + 1].into_iter().chain(1usize.checked_shl(58)) {
        let all = one.broadcast(elements).expect("a view that repeats one");
        let error = all.lanecast_with::<f64>(&options(isa));
        assert_eq!(error, Err(Error::Allocation { dtype: DType::F64, elements }));
    }
}

fn into(isa: Isa) {
    let x = source::<f32>();
    let mut out = Array3::<i32>::from_elem((7, 66, 41).f(), 99);
    x.lanecast_into_with(&mut out.slice_mut(s![.., ..;-2, ..]), &options(isa)).unwrap();
    for (i, got) in out.slice(s![.., ..;-2, ..]).iter().zip(&x).enumerate() {
        assert_eq!(*got.0, *got.1 as i32, "{i}");
    }
    assert!(out.slice(s![.., ..;2, ..]).iter().all(|&x| x == 99), "written between the elements");
    let error = x.lanecast_into_with(&mut out, &options(isa));
    assert_eq!(error, Err(Error::ShapeMismatch { dimension: Some(1), source: 33, destination: 66 }));
    let error = x.view().into_dyn().lanecast_into(&mut Array::<u8, _>::zeros(IxDyn(&[7])));
    assert_eq!(error, Err(Error::ShapeMismatch { dimension: None, source: 3, destination: 1 }));
}

/// Arrays that begin or end at a guard, so that an access one byte further faults.
#[cfg(unix)]
fn edges(isa: Isa) {
    use guarded::{CANARY, Guarded};
    use ndarray::{ArrayView2, ArrayViewMut2};

    let shape = (33, 41);
    let n = shape.0 * shape.1;
    let (src, mut dst) = (Guarded::source(4 * n), Guarded::new(2 * n));
    for (src_at, dst_at) in [(0, dst.len - 2 * n), (src.len - 4 * n, 0), (src.len - 4 * n, dst.len - 2 * n)] {
        let first = src.first.wrapping_add(src_at).cast::<f32>();
        // SAFETY: the elements lie in the mapping and are aligned, at its beginning as at its end.
        let x = unsafe { ArrayView2::from_shape_ptr(shape, first) };
        for transposed in [false, true] {
            let expected = x.to_owned().lanecast_with::<bf16>(&options(isa)).unwrap();
            dst.bytes_mut().fill(CANARY);
            let first = dst.first.wrapping_add(dst_at).cast::<bf16>();
            if transposed {
                // SAFETY: as above.
                let mut out = unsafe { ArrayViewMut2::from_shape_ptr((shape.1, shape.0), first) };
                x.t().lanecast_into_with(&mut out, &options(isa)).unwrap();
                assert!(out.iter().zip(expected.t()).all(|(a, b)| a.to_bits() == b.to_bits()));
            } else {
                // SAFETY: as above.
                let mut out = unsafe { ArrayViewMut2::from_shape_ptr(shape, first) };
                x.lanecast_into_with(&mut out, &options(isa)).unwrap();
                assert!(out.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()));
            }
            let (before, rest) = dst.bytes().split_at(dst_at);
            assert!(before.iter().chain(&rest[2 * n..]).all(|&byte| byte == CANARY), "written outside");
        }
    }
}
