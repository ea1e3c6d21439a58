//! `clinch dlq ls`.

use super::DeadLetterFilter;
use crate::commands::pages::{List, Paging};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::table::{Column, at};

const EXAMPLES: &str = "\
Examples:
  clinch dlq ls --domain payments --from 1d
  clinch dlq ls --group
  clinch dlq ls --status dismissed
  clinch dlq ls --fingerprint 5f2c1d0e9a8b7c6d";

/// Columns of the list of dead letters.
const COLUMNS: &[Column] = &[
    Column::id("OP_ID", |one| at(one, &["/op_id"])),
    Column::new("CODE", |one| at(one, &["/failure/code"])).whole(),
    Column::new("EFFECT", |one| at(one, &["/failure/effect"])),
    Column::new("DOMAIN", |one| at(one, &["/domain"])),
    Column::new("EVENT_TYPE", |one| at(one, &["/event_type"])),
    Column::new("BIZ_KEY", |one| at(one, &["/biz_key"])),
    Column::new("ATTEMPTS", |one| at(one, &["/attempts"])),
    Column::time("FAILED_AT", |one| at(one, &["/failed_at"])),
    Column::new("MESSAGE", |one| at(one, &["/failure/message"])).kept(),
];

const GROUPS: &[Column] = &[
    Column::new("COUNT", |group| at(group, &["/count"])),
    Column::new("CODE", |group| at(group, &["/code"])),
    Column::new("DOMAIN", |group| at(group, &["/domain"])),
    Column::new("EVENT_TYPE", |group| at(group, &["/event_type"])),
    Column::time("LAST_FAILED_AT", |group| at(group, &["/last_failed_at"])),
    Column::new("FINGERPRINT", |group| at(group, &["/fingerprint"])).whole(),
    Column::new("MESSAGE", |group| at(group, &["/message"])).kept(),
];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What became of them: open (by default), redriven, dismissed or all
    #[arg(long, value_name = "STATUS", value_parser = ["open", "redriven", "dismissed", "all"])]
    status: Option<String>,
    /// One line for each kind of error, with its number of dead letters
    #[arg(long)]
    group: bool,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    filter: DeadLetterFilter,
}

/// Prints the dead letters.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    let mut pairs = args.filter.pairs();
    pairs.extend(args.status.map(|status| ("status", status)));
    let (member, columns) = if args.group {
        pairs.push(("group", "true".to_owned()));
        ("groups", GROUPS)
    } else {
        ("dead_letters", COLUMNS)
    };
    let list = List {
        path: "/v1/dead-letters",
        member,
        pairs,
    };
    list.print(args.paging, columns, context).await
}
