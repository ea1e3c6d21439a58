//! `clinch github`: the collector, on a server or in this process.

mod collector_client;
mod compare;
mod cost;
mod documents;
mod export;
mod follow;
mod overview;
mod owners;
mod pace;
mod run;
mod stats;
mod status;
mod summary;
mod switch;
mod tap;
mod tokens;

use serde_json::json;

use crate::args::Global;
use crate::client::{query, segment};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::table::{Column, at};
use crate::output::text::{Cell, Style};
use crate::prompt::Consent;

use collector_client::{Access, CollectorClient};

const RETRY_EXAMPLES: &str = "\
Examples:
  clinch github retry octocat.7
  clinch github retry octocat.7 --wait

Retries the failed jobs of a completed run, in a batch of their own; the run keeps its counts.
Without a server the command waits for them.";

const CANCEL_EXAMPLES: &str = "\
Examples:
  clinch github cancel octocat.7 --reason 'wrong user'

No further request is made for the run; stored documents stay.";

const FORGET_EXAMPLES: &str = "\
Examples:
  clinch github forget octocat --dry-run
  clinch github forget octocat -y

Deletes the documents of the user, those that were put aside and those of shadow runs included, with
cursors, statistics, runs and the user's tokens. The operations of the runs are deleted by the
retention of the domain github. Exit 3 if there is neither a run nor a token of the user, 4 if a run
is active.";

const TOKEN_COLUMNS: &[Column] = &[
    Column::new("TOKEN", |token| at(token, &["/token"])).whole(),
    Column::new("ACCOUNT", |token| at(token, &["/account"])),
    Column::new("LEFT", |token| at(token, &["/budget/remaining"])),
    Column::new("LIMIT", |token| at(token, &["/budget/limit"])),
    Column::time("RESET_AT", |token| at(token, &["/budget/reset_at"])),
    Column::time("BLOCKED_UNTIL", |token| at(token, &["/blocked_until"])).kept(),
    Column::new("REFUSED", |token| match at(token, &["/refused"]) {
        refused if refused.text == "true" => Cell::new("refused").styled(Style::Bad),
        _ => Cell::new(""),
    }),
];

/// Subcommands for the collector.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Collect the data that GitHub has about a user
    Run(run::Args),
    /// Show the progress of a run, or the recent runs
    Status(status::Args),
    /// Show all runs at a glance: failures and times by kind, who waits for what until when
    Overview(overview::Args),
    /// Retry the failed jobs of a run
    #[command(after_help = RETRY_EXAMPLES)]
    Retry {
        /// The run, such as octocat.7
        run: String,
        #[command(flatten)]
        wait: follow::Wait,
    },
    /// Cancel a run
    #[command(after_help = CANCEL_EXAMPLES)]
    Cancel {
        /// The run, such as octocat.7
        run: String,
        /// Why, for the run's record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// List tokens by their hashes, with their budgets; store tokens of users
    Tokens(tokens::Args),
    /// Show what happened by week: commits, issues, pull requests, events, languages
    Stats(stats::Args),
    /// Export the documents as JSON lines, CSV or Parquet
    Export(export::Args),
    /// Send the documents to a Singer target
    Tap(tap::Args),
    /// Delete everything that was collected of a user
    #[command(after_help = FORGET_EXAMPLES)]
    Forget {
        /// The user
        login: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Make the shadow's documents live, or go back
    Switch(switch::Args),
    /// Compare a shadow run and its documents with the real ones
    Compare(compare::Args),
}

pub(crate) fn run(command: Command, global: Global) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("cannot start threads: {error}")))?;
    let ran = runtime.block_on(dispatch(command, global));
    runtime.shutdown_background();
    ran
}

