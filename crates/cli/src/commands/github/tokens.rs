//! `clinch github tokens`: the server's tokens, and tokens of users.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::collector_client::{Access, CollectorClient};
use super::follow::text;
use super::{TOKEN_COLUMNS, with};
use crate::args::Global;
use crate::client::{Request, segment};
use crate::commands::pages;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::table::{Column, at};
use crate::output::text::{Cell, Style};

/// Longest token that is read, in bytes: far longer than any.
const TOKEN_BYTES_MAX: u64 = 4 * 1024;

const EXAMPLES: &str = "\
Examples:
  clinch github tokens
  clinch github tokens add octocat --from-env OCTOCAT_TOKEN
  clinch github tokens add octocat < token.txt
  clinch github tokens ls octocat
  clinch github tokens rm octocat 1f8a…

Tokens are shown by their hash, and no command shows a token. Budgets are those of the last answers
to this server. A run of a user who has tokens uses these and no others; without any it uses those of
github.tokens. Tokens of users are sealed with github.token_keys.";

const ADD_EXAMPLES: &str = "\
Examples:
  clinch github tokens add octocat --from-env OCTOCAT_TOKEN
  clinch github tokens add octocat --from-file token.txt
  clinch github tokens add octocat < token.txt";

const USER_COLUMNS: &[Column] = &[
    Column::new("TOKEN", |token| at(token, &["/token"])).whole(),
    Column::new("ACCOUNT", |token| at(token, &["/account"])),
    Column::time("ADDED_AT", |token| at(token, &["/added_at"])),
    Column::new("STATE", |token| match at(token, &["/state"]) {
        state if state.text == "usable" => state,
        state if state.text == "blocked" => state,
        state => Cell::new(&state.text).styled(Style::Bad),
    }),
];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Store a token that only the runs of a user use; read from standard input
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// The user
        login: String,
        /// Read the token from this environment variable
        #[arg(long, value_name = "NAME", conflicts_with = "from_file")]
        from_env: Option<String>,
        /// Read the token from this file
        #[arg(long, value_name = "FILE")]
        from_file: Option<PathBuf>,
    },
    /// List the tokens of a user, or those of the server
    #[command(after_help = "Examples:\n  clinch github tokens ls octocat")]
    Ls {
        /// The user
        login: Option<String>,
    },
    /// Remove a token of a user
    #[command(after_help = "Examples:\n  clinch github tokens rm octocat 1f8a03c2")]
    Rm {
        /// The user
        login: String,
        /// The hash of the token, as `ls` shows it
        token: String,
    },
}

pub(super) async fn start(args: Args, global: Global) -> Result<Exit, CliError> {
    match args.command {
        None | Some(Command::Ls { login: None }) => super::reading(global, list).await,
        Some(Command::Ls { login: Some(login) }) => {
            super::reading(global, async |c| list_of(&login, c).await).await
        }
        Some(Command::Add {
            login,
            from_env,
            from_file,
        }) => {
            let token = read(from_env, from_file)?;
            let adding = async |c: &mut CollectorClient| add(&login, &token, c).await;
            with(global, Access::Write, adding).await
        }
        Some(Command::Rm { login, token }) => {
            super::reading(global, async |c| remove(&login, &token, c).await).await
        }
    }
}

/// The token. An error shows no part of it.
fn read(from_env: Option<String>, from_file: Option<PathBuf>) -> Result<String, CliError> {
    let text = match (from_env, from_file) {
        (Some(name), _) => std::env::var(&name).map_err(|_| {
            CliError::usage(format!(
                "the environment variable {name} is not set, or no text"
            ))
        })?,
        (None, Some(path)) => {
            let wrong = |error: io::Error| {
                CliError::usage(format!("cannot read {}: {error}", path.display()))
            };
            short(std::fs::File::open(&path).map_err(wrong)?).map_err(wrong)?
        }
        (None, None) => {
            if io::stdin().is_terminal() {
                note("paste the token, then press Enter and Ctrl-D");
            }
            let wrong =
                |error: io::Error| CliError::usage(format!("cannot read the token: {error}"));
            short(io::stdin().lock()).map_err(wrong)?
        }
    };
    match text.trim() {
        "" => Err(CliError::usage("the token is empty")),
        token => Ok(token.to_owned()),
    }
}

fn short(source: impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    source.take(TOKEN_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn path(login: &str) -> String {
    format!("/v1/github/users/{}/tokens", segment(login))
}

async fn list(client: &mut CollectorClient) -> Result<Exit, CliError> {
    let list = "/v1/github/tokens";
    pages::whole(list, "tokens", TOKEN_COLUMNS, &mut client.context).await
}

async fn list_of(login: &str, client: &mut CollectorClient) -> Result<Exit, CliError> {
    pages::whole(&path(login), "tokens", USER_COLUMNS, &mut client.context).await
}

async fn add(login: &str, token: &str, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let body = json!({ "token": token }).to_string().into_bytes();
    let added = client.ask(Request::put(path(login), body)).await?;
    let hash = text(&added, "/token").to_owned();
    let lines = [format!("token {hash} of {login} is stored, sealed")];
    client.context.out.answer(&added, &lines)?;
    Ok(Exit::Ok)
}

async fn remove(login: &str, token: &str, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let path = format!("{}/{}", path(login), segment(token));
    let left = client.ask(Request::delete(path)).await?;
    let lines = [format!("token {token} of {login} is removed")];
    client.context.out.answer(&left, &lines)?;
    Ok(Exit::Ok)
}

/// Fails if the user has tokens and none of them can be used: waiting would never end. False: the
/// user has no tokens.
pub(super) async fn fail_if_refused(
    login: &str,
    client: &mut CollectorClient,
) -> Result<bool, CliError> {
    let tokens = client.get(path(login)).await?;
    let tokens = tokens.pointer("/tokens").and_then(Value::as_array);
    let tokens = tokens.map(Vec::as_slice).unwrap_or_default();
    let is_lost = |token: &Value| matches!(text(token, "/state"), "refused" | "unreadable");
    if tokens.is_empty() || !tokens.iter().all(is_lost) {
        return Ok(!tokens.is_empty());
    }
    let name = |token: &Value| format!("{} is {}", text(token, "/token"), text(token, "/state"));
    let names: Vec<String> = tokens.iter().map(name).collect();
    Err(CliError::failed(format!(
        "no token of {login} can be used ({}): store a valid one with `clinch github tokens add \
         {login}`; the run goes on then",
        names.join(", ")
    )))
}
