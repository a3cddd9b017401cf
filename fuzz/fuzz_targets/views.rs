//! Views of any dtypes, shapes, strides and offsets: views inside their buffers are cast as by a loop that casts each element
//! with the reference; others are an error. Nothing is written between elements, or on an error.

#![no_main]

use lanecast::parallel::Parallel;
use lanecast::views::{StridedView, StridedViewMut};
use lanecast::{CastOptions, Caster, DType, Error, Isa, Packing};
use libfuzzer_sys::fuzz_target;

const CANARY: u8 = 0xC5;
/// The most elements of a valid view, so that a loop over them takes little time.
const ELEMENTS: u128 = 1 << 12;
/// The bytes that a view may span. One that spans more gets a small buffer, which it does not fit.
const ROOM: i128 = 1 << 18;

/// A dimension: how the extent and the strides are made, the extent, and the strides of either side.
type Dimension = (u8, u8, [i64; 2]);

/// One side of a cast.
struct Side {
    strides: Vec<isize>,
    offset: usize,
    len: usize,
    /// Whether the view lies in its buffer.
    is_inside: bool,
}

impl Side {
    /// Makes side 0 or 1. `slack` is how many bytes the buffer is larger than the view, and how many bytes later the view begins;
    /// both may be negative.
    fn new(dimensions: &[Dimension], shape: &[usize], size: usize, side: usize, slack: [i8; 2]) -> Self {
        // The stride of the next dimension if that is dense.
        let mut next = size as i128;
        let mut strides = Vec::new();
        // The bytes that the view spans, relative to its element of index 0.
        let (mut first, mut end) = (0i128, size as i128);
        for ((kind, _, raw), &extent) in dimensions.iter().zip(shape) {
            let (few, sign) = (i128::from(raw[side] as i8), i128::from(raw[side].signum() | 1));
            let stride = match kind >> (4 + 2 * side) & 3 {
                0 => few,
                1 => few * size as i128,
                2 => next * sign,
                _ => raw[side].into(),
            };
            let stride = isize::try_from(stride).unwrap_or(isize::MIN);
            strides.push(stride);
            let way = (extent as i128 - 1).saturating_mul(stride as i128);
            first = first.saturating_add(way.min(0));
            end = end.saturating_add(way.max(0));
            next = next.saturating_mul(extent.max(1) as i128).min(i64::MAX.into());
        }
        let [len, offset] = match end.saturating_sub(first) {
            reach if reach <= ROOM => [reach + i128::from(slack[0]), i128::from(slack[1]) - first],
            _ => [64, 0],
        };
        let [len, offset] = [len, offset].map(|bytes| bytes.max(0));
        let is_inside = offset.saturating_add(first) >= 0 && offset.saturating_add(end) <= len;
        Self { strides, offset: offset as usize, len: len as usize, is_inside }
    }

    /// Returns the offset of an element in the buffer.
    fn place(&self, index: &[usize]) -> usize {
        let way: isize = index.iter().zip(&self.strides).map(|(&i, stride)| i as isize * stride).sum();
        self.offset.checked_add_signed(way).expect("it is inside")
    }
}

fuzz_target!(|input: ([u8; 2], Vec<Dimension>, [[i8; 2]; 2], &[u8])| {
    let (dtypes, mut dimensions, slack, bytes) = input;
    dimensions.truncate(8);
    let [from, to] = dtypes.map(|choice| DType::ALL[usize::from(choice) % DType::ALL.len()]);
    let shape: Vec<usize> = dimensions
        .iter()
        .map(|&(kind, extent, _)| match kind % 16 {
            0 => usize::MAX >> (extent % 64),
            _ => usize::from(extent % 24),
        })
        .collect();
    let elements = shape.iter().fold(1u128, |elements, &extent| elements.saturating_mul(extent as u128));
    let size = |dtype: DType| dtype.byte_len(1, Packing::OnePerByte).expect("it is small");
    let source = Side::new(&dimensions, &shape, size(from), 0, slack[0]);
    let destination = Side::new(&dimensions, &shape, size(to), 1, slack[1]);
    let is_spread = |(&extent, stride): (&usize, &isize)| extent <= 1 || stride.unsigned_abs() >= size(to);
    let is_valid =
        source.is_inside && destination.is_inside && shape.iter().zip(&destination.strides).all(is_spread);
    if is_valid && elements > ELEMENTS {
        return;
    }

    let src: Vec<u8> = bytes.iter().chain(&[0x5A]).copied().cycle().take(source.len).collect();
    let caster = |isa: Isa| {
        let options = CastOptions::new().src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
        Caster::new(from, to, &options.isa(isa)).expect("it is available")
    };
    let mut expected = vec![CANARY; destination.len];
    // Which bytes belong to elements. If elements overlap, it is not specified which of them remains.
    let mut is_reached = vec![false; destination.len];
    let mut overlaps = false;
    if is_valid {
        let reference = caster(Isa::Scalar);
        let mut index = vec![0; shape.len()];
        for _ in 0..elements {
            let (s, d) = (source.place(&index), destination.place(&index));
            let (s, d) = (s..s + size(from), d..d + size(to));
            overlaps |= is_reached[d.clone()].contains(&true);
            is_reached[d.clone()].fill(true);
            reference.cast(&src[s], &mut expected[d], 1).expect("one element");
            for (i, extent) in index.iter_mut().zip(&shape).rev() {
                *i += 1;
                if *i < *extent {
                    break;
                }
                *i = 0;
            }
        }
    }
    for &isa in Isa::available() {
        // Sizes are exact, so that the sanitizer sees every access beyond them.
        let casts: [&dyn Fn(&StridedView<'_>, &mut StridedViewMut<'_>) -> Result<(), Error>; 3] = [
            &|src, dst| caster(isa).cast_strided(src, dst),
            &|src, dst| caster(isa).par_cast_strided_with(src, dst, &Parallel::new().threads(1).chunk(50)),
            &|src, dst| {
                let report = caster(isa).cast_strided_checked(src, dst)?;
                assert_eq!(report.elements as u128, elements);
                assert_eq!(caster(isa).report_strided(src), Ok(report));
                let how = Parallel::new().threads(1).chunk(50);
                assert_eq!(caster(isa).par_report_strided_with(src, &how), Ok(report));
                Ok(())
            },
        ];
        for cast in casts {
            let mut got = vec![CANARY; destination.len];
            let result = cast(
                &StridedView::new(&src, source.offset, &shape, &source.strides),
                &mut StridedViewMut::new(&mut got, destination.offset, &shape, &destination.strides),
            );
            // A view without elements may lie anywhere.
            assert!(
                elements == 0 || result.is_ok() == is_valid,
                "{isa}: {from} -> {to}, {shape:?}: {result:?}"
            );
            let is_right = |i: usize| got[i] == expected[i] || overlaps && is_reached[i];
            assert!(
                (0..got.len()).all(is_right),
                "{isa}: {from} -> {to}, {shape:?}, {:?}",
                destination.strides
            );
        }
    }
});
