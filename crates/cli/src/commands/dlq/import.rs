//! `clinch dlq import`: works on the database.

use std::path::PathBuf;

use clinch::Clinch;
use clinch_system::FileJournal;
use serde_json::json;

use crate::args::Global;
use crate::config;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::Output;
use crate::store::{self, StoreConfig};
use crate::store_check;

const EXAMPLES: &str = "\
Examples:
  clinch dlq import clinch-dlq.log

The server writes dead letters that the database did not accept to dead_letter.file. This command
imports them and removes them from the file; importing a dead letter twice has no further effect.
A running server has its own file open: stop it, or import a copy of the file.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file that the server wrote dead letters to, or a copy of it
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Imports the dead letters of the file.
pub(crate) fn run(args: &Args, global: &Global) -> Result<Exit, CliError> {
    let shown = args.file.display().to_string();
    // Opening a journal would create a missing file.
    if !args.file.is_file() {
        return Err(CliError::NotThere(format!("there is no file {shown}")));
    }
    let config = config::load(global, &[])?;
    store_check::say_database(global, &StoreConfig::of(&config)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let imported = runtime.block_on(async {
        let letters = FileJournal::open(&args.file).await?;
        let opened = store::open_database(&config).await?;
        let clinch = Clinch::builder()
            .backend(opened.backend)
            .dead_letter_file(letters)
            .build()?;
        Ok::<_, CliError>(clinch.runtime().import_dead_letters().await?)
    })?;
    let document = json!({
        "file": shown,
        "imported": imported.new,
        "already_there": imported.known,
        "unreadable": imported.unreadable,
    });
    let line = format!(
        "{shown}: {} imported, {} already there, {} unreadable",
        imported.new, imported.known, imported.unreadable
    );
    Output::stdout(global.output, !global.no_color).answer(&document, &[line])?;
    if imported.unreadable == 0 {
        return Ok(Exit::Ok);
    }
    note("keep the file: the unreadable entries, and all entries after them, are still in it");
    Ok(Exit::Failed)
}
