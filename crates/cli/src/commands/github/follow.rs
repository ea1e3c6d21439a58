//! Waits for a run to end.

use std::time::Duration;

use serde_json::Value;

use super::collector_client::CollectorClient;
use super::pace::Pace;
use super::{summary, tokens};
use crate::client::segment;
use crate::clock::{self, Budget};
use crate::duration;
use crate::error::{CliError, note};
use crate::exit::Exit;
use crate::output::text::plain;
use crate::progress;

/// Minimum pause between two reads; slow reads make it longer.
const PAUSE: Duration = Duration::from_millis(300);
/// The pause is at least this many times the duration of a read.
const PAUSE_FACTOR: u32 = 10;
/// A longer wait of all jobs is reported.
const REPORT_AFTER: Duration = Duration::from_secs(5);
/// Without a terminal the progress is a line of its own this often.
const PLAIN_EVERY: Duration = Duration::from_secs(30);

/// Whether to wait for the end, and for how long.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Wait {
    /// Wait for the end; with a time, at most this long (--wait=10m)
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
    /// All runs have ended: their documents, in order.
    Runs(Vec<Value>),
    /// The time was up, or the user interrupted.
    Early,
}

/// Waits until runs have ended.
pub(crate) async fn runs(
    runs: &[String],
    wait: &Wait,
    client: &mut CollectorClient,
) -> Result<Ended, CliError> {
    watch(runs, wait, client, |run| {
        let status = text(run, "/status");
        matches!(status, "COMPLETED" | "FAILED" | "CANCELED")
    })
    .await
}

/// Waits until the last repair of a run has ended, and prints its result.
pub(crate) async fn repair(
    run: &str,
    wait: &Wait,
    client: &mut CollectorClient,
) -> Result<Exit, CliError> {
    let repair = |run: &Value| {
        let repairs = run.pointer("/repairs").and_then(Value::as_array);
        repairs.and_then(|repairs| repairs.last().cloned())
    };
    let is_over = |run: &Value| repair(run).is_some_and(|one| one["completed_at"].is_string());
    let ended = watch(&[run.to_owned()], wait, client, is_over).await?;
    let Ended::Runs(ended) = ended else {
        return Ok(Exit::Unsettled);
    };
    let document = ended.into_iter().next().unwrap_or_default();
    let failed = repair(&document).map_or(0, |one| number(&one, "/jobs/failed"));
    summary::print_run(&document, client)?;
    Ok(match failed {
        0 => Exit::Ok,
        _ => Exit::Failed,
    })
}

async fn watch(
    runs: &[String],
    wait: &Wait,
    client: &mut CollectorClient,
    is_over: impl Fn(&Value) -> bool,
) -> Result<Ended, CliError> {
    let budget = wait.budget();
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let mut printed = Printed::default();
    loop {
        let look = Budget::start(None);
        let mut documents = Vec::with_capacity(runs.len());
        for run in runs {
            let path = format!("/v1/github/runs/{}", segment(run));
            documents.push(client.get(path).await?);
        }
        if documents.iter().all(&is_over) {
            progress::line("");
            return Ok(Ended::Runs(documents));
        }
        printed.show(&documents, client).await?;
        let pause = PAUSE.max(look.spent() * PAUSE_FACTOR);
        let left = budget.left(pause);
        if left.is_zero() {
            progress::line("");
            note(&format!("not settled in time; {}", goes_on(runs, client)));
            return Ok(Ended::Early);
        }
        tokio::select! {
            _ = &mut interrupted => {
                progress::line("");
                note(&format!("interrupted; {}", goes_on(runs, client)));
                return Ok(Ended::Early);
            }
            () = clock::pause(left) => {}
        }
    }
}

fn goes_on(runs: &[String], client: &CollectorClient) -> String {
    let names = runs.join(", ");
    match (client.is_local(), runs) {
        (true, [run]) => {
            let login = run.split('.').next().unwrap_or_default();
            format!("{names} goes on with the next `clinch github run {login}`")
        }
        (true, _) => format!("{names} go on with the next `clinch github run` of their users"),
        (false, _) => format!("{names} goes on; see `clinch github status`"),
    }
}

/// What has been printed already.
pub(crate) struct Printed {
    pace: Pace,
    since: Budget,
    /// When the last plain line was printed.
    plain_at: Duration,
    /// What was said last of a wait of all jobs.
    said_of_wait: Option<String>,
}

impl Default for Printed {
    fn default() -> Self {
        Self {
            pace: Pace::default(),
            since: Budget::start(None),
            plain_at: Duration::ZERO,
            said_of_wait: None,
        }
    }
}

impl Printed {
    /// The progress of the runs as a line.
    pub(crate) fn line(&mut self, documents: &[Value]) -> String {
        self.pace.line(documents, self.since.spent(), clock::now())
    }

    /// Whether it is time for a plain line.
    pub(crate) fn is_plain_due(&mut self) -> bool {
        let spent = self.since.spent();
        let is_due = spent.saturating_sub(self.plain_at) >= PLAIN_EVERY;
        if is_due {
            self.plain_at = spent;
        }
        is_due
    }

    async fn show(
        &mut self,
        documents: &[Value],
        client: &mut CollectorClient,
    ) -> Result<(), CliError> {
        let line = self.line(documents);
        if progress::is_shown() {
            progress::line(&line);
        } else if self.is_plain_due() {
            note(&line);
        }
        let mut open = documents.iter().filter(|one| number(one, "/jobs/open") > 0);
        let waiting: u64 = documents.iter().map(|one| number(one, "/waiting")).sum();
        if waiting == 0 || !open.all(|one| one["all_wait"] == true) {
            return Ok(());
        }
        fail_if_tokens_refused(documents, client).await?;
        let next = documents.iter().map(|one| text(one, "/next_at"));
        let next = next.filter(|at| !at.is_empty()).min().unwrap_or_default();
        let is_far = next
            .parse::<jiff::Timestamp>()
            .is_ok_and(|at| at > clock::after(REPORT_AFTER));
        let mut reasons = documents.iter().map(|one| text(one, "/waits_for"));
        let reason = reasons
            .find(|reason| !reason.is_empty())
            .unwrap_or_default();
        let said = match next {
            // Nothing says until when.
            "" if !reason.is_empty() => Some(format!("open jobs wait: {}", plain(reason))),
            next if is_far => Some(format!("open jobs wait until {next} or later")),
            _ => None,
        };
        if let Some(said) = said.filter(|said| self.said_of_wait.as_ref() != Some(said)) {
            progress::line("");
            note(&format!("all {waiting} {said}"));
            self.said_of_wait = Some(said);
        }
        Ok(())
    }
}

/// Fails if the API refuses every token of a run: waiting would never end.
async fn fail_if_tokens_refused(
    runs: &[Value],
    client: &mut CollectorClient,
) -> Result<(), CliError> {
    let mut all_have_own = !runs.is_empty();
    for login in runs.iter().map(|run| text(run, "/login")) {
        all_have_own &= tokens::fail_if_refused(login, client).await?;
    }
    if all_have_own {
        return Ok(());
    }
    let tokens = client.get("/v1/github/tokens").await?;
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

/// A text in a document; empty if it is missing.
pub(crate) fn text<'v>(document: &'v Value, pointer: &str) -> &'v str {
    let found = document.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// A number in a document.
pub(crate) fn number(document: &Value, pointer: &str) -> u64 {
    let found = document.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or(0)
}
