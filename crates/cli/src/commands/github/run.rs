//! `clinch github run`.

use std::sync::Arc;

use clinch_core::ports::Clock;
use clinch_system::SystemClock;
use serde_json::{Value, json};

use super::desk::{self, Desk, Need};
use super::follow::{self, Ended, Wait};
use super::summary::{self, Pages, Report, grouped};
use crate::args::Global;
use crate::client::query;
use crate::commands::serve;
use crate::error::CliError;
use crate::exit::Exit;
use crate::github::{self, FakeHub};

const EXAMPLES: &str = "\
Examples:
  clinch github run octocat
  clinch github run octocat --wait=10m
  clinch github run octocat --shadow
  clinch github run octocat --fake

With a server it begins the run there, and waits for it if asked to. Without one it collects by
itself on the configured store (clinch.db in the working folder by default); interrupted, the
run goes on with the next call. --fake collects a made-up GitHub on a port of this machine, all
of its users, and checks every document; use a folder of its own for it.

Exit 0 completed, 1 failed or with failed jobs, 4 a run of the user is active, 5 not settled in
time.";

/// Whom to collect, and how.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The user
    login: String,
    #[command(flatten)]
    wait: Wait,
    /// From the beginning into a shadow that is compared with the real documents
    #[arg(long)]
    shadow: bool,
    /// Collect a made-up GitHub instead of the real one
    #[arg(long)]
    fake: bool,
    /// Varies the made-up GitHub
    #[arg(long, value_name = "N", default_value_t = 1, requires = "fake")]
    seed: u64,
}

impl Args {
    pub(crate) fn is_fake(&self) -> bool {
        self.fake
    }
}

/// Begins a run; waits for it if asked to, or if nobody else would work on it.
pub(crate) async fn run(args: &Args, desk: &mut Desk) -> Result<Exit, CliError> {
    let run = begin(&args.login, args.shadow, desk).await?;
    let id = follow::text(&run, "/run_id").to_owned();
    if !args.wait.is_wanted() && !desk.is_here() {
        summary::print_run(&run, desk)?;
        desk.note(&format!("look with `clinch github status {id}`"));
        return Ok(Exit::Ok);
    }
    desk.note(&format!("{id} began"));
    let Ended::Runs(runs) = follow::runs(&[id], &args.wait, desk).await? else {
        return Ok(Exit::Unsettled);
    };
    let run = runs.into_iter().next().unwrap_or_default();
    let report = summary::report(run, desk).await?;
    desk.context.out.answer(&report.document, &report.lines)?;
    Ok(report.exit)
}

/// The run of a user: a new one or, in this process alone, the one that is not finished.
async fn begin(login: &str, shadow: bool, desk: &mut Desk) -> Result<Value, CliError> {
    let body = json!({ "login": login, "shadow": shadow });
    let begun = desk.post("/v1/github/runs".to_owned(), &body).await;
    let problem = match begun {
        Err(CliError::Problem(problem)) if desk.is_here() && problem.code == "active_run" => {
            problem
        }
        other => return other,
    };
    let pairs = [("login", login.to_owned())];
    let runs = desk
        .get(format!("/v1/github/runs{}", query(&pairs)))
        .await?;
    let runs = runs.pointer("/runs").and_then(Value::as_array);
    let active = runs.into_iter().flatten().find(|run| {
        let status = follow::text(run, "/status");
        run["shadow"] == shadow && !matches!(status, "COMPLETED" | "FAILED" | "CANCELED")
    });
    match active {
        Some(run) => {
            let id = follow::text(run, "/run_id");
            desk.note(&format!("going on with {id}"));
            Ok(run.clone())
        }
        None => Err(CliError::Problem(problem)),
    }
}

/// Collects a made-up GitHub in this process and checks every document.
pub(crate) async fn fake(args: &Args, global: Global) -> Result<Exit, CliError> {
    if global.url.as_deref().is_some_and(|url| !url.is_empty()) {
        let message = "--fake works in this process; leave out --url and CLINCH_URL";
        return Err(CliError::usage(message));
    }
    let config = serve::load(&global, &[])?;
    let hub = FakeHub::start(args.seed).await?;
    let mut logins = hub.logins();
    let named = |login: &String| login.eq_ignore_ascii_case(&args.login);
    if !logins.iter().any(named) {
        let message = format!("the made-up GitHub knows {}", logins.join(", "));
        return Err(CliError::usage(message));
    }
    logins.sort_by_key(|login| !named(login));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let github = config.github.clone().unwrap_or_default();
    let settings = hub.settings(github::settings(&github)?)?;
    let transport = hub.transport(clock)?;
    let mut desk = Desk::here(&global, &config, settings, transport, Need::Work).await?;
    if matches!(desk::is_served(&global).await, Ok(true)) {
        desk.note("a server answers here: if it works on this store too, stop it first");
    }
    desk.note(&format!(
        "a made-up GitHub at {}, with {}",
        hub.base(),
        logins.join(", ")
    ));
    let collected = collect(args, &logins, &hub, &mut desk).await;
    desk.close().await?;
    hub.stop().await;
    collected
}

async fn collect(
    args: &Args,
    logins: &[String],
    hub: &FakeHub,
    desk: &mut Desk,
) -> Result<Exit, CliError> {
    let mut ids = Vec::with_capacity(logins.len());
    for login in logins {
        let run = begin(login, args.shadow, desk).await?;
        ids.push(follow::text(&run, "/run_id").to_owned());
    }
    let Ended::Runs(runs) = follow::runs(&ids, &args.wait, desk).await? else {
        return Ok(Exit::Unsettled);
    };
    let pages = runs.iter().map(Pages::of);
    let pages = pages.fold(Pages::default(), Pages::and);
    let mut exit = Exit::Ok;
    let mut reports: Vec<Report> = Vec::with_capacity(runs.len());
    for run in runs {
        let report = summary::report(run, desk).await?;
        exit = exit.and(report.exit);
        reports.push(report);
    }
    let mut lines: Vec<String> = reports.iter().flat_map(|one| one.lines.clone()).collect();
    lines.push(format!(
        "pages not fetched because they were known: {:.1} %",
        pages.share()
    ));
    let mut document = json!({
        "runs": reports.iter().map(|one| one.document.clone()).collect::<Vec<_>>(),
        "not_fetched_percent": pages.share(),
    });
    if let Some(here) = desk.here.as_ref().filter(|_| !args.shadow) {
        let equality = hub.compare(&here.collector).await?;
        lines.push(format!(
            "documents equal the world's: {} of {}",
            grouped(equality.equal),
            grouped(equality.of)
        ));
        if equality.extra > 0 {
            lines.push(format!(
                "documents that the world does not have: {}; was the store filled by another seed?",
                grouped(equality.extra)
            ));
        }
        document["documents"] = json!({
            "equal": equality.equal, "of": equality.of, "extra": equality.extra,
        });
        if !equality.is_whole() {
            exit = Exit::Failed;
        }
    }
    desk.context.out.answer(&document, &lines)?;
    Ok(exit)
}
