//! `clinch ops cancel`.

use serde_json::json;

use crate::commands::bulk::{self, Action, Targets};
use crate::commands::filter::{State, StateFilter};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  clinch ops cancel 01917f5e-0000-7000-8000-000000000000 --reason 'order withdrawn'
  clinch ops cancel --domain payments --label team=shop --dry-run
  clinch ops cancel --domain payments --state PENDING -y

An operation whose call may have been applied is not canceled at once: cancel is requested, and
the provider's answer decides. Named operations are canceled without asking. Open operations that
a filter finds are listed, and you are asked.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Why, for the ledger
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    targets: Targets,
    #[command(flatten)]
    standing: StateFilter,
}

/// Cancels the operations.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    let StateFilter { state, phase } = args.standing;
    let has_filter = !args.targets.filter.is_empty() || state.is_some() || phase.is_some();
    args.targets.check(has_filter)?;
    if state.is_some_and(State::is_terminal) {
        let what =
            "only PENDING and IN_PROGRESS operations can be canceled, not COMPLETED or FAILED ones";
        return Err(CliError::usage(what));
    }
    // The list endpoint filters by one state; open operations have two.
    let open: &[Option<State>] = match (state, phase) {
        (None, None) => &[Some(State::Pending), Some(State::InProgress)],
        _ => &[state],
    };
    let filters = open.iter().map(|state| {
        let mut pairs = args.targets.filter.pairs();
        let state = *state;
        pairs.extend(StateFilter { state, phase }.pairs());
        pairs
    });
    let filters = filters.collect();
    let body = match args.reason {
        Some(reason) => json!({ "reason": reason }),
        None => json!({}),
    };
    let action = Action {
        verb: "cancel",
        done: "canceled",
        begun: "cancel requested; the provider's answer decides",
        body: body.to_string().into_bytes(),
    };
    bulk::run(args.targets, filters, action, context).await
}
