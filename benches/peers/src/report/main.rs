//! Writes the page of a machine, docs/performance/NAME.md, with its heat maps, and its figures for the overview, NAME.json. The default
//! name is that of the processor. `--quick` takes fewer rounds, for a page to look at rather than to keep.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Write};
use std::fs;
use std::path::Path;
use std::process::Command;

use lanecast::{DType, Isa, Kind};
use lanecast_peers::grid::{self, Timed, alone, grid};
use lanecast_peers::{Contest, Length, PAIRS, SIZES, checked, ratios, ratios_head, routes};

/// The names of each of [`SIZES`] in files and on the page, and of [`HUGE`].
const NAMES: [(&str, &str); 3] = [("l2", "in L2"), ("large", "large"), ("huge", "huge")];
/// Bytes read and written that no cache holds on any system. Only some pairs are timed with it, because all would take an hour.
const HUGE: usize = 512 << 20;

/// A pair of each kind of work, for few elements, with which the kind of work hardly matters.
#[rustfmt::skip]
const SMALL_PAIRS: &[(DType, DType)] = {
    use DType::*;
    &[(F32, F32), (F16, F32), (F32, BF16), (F32, F8E4M3FN), (F8E5M2, F16), (F4E2M1, F32), (I64, I32), (C64, C128)]
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Asked before anything is written, so that the new page does not count as a change.
    let commit = commit();
    let (options, machines): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|argument| argument.starts_with('-'));
    let quick = !options.is_empty();
    if let Some(other) = options.iter().find(|&&option| option != "--quick") {
        return Err(format!("{other:?} is not --quick, the only option there is").into());
    }
    let name = match machines[..] {
        // The name that the history of the benchmarks has for this processor.
        [] => said_by("python3", &[concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/bench-report"), "cpu"]),
        [machine] => machine.clone(),
        _ => return Err("it takes one name: of the page in docs/performance, such as zen5".into()),
    };
    let lengths = if quick {
        [Length { rounds: 5, turn: 3e-5 }, Length { rounds: 3, turn: 0.0 }]
    } else {
        [Length { rounds: 21, turn: 1e-4 }, Length { rounds: 5, turn: 0.0 }]
    };
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/performance"));

    let isas: Vec<Isa> = Isa::available().iter().copied().filter(|&isa| isa != Isa::Scalar).collect();
    let mut charts = Vec::new();
    for size in 0..SIZES.len() {
        eprintln!("all pairs, {}", NAMES[size].1);
        let timed = grid(grid::all(), &isas, SIZES[size], lengths[size])?;
        for (i, &isa) in isas.iter().enumerate() {
            charts.push(Chart::new(isa, size, &timed, i));
        }
        if size == 0 {
            let timed = grid(grid::all(), &[Isa::Scalar], SIZES[size], Length { rounds: 1, turn: 2e-5 })?;
            charts.push(Chart::new(Isa::Scalar, size, &timed, 0));
        }
    }
    eprintln!("some pairs, {}", NAMES[2].1);
    let timed =
        grid(PAIRS.iter().map(|pair| (pair.from, pair.to)), &isas, HUGE, Length { rounds: 3, turn: 0.0 })?;
    for (i, &isa) in isas.iter().enumerate() {
        charts.push(Chart::new(isa, 2, &timed, i));
    }
    charts.sort_by_key(|chart| (chart.isa, chart.size));

    let mut page = String::new();
    intro(&mut page, &name, &arguments, &commit, lengths)?;
    summary(&mut page, &charts)?;
    roof::classes(&mut page, &charts)?;
    goals(&mut page, &charts, alone(SIZES[1], lengths[1]))?;
    heat_maps(&mut page, &charts, docs, &name)?;
    slowest(&mut page, &charts)?;
    eprintln!("in registers and by a tile");
    hot(&mut page, lengths[0])?;
    eprintln!("few elements");
    few(&mut page, lengths[0])?;
    eprintln!("past the caches and through them");
    ways(&mut page, Length { turn: 3e-2, ..lengths[1] })?;
    peers(&mut page, lengths)?;
    checked_casts(&mut page, lengths)?;
    fs::write(docs.join(format!("{name}.json")), roof::figures(&cpu(), &commit, &charts)?)?;
    fs::write(docs.join(name + ".md"), page)?;
    Ok(())
}

/// The speeds of pairs on one instruction set at one size.
struct Chart {
    isa: Isa,
    size: usize,
    speeds: Vec<Speed>,
    /// The speed of memcpy in GB/s: the median over the pairs.
    memcpy: f64,
}

/// The speed of a pair.
#[derive(Clone, Copy)]
struct Speed {
    from: DType,
    to: DType,
    /// As a fraction of memcpy's speed.
    memcpy: f64,
    /// As a fraction of the null cast's speed, if the instruction set has a null cast.
    roof: Option<f64>,
}

impl Chart {
    fn new(isa: Isa, size: usize, timed: &[Timed], i: usize) -> Self {
        let mut memcpy: Vec<f64> = timed.iter().map(|pair| pair.bytes as f64 / pair.memcpy / 1e9).collect();
        memcpy.sort_by(f64::total_cmp);
        let speed = |pair: &Timed| Speed {
            from: pair.from,
            to: pair.to,
            memcpy: pair.memcpy / pair.casts[i],
            roof: pair.nulls[i].map(|null| null / pair.casts[i]),
        };
        Self { isa, size, speeds: timed.iter().map(speed).collect(), memcpy: memcpy[memcpy.len() / 2] }
    }

    /// Whether the chart has all pairs.
    fn is_whole(&self) -> bool {
        self.size < SIZES.len()
    }

    fn mean(&self) -> f64 {
        mean(self.speeds.iter().map(|speed| speed.memcpy))
    }

    fn slowest_first(&self) -> Vec<Speed> {
        let mut speeds = self.speeds.clone();
        speeds.sort_by(|a, b| a.memcpy.total_cmp(&b.memcpy));
        speeds
    }
}

/// Returns the geometric mean.
fn mean(ratios: impl IntoIterator<Item = f64>) -> f64 {
    let (mut logs, mut n) = (0.0, 0.0);
    for ratio in ratios {
        (logs, n) = (logs + ratio.ln(), n + 1.0);
    }
    f64::exp(logs / n)
}

fn intro(
    page: &mut String,
    machine: &str,
    arguments: &[String],
    commit: &str,
    lengths: [Length; 2],
) -> fmt::Result {
    let [small, large] = lengths.map(|length| length.rounds);
    let isas: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
    writeln!(
        page,
        "# Performance on {machine}

Made by `cargo run --release -p lanecast-peers --bin report{arguments}`, which overwrites this page and its images.

**One machine, one thread, medians, ratios.** Times depend on the machine and on what else it does; how a cast
compares with memcpy in the same run depends on that much less.

* CPU: {cpu}
* instruction sets: {isas}; compiler: {rustc}; commit: {commit}
* Every pair is cast under the default options through a kept `Caster`, from numbers as they occur: integers over
  their whole range, floats normal with deviation 4.
* Beside it, memcpy copies half of (bytes read + bytes written), so that both move the same number of bytes.
  A speed is memcpy's time divided by the cast's, each the median of its turns: 1 is as fast as memcpy.
* The roof of a cast is the null cast: the same loads and stores with registers of the same set, in the same order, and
  nothing computed between them; with ordinary stores or past the caches, whichever is faster.
* \"{in_l2}\" is {l2} KiB read + written, {small} rounds; \"{big}\" is {mib} MiB, {large} rounds; \"{huge}\", of some pairs,
  512 MiB, 3 rounds. In every round each
  instruction set and memcpy take a turn on the same memory, every other round in reverse order, and what is large twice, of which
  the second is timed: so each finds in the caches what it left there itself. A turn
  in which the system ran another program is taken again. The scalar reference runs once, in L2 alone.

What models of other processors make of the hot kernels, NEON too, is in [instructions.md](instructions.md): counted, not measured.
",
        arguments = if arguments.is_empty() { String::new() } else { format!(" -- {}", arguments.join(" ")) },
        cpu = cpu(),
        isas = isas.join(", "),
        rustc = said_by("rustc", &["--version"]),
        in_l2 = NAMES[0].1,
        l2 = SIZES[0] >> 10,
        big = NAMES[1].1,
        huge = NAMES[2].1,
        mib = SIZES[1] >> 20,
    )
}

/// Returns the name of the CPU, as it reports it.
fn cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let value = info.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name);
        value.map_or("unknown", |(_, value)| value.trim())
    };
    let cache = |index: u32| {
        let size = fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size"));
        size.map_or("unknown".to_owned(), |size| size.trim().to_owned())
    };
    format!(
        "{} (family {}, model {}), L2 {}, L3 {}",
        field("model name"),
        field("cpu family"),
        field("model"),
        cache(2),
        cache(3)
    )
}

