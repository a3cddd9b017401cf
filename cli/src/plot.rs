//! Histograms of exponents, as SVG.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use plotters::prelude::*;

use crate::error::{Failure, Result};

/// How many elements have each exponent, of all that are so many.
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) exponents: BTreeMap<i32, u64>,
    pub(crate) elements: u64,
}

const COLOURS: [RGBColor; 2] = [RGBColor(0x5B, 0x8F, 0xC7), RGBColor(0xD9, 0x6C, 0x2C)];

/// Draws one tensor, or the same before and after.
pub(crate) fn draw(path: &Path, title: &str, series: &[Series]) -> Result<()> {
    if path.extension().is_none_or(|end| end != "svg") {
        let svg = path.with_extension("svg");
        return Err(Failure::usage(format!("--plot {}: it is an SVG that is drawn", path.display())).help(
            format!(
                "--plot {}; browsers show it, and `rsvg-convert` or Inkscape makes a PNG of it",
                svg.display()
            ),
        ));
    }
    drawn(path, title, series).map_err(|error| Failure::system(format!("{}: {error}", path.display())))
}

fn wrong(error: impl Display) -> String {
    error.to_string()
}

fn drawn(path: &Path, title: &str, series: &[Series]) -> std::result::Result<(), String> {
    let root = SVGBackend::new(path, (900, 480)).into_drawing_area();
    root.fill(&WHITE).map_err(wrong)?;
    let keys = || series.iter().flat_map(|one| one.exponents.keys().copied());
    let (first, last) = (keys().min().unwrap_or(0) - 1, keys().max().unwrap_or(0) + 2);
    let share = |one: &Series, n: u64| n as f64 / one.elements.max(1) as f64 * 100.0;
    let most =
        series.iter().flat_map(|one| one.exponents.values().map(move |&n| share(one, n))).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(14)
        .x_label_area_size(42)
        .y_label_area_size(56)
        .build_cartesian_2d(f64::from(first)..f64::from(last), 0.0..most * 1.1)
        .map_err(wrong)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_desc("exponent: an element of 2^e to 2^(e+1)")
        .y_desc("% of the elements")
        .x_label_formatter(&|x| format!("2^{x:.0}"))
        .draw()
        .map_err(wrong)?;
    // Beside each other in their exponent.
    let width = 0.84 / series.len() as f64;
    for (i, (one, colour)) in series.iter().zip(COLOURS).enumerate() {
        let bars = one.exponents.iter().map(|(&exponent, &n)| {
            let left = f64::from(exponent) + 0.08 + width * i as f64;
            Rectangle::new([(left, 0.0), (left + width, share(one, n))], colour.filled())
        });
        let legend = move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled());
        chart.draw_series(bars).map_err(wrong)?.label(&one.label).legend(legend);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()
        .map_err(wrong)?;
    root.present().map_err(wrong)
}
