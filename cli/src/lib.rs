//! The program `lanecast`: casts and conversions of files. A library, so that other programs can have it inside.

mod args;
mod bench;
mod cast;
mod checkpoint;
mod config;
mod convert;
mod dtypes;
mod error;
mod header;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod hostile;
mod info;
mod inspect;
mod layout;
mod loss;
mod out;
mod plan;
mod plot;
mod source;
mod tile;
mod verify;

use std::ffi::OsString;
use std::io::Write;

use clap::{CommandFactory, Parser};
use owo_colors::OwoColorize;

use args::{Cli, Command};
use error::{Failure, Kind, Result};

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Inspect(args) => inspect::run(args),
        Command::Info(args) => info::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Cast(args) => cast::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "lanecast", &mut std::io::stdout());
            Ok(())
        }
        Command::Man => clap_mangen::Man::new(Cli::command())
            .render(&mut std::io::stdout())
            .map_err(|error| Failure::system(error.to_string())),
    }
}

/// Are errors to be JSON, too?
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

/// Runs a command line, whose first word is the name of the program, and returns its exit code. It reads and writes the streams of
/// the process, and Ctrl-C becomes its own.
pub fn run_program(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return error.exit_code() as u8;
        }
    };
    let Err(failure) = run(&cli.command) else { return 0 };
    // One object: where a limit was passed, the report has been printed.
    if wants_json(&cli.command) && failure.kind != Kind::Limit {
        let _ = out::json(&failure.json());
    }
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{} {}", "error:".red().bold(), out::plain(&failure.to_string()));
    if let Some(help) = &failure.help {
        let _ = writeln!(stderr, "{} {}", "help:".bold(), out::plain(help));
    }
    failure.kind as u8
}
