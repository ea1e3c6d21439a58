//! `clinch dlq ls`.

use crate::commands::filter::Filter;
use crate::commands::pages::{List, Paging};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::table::{Column, at};

const EXAMPLES: &str = "\
Examples:
  clinch dlq ls --domain payments --from 1d
  clinch dlq ls --group";

/// Dead letters one by one.
pub(super) const COLUMNS: &[Column] = &[
    Column::id("OP_ID", |one| at(one, &["/op_id"])),
    Column::new("CODE", |one| at(one, &["/failure/code", "/code"])),
    Column::new("EFFECT", |one| at(one, &["/failure/effect", "/effect"])),
    Column::new("DOMAIN", |one| at(one, &["/domain"])),
    Column::new("EVENT_TYPE", |one| at(one, &["/event_type"])),
    Column::new("BIZ_KEY", |one| at(one, &["/biz_key"])),
    Column::new("FINISHED_AT", |one| at(one, &["/finished_at"])),
    Column::new("REDRIVEN_BY", |one| at(one, &["/redriven_by"])),
    Column::new("MESSAGE", |one| at(one, &["/failure/message", "/message"])),
];

const GROUPS: &[Column] = &[
    Column::new("COUNT", |group| at(group, &["/count"])),
    Column::new("CODE", |group| at(group, &["/code"])),
    Column::new("DOMAIN", |group| at(group, &["/domain"])),
    Column::new("EVENT_TYPE", |group| at(group, &["/event_type"])),
    Column::new("FIRST_AT", |group| at(group, &["/first_at"])),
    Column::new("LAST_AT", |group| at(group, &["/last_at"])),
    Column::new("FINGERPRINT", |group| at(group, &["/fingerprint"])),
    Column::new("MESSAGE", |group| at(group, &["/message"])),
];

/// Which, and how many.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    filter: Filter,
    /// One line for each kind of error, with how many there are
    #[arg(long)]
    group: bool,
    #[command(flatten)]
    paging: Paging,
}

/// Prints them.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    let mut pairs = args.filter.pairs();
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
