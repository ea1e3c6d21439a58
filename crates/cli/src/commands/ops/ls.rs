//! `clinch ops ls`.

use crate::commands::filter::{Filter, StateFilter};
use crate::commands::operation;
use crate::commands::pages::{List, Paging};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  clinch ops ls --state FAILED --from 1h
  clinch ops ls --domain payments --label team=shop --all -o jsonl
  clinch ops ls --biz-key order-123";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    filter: Filter,
    /// With this id at the provider
    #[arg(long, value_name = "ID", help_heading = "Filters")]
    provider_txn_id: Option<String>,
    #[command(flatten)]
    standing: StateFilter,
}

/// Prints the operations.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    let mut pairs = args.filter.pairs();
    pairs.extend(args.standing.pairs());
    pairs.extend(args.provider_txn_id.map(|id| ("provider_txn_id", id)));
    let list = List {
        path: "/v1/operations",
        member: "operations",
        pairs,
    };
    list.print(args.paging, operation::COLUMNS, context).await
}
