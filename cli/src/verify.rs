//! `lanecast verify`: compares two checkpoints, of any layouts, tensor by tensor.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use lanecast::{Caster, DType};
use safetensors::Dtype;
use serde_json::{Value, json};

use crate::args::Verify;
use crate::checkpoint::{Checkpoint, Name, is_called_otherwise};
use crate::dtypes;
use crate::error::{Failure, Kind, Result};
use crate::inspect::from_option;
use crate::layout::{self, Role};
use crate::lock;
use crate::loss::{Loss, Real, place};
use crate::out::{self, count, number};
use crate::plan::Input;
use crate::threads;
use crate::tile::{self, Matrices, Scratch, Tile};

/// How many elements are compared at a time.
const SOME: u64 = 1 << 18;

/// One of the two checkpoints.
struct Side {
    it: Checkpoint,
    tensors: BTreeMap<Name, (Input, Vec<usize>)>,
    /// Scales of activations, which are compared if both sides have them.
    activations: BTreeMap<Name, (Input, Vec<usize>)>,
}

impl Side {
    fn open(path: &std::path::Path, from: &str, option: &str) -> Result<Self> {
        let twice = |name: &str, other: Option<(Input, Vec<usize>)>| match other {
            None => Ok(()),
            Some(_) => Err(Failure::refused(format!(
                "{}: it is there twice, as codes and as values",
                path.display()
            ))
            .tensor(name)
            .of_side(option)),
        };
        let from = from_option(from)?;
        let it = Checkpoint::open(path)?;
        let found = layout::recognise(&it, from);
        if let Some(mut problem) = found.problems.into_iter().next() {
            problem.message = format!("{}: {}", path.display(), problem.message);
            return Err(problem.of_side(option));
        }
        // A conversion leaves these files out, too, with a warning. A user may have meant to compare them.
        for name in &it.skipped {
            let why = match name {
                name if is_called_otherwise(name) => "its name does not end in .safetensors",
                name if name.ends_with(".safetensors") => "no index names it",
                _ => continue,
            };
            let file = path.join(name).display().to_string();
            out::note(format_args!("warning: not compared, as {why}: {}", out::plain(&file)));
        }
        let (mut tensors, mut activations) = (BTreeMap::new(), BTreeMap::new());
        for tensor in it.tensors.values() {
            match found.roles[&tensor.name] {
                (Role::Weight, _) => {
                    let weight = found.weights[&tensor.name].clone();
                    let scales = it.tensors[&weight.scales].clone();
                    let name = weight.name.clone();
                    let input = Input::Scaled(weight, tensor.clone(), scales);
                    let (shape, _) = tile::logical(&input);
                    twice(&name, tensors.insert(name.clone(), (input, shape)))?;
                }
                (role @ (Role::Plain | Role::ActivationScale), _) => {
                    let to = if role == Role::Plain { &mut tensors } else { &mut activations };
                    let plain = (Input::Plain(tensor.clone()), tensor.shape.to_vec());
                    twice(&tensor.name, to.insert(tensor.name.clone(), plain))?;
                }
                _ => {}
            }
        }
        Ok(Self { it, tensors, activations })
    }

    /// Moves the scales of activations that both sides have to the tensors that are compared.
    fn join_activations(&mut self, other: &mut Self) {
        let (ours, theirs) = (std::mem::take(&mut self.activations), std::mem::take(&mut other.activations));
        for (name, theirs) in theirs {
            if let Some(ours) = ours.get(&name) {
                self.tensors.insert(name.clone(), ours.clone());
                other.tensors.insert(name, theirs);
            }
        }
    }

    fn has_float64(&self) -> bool {
        self.tensors.values().any(|(input, _)| input.main().dtype == Dtype::F64)
    }
}

/// Sums of squares over the elements that are finite on both sides.
#[derive(Clone, Copy, Default)]
struct Squares {
    of_errors: f64,
    of_values: f64,
}

impl Squares {
    fn add<T: Real>(&mut self, from: &[u8], to: &[u8]) {
        for (x, y) in T::read(from).zip(T::read(to)) {
            let (x, y): (f64, f64) = (x.into(), y.into());
            if x.is_finite() && y.is_finite() {
                self.of_errors += (x - y) * (x - y);
                self.of_values += x * x;
            }
        }
    }

    /// Returns the root mean square of the errors relative to that of the values. Infinite, and so beyond every limit, if there are errors
    /// and all values are 0, or if both sums are beyond float64.
    fn rms(&self) -> f64 {
        match (self.of_errors / self.of_values).sqrt() {
            _ if self.of_errors == 0.0 => 0.0,
            rms if rms.is_nan() => f64::INFINITY,
            rms => rms,
        }
    }
}