async fn dispatch(command: Command, global: Global) -> Result<Exit, CliError> {
    match command {
        Command::Run(args) if args.is_fake() => run::fake(&args, global).await,
        Command::Run(args) => {
            args.check()?;
            let access = args.access();
            with(global, access, async |c| run::run(&args, c).await).await
        }
        Command::Status(args) => reading(global, async |c| status::run(&args, c).await).await,
        Command::Overview(args) => reading(global, async |c| overview::run(&args, c).await).await,
        Command::Retry { run, wait } => {
            let retrying = async |c: &mut CollectorClient| retry(&run, &wait, c).await;
            with(global, Access::Repair, retrying).await
        }
        Command::Cancel { run, reason } => {
            reading(global, async |c| cancel(&run, reason, c).await).await
        }
        Command::Tokens(args) => tokens::start(args, global).await,
        Command::Stats(args) => reading(global, async |c| stats::run(&args, c).await).await,
        Command::Export(args) => {
            args.check()?;
            reading(global, async |c| export::run(&args, c).await).await
        }
        Command::Tap(args) => tap::start(&args, global).await,
        Command::Forget { login, consent } => {
            consent.check()?;
            reading(global, async |c| forget(&login, consent, c).await).await
        }
        Command::Switch(args) => {
            args.check()?;
            reading(global, async |c| switch::run(&args, c).await).await
        }
        Command::Compare(args) => reading(global, async |c| compare::run(&args, c).await).await,
    }
}

/// Opens the collector for this work, and closes it.
async fn with(
    global: Global,
    access: Access,
    work: impl AsyncFnOnce(&mut CollectorClient) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    let mut client = CollectorClient::open(global, access).await?;
    let done = work(&mut client).await;
    client.close().await?;
    done
}

/// The same for work that makes no requests to GitHub.
async fn reading(
    global: Global,
    work: impl AsyncFnOnce(&mut CollectorClient) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    with(global, Access::Read, work).await
}

async fn retry(
    run: &str,
    wait: &follow::Wait,
    client: &mut CollectorClient,
) -> Result<Exit, CliError> {
    let path = format!("/v1/github/runs/{}/retry", segment(run));
    let answer = client.post(path, &json!({})).await?;
    let retried = answer.pointer("/retried").and_then(|n| n.as_u64());
    let number = retried.unwrap_or(0);
    client.note(&format!("{number} jobs of {run} are being retried"));
    if number == 0 || !(wait.is_wanted() || client.is_local()) {
        let document = answer.pointer("/run").cloned().unwrap_or_default();
        summary::print_run(&document, client)?;
        return Ok(Exit::Ok);
    }
    follow::repair(run, wait, client).await
}

async fn cancel(
    run: &str,
    reason: Option<String>,
    client: &mut CollectorClient,
) -> Result<Exit, CliError> {
    let path = format!("/v1/github/runs/{}/cancel", segment(run));
    let document = client.post(path, &json!({ "reason": reason })).await?;
    summary::print_run(&document, client)?;
    Ok(Exit::Ok)
}

async fn forget(
    login: &str,
    consent: Consent,
    client: &mut CollectorClient,
) -> Result<Exit, CliError> {
    if consent.dry_run {
        let pairs = [("login", login.to_owned()), ("limit", "1".to_owned())];
        let known = client
            .get(format!("/v1/github/cursors{}", query(&pairs)))
            .await?;
        let lines = [format!(
            "everything that was collected of {login} would be deleted"
        )];
        let document = json!({ "login": login, "known": !known.is_null() });
        client.context.out.answer(&document, &lines)?;
        return Ok(Exit::Ok);
    }
    consent.ask(&format!("delete everything that was collected of {login}?"))?;
    let path = format!("/v1/github/users/{}/forget", segment(login));
    let forgotten = client.post(path, &json!({})).await?;
    let documents = forgotten.pointer("/documents").and_then(|n| n.as_u64());
    let lines = [format!(
        "{} documents of {login} deleted",
        documents.unwrap_or(0)
    )];
    client.context.out.answer(&forgotten, &lines)?;
    Ok(Exit::Ok)
}
