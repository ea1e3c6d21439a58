//! `clinch ops resolve`.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::commands::bulk::{self, Action, Targets};
use crate::commands::filter::{Phase, StateFilter};
use crate::commands::payload;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  clinch ops resolve 01917f5e-0000-7000-8000-000000000000 --as completed --provider-txn-id tx_9
  clinch ops resolve 01917f5e-0000-7000-8000-000000000000 --as failed --code refused --effect none
  clinch ops resolve --domain payments --as retry --reason 'provider was down' --dry-run

Ask the provider first. `retry` allows one more call whatever the route's safety is: if the first
call was applied after all, the effect happens twice. Named operations are resolved without
asking; those that a filter finds are listed, and you are asked.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How to settle the operation
    #[arg(long = "as", value_enum, value_name = "END")]
    end: End,
    /// Why, for the ledger
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// completed: the provider's own id of the transaction
    #[arg(long, value_name = "ID")]
    provider_txn_id: Option<String>,
    /// completed: the result; JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    payload: Option<String>,
    /// failed: the error code, for programs
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// failed: the error message, for people
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// failed: whether the call may have been applied
    #[arg(long, value_enum, value_name = "EFFECT")]
    effect: Option<Effect>,
    #[command(flatten)]
    targets: Targets,
}

/// How to settle a held operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum End {
    /// The provider applied the call
    Completed,
    /// The provider did not apply the call
    Failed,
    /// Allow one more call
    Retry,
}

/// The effect of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Effect {
    /// The call was not applied
    None,
    /// It is not known whether the call was applied
    Unknown,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "as")]
    end: End,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_txn_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<Effect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Resolves the operations.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    args.targets.check(!args.targets.filter.is_empty())?;
    check(&args)?;
    let payload = args.payload.as_deref().map(payload::read).transpose()?;
    let body = Body {
        end: args.end,
        provider_txn_id: args.provider_txn_id.as_deref(),
        payload: payload.as_deref(),
        code: args.code.as_deref(),
        message: args.message.as_deref(),
        effect: args.effect,
        reason: args.reason.as_deref(),
    };
    let body =
        serde_json::to_vec(&body).map_err(|_| CliError::usage("the payload cannot be sent"))?;
    let mut pairs = args.targets.filter.pairs();
    let held = StateFilter {
        state: None,
        phase: Some(Phase::Held),
    };
    pairs.extend(held.pairs());
    let action = Action {
        verb: "resolve",
        done: "resolved",
        begun: "resolving",
        body,
    };
    bulk::run(args.targets, vec![pairs], action, context).await
}

/// Refuses flags that would be ignored: such a mistake could cost money.
fn check(args: &Args) -> Result<(), CliError> {
    let of_completed = [
        ("--provider-txn-id", args.provider_txn_id.is_some()),
        ("--payload", args.payload.is_some()),
    ];
    let of_failed = [
        ("--code", args.code.is_some()),
        ("--message", args.message.is_some()),
        ("--effect", args.effect.is_some()),
    ];
    let misplaced = |flags: &[(&'static str, bool)], end: End| {
        let mut given = flags.iter().filter(|(_, is_given)| *is_given);
        given
            .next()
            .map(|(flag, _)| *flag)
            .filter(|_| args.end != end)
    };
    if let Some(flag) = misplaced(&of_completed, End::Completed) {
        return Err(CliError::usage(format!("{flag} goes with --as completed")));
    }
    if let Some(flag) = misplaced(&of_failed, End::Failed) {
        return Err(CliError::usage(format!("{flag} goes with --as failed")));
    }
    if args.targets.op_ids.len() != 1 && of_completed.iter().any(|(_, is_given)| *is_given) {
        let what = "a provider's id and result belong to one operation: name it";
        return Err(CliError::usage(what));
    }
    Ok(())
}