/// Returns the commit, marked as dirty if there are uncommitted changes.
fn commit() -> String {
    said_by("git", &["describe", "--always", "--dirty", "--exclude", "*"])
}

/// Returns what a program prints, trimmed.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or("unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn summary(page: &mut String, charts: &[Chart]) -> fmt::Result {
    let pairs = DType::ALL.len().pow(2);
    writeln!(page, "## All {pairs} pairs, as fractions of memcpy's speed\n")?;
    writeln!(page, "| instruction set | size | geometric mean | slowest | same dtype | memcpy, GB/s |")?;
    writeln!(page, "|---|---|---:|---:|---:|---:|")?;
    for chart in charts.iter().filter(|chart| chart.is_whole()) {
        let slowest = chart.slowest_first()[0].memcpy;
        // Except bool, whose values are normalised, so that the cast is no copy.
        let same = chart.speeds.iter().filter(|speed| speed.from == speed.to && speed.from != DType::Bool);
        let (low, high) =
            same.fold((f64::MAX, 0f64), |(low, high), speed| (low.min(speed.memcpy), high.max(speed.memcpy)));
        writeln!(
            page,
            "| {} | {} | {:.3} | {slowest:.3} | {low:.2} to {high:.2} | {:.0} |",
            chart.isa,
            NAMES[chart.size].1,
            chart.mean(),
            chart.memcpy
        )?;
    }
    writeln!(
        page,
        "\nThe same dtype is a copy, in L2 by memcpy, so that how far it is from 1 there shows how far any of these numbers can be trusted.\n"
    )
}