/// What differs in a tensor.
struct Differs {
    name: String,
    loss: Loss,
    rms: f64,
    index: Vec<u64>,
    note: Option<String>,
}

impl Differs {
    /// Returns a difference without an error in numbers.
    fn new(name: &str, index: Vec<u64>, note: Option<String>) -> Self {
        Self { name: name.to_owned(), loss: Loss::default(), rms: 0.0, index, note }
    }

    fn json(&self) -> Value {
        let mut value = json!({
            "name": self.name, "max_abs_error": self.loss.max_abs, "max_rel_error": self.loss.max_rel,
            "index": self.index,
        });
        if let Some(note) = &self.note {
            value["note"] = note[..].into();
        }
        value
    }
}

/// Returns the values of a part, rounded to `dtype`, as float32 or float64, in which they are exact.
fn common(side: &Side, input: &Input, part: &Tile, dtype: DType, scratch: &mut Scratch) -> Result<Vec<u8>> {
    let values = tile::values(&side.it, input, part, dtype, scratch)?;
    if matches!(dtype, DType::F32 | DType::F64) {
        return Ok(values);
    }
    let wrong = |error: lanecast::Error| Failure::usage(error.to_string());
    let n = values.len() / dtype.itemsize();
    let mut wide = vec![0; n * 4];
    let caster = Caster::new(dtype, DType::F32, &dtypes::options()).map_err(wrong)?;
    caster.cast(&values, &mut wide, n).map_err(wrong)?;
    Ok(wide)
}

/// Which elements count as different, whatever the largest errors are.
#[derive(Clone, Copy)]
enum Unlike {
    /// Elements whose bits differ; all NaNs are equal.
    Bits,
    /// Elements of which only one is NaN, only one is infinite, or both are infinite with different signs.
    Strange,
    /// Those of `Strange`, and elements that are 0 on the first side alone: their relative error is infinite.
    Relative,
}

impl Unlike {
    fn differ(self, x: f64, y: f64) -> bool {
        match self {
            _ if x.is_nan() || y.is_nan() => x.is_nan() != y.is_nan(),
            Self::Bits => x.to_bits() != y.to_bits(),
            _ if x.is_infinite() || y.is_infinite() => x != y,
            Self::Strange => false,
            Self::Relative => x == 0.0 && y != 0.0,
        }
    }

    /// Returns the first index at which values differ, and both values.
    fn first<T: Real>(self, from: &[u8], to: &[u8]) -> Option<(usize, f64, f64)> {
        let pairs = T::read(from).zip(T::read(to)).map(|(x, y)| (x.into(), y.into()));
        pairs.enumerate().map(|(i, (x, y))| (i, x, y)).find(|&(_, x, y)| self.differ(x, y))
    }
}

/// Compares a tensor, and adds its squares to `squares`. Returns None if it is equal, or within the limits.
fn compare(
    args: &Verify,
    dtype: DType,
    (a, b): (&Side, &Side),
    name: &str,
    squares: &mut Squares,
    scratch: &mut Scratch,
) -> Result<Option<Differs>> {
    let ((x, shape), (y, other)) = (&a.tensors[name], &b.tensors[name]);
    if shape != other {
        let note = Some(format!("{shape:?} and {other:?}"));
        return Ok(Some(Differs::new(name, Vec::new(), note)));
    }
    let float = |input: &Input| match input {
        Input::Plain(tensor) => dtypes::is_float(tensor.dtype),
        Input::Scaled(..) => true,
    };
    if !float(x) || !float(y) {
        // The same codes have another meaning if only one side has scales for them.
        let kind = |input: &Input| match input {
            Input::Plain(tensor) => tensor.dtype.to_string(),
            Input::Scaled(..) => format!("{} with scales", input.main().dtype),
        };
        let (one, other) = (kind(x), kind(y));
        if one != other {
            let note = Some(format!("{one} and {other}"));
            return Ok(Some(Differs::new(name, Vec::new(), note)));
        }
        return bytes(a, b, name, x, y, shape);
    }
    let (x, y, rows_of) = match (tile::flat(x), tile::flat(y)) {
        (Some(x), Some(y)) => {
            let shape = x.main().shape.to_vec();
            (x, y, shape)
        }
        _ => (x.clone(), y.clone(), shape.clone()),
    };
    let blocks = tile::least_common_multiple(tile::logical(&x).1, tile::logical(&y).1);
    let whole = Matrices::of(&rows_of);
    let each = (SOME / whole.columns.max(1)).max(1).next_multiple_of(blocks);
    let mut loss = Loss::default();
    let (mut different, mut strange) = (None, None);
    // NaN, Inf and zeros that became numbers are not among the largest errors: a difference in them is named in their place.
    let (unlike, odd) = match (args.has_limits(), args.limits.max_rel_error) {
        (_, Some(_)) => (Unlike::Relative, Unlike::Relative),
        (true, None) => (Unlike::Strange, Unlike::Strange),
        (false, None) => (Unlike::Bits, Unlike::Strange),
    };
    for matrix in 0..whole.count {
        let mut first = 0;
        while first < whole.rows {
            let part = Tile { job: 0, matrix, first, count: each.min(whole.rows - first) };
            let from = common(a, &x, &part, dtype, scratch)?;
            let to = common(b, &y, &part, dtype, scratch)?;
            let at = (matrix * whole.rows + first) * whole.columns;
            let find = |unlike: Unlike| match dtype {
                DType::F64 => unlike.first::<f64>(&from, &to),
                _ => unlike.first::<f32>(&from, &to),
            };
            if dtype == DType::F64 {
                loss.add::<f64>(at, &from, &to);
                squares.add::<f64>(&from, &to);
            } else {
                loss.add::<f32>(at, &from, &to);
                squares.add::<f32>(&from, &to);
            }
            let there = |(i, x, y): (usize, f64, f64)| (at + i as u64, x, y);
            if let Some(unequal) = find(unlike) {
                different = different.or(Some(there(unequal)));
                strange = strange.or_else(|| find(odd).map(there));
            }
            first += part.count;
        }
    }
    let beyond = args.limits.max_abs_error.is_some_and(|limit| loss.max_abs > limit)
        || args.limits.max_rel_error.is_some_and(|limit| loss.max_rel > limit)
        || args.max_rms_error.is_some_and(|limit| squares.rms() > limit);
    if different.is_none() && !beyond {
        return Ok(None);
    }
    // The index is that of the largest error, if there is one: zeros of different signs have none.
    let (at, note) = match strange.or(different.filter(|_| loss.max_abs == 0.0)) {
        Some((at, x, y)) => (at, Some(format!("{} and {}", short(x), short(y)))),
        None => (loss.at, None),
    };
    Ok(Some(Differs { loss, rms: squares.rms(), ..Differs::new(name, place(at, shape), note) }))
}

