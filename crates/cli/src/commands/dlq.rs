//! `clinch dlq`.

mod ls;
mod redrive;
mod show;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// What to do with dead letters.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List dead letters, or with --group their kinds
    Ls(ls::Args),
    /// Show one dead letter
    Show(show::Args),
    /// Make new operations of dead letters
    Redrive(redrive::Args),
}

/// Runs it.
pub(crate) async fn run(command: Command, context: &mut Context) -> Result<Exit, CliError> {
    match command {
        Command::Ls(args) => ls::run(args, context).await,
        Command::Show(args) => show::run(args, context).await,
        Command::Redrive(args) => redrive::run(args, context).await,
    }
}
