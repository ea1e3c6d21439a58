//! `clinch man`: manual pages, one for each command.

use std::path::PathBuf;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::error::CliError;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  clinch man /usr/local/share/man/man1")]
pub(crate) struct Args {
    /// Folder for the pages: clinch.1, clinch-serve.1, …
    folder: PathBuf,
}

/// Writes the pages.
pub(crate) fn run(args: &Args) -> Result<Exit, CliError> {
    let folder = &args.folder;
    let wrong = |error| CliError::failed(format!("cannot write to {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(wrong)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(wrong)?;
    Ok(Exit::Ok)
}
