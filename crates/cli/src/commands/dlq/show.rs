//! `clinch dlq show`.

use crate::client::Request;
use crate::commands::operation::{self, op_id_or_prefix};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  clinch dlq show 01917f5e-0000-7000-8000-000000000000";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The operation that failed
    #[arg(value_parser = op_id_or_prefix)]
    op_id: String,
}

/// Prints the dead letter.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    let request = Request::get(format!("/v1/dead-letters/{}", args.op_id));
    let answer = context.client.send(request).await?;
    context.out.document(&answer.document, operation::FIRST)?;
    Ok(Exit::Ok)
}