/// Formats a number: as a float32 if it is one, and in scientific notation if it is very large or small.
fn short(x: f64) -> String {
    let is_plain = x == 0.0 || !x.is_finite() || (1e-4..1e7).contains(&x.abs());
    let narrow = x as f32;
    match (f64::from(narrow) == x, is_plain) {
        (true, true) => narrow.to_string(),
        (true, false) => format!("{narrow:e}"),
        (false, true) => x.to_string(),
        (false, false) => format!("{x:e}"),
    }
}

/// Formats a little-endian integer.
fn integer(dtype: Dtype, bytes: &[u8]) -> String {
    let is_signed = matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
    let filler = if is_signed && bytes[bytes.len() - 1] >= 0x80 { 0xFF } else { 0 };
    let mut wide = [filler; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide).to_string()
}

/// Compares the bytes of tensors that are not floats.
fn bytes(a: &Side, b: &Side, name: &str, x: &Input, y: &Input, shape: &[usize]) -> Result<Option<Differs>> {
    let (x, y) = (x.main(), y.main());
    let size = (x.dtype.bitsize() as u64 / 8).max(1);
    let mut at = 0;
    while at < x.len {
        let some = (x.len - at).min(1 << 20) as usize;
        let (mut p, mut q) = (vec![0; some], vec![0; some]);
        a.it.shards[x.shard].read(&mut p, x.offset + at)?;
        b.it.shards[y.shard].read(&mut q, y.offset + at)?;
        if let Some(i) = p.iter().zip(&q).position(|(p, q)| p != q) {
            let index = place((at + i as u64) / size, shape);
            let size = size as usize;
            let [p, q] = [&p, &q].map(|bytes| integer(x.dtype, &bytes[i / size * size..][..size]));
            return Ok(Some(Differs::new(name, index, Some(format!("{p} and {q}")))));
        }
        at += some as u64;
    }
    Ok(None)
}

/// Compares the tensors that both sides have, on several threads. Returns those that differ, sorted by name, how many have errors, and the
/// RMS error of all of these.
fn compare_all(
    args: &Verify,
    dtype: DType,
    sides: (&Side, &Side),
    both: &[&Name],
) -> Result<(Vec<Differs>, u64, f64)> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let failure = Mutex::new(None);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads(args.threads, cores);
    thread::scope(|scope| {
        for i in 0..threads {
            let started = thread::Builder::new().spawn_scoped(scope, || {
                let mut scratch = Scratch::default();
                while let Some(&name) = both.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut squares = Squares::default();
                    match compare(args, dtype, sides, name, &mut squares, &mut scratch) {
                        Ok(differs) => lock(&found).push((name, squares, differs)),
                        Err(error) => {
                            lock(&failure).get_or_insert(error.tensor(name));
                            return;
                        }
                    }
                }
            });
            // Those that were started compare all.
            if let Err(error) = started {
                if i == 0 {
                    *lock(&failure) = Some(Failure::system(format!("a thread: {error}")));
                }
                break;
            }
        }
    });
    if let Some(failure) = failure.into_inner().expect("no panics") {
        return Err(failure);
    }
    let mut found = found.into_inner().expect("no panics");
    found.sort_by_key(|(name, ..)| *name);
    let (mut off, mut all) = (0, Squares::default());
    for (_, one, _) in found.iter().filter(|(_, one, _)| one.of_errors > 0.0) {
        off += 1;
        all.of_errors += one.of_errors;
        all.of_values += one.of_values;
    }
    Ok((found.into_iter().filter_map(|(.., differs)| differs).collect(), off, all.rms()))
}

