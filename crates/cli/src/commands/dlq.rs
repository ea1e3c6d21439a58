//! `clinch dlq`.

mod dismiss;
pub(crate) mod import;
mod ls;
mod redrive;
mod show;
mod work;

use super::filter::KeyFilter;
use crate::context::Context;
use crate::duration::Moment;
use crate::error::CliError;
use crate::exit::Exit;

/// Filter for dead letters: the query parameters of their list as flags.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct DeadLetterFilter {
    #[command(flatten)]
    names: KeyFilter,
    /// Only failures with this code
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Only this kind of error, as `clinch dlq ls --group` shows it
    #[arg(long, value_name = "HEX")]
    fingerprint: Option<String>,
    /// Failed at or after: RFC 3339, or a time ago (1h)
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    from: Option<Moment>,
    /// Failed before: RFC 3339, or a time ago
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    to: Option<Moment>,
}

impl DeadLetterFilter {
    /// Names and values of the query.
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = self.names.pairs();
        let code = self.code.clone().map(|code| ("code", code));
        let print = self.fingerprint.clone();
        let print = print.map(|print| ("fingerprint", print));
        let from = self.from.map(|moment| ("from", moment.ago().to_string()));
        let to = self.to.map(|moment| ("to", moment.ago().to_string()));
        pairs.extend([code, print, from, to].into_iter().flatten());
        pairs
    }

    fn domain(&self) -> Option<&str> {
        self.names.domain()
    }

    /// Whether the filter matches every dead letter.
    fn is_empty(&self) -> bool {
        self.pairs().is_empty()
    }
}

/// Subcommands for dead letters.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List open dead letters, or with --group their kinds of error
    Ls(ls::Args),
    /// Show one dead letter
    Show(show::Args),
    /// Create new operations for dead letters
    Redrive(redrive::Args),
    /// Close dead letters that need no more work
    Dismiss(dismiss::Args),
    /// Open dismissed dead letters again
    Reopen(dismiss::Args),
    /// Read the safety net's backup file back into the database
    Import(import::Args),
}

pub(crate) async fn run(command: Command, context: &mut Context) -> Result<Exit, CliError> {
    match command {
        Command::Ls(args) => ls::run(args, context).await,
        Command::Show(args) => show::run(args, context).await,
        Command::Redrive(args) => redrive::run(args, context).await,
        Command::Dismiss(args) => dismiss::dismiss(args, context).await,
        Command::Reopen(args) => dismiss::reopen(args, context).await,
        Command::Import(_) => Err(CliError::usage(
            "this command works on the database, not on a server",
        )),
    }
}
