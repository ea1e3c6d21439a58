//! `clinch github tap`: the documents as Singer messages on standard output.
//!
//! A stream is a kind of documents. The state of a stream is a fingerprint of the documents that
//! were sent ([`fingerprint`]), written only when the stream has been sent to its end. A bookmark by
//! `updated_at` would lose documents: the collector reads them in no order of time, a failed page is
//! collected later than its newer neighbours, and some changes at GitHub leave `updated_at` as it
//! is.

mod catalog;
mod fingerprint;
mod messages;
mod rows;
mod settings;
mod state;

use std::path::PathBuf;

use super::collector_client::CollectorClient;
use super::documents::Documents;
use super::export::kinds;
use crate::args::Global;
use crate::clock;
use crate::error::CliError;
use crate::exit::Exit;

use catalog::Selection;
use fingerprint::{Fingerprint, Parts};
use rows::{Row, Rows};
use settings::Settings;
use state::State;

/// Records between two STATE messages.
const STATE_EVERY: u64 = 1_000;

const EXAMPLES: &str = "\
Examples:
  clinch github tap --login octocat | target-jsonl
  clinch github tap --login octocat --kind issue,pull_request --state state.json
  clinch github tap --discover > catalog.json

Messages of the Singer specification, one JSON line each, for any Singer target; standard error has
everything else. Each kind of documents is a stream with typed columns; _id is its key.

--state takes the last STATE that a target printed. Then only what was added or changed since is
sent, together with some of its unchanged neighbours; nothing is left out, whatever its time. An
interrupted stream is sent again from its beginning.

Of a document that is gone at GitHub, a record has the time in _sdc_deleted_at: targets with the
setting hard_delete remove such rows, others keep them with that mark.

--catalog is the output of --discover in which streams or columns are selected. --config may name
Clinch's own configuration, or a JSON file with \"login\", \"kinds\", \"document\" and \"shadow\", as
Meltano passes it; then CLINCH_CONFIG or ./clinch.toml is Clinch's own.

Exit 0 everything was sent, 1 failed, 2 wrong usage, 3 there is no run of this user.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only documents of this user
    #[arg(long, value_name = "LOGIN")]
    login: Option<String>,
    /// Only these kinds
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',', value_parser = kinds())]
    kinds: Vec<String>,
    /// Send only what changed since this state
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Send only what this catalog selects
    #[arg(long, value_name = "FILE", alias = "properties")]
    catalog: Option<PathBuf>,
    /// Print the catalog of all streams
    #[arg(long)]
    discover: bool,
    /// Add the whole document to each record
    #[arg(long)]
    document: bool,
    /// Send the documents of shadow runs
    #[arg(long)]
    shadow: bool,
}

/// Prints the catalog, or sends every selected stream.
pub(crate) async fn start(args: &Args, mut global: Global) -> Result<Exit, CliError> {
    let settings = Settings::read(args, &mut global)?;
    if args.discover {
        crate::output::print(&format!("{:#}\n", catalog::of(&settings.selections)))?;
        return Ok(Exit::Ok);
    }
    super::reading(global, async |client| run(settings, client).await).await
}

async fn run(settings: Settings, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let mut tap = Tap {
        login: settings.login,
        shadow: settings.shadow,
        state: settings.state,
        sent: 0,
    };
    for selection in &settings.selections {
        tap.stream(selection, client).await?;
    }
    // Targets keep the last state that they see.
    tap.send_state(client)?;
    let (sent, streams) = (tap.sent, settings.selections.len());
    client.note(&format!("{sent} records of {streams} streams"));
    Ok(Exit::Ok)
}

struct Tap {
    login: Option<String>,
    shadow: bool,
    state: State,
    /// Records so far.
    sent: u64,
}

impl Tap {
    /// The documents of a kind, and those that are gone.
    fn rows(&self, kind: &str) -> Rows {
        let documents = || Documents::new(self.login.as_deref(), Some(kind), self.shadow);
        Rows::new(documents(), documents())
    }

    /// Sends a stream. Its bookmark changes when all of it was sent.
    async fn stream(
        &mut self,
        selection: &Selection,
        client: &mut CollectorClient,
    ) -> Result<(), CliError> {
        let kind = selection.stream.kind;
        client.context.out.line(&messages::schema(selection))?;
        let mut known = Fingerprint::new(&selection.columns);
        let changed = match self.state.bookmark(kind) {
            Some(before) => {
                let mut rows = self.rows(kind);
                while let Some(row) = rows.next(client).await? {
                    known.add(&row.line.envelope(), row.is_gone);
                }
                known.changed(&before)
            }
            None => Parts::all(),
        };
        known.forget(&changed);
        if !changed.is_empty() {
            let mut rows = self.rows(kind);
            while let Some(row) = rows.next(client).await? {
                self.row(selection, &row, &changed, &mut known, client)?;
            }
        }
        self.state.set_bookmark(kind, known.bookmark());
        self.send_state(client)
    }

    /// Sends a document that is in a changed part, and takes it into `known`.
    fn row(
        &mut self,
        selection: &Selection,
        row: &Row,
        changed: &Parts,
        known: &mut Fingerprint,
        client: &mut CollectorClient,
    ) -> Result<(), CliError> {
        let envelope = row.line.envelope();
        if !changed.has(envelope.id) {
            return Ok(());
        }
        let record = messages::record(selection, &envelope, row.is_gone, clock::now());
        client.context.out.line(&record)?;
        known.add(&envelope, row.is_gone);
        self.sent += 1;
        match self.sent.is_multiple_of(STATE_EVERY) {
            true => self.send_state(client),
            false => Ok(()),
        }
    }

    fn send_state(&self, client: &mut CollectorClient) -> Result<(), CliError> {
        client.context.out.line(&messages::state(&self.state))?;
        client.context.out.flush()
    }
}
