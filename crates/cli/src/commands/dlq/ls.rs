//! `clinch dlq ls`.

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::DeadLetterFilter;
use crate::commands::pages::{List, PAGE, Paging};
use crate::context::Context;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::Format;
use crate::output::listing::Listing;
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
    let path = "/v1/dead-letters";
    if args.group {
        pairs.push(("group", "true".to_owned()));
        let member = "groups";
        let list = List {
            path,
            member,
            pairs,
        };
        return print_groups(&list, args.paging.at_most(), context).await;
    }
    let member = "dead_letters";
    let list = List {
        path,
        member,
        pairs,
    };
    list.print(args.paging, COLUMNS, context).await
}

/// Reads the groups to the last dead letter, adds up those of one fingerprint, and prints the
/// largest.
async fn print_groups(
    list: &List,
    at_most: usize,
    context: &mut Context,
) -> Result<Exit, CliError> {
    let mut groups: Vec<Value> = Vec::new();
    let mut cursor = None;
    loop {
        let page = list.page(PAGE, cursor.as_deref(), context).await?;
        for item in &page.items {
            let group = serde_json::from_str(item.get()).unwrap_or_default();
            add(&mut groups, group);
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let count = |group: &Value| group["count"].as_u64().unwrap_or(0);
    groups.sort_by_key(|group| std::cmp::Reverse(count(group)));
    let found = groups.len();
    groups.truncate(at_most);
    let raw = groups.iter().filter_map(|group| to_raw_value(group).ok());
    let raw: Vec<Box<RawValue>> = raw.collect();
    let mut listing = Listing::new("groups", GROUPS);
    listing.push(&raw, &mut context.out)?;
    listing.end(None, &mut context.out)?;
    if context.out.format == Format::Table {
        match found {
            0 => note("none found"),
            _ if found > at_most => note(&format!("{} more: use --all", found - at_most)),
            _ => {}
        }
    }
    Ok(Exit::Ok)
}

/// Adds a group of older dead letters to those that were read before.
fn add(groups: &mut Vec<Value>, older: Value) {
    let known = groups
        .iter_mut()
        .find(|known| known["fingerprint"] == older["fingerprint"]);
    let Some(known) = known else {
        groups.push(older);
        return;
    };
    let count = |group: &Value| group["count"].as_u64().unwrap_or(0);
    known["count"] = (count(known) + count(&older)).into();
    known["first_failed_at"] = older["first_failed_at"].clone();
}
