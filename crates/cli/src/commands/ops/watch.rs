//! `clinch ops watch`.

use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::Event;
use crate::clock::{self, Budget};
use crate::commands::follow::{Follow, Outage};
use crate::commands::operation::{self, COLUMNS, op_id_or_prefix};
use crate::context::Context;
use crate::duration;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::listing::Listing;
use crate::output::table::{Column, at};
use crate::output::text::Cell;
use crate::output::{Format, json};

const EXAMPLES: &str = "\
Examples:
  clinch ops watch 01917f5e-0000-7000-8000-000000000000 --wait 10m
  clinch ops watch --domain payments
  clinch ops watch -o jsonl | jq .data

One operation: exit 0 COMPLETED, 1 FAILED, 5 not settled in time. All: until interrupted.";

/// Minimum time between two shown changes, except for the last.
const SLICE: Duration = Duration::from_secs(5);

const EVENTS: &[Column] = &[
    Column::id("OP_ID", |event| at(event, &["/data/op_id"])),
    Column::new("STATE", state).at_least(19).whole(),
    Column::new("DOMAIN", |event| at(event, &["/data/domain"])).at_least(12),
    Column::new("EVENT_TYPE", |event| at(event, &["/data/event_type"])).at_least(12),
    Column::new("BIZ_KEY", |event| at(event, &["/data/biz_key"])).at_least(16),
    Column::new("WHY", |event| {
        operation::why(event.get("data").unwrap_or(&Value::Null))
    })
    .at_least(22)
    .kept(),
];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The operation; all operations if it is left out
    #[arg(value_parser = op_id_or_prefix)]
    op_id: Option<String>,
    /// Give up after this time (10m); by default never
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, requires = "op_id")]
    wait: Option<Duration>,
    /// If all operations are watched, only those of this domain
    #[arg(long, value_name = "NAME", conflicts_with = "op_id")]
    domain: Option<String>,
}

/// Follows the operation, or all of them.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    let Some(op_id) = args.op_id else {
        return all(args.domain, context).await;
    };
    let mut listing = Listing::new("operations", COLUMNS);
    let show = |document: &RawValue, context: &mut Context| {
        if context.out.format == Format::Table {
            let one = [document.to_owned()];
            listing.push(&one, &mut context.out)?;
        } else {
            context.out.document(document, &[])?;
        }
        context.out.flush()
    };
    let follow = Follow {
        op_id: &op_id,
        known: None,
        budget: Budget::start(args.wait),
        slice: SLICE,
    };
    Ok(follow.settle(context, show).await?.exit)
}

/// Follows all operations, through restarts of the server: never ends by itself.
async fn all(domain: Option<String>, context: &mut Context) -> Result<Exit, CliError> {
    if let Some(domain) = &domain {
        context.require_domain(domain).await?;
    }
    let mut listing = Listing::new("events", EVENTS);
    let mut events = context.client.events("/v1/events").await?;
    let mut outage = Outage::default();
    loop {
        let error = match events.next().await {
            Ok(event) => {
                outage = Outage::default();
                print(&event, domain.as_deref(), &mut listing, context)?;
                continue;
            }
            Err(error) => error,
        };
        let mut trouble = error;
        events = loop {
            if !trouble.is_transient() {
                return Err(trouble);
            }
            clock::pause(outage.pause(&trouble)).await;
            match context.client.events("/v1/events").await {
                Ok(events) => break events,
                Err(error) => trouble = error,
            }
        };
    }
}

/// Prints lines of `{"event":…,"data":…}`, or rows of a table, which leave counters out.
fn print(
    event: &Event,
    domain: Option<&str>,
    listing: &mut Listing,
    context: &mut Context,
) -> Result<(), CliError> {
    let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
    let is_other = |domain: &str| data.get("domain").and_then(Value::as_str) != Some(domain);
    if domain.is_some_and(is_other) {
        return Ok(());
    }
    let is_table = context.out.format == Format::Table;
    if is_table && event.name == "lagged" {
        note("some changes were missed; `clinch ops ls` has them");
    }
    if is_table && data.get("op_id").is_none() {
        return Ok(());
    }
    let data = match data {
        Value::Null => json::quoted(&event.data),
        _ => event.data.clone(),
    };
    let line = format!(
        "{{\"event\":{},\"data\":{data}}}",
        json::quoted(&event.name)
    );
    if is_table {
        let document = RawValue::from_string(line);
        let document = document.map_err(|_| context.client.not_clinch("an event is not JSON"))?;
        listing.push(&[document], &mut context.out)?;
    } else {
        context.out.line(&json::compact(&line))?;
    }
    context.out.flush()
}

fn state(event: &Value) -> Cell {
    let data = event.get("data").unwrap_or(&Value::Null);
    crate::commands::operation::state(data)
}
