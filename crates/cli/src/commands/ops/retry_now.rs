//! `clinch ops retry-now`.

use serde_json::json;

use crate::commands::bulk::{self, Action, Targets};
use crate::commands::filter::{Phase, State, StateFilter};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  clinch ops retry-now 01917f5e --reason 'the provider is back'
  clinch ops retry-now --domain payments --dry-run
  clinch ops retry-now --domain payments --label team=shop -y

Ends the delay before the next attempt: a backoff, a provider's Retry-After, or a run_at in the
future. A paused domain, an open breaker, the order of a key and the limit of attempts still
decide. Named operations are retried without asking. Operations that a filter finds are listed,
and you are asked. Use `clinch ops resolve` for held operations, `clinch dlq redrive` for FAILED
ones.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Why, for the ledger
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    targets: Targets,
}

/// Makes the operations due.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    args.targets.check(!args.targets.filter.is_empty())?;
    // The operations that may wait: not begun yet, or between two attempts.
    let waiting = [
        (State::Pending, None),
        (State::InProgress, Some(Phase::Waiting)),
    ];
    let filters = waiting.map(|(state, phase)| {
        let mut pairs = args.targets.filter.pairs();
        let state = Some(state);
        pairs.extend(StateFilter { state, phase }.pairs());
        pairs
    });
    let body = match args.reason {
        Some(reason) => json!({ "reason": reason }),
        None => json!({}),
    };
    let action = Action {
        verb: "retry-now",
        done: "due now",
        begun: "due now",
        body: body.to_string().into_bytes(),
    };
    bulk::run(args.targets, filters.into(), action, context).await
}
