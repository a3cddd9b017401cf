//! `lanecast inspect`: lists the tensors of a checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lanecast::DType;
use owo_colors::OwoColorize;
use serde_json::json;

use crate::args::Inspect;
use crate::cast::check_file;
use crate::checkpoint::{Checkpoint, Name, Tensor, numbered};
use crate::convert::check_parent;
use crate::dtypes;
use crate::error::{Failure, Result, suggestion};
use crate::layout::{self, Layout, Recognised, Role};
use crate::loss::Real;
use crate::out::{self, bytes, count};
use crate::plan::Input;
use crate::plot::{self, Picture, Series};
use crate::source;
use crate::tile::{self, Matrices, Scratch, Tile};

pub(crate) fn from_option(from: &str) -> Result<Option<Layout>> {
    if from == "auto" { Ok(None) } else { Layout::parse(from).map(Some) }
}

pub(crate) fn run(args: &Inspect) -> Result<()> {
    let picture =
        args.plot.as_deref().map(|path| Picture::of(path).map(|picture| (path, picture))).transpose()?;
    if let Some((path, _)) = picture {
        let sources: Vec<&Path> =
            [&args.path].into_iter().chain(&args.beside).map(PathBuf::as_path).collect();
        check_file(path, &sources, args.force, "name a file")?;
        check_parent(path)?;
    }
    let it = Checkpoint::open(&args.path)?;
    let found = layout::recognise(&it, from_option(&args.from)?);
    let mut stats = BTreeMap::new();
    if args.stats {
        for tensor in it.tensors.values() {
            if let Some(found) = measure(&it, &found, tensor).map_err(|error| error.tensor(&tensor.name))? {
                stats.insert(tensor.name.clone(), found);
            }
        }
    }
    if let Some(picture) = picture {
        draw(args, picture, &it, &found)?;
    }
    if args.json { out::json(&as_json(&it, &found, &stats)) } else { table(&it, &found, &stats, args.stats) }
}

/// Statistics of the values of a tensor.
pub(crate) struct Stats {
    min: f64,
    max: f64,
    nan: u64,
    inf: u64,
    zero: u64,
    /// How many values, other than 0, have each exponent.
    exponents: BTreeMap<i32, u64>,
}

impl Stats {
    fn json(&self) -> serde_json::Value {
        json!({
            "min": self.min, "max": self.max, "nan": self.nan, "inf": self.inf, "zero": self.zero, "exponents": self.exponents,
        })
    }

    /// Returns a bar for each of the 16 largest exponents, the largest last.
    fn sparkline(&self) -> String {
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let Some((&last, _)) = self.exponents.last_key_value() else { return String::new() };
        let counts: Vec<u64> =
            (last - 15..=last).map(|e| self.exponents.get(&e).copied().unwrap_or(0)).collect();
        let most = counts.iter().copied().max().unwrap_or(0).max(1);
        counts.iter().map(|&n| if n == 0 { ' ' } else { BARS[(n * 7 / most) as usize] }).collect()
    }
}

/// Returns statistics of the values of a weight, or of an unquantised tensor of floats. None for other tensors.
pub(crate) fn measure(it: &Checkpoint, found: &Recognised, tensor: &Arc<Tensor>) -> Result<Option<Stats>> {
    let input = match found.weights.get(&tensor.name) {
        Some(weight) => Input::Scaled(weight.clone(), tensor.clone(), it.tensors[&weight.scales].clone()),
        None if dtypes::is_float(tensor.dtype) => Input::Plain(tensor.clone()),
        None => return Ok(None),
    };
    let input = tile::flat(&input).unwrap_or(input);
    let (shape, block) = tile::logical(&input);
    let whole = Matrices::of(&shape);
    let mut scratch = Scratch::default();
    let each = ((1 << 18) / whole.columns.max(1)).max(1).next_multiple_of(block);
    let mut stats = Stats {
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
        nan: 0,
        inf: 0,
        zero: 0,
        exponents: BTreeMap::new(),
    };
    for matrix in 0..whole.count {
        let mut first = 0;
        while first < whole.rows {
            let part = Tile { job: 0, matrix, first, count: each.min(whole.rows - first) };
            let mut exponents = [0u64; 2048];
            for x in f64::read(&tile::values(it, &input, &part, DType::F64, &mut scratch)?) {
                stats.nan += u64::from(x.is_nan());
                stats.inf += u64::from(x.is_infinite());
                stats.zero += u64::from(x == 0.0);
                if x.is_finite() {
                    stats.min = stats.min.min(x);
                    stats.max = stats.max.max(x);
                    exponents[(x.to_bits() >> 52 & 0x7FF) as usize] += u64::from(x != 0.0);
                }
            }
            for (exponent, n) in exponents.into_iter().enumerate().filter(|&(_, n)| n > 0) {
                *stats.exponents.entry(exponent as i32 - 1023).or_default() += n;
            }
            first += part.count;
        }
    }
    Ok(Some(stats))
}