pub(crate) fn run(args: &Verify) -> Result<()> {
    let asked = args.common.as_ref().map(|name| Ok((name, dtypes::parse(name, &[])?))).transpose()?;
    if let Some((name, dtype)) = asked
        && !dtypes::in_file(dtype).is_some_and(dtypes::is_float)
    {
        return Err(Failure::usage(format!("--as {name}: not a float dtype that safetensors has"))
            .help("f32, bf16, f16 or f64, for example"));
    }
    let mut a = Side::open(&args.a, &args.from_a, "--from-a")?;
    let mut b = Side::open(&args.b, &args.from_b, "--from-b")?;
    a.join_activations(&mut b);
    let dtype = match asked {
        Some((_, dtype)) => dtype,
        None if a.has_float64() || b.has_float64() => DType::F64,
        None => DType::F32,
    };
    let only = |x: &Side, y: &Side| -> Vec<String> {
        x.tensors.keys().filter(|name| !y.tensors.contains_key(*name)).map(|name| name.to_string()).collect()
    };
    let (only_a, only_b) = (only(&a, &b), only(&b, &a));
    let both: Vec<&Name> = a.tensors.keys().filter(|name| b.tensors.contains_key(*name)).collect();
    let (differ, off, rms) = compare_all(args, dtype, (&a, &b), &both)?;
    let limits = args.has_limits();
    let equal = differ.is_empty() && only_a.is_empty() && only_b.is_empty();
    if args.json {
        let mut report = json!({
            "equal": equal, "compared": both.len(), "differ": differ.iter().map(Differs::json).collect::<Vec<_>>(),
            "only_a": only_a, "only_b": only_b,
        });
        if !differ.is_empty() {
            report["rms_error"] = json!(rms);
            report["rms_errors"] = differ.iter().map(|it| (it.name.clone(), json!(it.rms))).collect();
        }
        out::json(&report)?;
    } else {
        for differs in &differ {
            let what = match &differs.note {
                Some(note) if differs.index.is_empty() => note.clone(),
                Some(note) => format!("{note}, at {:?}", differs.index),
                None => format!(
                    "largest error {:.3e}, relative {:.3e} at {:?}; rms {:.1e}",
                    differs.loss.max_abs, differs.loss.max_rel, differs.index, differs.rms
                ),
            };
            out::line(format_args!("{}: {what}", out::plain(&differs.name)))?;
        }
        for (side, names) in [("A", &only_a), ("B", &only_b)] {
            for name in names {
                out::line(format_args!("only in {side}: {}", out::plain(name)))?;
            }
        }
        let verdict = match (equal, limits) {
            (false, _) => "",
            (true, false) => ": they are equal",
            (true, true) => ": all are within the limits",
        };
        let off =
            if off > 0 { format!(", rms {rms:.1e} of {} with errors", number(off)) } else { String::new() };
        out::line(format_args!("{} compared as {dtype}{off}{verdict}", count(both.len() as u64, "tensor")))?;
    }
    if equal {
        return Ok(());
    }
    let (n, alone) = (count(differ.len() as u64, "tensor"), only_a.len() + only_b.len());
    let what = format!("{n} with differences, {alone} on one side only");
    let failure = Failure::new(Kind::Limit, what);
    let dtype_of = |side: &Side, name: &str| side.tensors[name].0.main().dtype;
    let rounded = |differs: &Differs| {
        differs.loss.max_abs > 0.0 && dtype_of(&a, &differs.name) != dtype_of(&b, &differs.name)
    };
    let quantised = |differs: &Differs| rounded(differs) && differs.rms > 0.004;
    Err(if !limits && differ.iter().any(quantised) {
        failure
            .help("without a limit every bit counts: --max-rms-error 0.03 allows for 8 bits, and 0.12 for 4")
    } else if !limits && differ.iter().any(rounded) {
        failure.help("without a limit every bit counts: --max-rel-error 0.004 allows for a rounding to bf16")
    } else {
        failure
    })
}
