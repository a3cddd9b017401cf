//! Shows what the promotion rulesets do.
//!
//! * `cargo run --example promotion` adds an int8 and a bfloat16 buffer the way each system would.
//! * `cargo run --example promotion -- --rules numpy` prints the table of one ruleset.
//! * `cargo run --example promotion -- --markdown` prints docs/promotion.md.

use std::error::Error;
use std::fmt::Write;

use lanecast::promotion::{Operand, Rules, ScalarKind};
use lanecast::{CastOptions, DType, bf16, cast_bytes_with};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => print!("{}", sums()?),
        ["--rules", name] => print!("{}", aligned(&table(Rules::from_name(name)?))),
        ["--markdown"] => print!("{}", markdown()),
        _ => return Err("usage: promotion [--rules NAME | --markdown]".into()),
    }
    Ok(())
}

/// An int8 and a bfloat16 buffer, added the way each ruleset would.
pub(crate) fn sums() -> Result<String, Box<dyn Error>> {
    let ints: Vec<u8> = [1i8, 100, -128].map(|x| x as u8).to_vec();
    let floats: Vec<u8> = [0.5, 0.75, 1e4].iter().flat_map(|&x| bf16::from_f32(x).to_ne_bytes()).collect();
    let mut out = String::from("int8 [1, 100, -128] + bfloat16 [0.5, 0.75, 9984]\n");
    for rules in Rules::ALL {
        let text = match rules.plan(&[DType::I8, DType::BF16]) {
            Err(error) => format!("error: {error}"),
            Ok(plan) => {
                let sum = add(plan.dtype(), plan.operands(), [&ints, &floats], 3)?;
                format!("{} {sum:?}", plan.dtype())
            }
        };
        writeln!(out, "{:<11}{text}", rules.name())?;
    }
    Ok(out)
}

/// Does what a library does with a plan: casts the operands that need it, and runs its kernel for the common
/// dtype. Here that kernel adds in float64 and rounds to the common dtype. Returns the rounded sums.
fn add(
    dtype: DType,
    operands: &[Operand],
    sources: [&[u8]; 2],
    n: usize,
) -> Result<Vec<f64>, Box<dyn Error>> {
    let options = CastOptions::new();
    let mut values = Vec::new();
    for (operand, source) in operands.iter().zip(sources) {
        let mut cast = vec![0; n * dtype.itemsize()];
        let common = match operand {
            Operand::AsIs => source,
            Operand::Cast(caster) => {
                caster.cast(source, &mut cast, n)?;
                &cast
            }
        };
        let mut wide = vec![0; 8 * n];
        cast_bytes_with(common, dtype, &mut wide, DType::F64, n, &options)?;
        values.push(wide);
    }
    let number = |bytes: &[u8]| f64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    let pairs = values[0].chunks_exact(8).zip(values[1].chunks_exact(8));
    let sums: Vec<u8> = pairs.flat_map(|(a, b)| (number(a) + number(b)).to_ne_bytes()).collect();
    let (mut rounded, mut wide) = (vec![0; n * dtype.itemsize()], vec![0; 8 * n]);
    cast_bytes_with(&sums, DType::F64, &mut rounded, dtype, n, &options)?;
    cast_bytes_with(&rounded, dtype, &mut wide, DType::F64, n, &options)?;
    Ok(wide.chunks_exact(8).map(number).collect())
}

/// Returns the short name of a dtype: `f8_e4m3fn` for `float8_e4m3fn`.
fn short(dtype: DType) -> String {
    let prefixes = [("uint", "u"), ("int", "i"), ("bfloat", "bf"), ("float", "f"), ("complex", "c")];
    let found =
        prefixes.into_iter().find_map(|(long, short)| Some((dtype.name().strip_prefix(long)?, short)));
    found.map_or(dtype.name().to_owned(), |(rest, short)| format!("{short}{rest}"))
}

/// A result, or a dash where there is none.
fn cell<E>(result: Result<DType, E>) -> String {
    result.map_or("–".to_owned(), short)
}

