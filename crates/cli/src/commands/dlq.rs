//! `clinch dlq`.

pub(crate) mod import;
mod ls;
mod redrive;
mod show;

use super::filter::Names;
use crate::context::Context;
use crate::duration::Moment;
use crate::error::CliError;
use crate::exit::Exit;

/// Which dead letters: the query of their list as flags.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Letters {
    #[command(flatten)]
    names: Names,
    /// That failed with this code
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Of this kind, as `clinch dlq ls --group` shows it
    #[arg(long, value_name = "HEX")]
    fingerprint: Option<String>,
    /// Failed at or after: RFC 3339, or so long ago (1h)
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    from: Option<Moment>,
    /// Failed before: RFC 3339, or so long ago
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    to: Option<Moment>,
}

impl Letters {
    /// As names and values of the query.
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

    /// It names everything.
    fn is_empty(&self) -> bool {
        self.pairs().is_empty()
    }
}

/// What to do with dead letters.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List dead letters, or with --group their kinds
    Ls(ls::Args),
    /// Show one dead letter
    Show(show::Args),
    /// Make new operations of dead letters
    Redrive(redrive::Args),
    /// Read the backup file of the safety net back into the database
    Import(import::Args),
}

/// Runs it.
pub(crate) async fn run(command: Command, context: &mut Context) -> Result<Exit, CliError> {
    match command {
        Command::Ls(args) => ls::run(args, context).await,
        Command::Show(args) => show::run(args, context).await,
        Command::Redrive(args) => redrive::run(args, context).await,
        Command::Import(_) => Err(CliError::usage(
            "this works on the database, not on a server",
        )),
    }
}
