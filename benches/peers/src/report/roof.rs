//! The speed of casts as fractions of the null cast's, class by class.

use std::fmt::{self, Write};

use lanecast::{DType, Isa, Kind};

use crate::{Chart, NAMES, Speed, mean};

/// Returns the class of a pair, which depends on the kinds and widths of both sides.
fn class(from: DType, to: DType) -> &'static str {
    let is_complex = |dtype: DType| dtype.part() != dtype;
    let is_float = |dtype: DType| matches!(dtype.kind(), Kind::Float(_));
    let bits = |dtype: DType| if is_float(dtype) { dtype.bits() } else { 0 };
    if from == to {
        return "to the same dtype";
    }
    if is_complex(from) || is_complex(to) {
        return "complex on a side";
    }
    match (bits(from), bits(to)) {
        (0, 0) => "integers and bool to each other",
        (0, ..=8) => "integers and bool to floats of 8 bits and fewer",
        (0, _) => "integers and bool to wider floats",
        (..=8, 0) => "floats of 8 bits and fewer to integers and bool",
        (_, 0) => "wider floats to integers and bool",
        (..=8, ..=8) => "floats of 8 bits and fewer to each other",
        (..=8, _) => "floats of 8 bits and fewer to wider ones",
        (16, ..=8) => "float16 and bfloat16 to floats of 8 bits and fewer",
        (_, ..=8) => "float32 and float64 to floats of 8 bits and fewer",
        _ => "float16, bfloat16, float32, float64 to each other",
    }
}

/// Groups speeds by class, in the order of the names of classes.
fn by_class(speeds: &[Speed]) -> Vec<(&'static str, Vec<Speed>)> {
    let mut classes: Vec<(&'static str, Vec<Speed>)> = Vec::new();
    for speed in speeds {
        let name = class(speed.from, speed.to);
        match classes.iter_mut().find(|(other, _)| *other == name) {
            Some((_, speeds)) => speeds.push(*speed),
            None => classes.push((name, vec![*speed])),
        }
    }
    classes.sort_by_key(|(name, _)| *name);
    classes
}

fn roofs(speeds: &[Speed]) -> f64 {
    mean(speeds.iter().filter_map(|speed| speed.roof))
}

/// Returns the goals: the least geometric mean over all pairs, and over a class.
fn goals(isa: Isa, size: usize) -> Option<[f64; 2]> {
    match (isa, size) {
        (Isa::Avx512, 0) => Some([0.88, 0.55]),
        (Isa::Avx512, _) => Some([0.95, 0.80]),
        (Isa::Avx2, 0) => Some([0.70, 0.35]),
        (Isa::Avx2, _) => Some([0.90, 0.60]),
        _ => None,
    }
}

pub(crate) fn classes(page: &mut String, charts: &[Chart]) -> fmt::Result {
    let charts: Vec<&Chart> =
        charts.iter().filter(|chart| chart.speeds.iter().any(|speed| speed.roof.is_some())).collect();
    writeln!(
        page,
        "## As fractions of the roof

1 says that computing is free, and more that the loop of the cast is better than the empty one. Geometric means. Of what is
{huge}, only some pairs are cast.

| instruction set | size | all | wanted | lowest class | wanted |
|---|---|---:|---:|---:|---:|",
        huge = NAMES[2].1
    )?;
    for chart in &charts {
        let wanted =
            |i: usize| goals(chart.isa, chart.size).map_or(String::new(), |goals| format!("{:.2}", goals[i]));
        let classes = by_class(&chart.speeds);
        let lowest =
            classes.iter().map(|(name, speeds)| (*name, roofs(speeds))).min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((name, lowest)) = lowest else { continue };
        writeln!(
            page,
            "| {} | {} | {:.2} | {} | {lowest:.2}: {name} | {} |",
            chart.isa,
            NAMES[chart.size].1,
            roofs(&chart.speeds),
            wanted(0),
            wanted(1)
        )?;
    }
    for chart in charts {
        writeln!(
            page,
            "\n<details><summary>{}, {}: the classes, and the five slowest of each</summary>\n",
            chart.isa, NAMES[chart.size].1
        )?;
        writeln!(page, "| class | pairs | mean | slowest |\n|---|---:|---:|---|")?;
        for (name, mut speeds) in by_class(&chart.speeds) {
            let mean = roofs(&speeds);
            speeds.sort_by(|a, b| a.roof.partial_cmp(&b.roof).expect("fractions are numbers"));
            let slowest: Vec<String> = (speeds.iter().take(5))
                .filter_map(|speed| Some(format!("{} to {} {:.2}", speed.from, speed.to, speed.roof?)))
                .collect();
            writeln!(page, "| {name} | {} | {mean:.2} | {} |", speeds.len(), slowest.join(", "))?;
        }
        writeln!(page, "\n</details>")?;
    }
    writeln!(page)
}

/// Returns the figures of a page as JSON, for the overview of all processors.
pub(crate) fn figures(cpu: &str, commit: &str, charts: &[Chart]) -> Result<String, fmt::Error> {
    let mut json = format!("{{\n \"cpu\": {cpu:?},\n \"commit\": {commit:?},\n \"figures\": [");
    for (i, chart) in charts.iter().filter(|chart| chart.isa != Isa::Scalar).enumerate() {
        let comma = if i == 0 { "" } else { "," };
        write!(json, "{comma}\n  {{\"isa\": \"{}\", \"size\": \"{}\"", chart.isa, NAMES[chart.size].0)?;
        write!(json, ", \"memcpy\": {:.3}, \"roof\": {:.3}", chart.mean(), roofs(&chart.speeds))?;
        for (i, (name, speeds)) in by_class(&chart.speeds).iter().enumerate() {
            let start = if i == 0 { ", \"classes\": {" } else { ", " };
            write!(json, "{start}\n   {name:?}: {:.3}", roofs(speeds))?;
        }
        write!(json, "}}}}")?;
    }
    writeln!(json, "\n ]\n}}")?;
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_of_a_class_that_says_what_it_is() {
        use DType::*;
        assert_eq!(class(F32, F32), "to the same dtype");
        assert_eq!(class(F32, C64), "complex on a side");
        assert_eq!(class(I32, Bool), "integers and bool to each other");
        assert_eq!(class(I4, F4E2M1), "integers and bool to floats of 8 bits and fewer");
        assert_eq!(class(BF16, F8E4M3FN), "float16 and bfloat16 to floats of 8 bits and fewer");
        assert_eq!(class(F64, F6E3M2), "float32 and float64 to floats of 8 bits and fewer");
        assert_eq!(class(F8E5M2, F16), "floats of 8 bits and fewer to wider ones");
        assert_eq!(class(F64, F32), "float16, bfloat16, float32, float64 to each other");
    }
}
