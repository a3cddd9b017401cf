//! Draws the layouts of scaled casts: `cargo run --example scaled -- docs/scaled` writes a picture of each.
//!
//! The pictures show what the library does: a dequantisation of ones tells which scale each element has, and a quantisation in which
//! all scales but one are zero tells where that scale lies.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use lanecast::scaled::{Dequantizer, Quantizer, ScaleLayout, Scaling};
use lanecast::{CastOptions, DType};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Colours that are taken in turn, so that neighbours differ.
const COLOURS: [&str; 7] = ["#a6cee3", "#b2df8a", "#fdbf6f", "#cab2d6", "#fb9a99", "#ffff99", "#ccebc5"];

fn main() -> Result<()> {
    let directory = std::env::args().nth(1).ok_or("usage: scaled DIRECTORY")?;
    std::fs::create_dir_all(&directory)?;
    let f32 = DType::F32;
    for (name, title, scaling, shape, cell) in [
        ("per-tensor", "per_tensor(F32): one scale", Scaling::per_tensor(f32), [6, 40], [12, 16]),
        ("per-axis-0", "per_axis(0): one scale a row", Scaling::per_axis(0), [6, 40], [12, 16]),
        ("per-axis-1", "per_axis(1): one scale a column", Scaling::per_axis(1), [6, 20], [24, 16]),
        (
            "along-axis",
            "along_axis(0, 4, F32): 4 elements of a column",
            Scaling::along_axis(0, 4, f32),
            [10, 12],
            [40, 12],
        ),
        ("mx", "mx(): 32 elements of a row; the last block is shorter", Scaling::mx(), [4, 70], [7, 20]),
        ("nvfp4", "nvfp4(): 16 elements of a row, and a tensor scale", Scaling::nvfp4(), [4, 70], [7, 20]),
        ("deepseek", "deepseek(): 128 x 128, of 200 x 500", Scaling::deepseek(), [200, 500], [1, 1]),
    ] {
        save(&directory, name, &blocks(title, &scaling, shape, cell)?)?;
    }
    save(&directory, "swizzle", &swizzle()?)
}

fn save(directory: &str, name: &str, svg: &str) -> Result<()> {
    Ok(std::fs::write(Path::new(directory).join(format!("{name}.svg")), svg)?)
}

/// Returns the index of the scale of each element.
fn scale_of_each(scaling: &Scaling, shape: [usize; 2]) -> Result<Vec<usize>> {
    // With float32 scales, each of which can hold its own index.
    let scaling = scaling.scale(DType::F32);
    let ones = Dequantizer::new(DType::I8, DType::F32, &scaling, &CastOptions::new())?;
    let count = scaling.scale_bytes(&shape)? / 4;
    let scales: Vec<u8> = (0..count).flat_map(|i| (i as f32).to_ne_bytes()).collect();
    let n = shape[0] * shape[1];
    let mut numbers = vec![0; 4 * n];
    ones.dequantize(&vec![1; n], &shape, &scales, None, &mut numbers)?;
    Ok(numbers.as_chunks().0.iter().map(|&x| f32::from_ne_bytes(x) as usize).collect())
}

fn begin(width: usize, height: usize, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"17\" font-size=\"13\">{title}</text>\n"
    )
}

/// Draws data as rectangles of the elements that share a scale, with the index of the scale in each.
fn blocks(title: &str, scaling: &Scaling, shape: [usize; 2], cell: [usize; 2]) -> Result<String> {
    let scales = scale_of_each(scaling, shape)?;
    let mut svg = begin(20 + shape[1] * cell[0], 36 + shape[0] * cell[1], title);
    for scale in 0..=scales.iter().copied().max().unwrap_or(0) {
        let places =
            || (0..scales.len()).filter(|&i| scales[i] == scale).map(|i| [i % shape[1], i / shape[1]]);
        let [columns, rows] = [0, 1].map(|axis| {
            let along = || places().map(|place| place[axis]);
            (along().min().unwrap_or(0), along().max().unwrap_or(0))
        });
        let (x, y) = (10 + columns.0 * cell[0], 26 + rows.0 * cell[1]);
        let (width, height) = ((columns.1 - columns.0 + 1) * cell[0], (rows.1 - rows.0 + 1) * cell[1]);
        let colour = COLOURS[scale % COLOURS.len()];
        writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\" stroke=\"#555\"/>"
        )?;
        writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{scale}</text>",
            x + width / 2,
            y + height / 2 + 4
        )?;
    }
    Ok(svg + "</svg>\n")
}

/// Draws the 512 bytes of a tile of 128 x 4 scales: which row of scales is in each four bytes.
fn swizzle() -> Result<String> {
    let scaling = Scaling::blocks(&[1], DType::F8E8M0).layout(ScaleLayout::Swizzle32x4x4);
    let q = Quantizer::new(DType::F32, DType::F8E5M2, &scaling, &CastOptions::new())?;
    let shape = [128, 4];
    let mut svg = begin(20 + 4 * 170, 60 + 32 * 15, "Swizzle32x4x4: 128 x 4 scales in 512 bytes, 16 a line");
    for group in 0..4 {
        let x = 10 + 170 * group;
        writeln!(svg, "<text x=\"{x}\" y=\"38\">bytes {} to {} of a line</text>", 4 * group, 4 * group + 3)?;
    }
    for row in 0..shape[0] {
        let mut data = [0; 4 * 512];
        data[16 * row..][..4].copy_from_slice(&1f32.to_ne_bytes());
        let (mut codes, mut scales) = ([0; 512], [0; 512]);
        q.quantize(&data, &shape, &mut codes, &mut scales)?;
        let at = scales.iter().position(|scale| *scale != 0).ok_or("a scale is not there")?;
        let (x, y) = (10 + at % 16 / 4 * 170, 44 + at / 16 * 15);
        let colour = COLOURS[row / 32];
        writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"166\" height=\"15\" fill=\"{colour}\" stroke=\"#555\"/>"
        )?;
        writeln!(svg, "<text x=\"{}\" y=\"{}\">row {row}: columns 0, 1, 2, 3</text>", x + 6, y + 11)?;
    }
    Ok(svg + "</svg>\n")
}
