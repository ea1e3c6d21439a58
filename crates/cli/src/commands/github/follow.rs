//! Waiting for a run to end.

use std::time::Duration;

use serde_json::Value;

use super::desk::Desk;
use super::summary;
use crate::client::segment;
use crate::clock::{self, Budget};
use crate::duration;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::progress;

/// Between two looks; a look that takes long makes the pause longer.
const PAUSE: Duration = Duration::from_millis(300);
/// A look may take this share of the time.
const SHARE: u32 = 10;
/// What waits for longer is worth a word.
const SOON: Duration = Duration::from_secs(5);

/// Whether to wait for the end, and for how long.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Wait {
    /// Wait for the end, at most so long if a time is given (--wait=10m)
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true,
          value_parser = duration::parse)]
    wait: Option<Option<Duration>>,
}

impl Wait {
    pub(crate) fn is_wanted(&self) -> bool {
        self.wait.is_some()
    }

    fn budget(&self) -> Budget {
        Budget::start(self.wait.flatten())
    }
}

/// How a wait ended.
pub(crate) enum Ended {
    /// All of them have ended: their documents, in order.
    Runs(Vec<Value>),
    /// The time was up, or somebody interrupted.
    Early,
}

/// Waits until runs have ended.
pub(crate) async fn runs(runs: &[String], wait: &Wait, desk: &mut Desk) -> Result<Ended, CliError> {
    watch(runs, wait, desk, |run| {
        let status = text(run, "/status");
        matches!(status, "COMPLETED" | "FAILED" | "CANCELED")
    })
    .await
}

/// Waits until the last repair of a run has ended, and says how.
pub(crate) async fn repair(run: &str, wait: &Wait, desk: &mut Desk) -> Result<Exit, CliError> {
    let repair = |run: &Value| {
        let repairs = run.pointer("/repairs").and_then(Value::as_array);
        repairs.and_then(|repairs| repairs.last().cloned())
    };
    let is_over = |run: &Value| repair(run).is_some_and(|one| one["completed_at"].is_string());
    let ended = watch(&[run.to_owned()], wait, desk, is_over).await?;
    let Ended::Runs(ended) = ended else {
        return Ok(Exit::Unsettled);
    };
    let document = ended.into_iter().next().unwrap_or_default();
    let failed = repair(&document).map_or(0, |one| number(&one, "/jobs/failed"));
    summary::print_run(&document, desk)?;
    Ok(match failed {
        0 => Exit::Ok,
        _ => Exit::Failed,
    })
}

async fn watch(
    runs: &[String],
    wait: &Wait,
    desk: &mut Desk,
    is_over: impl Fn(&Value) -> bool,
) -> Result<Ended, CliError> {
    let budget = wait.budget();
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let mut said = Said::default();
    loop {
        let look = Budget::start(None);
        let mut documents = Vec::with_capacity(runs.len());
        for run in runs {
            let path = format!("/v1/github/runs/{}", segment(run));
            documents.push(desk.get(path).await?);
        }
        if documents.iter().all(&is_over) {
            progress::line("");
            return Ok(Ended::Runs(documents));
        }
        said.show(&documents, desk).await?;
        let pause = PAUSE.max(look.spent() * SHARE);
        let left = budget.left(pause);
        if left.is_zero() {
            progress::line("");
            note(&format!("not settled in time; {}", goes_on(runs, desk)));
            return Ok(Ended::Early);
        }
        tokio::select! {
            _ = &mut interrupted => {
                progress::line("");
                note(&format!("interrupted; {}", goes_on(runs, desk)));
                return Ok(Ended::Early);
            }
            () = clock::pause(left) => {}
        }
    }
}

fn goes_on(runs: &[String], desk: &Desk) -> String {
    let names = runs.join(", ");
    match (
        desk.is_here(),
        runs.first().and_then(|run| run.split('.').next()),
    ) {
        (true, Some(login)) => {
            format!("{names} goes on with the next `clinch github run {login}`")
        }
        _ => format!("{names} goes on; look with `clinch github status`"),
    }
}

/// What was said already.
#[derive(Default)]
struct Said {
    waits_until: Option<String>,
}

impl Said {
    async fn show(&mut self, documents: &[Value], desk: &mut Desk) -> Result<(), CliError> {
        let sum = |pointer: &str| -> u64 { documents.iter().map(|one| number(one, pointer)).sum() };
        let (total, open, waiting) = (sum("/jobs/total"), sum("/jobs/open"), sum("/waiting"));
        progress::line(&format!(
            "jobs {} of {total}   failed {}   waiting {waiting}",
            total - open.min(total),
            sum("/jobs/failed"),
        ));
        if waiting == 0 || waiting < open {
            return Ok(());
        }
        refuse_refused(desk).await?;
        let next = documents.iter().map(|one| text(one, "/next_at"));
        let next = next.filter(|at| !at.is_empty()).min().unwrap_or_default();
        let is_far = next
            .parse::<jiff::Timestamp>()
            .is_ok_and(|at| at > clock::after(SOON));
        if is_far && self.waits_until.as_deref() != Some(next) {
            progress::line("");
            note(&format!(
                "all {waiting} open jobs wait until {next} or later"
            ));
            self.waits_until = Some(next.to_owned());
        }
        Ok(())
    }
}

/// Nothing will ever come of tokens that the API does not know: say so instead of waiting.
async fn refuse_refused(desk: &mut Desk) -> Result<(), CliError> {
    let tokens = desk.get("/v1/github/tokens").await?;
    let tokens = tokens.pointer("/tokens").and_then(Value::as_array);
    let tokens = tokens.map(Vec::as_slice).unwrap_or_default();
    let are_refused = tokens.iter().all(|token| token["refused"] == true);
    if tokens.is_empty() || !are_refused {
        return Ok(());
    }
    progress::line("");
    let names: Vec<&str> = tokens.iter().map(|token| text(token, "/token")).collect();
    Err(CliError::failed(format!(
        "the API refuses every token ({}): put a valid one in github.tokens; the run goes on then",
        names.join(", ")
    )))
}

/// Text of a document; nothing where there is none.
pub(crate) fn text<'v>(document: &'v Value, pointer: &str) -> &'v str {
    let found = document.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// A number of a document.
pub(crate) fn number(document: &Value, pointer: &str) -> u64 {
    let found = document.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or(0)
}