/// Returns the goals for large buffers, as fractions of memcpy's speed: for targets that are not floats of 8 bits or
/// fewer, for those that are, and for the geometric mean over all pairs.
fn goals_of(isa: Isa) -> Option<[f64; 3]> {
    match isa {
        Isa::Avx512 => Some([0.90, 0.60, 0.95]),
        Isa::Avx2 => Some([0.75, 0.30, 0.80]),
        _ => None,
    }
}

fn goals(page: &mut String, charts: &[Chart], [reading, writing]: [f64; 2]) -> fmt::Result {
    writeln!(
        page,
        "## The goals

Of large buffers. A pair that misses its goal is *bound by instructions* if it is as slow in L2, where memory has no part
in it: slower than what the goal asks of memory. Of the others most read far more than they write, or the reverse; in this
run, memory was read alone at {reading:.2} of memcpy's speed (a plain sum), and written alone at {writing:.2} (a plain fill).

| instruction set | targets | goal | reached by | of the others, bound by instructions |
|---|---|---:|---:|---:|"
    )?;
    let mut missing = String::new();
    for chart in charts.iter().filter(|chart| chart.size == 1) {
        let (isa, Some([wide, narrow, mean])) = (chart.isa, goals_of(chart.isa)) else { continue };
        let in_l2 = charts.iter().find(|other| other.isa == isa && other.size == 0);
        let narrow_float = |to: DType| matches!(to.kind(), Kind::Float(_)) && to.bits() <= 8;
        for (targets, goal, narrow) in
            [("floats of 8 bits or fewer", narrow, true), ("all others", wide, false)]
        {
            let class = chart.speeds.iter().enumerate().filter(|(_, pair)| narrow_float(pair.to) == narrow);
            let (reach, miss): (Vec<_>, Vec<_>) = class.partition(|(_, pair)| pair.memcpy >= goal);
            let all = reach.len() + miss.len();
            let is_bound =
                |i: usize| in_l2.is_some_and(|l2| l2.speeds[i].memcpy * l2.memcpy < goal * chart.memcpy);
            let bound = miss.iter().filter(|(i, _)| is_bound(*i)).count();
            writeln!(
                page,
                "| {isa} | {targets} | {goal:.2} | {} of {all} | {bound} of {} |",
                reach.len(),
                miss.len()
            )?;
            if !miss.is_empty() {
                write!(missing, "\n<details><summary>{isa}, {targets}: {} pairs ", miss.len())?;
                writeln!(missing, "do not reach {goal:.2}</summary>\n")?;
                let mut sources: BTreeMap<DType, Vec<String>> = BTreeMap::new();
                for (_, &Speed { from, to, memcpy: speed, .. }) in miss {
                    sources.entry(from).or_default().push(format!("{to} {speed:.2}"));
                }
                for (from, targets) in sources {
                    writeln!(missing, "* from {from} to {}", targets.join(", "))?;
                }
                writeln!(missing, "\n</details>")?;
            }
        }
        writeln!(page, "| {isa} | geometric mean of all | {mean:.2} | {:.2} | |", chart.mean())?;
    }
    writeln!(page, "{missing}")
}

