//! Small casts through every function that works on pointers: into uninitialised memory, of views, in place, on threads,
//! checked, of arrays. Miri takes hours for the suites that try every pair, but minutes for these (`ci/sanitizers miri`).
//!
//! Results are compared with those of the plain cast, which the other suites compare with the oracle.

use core::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::thread;

use lanecast::bits::{F8E4M3FN, I4};
use lanecast::checked::{Validity, cast_slice_validity};
use lanecast::in_place::cast_vec;
use lanecast::parallel::{Parallel, ParallelFor};
use lanecast::views::{StridedView, StridedViewMut};
use lanecast::{ByteOrder, CastOptions, Caster, DType, Packing, Rounding, cast_slice_uninit};

/// Sources and targets of many widths, packed and complex ones among them.
const SOME: [DType; 8] =
    [DType::Bool, DType::I2, DType::F6E2M3, DType::F8E4M3FN, DType::F16, DType::I32, DType::F64, DType::C64];

fn pairs() -> impl Iterator<Item = (DType, DType)> {
    SOME.into_iter().flat_map(|from| SOME.map(|to| (from, to)))
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 37 + 11) as u8).collect()
}

fn plain(caster: &Caster, src: &[u8], size: usize, n: usize) -> Vec<u8> {
    let mut dst = vec![0; size];
    caster.cast(src, &mut dst, n).unwrap();
    dst
}

#[test]
fn uninitialised_memory() {
    for (from, to) in pairs() {
        let caster = Caster::new(from, to, &CastOptions::new()).unwrap();
        for n in [0, 1, 9, 70] {
            let src = bytes(from.byte_len(n, Packing::LowFirst).unwrap());
            let size = to.byte_len(n, Packing::LowFirst).unwrap();
            let mut room = vec![MaybeUninit::uninit(); size];
            assert_eq!(*caster.cast_uninit(&src, &mut room, n).unwrap(), plain(&caster, &src, size, n));
        }
    }
    let mut room = [MaybeUninit::uninit(); 3];
    let floats: &mut [f32] = cast_slice_uninit(&[1u8, 2, 3], &mut room).unwrap();
    assert_eq!(floats, [1.0, 2.0, 3.0]);
}

#[test]
fn views() {
    for (from, to) in pairs() {
        for options in
            [CastOptions::new(), CastOptions::new().rounding(Rounding::Up).src_order(ByteOrder::Big)]
        {
            let options = options.src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
            let caster = Caster::new(from, to, &options).unwrap();
            let (s, d, [rows, columns]) = (from.itemsize(), to.itemsize(), [5, 7]);
            let src = bytes(rows * columns * s);
            let expected = plain(&caster, &src, rows * columns * d, rows * columns);
            // A transpose, with a gap behind each column.
            let (step, size) = (rows * d + 3, columns * (rows * d + 3));
            let mut dst = vec![0x5A; size];
            let shape = [rows, columns];
            let strides = [(columns * s) as isize, s as isize];
            let view = StridedView::new(&src, 0, &shape, &strides);
            let strides = [d as isize, step as isize];
            let how = Parallel::new().threads(2).chunk(6);
            let casts: [&dyn Fn(&mut StridedViewMut<'_>); 3] = [
                &|to| caster.cast_strided(&view, to).unwrap(),
                &|to| caster.par_cast_strided_with(&view, to, &how).unwrap(),
                &|to| assert_eq!(caster.cast_strided_checked(&view, to).unwrap().elements, rows * columns),
            ];
            assert_eq!(caster.report_strided(&view).unwrap().elements, rows * columns);
            for cast in casts {
                dst.fill(0x5A);
                cast(&mut StridedViewMut::new(&mut dst, 0, &shape, &strides));
                for (i, element) in expected.chunks(d).enumerate() {
                    assert_eq!(&dst[i % columns * step + i / columns * d..][..d], element);
                }
            }
        }
    }
}

#[test]
fn inside_one_buffer() {
    for (from, to) in pairs() {
        let caster = Caster::new(from, to, &CastOptions::new()).unwrap();
        let n = 65;
        let [a, b] = [from, to].map(|dtype| dtype.byte_len(n, Packing::LowFirst).unwrap());
        let mut buffer = bytes(a.max(b));
        let expected = plain(&caster, &buffer[..a], b, n);
        caster.cast_in_place(&mut buffer, n).unwrap();
        assert_eq!(buffer[..b], expected);
    }
    let halves: Vec<lanecast::f16> = cast_vec(vec![1.5f32, -2.0]).unwrap();
    assert_eq!(halves.iter().map(|x| x.to_f32()).collect::<Vec<_>>(), [1.5, -2.0]);
}

/// A host with a thread for each task.
struct Host;

impl ParallelFor for Host {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        thread::scope(|scope| {
            for i in 0..tasks {
                scope.spawn(move || task(i));
            }
        });
    }
}

