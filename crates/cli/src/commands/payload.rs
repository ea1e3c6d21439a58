//! Reads payloads from the command line, a file or standard input.

use std::fs::File;
use std::io::{self, Read};

use serde_json::value::RawValue;

use crate::error::CliError;

/// Maximum size: the largest request body that a server accepts by default.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads JSON unchanged: numbers keep their notation. `@file`, `-` for standard input, or the text
/// itself. Errors do not repeat it.
pub(crate) fn read(source: &str) -> Result<Box<RawValue>, CliError> {
    let text = match source.strip_prefix('@') {
        Some("-") => whole(io::stdin(), "standard input")?,
        None if source == "-" => whole(io::stdin(), "standard input")?,
        Some(path) => {
            let file = File::open(path).map_err(|error| unreadable(path, &error))?;
            whole(file, path)?
        }
        None => source.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        CliError::usage(format!("the payload is not JSON: see {place}"))
    })
}

fn whole(source: impl Read, name: &str) -> Result<String, CliError> {
    let mut text = String::new();
    let read = source.take(BYTES_MAX + 1).read_to_string(&mut text);
    match read.map_err(|error| unreadable(name, &error))? as u64 {
        0..=BYTES_MAX => Ok(text),
        _ => Err(CliError::usage(format!("{name} is larger than 16 MiB"))),
    }
}

fn unreadable(name: &str, error: &io::Error) -> CliError {
    let what = format!("cannot read the payload from {name}: {error}");
    CliError::unreadable(what, error)
}
