//! `clinch ops`.

mod cancel;
mod get;
mod ls;
mod resolve;
mod retry_now;
mod watch;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Subcommands for operations.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List operations, newest first
    Ls(ls::Args),
    /// Show one operation; with --path also its full ledger
    Get(get::Args),
    /// Follow one operation until it settles, or all of them until interrupted
    Watch(watch::Args),
    /// Cancel operations
    Cancel(cancel::Args),
    /// End the delay before the next attempt of operations
    RetryNow(retry_now::Args),
    /// Settle held operations, or allow them one more call
    Resolve(resolve::Args),
}

pub(crate) async fn run(command: Command, context: &mut Context) -> Result<Exit, CliError> {
    match command {
        Command::Ls(args) => ls::run(args, context).await,
        Command::Get(args) => get::run(args, context).await,
        Command::Watch(args) => watch::run(args, context).await,
        Command::Cancel(args) => cancel::run(args, context).await,
        Command::RetryNow(args) => retry_now::run(args, context).await,
        Command::Resolve(args) => resolve::run(args, context).await,
    }
}
