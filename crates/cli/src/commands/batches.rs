//! `clinch batches`.

use super::operation::op_id;
use crate::client::Request;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

const GET_EXAMPLES: &str = "\
Examples:
  clinch batches get 01917f5e-0000-7000-8000-00000000000b";

/// Subcommands for batches.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show one batch and its counts
    #[command(after_help = GET_EXAMPLES)]
    Get {
        /// The batch
        #[arg(value_parser = op_id)]
        batch_id: String,
    },
}

pub(crate) async fn run(command: Command, context: &mut Context) -> Result<Exit, CliError> {
    let Command::Get { batch_id } = command;
    let request = Request::get(format!("/v1/batches/{batch_id}"));
    let answer = context.client.send(request).await?;
    let first = [
        "batch_id",
        "complete",
        "sealed",
        "total",
        "completed",
        "failed",
    ];
    context.out.document(&answer.document, &first)?;
    Ok(Exit::Ok)
}
