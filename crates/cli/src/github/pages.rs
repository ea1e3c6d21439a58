//! The collector's pages in the console: runs, their jobs, who waits for what, and budgets.

use std::time::Duration;

use async_trait::async_trait;
use clinch::types::Timestamp;
use clinch::{Error, Result};
use clinch_core::ErrorKind;
use clinch_github::{
    Collector, DOMAIN, Job, JobFilter, JobState, Overview, Progress, Run, RunId, RunStatus, Space,
    TokenView, WaitingJobs,
};
use clinch_server::{Panel, PanelAction, PanelCell, PanelMark, PanelPage, PanelSection};

/// Runs that the first page shows.
const RUNS: usize = 50;
/// Jobs of one kind that the page of a run shows.
const JOBS: usize = 100;

/// The collector as pages.
pub(crate) struct Pages(pub(crate) Collector);

/// `2026-11-18 03:04:05`
fn time(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or(jiff::Timestamp::MAX);
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn maybe(at: Option<Timestamp>) -> PanelCell {
    PanelCell::text(at.map(time).unwrap_or_default())
}

fn status(run: &Run) -> PanelCell {
    let mark = match run.status {
        RunStatus::Completed if run.jobs.failed == 0 => PanelMark::Good,
        RunStatus::Completed | RunStatus::Canceled => PanelMark::Waiting,
        RunStatus::Failed => PanelMark::Bad,
        _ => PanelMark::Running,
    };
    PanelCell::mark(run.status.as_str(), mark)
}

fn run_row(run: &Run) -> Vec<PanelCell> {
    let id = run.run_id.to_string();
    vec![
        status(run),
        PanelCell::link(id.clone(), format!("/apps/{DOMAIN}/runs/{id}")),
        PanelCell::text(run.jobs.total.to_string()),
        PanelCell::text(run.jobs.succeeded.to_string()),
        PanelCell::text(run.jobs.failed.to_string()),
        PanelCell::text(run.jobs.unavailable.to_string()),
        PanelCell::text(run.jobs.open().to_string()),
        maybe(Some(run.created_at)),
        maybe(run.completed_at),
        PanelCell::text(run.error.clone().unwrap_or_default()),
    ]
}

fn token_row(token: &TokenView) -> Vec<PanelCell> {
    let (state, mark) = match (token.refused, token.blocked_until) {
        (true, _) => ("refused", PanelMark::Bad),
        (false, Some(_)) => ("blocked", PanelMark::Waiting),
        (false, None) => ("usable", PanelMark::Good),
    };
    let budget = token.budget.as_ref();
    let left = budget.map(|one| format!("{} of {}", one.remaining, one.limit));
    vec![
        PanelCell::mark(state, mark),
        PanelCell::text(token.token.clone()),
        PanelCell::text(token.account.clone().unwrap_or_default()),
        PanelCell::text(left.unwrap_or_default()),
        maybe(budget.map(|one| one.reset_at)),
        maybe(token.blocked_until),
    ]
}

fn job_row(job: &Job) -> Vec<PanelCell> {
    vec![
        PanelCell::text(job.kind.as_str()),
        PanelCell::link(job.op_id.to_string(), format!("/operations/{}", job.op_id)),
        PanelCell::text(job.run.clone().unwrap_or_default()),
        PanelCell::text(job.resource.clone()),
        PanelCell::text(job.page.clone()),
        PanelCell::text(job.attempts.to_string()),
        maybe(job.not_before),
        PanelCell::text(job.error.clone().unwrap_or_default()),
    ]
}

fn jobs_section(title: &str, jobs: &[Job], empty: &'static str) -> PanelSection {
    PanelSection {
        title: title.to_owned(),
        columns: vec![
            "Kind",
            "Operation",
            "Run",
            "Resource",
            "Page",
            "Attempts",
            "Not before",
            "Error, or what it waits for",
        ],
        rows: jobs.iter().map(job_row).collect(),
        empty,
    }
}

fn waiting_row(waiting: &WaitingJobs) -> Vec<PanelCell> {
    let run = waiting.run.clone().unwrap_or_default();
    let first = &waiting.first;
    vec![
        PanelCell::link(run.clone(), format!("/apps/{DOMAIN}/runs/{run}")),
        PanelCell::text(waiting.jobs.to_string()),
        maybe(waiting.next_at),
        PanelCell::text(waiting.waits_for.clone().unwrap_or_default()),
        PanelCell::text(first.resource.clone()),
        PanelCell::link(
            first.op_id.to_string(),
            format!("/operations/{}", first.op_id),
        ),
    ]
}

fn waiting_section(overview: &Overview) -> PanelSection {
    let newest = if overview.is_cut_of_waiting {
        ", the newest jobs"
    } else {
        ""
    };
    PanelSection {
        title: format!("Jobs that wait, and until when the first waits{newest}"),
        columns: vec![
            "Run",
            "Jobs",
            "Until",
            "What they wait for",
            "The first",
            "Operation",
        ],
        rows: overview.waiting.iter().map(waiting_row).collect(),
        empty: "No job waits.",
    }
}

/// How many jobs of a run wait, until when and for what, as a sentence.
fn waits(progress: &Progress) -> String {
    let next = progress.next_at.map(time);
    let until = next.map(|at| format!(", the first until {at}"));
    let reason = progress.waits_for.as_deref().unwrap_or_default();
    let reason = match reason {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    match progress.waiting {
        0 if reason.is_empty() => String::new(),
        0 => format!(" It waits{reason}."),
        many => format!(" {many} jobs wait{}{reason}.", until.unwrap_or_default()),
    }
}

/// The runs of the last day, as a sentence.
fn day(overview: &Overview) -> String {
    if overview.runs.is_empty() {
        return String::new();
    }
    let count = |(status, count): (&&str, &u64)| format!("{count} {status}");
    let counts: Vec<String> = overview.runs.iter().map(count).collect();
    let more = match overview.is_cut_of_runs {
        true => ", of the newest 10,000",
        false => "",
    };
    format!(" In the last day: {}{more}.", counts.join(", "))
}

fn seconds(time: Duration) -> PanelCell {
    PanelCell::text(format!("{:.1} s", time.as_secs_f64()))
}

/// The last hour over all runs: failures and times by kind, attempts, who waits and who hangs.
fn overview_sections(overview: &Overview) -> Vec<PanelSection> {
    let newest = if overview.is_cut {
        ", the newest jobs"
    } else {
        ""
    };
    let kinds = overview.kinds.iter().map(|(kind, ended)| {
        let total = ended.succeeded + ended.failed + ended.unavailable;
        let share = ended.failed as f64 * 100.0 / total.max(1) as f64;
        vec![
            PanelCell::text(kind.as_str()),
            PanelCell::text(ended.succeeded.to_string()),
            PanelCell::text(format!("{} ({share:.0} %)", ended.failed)),
            PanelCell::text(ended.unavailable.to_string()),
            seconds(ended.average()),
            seconds(ended.longest),
        ]
    });
    let attempts = overview.attempts.iter().map(|(attempts, jobs)| {
        let cells = [attempts.to_string(), jobs.to_string()];
        cells.map(PanelCell::text).to_vec()
    });
    vec![
        PanelSection {
            title: format!("Jobs of the last hour{newest}"),
            columns: vec![
                "Kind",
                "Succeeded",
                "Failed",
                "Unavailable",
                "Average time",
                "Longest",
            ],
            rows: kinds.collect(),
            empty: "No job has ended.",
        },
        PanelSection {
            title: format!("Attempts of these jobs{newest}"),
            columns: vec!["Attempts", "Jobs"],
            rows: attempts.collect(),
            empty: "No job has ended.",
        },
        waiting_section(overview),
        jobs_section(
            "Attempts that run for more than ten minutes",
            &overview.stuck,
            "None. Lost attempts are recovered by themselves.",
        ),
    ]
}

impl Pages {
    async fn runs(&self) -> Result<PanelPage> {
        let (runs, _) = self.0.runs(None, RUNS).await?;
        let tokens = self.0.tokens().await?;
        let overview = self.0.overview().await?;
        let active = runs.iter().filter(|run| !run.status.is_terminal()).count();
        let lead = match active {
            0 => "No run is active.".to_owned(),
            1 => "One run is active.".to_owned(),
            many => format!("{many} runs are active."),
        };
        let switch = self.0.switch().await?;
        let live = match (&switch.way_back, switch.live) {
            (Some(back), _) => format!(
                " The collector went back to its real documents at {}: {}.",
                time(back.at),
                back.reason
            ),
            (None, Space::Shadow) => " The shadow is live.".to_owned(),
            (None, Space::Main) => String::new(),
        };
        let runs = PanelSection {
            title: format!("The newest {RUNS} runs"),
            columns: vec![
                "Status",
                "Run",
                "Jobs",
                "Succeeded",
                "Failed",
                "Unavailable",
                "Open",
                "Began",
                "Ended",
                "Error",
            ],
            rows: runs.iter().map(run_row).collect(),
            empty: "No run yet. Begin one with: clinch github run LOGIN",
        };
        let tokens = PanelSection {
            title: "Tokens and their budgets".to_owned(),
            columns: vec![
                "State",
                "Token",
                "Account",
                "Left",
                "Resets",
                "Blocked until",
            ],
            rows: tokens.iter().map(token_row).collect(),
            empty: "No token: requests are anonymous, 60 an hour.",
        };
        let mut sections = vec![runs, tokens];
        sections.extend(overview_sections(&overview));
        Ok(PanelPage {
            title: "Runs".to_owned(),
            lead: format!("{lead}{}{live}", day(&overview)),
            actions: Vec::new(),
            sections,
        })
    }

    async fn of_state(&self, id: &RunId, state: JobState) -> Result<Vec<Job>> {
        let filter = JobFilter {
            state: Some(state),
            ..JobFilter::default()
        };
        Ok(self.0.jobs(id, &filter, None, JOBS).await?.0)
    }

    async fn run(&self, id: &RunId) -> Result<PanelPage> {
        let progress = self.0.progress(id).await?;
        let run = &progress.run;
        let kinds = progress.kinds.iter().map(|(kind, jobs)| {
            let share = jobs.failed as f64 * 100.0 / jobs.total.max(1) as f64;
            vec![
                PanelCell::text(kind.as_str()),
                PanelCell::text(jobs.total.to_string()),
                PanelCell::text(jobs.succeeded.to_string()),
                PanelCell::text(format!("{} ({share:.0} %)", jobs.failed)),
                PanelCell::text(jobs.unavailable.to_string()),
                PanelCell::text(jobs.open().to_string()),
            ]
        });
        let kinds = PanelSection {
            title: "Jobs by kind".to_owned(),
            columns: vec!["Kind", "Jobs", "Succeeded", "Failed", "Unavailable", "Open"],
            rows: kinds.collect(),
            empty: "No job yet.",
        };
        let failed = self.of_state(id, JobState::Failed).await?;
        let ready = self.of_state(id, JobState::Ready).await?;
        let running = self.of_state(id, JobState::Running).await?;
        let waiting = waits(&progress);
        let error = run.error.as_ref().map(|error| format!(" {error}."));
        Ok(PanelPage {
            title: format!("Run {}", run.run_id),
            lead: format!(
                "{}: {} of {} jobs succeeded, {} failed, {} unavailable, {} documents.{waiting}{}",
                run.status.as_str(),
                run.jobs.succeeded,
                run.jobs.total,
                run.jobs.failed,
                run.jobs.unavailable,
                run.pages.documents,
                error.unwrap_or_default()
            ),
            actions: actions(run),
            sections: vec![
                kinds,
                jobs_section("Waiting jobs, and until when", &ready, "No job waits."),
                jobs_section("Running jobs", &running, "No job is running."),
                jobs_section("Failed jobs", &failed, "No job failed."),
                unavailable_section(run),
            ],
        })
    }
}

fn unavailable_section(run: &Run) -> PanelSection {
    let rows = run.unavailable.iter().map(|one| {
        let cells = [one.resource.clone(), one.reason.clone()];
        cells.map(PanelCell::text).to_vec()
    });
    PanelSection {
        title: "Unavailable resources: gone, blocked or empty".to_owned(),
        columns: vec!["Resource", "Answer of the API"],
        rows: rows.collect(),
        empty: "Every resource is available.",
    }
}

fn actions(run: &Run) -> Vec<PanelAction> {
    let cancel = PanelAction {
        name: "cancel",
        title: "Cancel the run",
        what: "Its open jobs are canceled. What was stored stays.",
    };
    let retry = PanelAction {
        name: "retry",
        title: "Retry failed jobs",
        what: "Every failed job is made again.",
    };
    let can_cancel = !run.status.is_terminal();
    let can_retry = run.status.is_terminal() && run.jobs.failed > 0;
    let cancel = can_cancel.then_some(cancel);
    cancel
        .into_iter()
        .chain(can_retry.then_some(retry))
        .collect()
}

/// The run that a path names.
fn run_of(path: &str) -> Result<RunId> {
    let missing = || Error::new(ErrorKind::NotFound, "there is nothing at this path");
    let name = path.strip_prefix("runs/").ok_or_else(missing)?;
    name.parse().map_err(|_| missing())
}

#[async_trait]
impl Panel for Pages {
    fn title(&self) -> &str {
        "Runs"
    }

    async fn page(&self, path: &str) -> Result<PanelPage> {
        match path {
            "" => self.runs().await,
            _ => self.run(&run_of(path)?).await,
        }
    }

    async fn act(&self, path: &str, action: &str, reason: &str) -> Result<()> {
        let id = run_of(path)?;
        match action {
            "cancel" => self.0.cancel(&id, reason).await.map(|_| ()),
            "retry" => self.0.retry(&id).await.map(|_| ()),
            _ => Err(Error::new(ErrorKind::Invalid, "there is no such action")),
        }
    }
}
