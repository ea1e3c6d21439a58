//! `clinch dlq dismiss` and `clinch dlq reopen`.

use super::work::{Selected, Work, verdict};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::table::{Column, at};

const EXAMPLES: &str = "\
Examples:
  clinch dlq dismiss 01917f5e-0000-7000-8000-000000000000 --reason 'refunded by hand'
  clinch dlq dismiss --fingerprint 5f2c1d0e9a8b7c6d --reason 'known bug, fixed in 1.4' --dry-run
  clinch dlq reopen 01917f5e-0000-7000-8000-000000000000 --reason 'dismissed by mistake'

The plan is shown first, then you are asked. A dismissed dead letter leaves the list of open ones
and cannot be redriven until it is reopened. The reason is kept in the operation's ledger.";

const COLUMNS: &[Column] = &[
    Column::id("OP_ID", |one| at(one, &["/op_id"])),
    Column::new("VERDICT", verdict),
    Column::new("REASON", |one| at(one, &["/reason"])),
];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Why, for the ledger of each operation
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    selected: Selected,
}

/// Shows the plan, asks, and dismisses.
pub(crate) async fn dismiss(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    let work = Work {
        path: "/v1/dead-letters/dismiss",
        verdict: "dismiss",
        done: "dismissed",
        columns: COLUMNS,
        reason: Some(args.reason),
    };
    work.run(args.selected, context).await
}

/// Shows the plan, asks, and reopens.
pub(crate) async fn reopen(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    let work = Work {
        path: "/v1/dead-letters/reopen",
        verdict: "reopen",
        done: "reopened",
        columns: COLUMNS,
        reason: Some(args.reason),
    };
    work.run(args.selected, context).await
}
