//! Prints texts, tables and JSON. A closed pipe is not an error.

use std::fmt;
use std::io::{self, Write};

use tabled::builder::Builder;
use tabled::settings::{Padding, Style};

use crate::error::{Failure, Result};

fn printed(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::system(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn line(text: fmt::Arguments<'_>) -> Result<()> {
    printed(writeln!(anstream::stdout().lock(), "{text}"))
}

pub(crate) fn json(value: &serde_json::Value) -> Result<()> {
    printed(writeln!(io::stdout().lock(), "{value}"))
}

/// Prints a line on standard error, and ignores errors.
pub(crate) fn note(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints bytes on standard output.
pub(crate) fn whole(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    printed(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Prints a table without lines, whose first row is its head. Columns that are empty below it are left out.
pub(crate) fn table<const N: usize>(rows: Vec<[String; N]>) -> Result<()> {
    let is_wanted: [bool; N] =
        std::array::from_fn(|i| rows.len() == 1 || rows[1..].iter().any(|row| !row[i].is_empty()));
    let mut builder = Builder::default();
    for row in rows {
        builder.push_record(row.into_iter().zip(is_wanted).filter_map(|(cell, is)| is.then_some(cell)));
    }
    let mut table = builder.build();
    // With one space between columns.
    table.with(Style::blank()).with(Padding::new(0, 1, 0, 0));
    let text = table.to_string();
    for row in text.lines() {
        line(format_args!("{}", row.trim_end()))?;
    }
    Ok(())
}

/// Returns a name from a file with control characters escaped.
pub(crate) fn plain(text: &str) -> String {
    if text.chars().any(char::is_control) { text.escape_debug().to_string() } else { text.to_owned() }
}

pub(crate) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn count(n: u64, what: &str) -> String {
    format!("{} {what}{}", number(n), if n == 1 { "" } else { "s" })
}

pub(crate) fn bytes(n: u64) -> String {
    match n {
        0..1000 => format!("{n} B"),
        1000..1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.1} GB", n as f64 / 1e9),
    }
}

/// Parses a size such as `256M`, `5G` or `1000`, which an option has. Units are powers of 1024.
pub(crate) fn parse_size(option: &str, text: &str) -> Result<u64> {
    let bad = || {
        Failure::usage(format!("{option} {text}: not a size"))
            .help("256M, 5G or 1000000 (bytes), for example")
    };
    let lower = text.to_lowercase();
    let digits = lower.trim_end_matches(['k', 'm', 'g', 't', 'i', 'b']);
    let factor: u64 = match lower[digits.len()..].trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(bad()),
    };
    let n: f64 = digits.parse().map_err(|_| bad())?;
    let size = n * factor as f64;
    if !(1.0..1e18).contains(&size) {
        return Err(bad());
    }
    Ok(size as u64)
}
