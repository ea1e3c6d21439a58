//! `clinch github`: the collector, on a server or in this process.

mod collector_client;
mod export;
mod follow;
mod run;
mod status;
mod summary;

use serde_json::json;

use crate::args::Global;
use crate::client::{Request, query, segment};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::table::{Column, at};
use crate::output::text::{Cell, Style};

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

const TOKENS_EXAMPLES: &str = "\
Examples:
  clinch github tokens
  clinch github tokens -o json

Tokens are shown by their hash. Budgets are those of the last answers to this server.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  clinch github compare octocat

Compares the documents of the last shadow run with the real ones. Exit 0 if equal, 1 if not.";

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
    /// List tokens by their hashes, with their budgets
    #[command(after_help = TOKENS_EXAMPLES)]
    Tokens,
    /// Export the documents, one per line
    Export(export::Args),
    /// Compare a shadow run's documents with the real ones
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare {
        /// The user
        login: String,
    },
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
    let access = match &command {
        Command::Run(args) if args.is_fake() => return run::fake(args, global).await,
        Command::Run(_) => Access::Work,
        Command::Retry { .. } => Access::Repair,
        _ => Access::Read,
    };
    let mut client = CollectorClient::open(global, access).await?;
    let done = match command {
        Command::Run(args) => run::run(&args, &mut client).await,
        Command::Status(args) => status::run(&args, &mut client).await,
        Command::Retry { run, wait } => retry(&run, &wait, &mut client).await,
        Command::Cancel { run, reason } => cancel(&run, reason, &mut client).await,
        Command::Tokens => tokens(&mut client).await,
        Command::Export(args) => export::run(&args, &mut client).await,
        Command::Compare { login } => compare(&login, &mut client).await,
    };
    client.close().await?;
    done
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

async fn tokens(client: &mut CollectorClient) -> Result<Exit, CliError> {
    let list = "/v1/github/tokens";
    super::pages::whole(list, "tokens", TOKEN_COLUMNS, &mut client.context).await
}

async fn compare(login: &str, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let comparison = client.comparison(login).await?;
    let lines = summary::comparison(&comparison);
    client.context.out.answer(&comparison, &lines)?;
    Ok(match summary::is_equal(&comparison) {
        true => Exit::Ok,
        false => Exit::Failed,
    })
}

impl CollectorClient {
    async fn comparison(&mut self, login: &str) -> Result<serde_json::Value, CliError> {
        let pairs = [("login", login.to_owned())];
        let path = format!("/v1/github/comparison{}", query(&pairs));
        self.ask(Request::get(path)).await
    }
}
