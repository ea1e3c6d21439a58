//! Developer commands of Clinch: `cargo xtask <command>`.
//!
//! A command is one module with a `run` function and one row in [`COMMANDS`].
#![forbid(unsafe_code)]

mod bench;
mod book;
mod cargo;
mod chaos;
mod coverage;
mod dist;
mod msrv;
mod mutants;
mod proof;
mod publish;
mod schema;
mod servers;
mod sim;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Why a command did not succeed.
enum Failure {
    /// The command line is invalid: print the message and the usage, exit 2.
    Usage(String),
    /// The command ran and found something wrong: print the message, exit 1.
    Failed(String),
    /// Like `Failed`, when the output already says everything.
    Reported,
}

/// A subcommand of `cargo xtask`.
struct Command {
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    run: fn(root: &Path, arguments: &[String]) -> Result<(), Failure>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        arguments: "[--from STEP] [-- <runner arguments>]",
        summary: "format, tidy, lints, doc tests, schemathesis, then all tests",
        run: test::run,
    },
    Command {
        name: "proof",
        arguments: "[install|dist|book|quick-start|chaos|black-hole|letters|redis|kills|history|sim|mutants]",
        summary: "checks that take too long for every test run",
        run: proof::run,
    },
    Command {
        name: "schema",
        arguments: "",
        summary: "runs schemathesis against /openapi.json of a real server",
        run: schema::run,
    },
    Command {
        name: "servers",
        arguments: "install",
        summary: "installs PostgreSQL, PgBouncer, MariaDB, Redis and NATS if they are missing",
        run: servers::run,
    },
    Command {
        name: "sim",
        arguments: "--seeds N [--from S] | --seed S",
        summary: "runs the simulation of the real engine; --seed replays one seed with its trace",
        run: sim::run,
    },
    Command {
        name: "mutants",
        arguments: "[--seeds N] [NAME …]",
        summary: "plants each known bug, at a port or by patching a copy of the engine in\n      \
                  target/mutants, and says by which seed it is found; five to ten minutes",
        run: mutants::run,
    },
    Command {
        name: "bench",
        arguments: "embedded|github|peers|postgres|mysql|probes|recovery|redis_delay|retries|slow-connections [--json]",
        summary: "benchmarks: stores, delayed hints, outcomes with and without retries, slow callers, held
      \
                  operations, a killed process; peers [--only PEER,…] [--rounds N] [--write] measures
      \
                  other queues beside Clinch",
        run: bench::run,
    },
    Command {
        name: "chaos",
        arguments: "outbox-db-failure|outbox-redis-failure|outbox-redis-flush|outbox-nats-failure|outbox-api-failure|outbox-deadlocks",
        summary: "runs the demo on real servers while they fail",
        run: chaos::run,
    },
    Command {
        name: "book",
        arguments: "",
        summary: "builds the guide as a site in target/book, by mdBook",
        run: book::run,
    },
    Command {
        name: "dist",
        arguments: "",
        summary: "the release archive with its checksum in target/archive; runs its demo",
        run: dist::run,
    },
    Command {
        name: "publish",
        arguments: "[--no-verify] [--allow-dirty] [--offline]",
        summary: "a dry run of publishing every library crate and the program; uploads nothing",
        run: publish::run,
    },
    Command {
        name: "msrv",
        arguments: "",
        summary: "compiles what is shipped with the oldest supported Rust, where that is installed",
        run: msrv::run,
    },
    Command {
        name: "coverage",
        arguments: "",
        summary: "line coverage of core, engine and protect, by cargo-tarpaulin",
        run: coverage::run,
    },
    Command {
        name: "tidy",
        arguments: "",
        summary: "checks the rules of the tree that no compiler checks",
        run: tidy::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => {
            eprintln!("xtask: {message}\n{}", usage());
            ExitCode::from(2)
        }
        Err(Failure::Failed(message)) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
        Err(Failure::Reported) => ExitCode::FAILURE,
    }
}

fn dispatch(arguments: &[String]) -> Result<(), Failure> {
    let Some((name, rest)) = arguments.split_first() else {
        return Err(Failure::Usage("no command given".into()));
    };
    if ["help", "--help", "-h"].contains(&name.as_str()) {
        println!("{}", usage());
        return Ok(());
    }
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(&workspace_root(), rest),
        None => Err(Failure::Usage(format!("unknown command `{name}`"))),
    }
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask <command>\n");
    for command in COMMANDS {
        let call = format!("{} {}", command.name, command.arguments);
        text.push_str(&format!("\n  {call}\n      {}", command.summary));
    }
    text.push_str("\n  help\n      this text");
    text
}

/// The folder above this crate's folder. Cargo's variable at run time comes first: with a target
/// folder that two checkouts share, the compiled-in path may be the other checkout.
fn workspace_root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().map(Path::to_path_buf).unwrap_or(own)
}