fn heat_maps(page: &mut String, charts: &[Chart], docs: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    writeln!(
        page,
        "## Heat maps\n\nOpened by itself, an image has the number of every cell as its tooltip.\n"
    )?;
    for chart in charts.iter().filter(|chart| chart.isa != Isa::Scalar && chart.is_whole()) {
        let (isa, (file, size)) = (chart.isa, NAMES[chart.size]);
        let file = format!("{name}-{isa}-{file}.svg");
        let title = format!("{isa}, {size}: fraction of memcpy's speed");
        let speeds: Vec<f64> = chart.speeds.iter().map(|pair| pair.memcpy).collect();
        fs::write(docs.join(&file), heat::map(&title, &speeds)?)?;
        writeln!(page, "![{title}]({file})\n")?;
    }
    Ok(())
}

fn slowest(page: &mut String, charts: &[Chart]) -> fmt::Result {
    writeln!(page, "## The ten slowest pairs\n")?;
    let charts: Vec<&Chart> =
        charts.iter().filter(|chart| chart.isa != Isa::Scalar && chart.is_whole()).collect();
    let mut line = "|".to_owned();
    write!(page, "|")?;
    for chart in &charts {
        write!(page, " {}, {} | |", chart.isa, NAMES[chart.size].1)?;
        line += "---|---:|";
    }
    writeln!(page, "\n{line}")?;
    let sorted: Vec<_> = charts.iter().map(|chart| chart.slowest_first()).collect();
    for place in 0..10 {
        write!(page, "|")?;
        for pairs in &sorted {
            let Speed { from, to, memcpy: speed, .. } = pairs[place];
            write!(page, " {from} to {to} | {speed:.2} |")?;
        }
        writeln!(page)?;
    }
    writeln!(page)
}

fn hot(page: &mut String, length: Length) -> Result<(), Box<dyn Error>> {
    let table = routes::table(length)?;
    writeln!(
        page,
        "## The casts done most

Cycles for 64 elements in L1: of 2048 less those of 512, so without what a call costs, in buffers that begin at a line. They
are time x the clock, which is calibrated before each number by a chain of dependent multiplications (now {:.2} GHz). The
gain is the time of two casts of 2048, to a tile of 1024 elements of the second dtype and from there, divided by that of the
one cast. Both give the same bits: `tests/properties.rs`.

What bounds a cast: *data paths* are the cycles in which Zen 5 can load the source, 128 bytes in each, and store the result,
64 bytes. *Best on Zen 5* is the fastest sequence that is known, as measured there. On Zen 4 both take up to twice as long.

{table}",
        routes::hertz() / 1e9
    )?;
    Ok(())
}

fn few(page: &mut String, length: Length) -> Result<(), Box<dyn Error>> {
    let isas = Isa::available();
    writeln!(
        page,
        "## Few elements

Nanoseconds of one cast of n elements through a kept `Caster`, and of one memcpy that moves as many bytes.
"
    )?;
    let mut line = "|---|".to_owned();
    write!(page, "| pair |")?;
    for name in ["memcpy"].into_iter().chain(isas.iter().map(|isa| isa.name())) {
        write!(page, " {name}, n = 1 | n = 16 |")?;
        line += "---:|---:|";
    }
    writeln!(page, "\n{line}")?;
    for &(from, to) in SMALL_PAIRS {
        let [single, some] = [1, 16].map(|n| grid::few(from, to, n, isas, length));
        write!(page, "| {from} to {to} |")?;
        for (single, some) in single?.iter().zip(&some?) {
            write!(page, " {:.1} | {:.1} |", single * 1e9, some * 1e9)?;
        }
        writeln!(page)?;
    }
    writeln!(page)?;
    Ok(())
}

