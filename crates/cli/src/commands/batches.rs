//! `clinch batches`.

use super::operation::op_id;
use super::pages::{List, Paging};
use crate::client::Request;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::table::{Column, at};

const GET_EXAMPLES: &str = "\
Examples:
  clinch batches get 01917f5e-0000-7000-8000-00000000000b";

const LS_EXAMPLES: &str = "\
Examples:
  clinch batches ls
  clinch batches ls --all -o jsonl";

const COLUMNS: &[Column] = &[
    Column::id("BATCH_ID", |batch| at(batch, &["/batch_id"])),
    Column::new("COMPLETE", |batch| at(batch, &["/complete"])),
    Column::new("SEALED", |batch| at(batch, &["/sealed"])),
    Column::new("TOTAL", |batch| at(batch, &["/total"])),
    Column::new("COMPLETED", |batch| at(batch, &["/completed"])),
    Column::new("FAILED", |batch| at(batch, &["/failed"])),
    Column::new("COMPLETED_AT", |batch| at(batch, &["/completed_at"])),
];

/// Subcommands for batches.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List batches, newest first
    #[command(after_help = LS_EXAMPLES)]
    Ls {
        #[command(flatten)]
        paging: Paging,
    },
    /// Show one batch and its counts
    #[command(after_help = GET_EXAMPLES)]
    Get {
        /// The batch
        #[arg(value_parser = op_id)]
        batch_id: String,
    },
}

pub(crate) async fn run(command: Command, context: &mut Context) -> Result<Exit, CliError> {
    let batch_id = match command {
        Command::Get { batch_id } => batch_id,
        Command::Ls { paging } => {
            let list = List {
                path: "/v1/batches",
                member: "batches",
                pairs: Vec::new(),
            };
            return list.print(paging, COLUMNS, context).await;
        }
    };
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