/// Returns the name that a tensor has without quantisation.
fn logical<'a>(found: &'a Recognised, tensor: &'a Tensor) -> &'a str {
    found.weights.get(&tensor.name).map_or(&tensor.name, |weight| &weight.name)
}

/// Draws the exponents of one tensor, and those in another checkpoint if one is given.
fn draw(
    args: &Inspect,
    (path, picture): (&Path, Picture),
    it: &Checkpoint,
    found: &Recognised,
) -> Result<()> {
    let of = |it: &Checkpoint, found: &Recognised, name: &str, label: &Path, from: &str| -> Result<Series> {
        let shards: Vec<&Path> = it.shards.iter().map(|shard| &*shard.path).collect();
        check_file(path, &shards, args.force, "name a file")?;
        let all = it.tensors.values();
        let Some(tensor) = all.clone().find(|tensor| logical(found, tensor) == name || *tensor.name == *name)
        else {
            let error = Failure::refused(format!("{} has no tensor {name}", label.display()));
            let close = suggestion(name, all.map(|tensor| logical(found, tensor)));
            return Err(match close {
                Some(close) => error.help(format!("did you mean '{close}'?")),
                None => error.help("`lanecast inspect` lists the tensors"),
            });
        };
        // Codes whose scales are not known are not drawn.
        if let Some(problem) = found.problems.iter().find(|p| p.tensor.as_deref() == Some(&*tensor.name)) {
            return Err(problem.clone().of_side(from));
        }
        let Some(stats) = measure(it, found, tensor)? else {
            return Err(Failure::refused(format!(
                "{} {:?}: neither floats nor a quantised weight",
                tensor.dtype, tensor.shape
            ))
            .tensor(name)
            .help("name another tensor with --tensor"));
        };
        let kind = match found.weights.get(&tensor.name) {
            Some(weight) => weight.layout.name().to_owned(),
            None => tensor.dtype.to_string().to_lowercase(),
        };
        let elements = stats.zero + stats.exponents.values().sum::<u64>();
        let mut label = format!("{kind}, {}", out::plain(&source::file_name(label)));
        for (n, what) in [(stats.zero, "zeros"), (stats.nan, "NaN"), (stats.inf, "Inf")] {
            if n > 0 {
                label += &format!(", {} {what}", out::number(n));
            }
        }
        Ok(Series { label, exponents: stats.exponents, elements: elements + stats.nan })
    };
    let largest = || {
        let floats = it.tensors.values().filter(|tensor| {
            found.weights.contains_key(&tensor.name)
                || dtypes::is_float(tensor.dtype) && found.roles[&tensor.name].0 == Role::Plain
        });
        let largest = floats.max_by_key(|tensor| (tensor.len, std::cmp::Reverse(&tensor.name)));
        largest.map(|tensor| logical(found, tensor).to_owned())
    };
    let Some(name) = args.tensor.clone().or_else(largest) else {
        let none = || {
            Failure::refused(format!(
                "{}: there are no floats and no quantised weights to draw",
                args.path.display()
            ))
        };
        return Err(found.problems.first().cloned().unwrap_or_else(none));
    };
    let mut series = vec![of(it, found, &name, &args.path, "--from")?];
    if let Some(other) = &args.beside {
        let it = Checkpoint::open(other)?;
        let found = layout::recognise(&it, from_option(&args.from_beside)?);
        series.push(of(&it, &found, &name, other, "--from-beside")?);
    }
    plot::draw(path, picture, &out::plain(&name), &series, args.force)
}

