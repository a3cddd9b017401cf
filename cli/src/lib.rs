//! The program `lanecast`: casts and conversions of files. It is a library, so that other programs can contain it.

mod args;
mod bench;
mod cast;
mod checkpoint;
mod config;
mod convert;
mod defaults;
mod dtypes;
mod error;
mod header;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod hostile;
mod info;
mod inspect;
mod layout;
mod live;
mod loss;
mod out;
mod packed;
mod plan;
mod plot;
mod source;
mod system;
mod tile;
mod verify;

use std::ffi::OsString;
use std::io::Write;
use std::sync::{Mutex, MutexGuard};

use clap::{CommandFactory, Parser};
use owo_colors::OwoColorize;

use args::{Cli, Command};
use error::{Failure, Kind, Result};

/// Locks a mutex. No thread panics while it holds one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panics")
}

/// The most threads that are started.
const MOST_THREADS: usize = 1024;

/// Returns how many threads to start for `--threads`, where 0 is the default.
fn threads(asked: Option<usize>, default: usize) -> usize {
    asked.filter(|&n| n > 0).unwrap_or(default).min(MOST_THREADS)
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Inspect(args) => inspect::run(args),
        Command::Info(args) => info::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Cast(args) => cast::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "lanecast", &mut text);
            out::whole(&text)
        }
        Command::Man { command } => manual(command.as_deref()),
    }
}

/// Prints the manual page of the program, or of one of its commands.
fn manual(command: Option<&str>) -> Result<()> {
    let mut all = Cli::command();
    all.build();
    let page = match command {
        None => all,
        Some(name) => {
            let names = || all.get_subcommands().map(clap::Command::get_name);
            let Some(found) = all.find_subcommand(name) else {
                let failure = Failure::usage(format!("there is no command '{name}'"));
                return Err(failure.help(match error::suggestion(name, names()) {
                    Some(close) => format!("did you mean '{close}'?"),
                    None => format!("one of {}", names().collect::<Vec<_>>().join(", ")),
                }));
            };
            found.clone().version(env!("CARGO_PKG_VERSION"))
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text).map_err(|error| Failure::system(error.to_string()))?;
    if command.is_none() {
        // As in the help, with a line for each.
        let jobs = args::JOBS.trim_start_matches("Examples:\n").replace('-', "\\-");
        text.extend_from_slice(format!(".SH EXAMPLES\n.nf\n{jobs}\n.fi\n").as_bytes());
    }
    out::whole(&text)
}

/// Returns an error of the command line without the usage that clap would add.
fn misspelt(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let mut parts = text.split("\n\n").map(str::trim);
    let message = parts.next().unwrap_or_default().trim_start_matches("error: ");
    let failure = Failure::usage(message.split_whitespace().collect::<Vec<_>>().join(" "));
    // Clap's tips about quoting for shells are left out.
    let tips = |part: &'_ str| {
        part.strip_prefix("tip: ").filter(|tip| !tip.starts_with("to pass '")).map(str::to_owned)
    };
    match parts.find_map(tips) {
        Some(tip) => failure.help(tip),
        None => failure,
    }
}

/// Whether errors are printed as JSON.
const fn wants_json(command: &Command) -> bool {
    match command {
        Command::Inspect(args) => args.json,
        Command::Info(args) => args.json,
        Command::Convert(args) => args.json,
        Command::Cast(args) => args.json,
        Command::Verify(args) => args.json,
        Command::Bench(args) => args.json,
        _ => false,
    }
}

/// Runs a command line, whose first word is the name of the program, and returns its exit code. It uses the standard streams of the
/// process, and handles Ctrl-C.
pub fn run_program(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() && arguments.iter().any(|word| word == "--json") {
                let _ = out::json(&misspelt(&error).json());
            }
            let _ = error.print();
            return error.exit_code() as u8;
        }
    };
    system::open_many();
    let Err(failure) = run(&cli.command) else { return 0 };
    // Only one object is printed: if a limit was exceeded, that was the report.
    if wants_json(&cli.command) && failure.kind != Kind::Limit {
        let _ = out::json(&failure.json());
    }
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{} {}", "error:".red().bold(), out::plain(&failure.to_string()));
    if let Some(help) = failure.remedy() {
        let _ = writeln!(stderr, "{} {}", "help:".bold(), out::plain(&help));
    }
    failure.kind as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_says_what_it_does() {
        let mut all = Cli::command();
        all.build();
        for command in all.get_subcommands().filter(|command| command.get_name() != "help") {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for arg in command.get_arguments() {
                assert!(arg.get_help().is_some(), "{} {}", command.get_name(), arg.get_id());
            }
        }
    }
}
