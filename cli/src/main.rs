//! The program `lanecast`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(lanecast_cli::run_program(std::env::args_os()))
}
