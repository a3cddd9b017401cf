//! Draws a heat map of all pairs, as SVG.

use std::fmt::{Result, Write};

use lanecast::DType;

/// Pixels from one cell to the next.
const CELL: usize = 17;
/// Where the cells begin: right of the names of rows, below the names of columns.
const LEFT: usize = 175;
const TOP: usize = 205;

/// From slow to fast: evenly spaced points of viridis, which is perceptually uniform, also in grey.
const SCALE: [[u8; 3]; 5] =
    [[0x44, 0x01, 0x54], [0x3B, 0x52, 0x8B], [0x21, 0x91, 0x8C], [0x5E, 0xC9, 0x62], [0xFD, 0xE7, 0x25]];

/// Draws the map. `speeds` are fractions of memcpy's speed, row by row: a row for each source, a column for each target.
pub(crate) fn map(title: &str, speeds: &[f64]) -> std::result::Result<String, std::fmt::Error> {
    let side = CELL * DType::ALL.len();
    let (width, height) = (LEFT + side + 90, TOP + side + 15);
    let mut svg = String::new();
    writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">
<style>
text {{ font: 12px sans-serif; fill: #1f2328 }}
.paper {{ fill: #ffffff }}
@media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3 }} .paper {{ fill: #0d1117 }} }}
</style>
<rect class="paper" width="{width}" height="{height}"/>
<text x="20" y="24" style="font-size: 15px">{title}</text>
<text x="{LEFT}" y="48">to</text>
<text x="20" y="{}">from</text>"##,
        TOP + 12
    )?;
    for (i, dtype) in DType::ALL.iter().enumerate() {
        let (x, y) = (LEFT + i * CELL + 13, TOP + i * CELL + 13);
        writeln!(svg, r#"<text x="{}" y="{y}" text-anchor="end">{dtype}</text>"#, LEFT - 5)?;
        writeln!(svg, r#"<text transform="translate({x},{}) rotate(-90)">{dtype}</text>"#, TOP - 5)?;
    }
    for (i, &speed) in speeds.iter().enumerate() {
        let (row, column) = (i / DType::ALL.len(), i % DType::ALL.len());
        let (x, y) = (LEFT + column * CELL, TOP + row * CELL);
        let (from, to) = (DType::ALL[row], DType::ALL[column]);
        cell(&mut svg, [x, y, CELL - 1, CELL - 1], speed, &format!("{from} to {to}: {speed:.2}"))?;
    }
    legend(&mut svg, LEFT + side + 20)?;
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn legend(svg: &mut String, x: usize) -> Result {
    for step in 0..=20 {
        let speed = f64::from(step) / 20.0;
        let y = TOP + (20 - step as usize) * CELL;
        cell(svg, [x, y, CELL, CELL], speed, &format!("{speed:.2}"))?;
        if step % 5 == 0 {
            let sign = if step == 20 { "≥ " } else { "" };
            writeln!(svg, r#"<text x="{}" y="{}">{sign}{speed:.2}</text>"#, x + CELL + 4, y + 13)?;
        }
    }
    writeln!(svg, r#"<text x="{x}" y="{}">of memcpy</text>"#, TOP - 8)
}

fn cell(svg: &mut String, [x, y, width, height]: [usize; 4], speed: f64, title: &str) -> Result {
    let place = speed.clamp(0.0, 1.0) * (SCALE.len() - 1) as f64;
    let below = (place as usize).min(SCALE.len() - 2);
    let [r, g, b] = [0, 1, 2].map(|i| {
        let (low, high) = (f64::from(SCALE[below][i]), f64::from(SCALE[below + 1][i]));
        (low + (high - low) * (place - below as f64)).round() as u8
    });
    writeln!(
        svg,
        r##"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="#{r:02x}{g:02x}{b:02x}"><title>{title}</title></rect>"##
    )
}
