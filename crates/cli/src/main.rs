//! The command line of Clinch: parse, call, print, exit code.
//!
//! Everything here talks to a running server by HTTP. What it prints on standard output is
//! the answer; everything said beside it goes to standard error.
#![forbid(unsafe_code)]

mod args;
mod client;
mod clock;
mod commands;
mod context;
mod duration;
mod error;
mod exit;
mod output;
mod progress;
mod prompt;
mod settings;

use std::process::ExitCode;

fn main() -> ExitCode {
    let exit = match args::parse() {
        Ok(cli) => commands::run(cli).unwrap_or_else(|error| error.report()),
        Err(exit) => exit,
    };
    exit.into()
}
