//! Casts every pair with two commits of lanecast, in turns and in one process. `ci/compare` makes a crate of this file that depends
//! on both commits.
//!
//! The fastest of many runs counts, so that other load on the machine matters little.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use after::DType;

/// Casts of one of the two.
macro_rules! side {
    ($side:ident) => {
        pub(super) mod $side {
            use ::$side::{CastOptions, Caster, DType, Isa};

            /// Casts as many elements again and again.
            pub(crate) fn caster(
                isa: &str,
                [from, to]: [usize; 2],
            ) -> impl Fn(&[u8], &mut [u8], usize, usize) {
                let isa = Isa::available().iter().find(|one| one.name() == isa).expect("both have it");
                let caster = Caster::new(DType::ALL[from], DType::ALL[to], &CastOptions::new().isa(*isa));
                let caster = caster.expect("it is available");
                move |src, dst, n, times| {
                    for _ in 0..times {
                        caster.cast(src, dst, n).expect("sizes that fit");
                    }
                }
            }
        }
    };
}

mod sides {
    side!(before);
    side!(after);
}

const SIZES: [&str; 3] = ["16 elements", "1000 elements", "L2"];
/// Turns, of so many nanoseconds each.
const TURNS: usize = 15;
const TURN: f64 = 20_000.0;
/// Below this, a class of pairs is listed, and a pair counted.
const CLASS: f64 = 0.97;
const PAIR: f64 = 0.85;

/// The ratios of the pairs of each class, with the number of the column that each stands in.
type Classes = BTreeMap<String, Vec<(usize, f64)>>;

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let mut x = 1u64;
    let mut random = || {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 56) as u8
    };
    let src: Vec<u8> = (0..1 << 18).map(|_| random()).collect();
    let mut results = [vec![0u8; 1 << 18], vec![0u8; 1 << 18]];
    let (mut columns, mut all, mut slow) = (Vec::new(), Classes::new(), Vec::new());
    for isa in after::Isa::available().iter().map(|isa| isa.name()).filter(|&name| name != "scalar") {
        let mut found = SIZES.map(|_| Vec::new());
        // The dtypes that the older commit has: new ones are added at the end.
        let dtypes = || DType::ALL.into_iter().take(before::DType::ALL.len()).enumerate();
        for (i, from) in dtypes() {
            for (j, to) in dtypes() {
                let pair = format!("{from} -> {to}");
                if !pair.contains(&filter) {
                    continue;
                }
                let (before, after) = (sides::before::caster(isa, [i, j]), sides::after::caster(isa, [i, j]));
                let size = |dtype: DType, n: usize| (n * dtype.bits() as usize).div_ceil(8);
                for n in [1, 7, 16, 33, 100, 1000, 4099] {
                    let [old, new] = results.each_mut();
                    before(&src[3..][..size(from, n)], &mut old[..size(to, n)], n, 1);
                    after(&src[3..][..size(from, n)], &mut new[..size(to, n)], n, 1);
                    assert!(old[..size(to, n)] == new[..size(to, n)], "{isa}: {pair} differs, {n} elements");
                }
                let in_l2 = (8 << 17) / (size(from, 8) + size(to, 8)) / 64 * 64;
                for (found, n) in found.iter_mut().zip([16, 1000, in_l2]) {
                    let (src, dst) = (&src[..size(from, n)], &mut results[0]);
                    // Both write to the same buffer, aligned to a cache line.
                    let start = dst.as_ptr().align_offset(64);
                    let dst = &mut dst[start..][..size(to, n)];
                    let mut run = |cast: &dyn Fn(&[u8], &mut [u8], usize, usize), times: usize| {
                        let start = Instant::now();
                        cast(black_box(src), black_box(dst), n, times);
                        start.elapsed().as_secs_f64() * 1e9 / times as f64
                    };
                    _ = (run(&before, 1), run(&after, 1));
                    let times = ((TURN / run(&before, 1).max(1.0)) as usize).clamp(1, 1000);
                    let (mut old, mut new) = (f64::MAX, f64::MAX);
                    for _ in 0..TURNS {
                        old = old.min(run(&before, times));
                        new = new.min(run(&after, times));
                    }
                    found.push((old / new, format!("{} -> {}", class(from), class(to)), pair.clone()));
                }
            }
        }
        for (what, found) in SIZES.into_iter().zip(found) {
            let column = columns.len();
            columns.push(format!("{isa}, {what}"));
            for (ratio, class, pair) in found {
                all.entry(class).or_default().push((column, ratio));
                slow.extend((ratio < PAIR).then_some((ratio, column, pair)));
            }
        }
    }
    print(&columns, &all, slow);
    println!("\nEvery result is the same.");
}

/// A page of the classes of which some column is below [`CLASS`], the slowest first, and the slowest pairs of each column.
fn print(columns: &[String], classes: &Classes, mut slow: Vec<(f64, usize, String)>) {
    println!("| times the speed before | {} |", columns.join(" | "));
    println!("|---|{}", "---:|".repeat(columns.len()));
    let row = |name: &str, ratios: &[(usize, f64)]| -> (f64, String) {
        let means: Vec<f64> = (0..columns.len())
            .map(|column| mean(ratios.iter().filter(|of| of.0 == column).map(|of| of.1)))
            .collect();
        let cells: Vec<String> = means
            .iter()
            .map(|&ratio| if ratio < CLASS { format!("**{ratio:.2}**") } else { format!("{ratio:.2}") })
            .collect();
        let lowest = means.into_iter().fold(f64::MAX, f64::min);
        (lowest, format!("| {name} | {} |", cells.join(" | ")))
    };
    let every: Vec<_> = classes.values().flatten().copied().collect();
    println!("{}", row(&format!("all {} pairs", every.len() / columns.len().max(1)), &every).1);
    let mut rows: Vec<_> = classes
        .iter()
        .map(|(class, ratios)| row(&format!("{class} ({})", ratios.len() / columns.len()), ratios))
        .filter(|row| row.0 < CLASS)
        .collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows.iter().for_each(|(_, row)| println!("{row}"));
    slow.sort_by(|a, b| a.0.total_cmp(&b.0));
    println!();
    for (column, name) in columns.iter().enumerate() {
        let of: Vec<_> = slow.iter().filter(|pair| pair.1 == column).collect();
        let first: Vec<_> = of.iter().take(10).map(|(ratio, _, pair)| format!("{pair} {ratio:.2}")).collect();
        let colon = if first.is_empty() { "" } else { ": " };
        println!("* {name}: {} pairs below {PAIR}{colon}{}", of.len(), first.join(", "));
    }
}

/// The geometric mean.
fn mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut n) = (0.0, 0);
    for ratio in ratios {
        sum += ratio.ln();
        n += 1;
    }
    (sum / f64::from(n.max(1))).exp()
}

/// What dtypes of a kind and a width are called.
fn class(dtype: DType) -> String {
    let name = dtype.to_string();
    match &*name {
        "bool" => name,
        _ if name.contains("complex") => "complex".into(),
        _ if name.contains("int") => format!("{}-bit integer", dtype.bits()),
        _ => format!("{}-bit float", dtype.bits()),
    }
}
