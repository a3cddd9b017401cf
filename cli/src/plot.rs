//! Histograms of exponents, as SVG or PNG.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use crate::error::{Failure, Result, on};
use crate::live::{named, temporary};
use crate::source::file_name;
use crate::source::parent;

/// How many elements have each exponent, and how many there are.
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) exponents: BTreeMap<i32, u64>,
    pub(crate) elements: u64,
}

const COLOURS: [RGBColor; 2] = [RGBColor(0x5B, 0x8F, 0xC7), RGBColor(0xD9, 0x6C, 0x2C)];
const SIZE: (u32, u32) = (900, 480);
/// How many pixels of a PNG a unit has, so that it is sharp on screens of high resolution.
const SCALE: u32 = 2;
/// The font of an SVG, which the browser chooses, and of a PNG.
const FONT: &str = "sans-serif";

/// The format of a picture, by the extension of its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Picture {
    Svg,
    Png,
}

impl Picture {
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let end = path.extension().map(|end| end.to_ascii_lowercase());
        match end.as_deref().and_then(|end| end.to_str()) {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => {
                let name = |end: &str| path.with_extension(end).display().to_string();
                Err(Failure::usage(format!("--plot {}: the name must end in .svg or .png", path.display()))
                    .help(format!("--plot {}, or --plot {}", name("svg"), name("png"))))
            }
        }
    }
}

/// Draws one tensor, or the same before and after. Unless it `replaces` a file, one that has appeared meanwhile is an error.
pub(crate) fn draw(
    path: &Path,
    picture: Picture,
    title: &str,
    series: &[Series],
    replaces: bool,
) -> Result<()> {
    let drawn = match picture {
        Picture::Svg => svg(title, series),
        Picture::Png => png(title, series),
    };
    let drawn = drawn.map_err(|error| Failure::system(format!("{}: {error}", path.display())))?;
    let (dir, name) = (parent(path), file_name(path));
    let mut file = temporary(dir, &name)?;
    file.write_all(&drawn).map_err(on(path))?;
    named(file, path, replaces)
}

type Drawn<T> = std::result::Result<T, String>;

fn wrong(error: impl Display) -> String {
    error.to_string()
}

fn svg(title: &str, series: &[Series]) -> Drawn<Vec<u8>> {
    let mut text = String::new();
    chart(&SVGBackend::with_string(&mut text, SIZE).into_drawing_area(), 1, title, series)?;
    Ok(text.into_bytes())
}

fn png(title: &str, series: &[Series]) -> Drawn<Vec<u8>> {
    let (width, height) = (SIZE.0 * SCALE, SIZE.1 * SCALE);
    let mut pixels = vec![0; (width * height * 3) as usize];
    let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
    chart(&area, SCALE, title, series)?;
    drop(area);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().map_err(wrong)?;
    writer.write_image_data(&pixels).map_err(wrong)?;
    writer.finish().map_err(wrong)?;
    Ok(file)
}

/// An axis of exponents with these ticks: plotters' own may lie between whole exponents.
struct Exponents {
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Ranged for Exponents {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

fn chart<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    scale: u32,
    title: &str,
    series: &[Series],
) -> Drawn<()> {
    let of = |units: u32| units * scale;
    let font = |units: u32| (FONT, of(units));
    register_font(FONT, FontStyle::Normal, dejavu::sans::extra_light())
        .map_err(|_| "the font cannot be read")?;
    root.fill(&WHITE).map_err(wrong)?;
    let keys = || series.iter().flat_map(|one| one.exponents.keys().copied());
    let (first, last) = (keys().min().unwrap_or(0) - 1, keys().max().unwrap_or(0) + 1);
    // A tick for each exponent, or for every second, fifth, ..: there is room for some 12.
    let step = [1, 2, 5, 10, 20, 50, 100].into_iter().find(|step| (last - first) / step < 12).unwrap_or(200);
    let ticks = (first..=last).filter(|exponent| exponent % step == 0).map(f64::from).collect();
    let share = |one: &Series, n: u64| n as f64 / one.elements.max(1) as f64 * 100.0;
    let most =
        series.iter().flat_map(|one| one.exponents.values().map(move |&n| share(one, n))).fold(1.0, f64::max);
    // 90 letters fit in full size. Longer titles are smaller.
    let title_size = (1620 / title.chars().count().max(90)) as u32;
    let mut chart = ChartBuilder::on(root)
        .caption(title, font(title_size))
        .margin(of(14))
        .x_label_area_size(of(42))
        .y_label_area_size(of(56))
        .build_cartesian_2d(Exponents { from: first.into(), to: last.into(), ticks }, 0.0..most * 1.1)
        .map_err(wrong)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("exponent: an element of 2^e to 2^(e+1)")
        .y_desc("% of the elements")
        .x_label_formatter(&|x| format!("2^{x:.0}"))
        .label_style(font(12))
        .axis_desc_style(font(14))
        .set_all_tick_mark_size(of(5))
        .draw()
        .map_err(wrong)?;
    // Bars of the same exponent are side by side, above its tick.
    let width = 0.84 / series.len() as f64;
    for (i, (one, colour)) in series.iter().zip(COLOURS).enumerate() {
        let bars = one.exponents.iter().map(|(&exponent, &n)| {
            let left = f64::from(exponent) - 0.42 + width * i as f64;
            Rectangle::new([(left, 0.0), (left + width, share(one, n))], colour.filled())
        });
        let (side, half) = (of(12) as i32, of(5) as i32);
        let legend = move |(x, y)| Rectangle::new([(x, y - half), (x + side, y + half)], colour.filled());
        chart.draw_series(bars).map_err(wrong)?.label(&one.label).legend(legend);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font(font(13))
        .margin(of(10))
        .legend_area_size(of(20))
        .draw()
        .map_err(wrong)?;
    root.present().map_err(wrong)
}
