//! Asks a person before many operations change.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::error::CliError;

/// The flags of a command that asks for confirmation.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Consent {
    /// Do it without asking
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    /// Show what would be done, and do nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

impl Consent {
    /// Fails before anything is sent if a question is needed and there is no terminal.
    pub(crate) fn check(self) -> Result<(), CliError> {
        let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
        if self.yes || self.dry_run || can_ask {
            return Ok(());
        }
        Err(CliError::usage(
            "this asks before it changes anything, and there is no terminal to ask on; nothing \
             was sent. Look with --dry-run, then do it with -y",
        ))
    }

    /// Asks, unless `--yes` was given. Only `y` and `yes` count as yes.
    pub(crate) fn ask(self, question: &str) -> Result<(), CliError> {
        if self.yes {
            return Ok(());
        }
        let mut err = io::stderr();
        write!(err, "{question} [y/N] ").and_then(|()| err.flush())?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(CliError::Declined),
        }
    }
}
