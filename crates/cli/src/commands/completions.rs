//! `clinch completions`.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::CliError;
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  clinch completions bash > /etc/bash_completion.d/clinch
  clinch completions zsh > \"${fpath[1]}/_clinch\"";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell that will read the script
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: Args) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "clinch", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Exit::Ok)
}