/// The table of a ruleset, with a row for each dtype: its result with each dtype, then with each kind of Python number.
fn table(rules: &Rules) -> Vec<Vec<String>> {
    let dtypes: Vec<DType> = rules.dtypes().iter().collect();
    let scalars = ScalarKind::ALL.map(|kind| (kind, format!("Python {}", kind.name())));
    let mut rows = vec![vec![rules.name().to_owned()]];
    rows[0].extend(dtypes.iter().map(|&dtype| short(dtype)));
    rows[0].extend(scalars.iter().map(|(_, name)| name.clone()));
    for &a in &dtypes {
        let mut row = vec![short(a)];
        row.extend(dtypes.iter().map(|&b| cell(rules.promote(a, b))));
        row.extend(scalars.iter().map(|(kind, _)| cell(rules.with_scalar(a, *kind))));
        rows.push(row);
    }
    rows
}

/// Formats rows as text, with columns as wide as their widest cell.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join(" ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn markdown_table(rows: &[Vec<String>]) -> String {
    let mut lines: Vec<String> = rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
    lines.insert(1, format!("|{}\n", "---|".repeat(rows[0].len())));
    lines.concat()
}

/// Returns the text of docs/promotion.md.
pub(crate) fn markdown() -> String {
    let mut page = String::from(
        "# Type promotion\n\n\
         What operands of different dtypes become under each ruleset, and where the rulesets disagree. The documentation\n\
         comments of `Rules` say what each rule is, and where the real system does something else.\n\n\
         In the tables `–` is an error, and names are short: `u8` is uint8, `bf16` bfloat16, `c64` complex64. This page is\n\
         generated: `LANECAST_BLESS=1 cargo test --test promotion` writes it.\n\n",
    );
    for rules in Rules::ALL {
        let dtypes = rules.dtypes();
        let identity = dtypes.iter().all(|dtype| rules.above(dtype).len() == 1);
        page += &format!("## {}\n\n", rules.name());
        if identity {
            page += &format!("Equal dtypes alone combine: {dtypes}.\n\n");
        } else {
            page += &format!("{}\n", markdown_table(&table(rules)));
        }
        let named = |what: &str, dtype: Option<DType>| dtype.map(|dtype| format!("{what} {dtype}"));
        let kinds = ScalarKind::ALL.into_iter().skip(1);
        let mut defaults: Vec<_> =
            kinds.filter_map(|kind| named(kind.name(), rules.default_dtype(kind))).collect();
        defaults.extend(named("index", rules.index_dtype()));
        if !defaults.is_empty() {
            page += &format!("Defaults: {}.\n\n", defaults.join(", "));
        }
    }
    page += &disagreements();
    page
}

/// Returns the table of the pairs of dtypes that two systems answer differently, with pairs of the same answers in one row.
fn disagreements() -> String {
    let promotes = |rules: &&Rules| rules.dtypes().iter().any(|dtype| rules.above(dtype).len() > 1);
    let systems: Vec<&Rules> =
        Rules::ALL.into_iter().filter(promotes).filter(|rules| rules.name() != "lossless").collect();
    let mut rows: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for (i, a) in DType::ALL.into_iter().enumerate() {
        for b in DType::ALL.into_iter().skip(i + 1) {
            let known = |rules: &&&Rules| rules.dtypes().contains(a) && rules.dtypes().contains(b);
            let answers: Vec<_> =
                systems.iter().filter(known).map(|rules| rules.promote(a, b).ok()).collect();
            if answers.windows(2).all(|pair| pair[0] == pair[1]) {
                continue;
            }
            let answer =
                |rules: &&Rules| if known(&rules) { cell(rules.promote(a, b)) } else { String::new() };
            let row: Vec<String> = systems.iter().map(answer).collect();
            let pair = format!("{} × {}", short(a), short(b));
            match rows.iter_mut().find(|(_, known)| *known == row) {
                Some((pairs, _)) => pairs.push(pair),
                None => rows.push((vec![pair], row)),
            }
        }
    }
    let mut table = vec![vec!["pairs".to_owned()]];
    table[0].extend(systems.iter().map(|rules| rules.name().to_owned()));
    table.extend(rows.into_iter().map(|(pairs, row)| [vec![pairs.join(", ")], row].concat()));
    format!(
        "## Where the systems disagree\n\n\
         Every pair that two of them answer differently. An empty cell: the system lacks one of the dtypes.\n\n{}",
        markdown_table(&table)
    )
}
