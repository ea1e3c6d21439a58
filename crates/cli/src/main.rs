//! The command line of Clinch: parse, call, print, exit code.
//!
//! Most commands call a running server over HTTP. `serve` runs one, `demo` starts several, `echo`
//! is an upstream to call, and `init` writes a configuration. `keys`, `migrate`, `backup`,
//! `restore` and `dlq import` work on the database. Standard output gets the answer; all other
//! messages go to standard error.
#![forbid(unsafe_code)]

mod args;
mod client;
mod clock;
mod commands;
mod config;
mod context;
mod duration;
mod error;
mod executors;
mod exit;
mod folder;
mod github;
#[cfg(test)]
mod guide;
mod output;
mod progress;
mod prompt;
mod settings;
mod store;
mod store_check;

use std::process::ExitCode;

/// Operations are allocated on one thread and freed on another, which glibc's allocator serializes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let exit = match args::parse() {
        Ok(cli) => commands::run(cli).unwrap_or_else(|error| error.report()),
        Err(exit) => exit,
    };
    store::close_all();
    exit.into()
}
