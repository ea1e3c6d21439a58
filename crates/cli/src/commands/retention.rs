//! `clinch retention`.

use crate::client::Request;
use crate::context::Context;
use crate::error::{CliError, note};
use crate::exit::Exit;

const SHOW_EXAMPLES: &str = "\
Examples:
  clinch retention show
  clinch retention show -o json";

const CONFIRM_EXAMPLES: &str = "\
Examples:
  clinch retention confirm

After a jump of the store's clock (a wrong clock, or a long time off) nothing is pruned, so that
no key is forgotten by mistake. Confirm only once the clock is right: data that is older than its
retention by that clock is deleted permanently.";

const FIELDS: &[&str] = &["now", "seen_at", "held_back", "ahead_ms"];

/// Subcommands for the deletion of old data.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show the time that the deletion of old data goes by
    #[command(after_help = SHOW_EXAMPLES)]
    Show,
    /// Confirm the store's clock after a jump, so that pruning continues
    #[command(after_help = CONFIRM_EXAMPLES)]
    Confirm,
}

pub(crate) async fn run(command: Command, context: &mut Context) -> Result<Exit, CliError> {
    let request = match command {
        Command::Show => Request::get("/v1/retention"),
        Command::Confirm => Request::post("/v1/retention/confirm", b"{}".to_vec()),
    };
    let answer = context.client.send(request).await?;
    context.out.document(&answer.document, FIELDS)?;
    if matches!(command, Command::Confirm) {
        note("retention goes by the store's clock from now on");
    }
    Ok(Exit::Ok)
}
