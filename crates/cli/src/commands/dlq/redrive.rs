//! `clinch dlq redrive`.

use super::work::{Selected, Work, verdict};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::table::{Column, at};

const EXAMPLES: &str = "\
Examples:
  clinch dlq redrive 01917f5e-0000-7000-8000-000000000000
  clinch dlq redrive --domain payments --from 1h --dry-run
  clinch dlq redrive --domain payments -y

The server's plan is shown first, then you are asked; only what the plan showed is redriven, oldest
first and to the last dead letter. The last line is the summary. A redrive keeps the outbound key;
two redrives of one dead letter create one operation. It is refused if the call may have been
applied and may not be repeated, or if the dead letter is dismissed: exit 4 if all are refused.";

const COLUMNS: &[Column] = &[
    Column::id("OP_ID", |one| at(one, &["/op_id"])),
    Column::new("VERDICT", verdict),
    Column::new("REASON", |one| at(one, &["/reason"])),
    Column::id("REDRIVEN_BY", |one| at(one, &["/redriven_by"])),
];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    selected: Selected,
}

/// Shows the plan, asks, and redrives.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    let work = Work {
        path: "/v1/dead-letters/redrive",
        verdict: "redrive",
        done: "redriven",
        columns: COLUMNS,
        reason: None,
    };
    work.run(args.selected, context).await
}
