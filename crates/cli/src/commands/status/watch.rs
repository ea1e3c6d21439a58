//! `clinch status --watch`: draws the overview again when something changed.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::Overview;
use crate::client::Events;
use crate::clock::{self, Budget};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};

/// The shortest time between two updates.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest: ages and breakers change without an event.
const LONGEST: Duration = Duration::from_secs(10);

/// Enters the terminal's second screen and hides the cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// Shows the cursor and returns to the first screen, as it was.
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";
/// Moves to the upper left corner and clears the screen.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

pub(super) async fn run(context: &mut Context) -> Result<Exit, CliError> {
    let is_drawn = context.out.format == Format::Table;
    if is_drawn && !context.out.is_terminal() {
        let message = "--watch draws on a terminal; in a pipe use `-o jsonl`";
        return Err(CliError::usage(message));
    }
    if context.out.format == Format::Json {
        return Err(CliError::usage(
            "--watch prints many documents: use `-o jsonl`",
        ));
    }
    // The first answer decides whether there is anything to watch: an error must stay readable.
    let first = Overview::get(context).await?;
    if is_drawn {
        context.out.raw(ENTER)?;
    }
    let failed = |error| CliError::failed(format!("cannot listen for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut exit = first.exit();
    let ended = tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = terminate.recv() => Ok(()),
        ended = updates(first, &mut exit, context) => ended,
    };
    if is_drawn {
        context.out.raw(LEAVE)?;
        context.out.flush()?;
    }
    ended.map(|()| exit)
}

/// Never returns without an error.
async fn updates(first: Overview, exit: &mut Exit, context: &mut Context) -> Result<(), CliError> {
    show(&first, &mut context.out)?;
    let mut events: Option<Events> = None;
    loop {
        let last = Budget::start(None);
        wait(&mut events, context).await;
        clock::pause(SHORTEST.saturating_sub(last.spent())).await;
        match Overview::get(context).await {
            Ok(overview) => {
                *exit = overview.exit();
                show(&overview, &mut context.out)?;
            }
            Err(error) if error.is_transient() => {
                *exit = Exit::Failed;
                events = None;
                tell(&error, &mut context.out)?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Waits for new counters, at most [`LONGEST`].
async fn wait(events: &mut Option<Events>, context: &mut Context) {
    if events.is_none() {
        // Without events the overview is read every few seconds.
        *events = context.client.events("/v1/events").await.ok();
    }
    let Some(stream) = events else {
        return clock::pause(SHORTEST).await;
    };
    let counters = async {
        loop {
            match stream.next().await {
                Ok(event) if matches!(event.name.as_str(), "counters" | "lagged") => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    };
    let is_open = tokio::select! {
        is_open = counters => is_open,
        () = clock::pause(LONGEST) => true,
    };
    if !is_open {
        *events = None;
    }
}

fn show(overview: &Overview, out: &mut Output) -> Result<(), CliError> {
    if out.format == Format::Table {
        out.raw(CLEAR)?;
    }
    overview.print(out)?;
    out.flush()
}

/// Says on the first line that the server does not answer; the rest stays as it was.
fn tell(error: &CliError, out: &mut Output) -> Result<(), CliError> {
    if out.format == Format::Table {
        let width = out.width().unwrap_or(80);
        let text = crate::output::text::plain(&error.to_string()).into_owned();
        let line = crate::output::text::cut(&text, width);
        out.raw(format!("\x1b[H\x1b[2K{line}").as_bytes())?;
    }
    out.flush()
}