pub(crate) fn as_json(
    it: &Checkpoint,
    found: &Recognised,
    stats: &BTreeMap<Name, Stats>,
) -> serde_json::Value {
    let tensors: Vec<_> = it
        .tensors
        .values()
        .map(|tensor| {
            let (role, of) = &found.roles[&tensor.name];
            let mut value = json!({
                "name": tensor.name, "dtype": tensor.dtype.to_string(), "shape": tensor.shape,
                "file": it.shards[tensor.shard].name, "role": role.name(), "of": of,
            });
            if let Some(stats) = stats.get(&tensor.name) {
                value["stats"] = stats.json();
            }
            value
        })
        .collect();
    let problems: Vec<_> = found.problems.iter().map(|problem| problem.json()["error"].take()).collect();
    json!({ "layout": found.label, "because": found.because, "tensors": tensors, "problems": problems })
}

/// Returns the name of another tensor without the module, if that is the module of this one.
fn within<'a>(name: &str, other: &'a str) -> &'a str {
    let module = name.rsplit_once('.').map_or("", |(module, _)| module);
    other.strip_prefix(module).and_then(|rest| rest.strip_prefix('.')).unwrap_or(other)
}

fn table(it: &Checkpoint, found: &Recognised, stats: &BTreeMap<Name, Stats>, all: bool) -> Result<()> {
    out::line(format_args!(
        "{}   {} in {}, {}, {}",
        found.label.bold(),
        bytes(it.bytes()),
        count(it.shards.len() as u64, "file"),
        count(it.tensors.len() as u64, "tensor"),
        found.because
    ))?;
    let mut rows = vec![["tensor", "dtype", "shape", "role", "of", "file"].map(str::to_owned)];
    // Files that differ in their number alone are shown by that: with whole names, the table is too wide for a terminal.
    let stems: BTreeSet<_> =
        it.shards.iter().map(|shard| numbered(&shard.name).map(|[stem, ..]| stem)).collect();
    let file = |name: &str| match numbered(name) {
        _ if it.shards.len() == 1 => String::new(),
        Some([_, number, all]) if stems.len() == 1 => {
            let [number, all] = [number, all].map(|digits| digits.parse().map_or(String::new(), out::number));
            format!("{number} of {all}")
        }
        _ => out::plain(name),
    };
    for tensor in it.tensors.values() {
        let (role, of) = &found.roles[&tensor.name];
        rows.push([
            out::plain(&tensor.name),
            tensor.dtype.to_string(),
            format!("{:?}", tensor.shape),
            role.name().to_owned(),
            out::plain(within(&tensor.name, of.as_deref().unwrap_or(""))),
            file(&it.shards[tensor.shard].name),
        ]);
    }
    out::table(rows)?;
    if all {
        // Without finite values, there is no minimum or maximum.
        let number = |x: f64| if x.is_finite() { format!("{x:.3e}") } else { "-".to_owned() };
        let mut rows = vec![["tensor", "min", "max", "zero", "NaN", "Inf", "exponents"].map(str::to_owned)];
        for (name, stats) in stats {
            rows.push([
                out::plain(name),
                number(stats.min),
                number(stats.max),
                out::number(stats.zero),
                out::number(stats.nan),
                out::number(stats.inf),
                stats.sparkline(),
            ]);
        }
        out::table(rows)?;
    }
    for name in it.skipped.iter().chain(&it.large) {
        out::line(format_args!("not read: {}", out::plain(name)))?;
    }
    for problem in &found.problems {
        out::line(format_args!("{} {}", "problem:".red(), out::plain(&problem.to_string())))?;
        if let Some(help) = problem.remedy() {
            out::line(format_args!("    {}", out::plain(&help)))?;
        }
    }
    Ok(())
}