#[test]
fn threads() {
    for (from, to) in [(DType::F32, DType::F16), (DType::I2, DType::F6E2M3), (DType::C64, DType::U8)] {
        // Miri has no CPUID to ask for the size of the caches.
        let caster = Caster::new(from, to, &CastOptions::new().stream_from(usize::MAX)).unwrap();
        let n = 300;
        let src = bytes(from.byte_len(n, Packing::LowFirst).unwrap());
        let size = to.byte_len(n, Packing::LowFirst).unwrap();
        let expected = plain(&caster, &src, size, n);
        let goes_on = |_| ControlFlow::Continue(());
        for how in [
            Parallel::new().threads(3).chunk(64),
            Parallel::new().host(&Host).chunk(64),
            Parallel::new().threads(2).chunk(7).progress(&goes_on),
        ] {
            let mut dst = vec![0; size];
            caster.par_cast_with(&src, &mut dst, n, &how).unwrap();
            assert_eq!(dst, expected);
            dst.fill(0x5A);
            let report = caster.par_cast_checked_with(&src, &mut dst, n, &how).unwrap();
            assert_eq!((dst, Ok(report)), (expected.clone(), caster.report(&src, n)));
        }
    }
}

#[test]
fn checked() {
    for (from, to) in pairs() {
        let caster = Caster::new(from, to, &CastOptions::new()).unwrap();
        let n = 70;
        let src = bytes(from.byte_len(n, Packing::LowFirst).unwrap());
        let size = to.byte_len(n, Packing::LowFirst).unwrap();
        let (mut dst, mut valid) = (vec![0; size], vec![0; n.div_ceil(8)]);
        let report = caster.cast_checked(&src, &mut dst, n).unwrap();
        assert_eq!(dst, plain(&caster, &src, size, n));
        let source = [0xFF; 10];
        let given = Some(Validity::new(&source).from_bit(3));
        let nulls = caster.cast_validity(&src, given, &mut dst, &mut valid, n).unwrap();
        assert_eq!(nulls, report.lost());
        assert_eq!(nulls + valid.iter().map(|byte| byte.count_ones() as usize).sum::<usize>(), n);
    }
    let (mut out, mut valid) = ([I4::default(); 3], [0]);
    let nulls = cast_slice_validity(&[1.0f32, f32::NAN, 99.0], None, &mut out, &mut valid).unwrap();
    assert_eq!((nulls, valid[0]), (2, 0b001));
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays() {
    use lanecast::Lanecast;
    use ndarray::array;

    let floats = array![[1.0f32, 2.0], [448.0, 1e9]];
    let narrow = floats.t().lanecast::<F8E4M3FN>().unwrap();
    assert_eq!(narrow.map(|x| x.to_f32()), array![[1.0, 448.0], [2.0, 448.0]]);
}

#[cfg(not(feature = "ndarray"))]
#[test]
fn narrow_floats() {
    assert_eq!(F8E4M3FN::from_f32(1e9).to_f32(), 448.0);
}
