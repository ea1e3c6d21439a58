//! Clinch beside other durable queues: the same no-op job, on the same machine, in the same run, with
//! every commit synced.
//!
//! Each contender is a program of its own that plays one round and prints its figures. The rounds of
//! all contenders alternate, so that a busy minute of the machine hits everybody. A peer that cannot be
//! installed is reported and not measured.
#![forbid(unsafe_code)]

mod arguments;
mod client;
mod clinch;
mod contender;
mod docs;
mod folder;
mod http;
mod install;
mod machine;
mod peer;
mod plot;
mod postgres;
mod report;
mod restate;
mod rows;
mod server;
mod sqlite;
mod upstream;

use std::process::ExitCode;

use clinch_peers_load::Result;

use arguments::Arguments;
use folder::Folder;
use install::Installer;
use report::Report;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [clinch::ARGUMENT, rest @ ..] => clinch::main(rest),
        [upstream::ARGUMENT] => upstream::main(),
        _ => match Arguments::parse(&words) {
            Some(arguments) => measure(&arguments),
            None => {
                eprintln!("{}", arguments::USAGE);
                return ExitCode::from(2);
            }
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<()> {
    let folder = Folder::new(&arguments.folder)?;
    let mut report = Report::new(arguments.rounds);
    let mut installer = Installer::new()?;
    machine::describe(&folder, &mut report)?;
    sqlite::measure(arguments, &folder, &mut installer, &mut report)?;
    postgres::measure(arguments, &mut installer, &mut report)?;
    http::measure(arguments, &folder, &mut installer, &mut report)?;
    machine::load(&mut report);
    if arguments.write {
        docs::write(&installer.root, &report)?;
    }
    let text = if arguments.json {
        report.json()
    } else {
        report.text()
    };
    println!("{text}");
    Ok(())
}
