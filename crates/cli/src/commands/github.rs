//! `clinch github`: the collector, on a server or in this process.

mod desk;
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

use desk::{Desk, Need};

const RETRY_EXAMPLES: &str = "\
Examples:
  clinch github retry octocat.7
  clinch github retry octocat.7 --wait

Tries the failed jobs of a completed run again, in a group of their own; the run keeps its
counts. Without a server it waits for them.";

const CANCEL_EXAMPLES: &str = "\
Examples:
  clinch github cancel octocat.7 --reason 'wrong user'

No further request is made for it; what was stored stays.";

const TOKENS_EXAMPLES: &str = "\
Examples:
  clinch github tokens
  clinch github tokens -o json

Tokens are named by a hash. Budgets are those that the last answers told this server.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  clinch github compare octocat

The documents of the last shadow run against the real ones. Exit 0 equal, 1 not.";

const TOKEN_COLUMNS: &[Column] = &[
    Column::id("TOKEN", |token| at(token, &["/token"])),
    Column::new("ACCOUNT", |token| at(token, &["/account"])),
    Column::new("LEFT", |token| at(token, &["/budget/remaining"])),
    Column::new("LIMIT", |token| at(token, &["/budget/limit"])),
    Column::new("RESET_AT", |token| at(token, &["/budget/reset_at"])),
    Column::new("BLOCKED_UNTIL", |token| at(token, &["/blocked_until"])),
    Column::new("REFUSED", |token| match at(token, &["/refused"]) {
        refused if refused.text == "true" => Cell::new("refused").styled(Style::Bad),
        _ => Cell::new(""),
    }),
];

/// What to do with the collector.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Collect what GitHub knows of a user
    Run(run::Args),
    /// How far a run is, or the recent ones
    Status(status::Args),
    /// Try the failed jobs of a run again
    #[command(after_help = RETRY_EXAMPLES)]
    Retry {
        /// The run, such as octocat.7
        run: String,
        #[command(flatten)]
        wait: follow::Wait,
    },
    /// End a run
    #[command(after_help = CANCEL_EXAMPLES)]
    Cancel {
        /// The run, such as octocat.7
        run: String,
        /// Why, for the run's record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Tokens by their hashes, with their budgets
    #[command(after_help = TOKENS_EXAMPLES)]
    Tokens,
    /// Write the documents out, one a line
    Export(export::Args),
    /// A shadow run's documents against the real ones
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare {
        /// The user
        login: String,
    },
}

/// Runs it.
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
    let need = match &command {
        Command::Run(args) if args.is_fake() => return run::fake(args, global).await,
        Command::Run(_) => Need::Work,
        Command::Retry { .. } => Need::Repair,
        _ => Need::Look,
    };
    let mut desk = Desk::open(global, need).await?;
    let done = match command {
        Command::Run(args) => run::run(&args, &mut desk).await,
        Command::Status(args) => status::run(&args, &mut desk).await,
        Command::Retry { run, wait } => retry(&run, &wait, &mut desk).await,
        Command::Cancel { run, reason } => cancel(&run, reason, &mut desk).await,
        Command::Tokens => tokens(&mut desk).await,
        Command::Export(args) => export::run(&args, &mut desk).await,
        Command::Compare { login } => compare(&login, &mut desk).await,
    };
    desk.close().await?;
    done
}

async fn retry(run: &str, wait: &follow::Wait, desk: &mut Desk) -> Result<Exit, CliError> {
    let path = format!("/v1/github/runs/{}/retry", segment(run));
    let answer = desk.post(path, &json!({})).await?;
    let retried = answer.pointer("/retried").and_then(|n| n.as_u64());
    let number = retried.unwrap_or(0);
    desk.note(&format!("{number} jobs of {run} are tried again"));
    if number == 0 || !(wait.is_wanted() || desk.is_here()) {
        let document = answer.pointer("/run").cloned().unwrap_or_default();
        summary::print_run(&document, desk)?;
        return Ok(Exit::Ok);
    }
    follow::repair(run, wait, desk).await
}

async fn cancel(run: &str, reason: Option<String>, desk: &mut Desk) -> Result<Exit, CliError> {
    let path = format!("/v1/github/runs/{}/cancel", segment(run));
    let document = desk.post(path, &json!({ "reason": reason })).await?;
    summary::print_run(&document, desk)?;
    Ok(Exit::Ok)
}

async fn tokens(desk: &mut Desk) -> Result<Exit, CliError> {
    let list = "/v1/github/tokens";
    super::pages::whole(list, "tokens", TOKEN_COLUMNS, &mut desk.context).await
}

async fn compare(login: &str, desk: &mut Desk) -> Result<Exit, CliError> {
    let comparison = desk.comparison(login).await?;
    let lines = summary::comparison(&comparison);
    desk.context.out.answer(&comparison, &lines)?;
    Ok(match summary::is_equal(&comparison) {
        true => Exit::Ok,
        false => Exit::Failed,
    })
}

impl Desk {
    async fn comparison(&mut self, login: &str) -> Result<serde_json::Value, CliError> {
        let pairs = [("login", login.to_owned())];
        let path = format!("/v1/github/comparison{}", query(&pairs));
        self.ask(Request::get(path)).await
    }
}