/// The pairs whose results are timed both in the caches and past them.
#[rustfmt::skip]
const WAYS_PAIRS: [(DType, DType); 10] = {
    use DType::*;
    [(U8, U8), (F64, F32), (I64, I32), (F32, BF16), (BF16, F32), (F32, F8E4M3FN), (F8E4M3FN, BF16), (F8E4M3FN, F32), (I64, I4), (F32, F4E2M1)]
};
/// The sizes for that, in MiB read and written.
const WAYS_SIZES: [usize; 6] = [4, 8, 16, 32, 64, 256];

fn ways(page: &mut String, length: Length) -> Result<(), Box<dyn Error>> {
    writeln!(
        page,
        "## When results go past the caches

How many times as fast a cast is if its results go past the caches as if they go through them, of so many MiB that are read and written;
and, after the stroke, the speed of the cast that chooses by itself, as a fraction of the faster of both. It chooses by size, from half of the
largest cache on and at most from 16 MiB, where it keeps up with memory; some processors gain all the same, or from three times that size on
(`threshold_of`, `streams_from` and `keeps_up` in `kernels/`)."
    )?;
    for &isa in Isa::available().iter().filter(|&&isa| isa != Isa::Scalar) {
        write!(page, "\n| {isa} |")?;
        WAYS_SIZES.iter().try_for_each(|mib| write!(page, " {mib} |"))?;
        writeln!(page, "\n|---|{}", "---:|".repeat(WAYS_SIZES.len()))?;
        for (from, to) in WAYS_PAIRS {
            write!(page, "| {from} to {to} |")?;
            for mib in WAYS_SIZES {
                let [past, through, chosen] = grid::ways(from, to, isa, mib << 20, length)?;
                write!(page, " {:.2} / {:.2} |", through / past, past.min(through) / chosen)?;
            }
            writeln!(page)?;
        }
    }
    writeln!(page)?;
    Ok(())
}

fn peers(page: &mut String, lengths: [Length; 2]) -> Result<(), Box<dyn Error>> {
    let best = Isa::best()?;
    writeln!(
        page,
        "## Beside other libraries

The speed of lanecast on {best}, bytes read + bytes written, and how many times as fast it is as each of the
others: 2.00 is twice as fast, 0.50 half as fast. \"as\" is a plain loop, compiled for the instructions that
rustc assumes by default, and \"as, native\" for those of this CPU; arrow-cast allocates its result. That the
results agree, or where not, `cargo run --release -p lanecast-peers --bin ratio` says. Here every value is in range
of its target. A cast that is about as fast as memcpy waits for memory, as the others do, and then the spread of
copies above is that of the ratios too."
    )?;
    for (size, length) in lengths.into_iter().enumerate() {
        eprintln!("other libraries, {}", NAMES[size].1);
        writeln!(page, "\n### {}\n\n{}", NAMES[size].1, ratios_head(best))?;
        let mut slower = Vec::new();
        for &pair in PAIRS {
            let (line, faster) = ratios(&mut Contest::new(pair, SIZES[size]), best, length);
            writeln!(page, "{line}")?;
            slower.extend(faster);
        }
        match slower.is_empty() {
            true => writeln!(page, "\nNone of the others is faster with any pair.")?,
            false => writeln!(
                page,
                "\nFaster than lanecast are, with the ratio of the table:\n\n* {}",
                slower.join("\n* ")
            )?,
        }
    }
    Ok(())
}

fn checked_casts(page: &mut String, lengths: [Length; 2]) -> Result<(), Box<dyn Error>> {
    let best = Isa::best()?;
    writeln!(
        page,
        "
## Checked casts

The speed of the unchecked cast on {best}, bytes read + bytes written, and how many times its time the others take. Every
element is in range of the target, or one of a hundred is not: `try_cast` stops at the first of those, as arrow-cast does.
1.5 is the goal for the first three, while nothing is lost."
    )?;
    for (size, length) in lengths.into_iter().enumerate() {
        eprintln!("checked casts, {}", NAMES[size].1);
        writeln!(page, "\n### Checked, {}\n\n{}", NAMES[size].1, checked::HEAD)?;
        for (from, to) in checked::PAIRS {
            for elements in [checked::Elements::InRange, checked::Elements::SomeLost] {
                writeln!(page, "{}", checked::row(from, to, best, SIZES[size], elements, length)?)?;
            }
        }
    }
    Ok(())
}

mod heat;
mod roof;
