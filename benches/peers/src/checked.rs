//! Times checked casts beside unchecked ones and arrow-cast's: what it costs to find out what is lost.

use std::fmt::Write;
use std::hint::black_box;

use arrow_array::{Array, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use lanecast::{CastOptions, Caster, DType, Error, Isa};

use crate::{Length, arrow_type, data, race};

/// The pairs that are raced. The goal for the first three is 1.5 times the time of the unchecked cast.
pub const PAIRS: [(DType, DType); 8] = [
    (DType::F64, DType::I32),
    (DType::I64, DType::I32),
    (DType::F32, DType::F16),
    (DType::F64, DType::F32),
    (DType::F32, DType::I8),
    (DType::I64, DType::F64),
    (DType::U8, DType::I8),
    (DType::F16, DType::I8),
];

/// Which elements are cast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Elements {
    /// All are in the range of the target; floats are rounded.
    InRange,
    /// One in a hundred is out of range.
    SomeLost,
}

fn source(from: DType, to: DType, n: usize, elements: Elements) -> Vec<u8> {
    let limit = match to {
        DType::I8 => 120.0,
        DType::F16 => 60000.0,
        _ => 2e9,
    };
    let mut count = 0;
    data::numbers(from, n, |random| {
        count += 1;
        let is_lost = elements == Elements::SomeLost && count % 100 == 50;
        let positive = from == DType::U8;
        let x = if positive { random.unit() } else { 2.0 * random.unit() - 1.0 };
        if is_lost { 1.1 * limit + 4.0 * limit * random.unit() } else { limit * x }
    })
}

/// The head of the table of [`row`]s.
pub const HEAD: &str = "| cast | elements | unchecked GB/s | cast_checked | try_cast | cast_validity | arrow-cast | arrow-cast to nulls |\n\
     |---|---|---|---|---|---|---|---|";

/// Returns a row of the table: the throughput of the unchecked cast, and how many times its time the others take.
///
/// # Errors
///
/// The instruction set is not available.
pub fn row(
    from: DType,
    to: DType,
    isa: Isa,
    traffic: usize,
    elements: Elements,
    length: Length,
) -> Result<String, Error> {
    let n = data::elements(from, to, traffic);
    let caster = Caster::new(from, to, &CastOptions::new().isa(isa))?;
    let src = Buffer::from(source(from, to, n, elements));
    let mut dst = vec![0u8; data::size(to, n)];
    let mut valid = vec![0u8; n.div_ceil(8)];
    let arrow = arrow_type(from).zip(arrow_type(to)).map(|(from, to)| {
        let array = ArrayData::builder(from).len(n).add_buffer(src.clone()).build();
        (make_array(array.expect("the buffer has the size of its elements")), to)
    });
    let contenders = if arrow.is_some() { 6 } else { 4 };
    let times = race(contenders, length, |contender| {
        let (src, dst) = (black_box(&src), black_box(&mut dst));
        match contender {
            0 => caster.cast(src, dst, n).expect("the sizes agree"),
            1 => _ = black_box(caster.cast_checked(src, dst, n)),
            // It stops at the first element that is lost.
            2 => _ = black_box(caster.try_cast(src, dst, n)),
            3 => _ = black_box(caster.cast_validity(src, None, dst, &mut valid, n)),
            _ => {
                let (array, to) = arrow.as_ref().expect("it races only then");
                let options = arrow_cast::CastOptions { safe: contender == 5, ..Default::default() };
                let array: &dyn Array = black_box(&**array);
                _ = black_box(arrow_cast::cast_with_options(array, to, &options));
            }
        }
    });
    let bytes = data::size(from, n) + data::size(to, n);
    let mut row = format!("| {from} -> {to} | {elements:?} | {:.1} |", bytes as f64 / times[0] / 1e9);
    for time in &times[1..] {
        _ = write!(row, " {:.2} |", time / times[0]);
    }
    Ok(row)
}
