//! The commands, one module each.

pub(crate) mod batches;
mod bulk;
pub(crate) mod completions;
pub(crate) mod destinations;
pub(crate) mod dlq;
pub(crate) mod domains;
mod filter;
mod follow;
mod operation;
pub(crate) mod ops;
mod pages;
mod payload;
pub(crate) mod submit;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Runs the command that was asked for.
pub(crate) fn run(cli: Cli) -> Result<Exit, CliError> {
    match cli.command {
        Command::Completions(args) => completions::run(args),
        command => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let mut context = Context::new(cli.global)?;
            let exit = runtime.block_on(ask(command, &mut context))?;
            context.out.flush()?;
            Ok(exit)
        }
    }
}

/// Commands that ask a server.
async fn ask(command: Command, context: &mut Context) -> Result<Exit, CliError> {
    match command {
        Command::Submit(args) => submit::run(args, context).await,
        Command::Ops(command) => ops::run(command, context).await,
        Command::Dlq(command) => dlq::run(command, context).await,
        Command::Domains(command) => domains::run(command, context).await,
        Command::Destinations(command) => destinations::run(command, context).await,
        Command::Batches(command) => batches::run(command, context).await,
        Command::Completions(args) => completions::run(args),
    }
}
