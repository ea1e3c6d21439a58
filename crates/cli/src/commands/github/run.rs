//! `clinch github run`.

use std::sync::Arc;

use clinch_core::ports::Clock;
use clinch_github::selected;
use clinch_system::SystemClock;
use serde_json::{Value, json};

use super::collector_client::{self, Access, CollectorClient};
use super::cost;
use super::follow::{self, Ended, Wait};
use super::owners::{self, Target};
use super::summary::{self, Pages, Report, grouped};
use crate::args::Global;
use crate::client::query;
use crate::config;
use crate::error::CliError;
use crate::exit::Exit;
use crate::github::{self, FakeHub};

const EXAMPLES: &str = "\
Examples:
  clinch github run octocat
  clinch github run octocat --wait=10m
  clinch github run octocat --full
  clinch github run octocat --streams issue,issue_comment,review
  clinch github run octocat --repositories hello-world,octocat/api
  clinch github run --repositories octocat/api,acme/web
  clinch github run acme --search 'language:rust archived:false'
  clinch github run octocat --since 2026-01-01 --until 2026-03-31
  clinch github run octocat --streams all --dry-run
  clinch github run octocat --shadow
  clinch github run octocat --fake

With a server the command begins the run there, and waits for its end with --wait. Without a server
it collects in this process, into the configured store (clinch.db in the working folder by
default); after an interrupt the next call continues the run. --fake collects all users of a fake
GitHub on this machine and checks every document; use a separate folder for it.

Without LOGIN, every repository is OWNER/NAME: a run for each owner begins, and the command follows
all of them. With -o json it prints one document with a list: {\"runs\":[…]}.

Exit 0 completed, 1 failed or with failed jobs, 4 a run of the user is active, 5 not settled in
time.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The user; may be left out if every repository is OWNER/NAME
    #[arg(required_unless_present = "repositories")]
    login: Option<String>,
    #[command(flatten)]
    wait: Wait,
    /// Collect from the beginning into a shadow, and compare it with the real documents
    #[arg(long)]
    shadow: bool,
    /// Read everything, not only what changed, and put aside what is gone at GitHub
    #[arg(long)]
    full: bool,
    /// Kinds of documents to collect, or all; default: github.streams of the configuration
    #[arg(long, value_name = "KIND,…", value_delimiter = ',')]
    streams: Vec<String>,
    /// Read these repositories only, NAME or OWNER/NAME; the user must own them. Without LOGIN
    /// they may have several owners
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    repositories: Vec<String>,
    /// Read the public repositories of the user that this search of GitHub finds
    #[arg(long, value_name = "QUERY", conflicts_with = "repositories")]
    search: Option<String>,
    /// Collect dated documents of this time on only: 2026-01-31 (UTC) or 2026-01-31T08:00:00Z
    #[arg(long, value_name = "DATE")]
    since: Option<String>,
    /// Collect dated documents up to this time only; a day counts as a whole
    #[arg(long, value_name = "DATE")]
    until: Option<String>,
    /// Begin nothing: say how many requests the run would make, and what budget there is
    #[arg(long, conflicts_with_all = ["wait", "fake"])]
    dry_run: bool,
    /// Collect from a fake GitHub instead of the real one
    #[arg(long)]
    fake: bool,
    /// Seed of the fake GitHub
    #[arg(long, value_name = "N", default_value_t = 1, requires = "fake")]
    seed: u64,
}

impl Args {
    pub(crate) fn is_fake(&self) -> bool {
        self.fake
    }

    /// What the command does with the collector.
    pub(crate) fn access(&self) -> Access {
        match self.dry_run {
            true => Access::Look,
            false => Access::Work,
        }
    }

    /// Whether less than usual is read.
    fn is_partial(&self) -> bool {
        let is_bounded = self.since.is_some() || self.until.is_some();
        is_bounded || !self.repositories.is_empty() || self.search.is_some()
    }

    /// The runs to begin: that of the named user, or one of each owner.
    fn targets(&self) -> Result<Vec<Target>, CliError> {
        match &self.login {
            Some(login) => Ok(vec![Target {
                login: login.clone(),
                repositories: self.repositories.clone(),
            }]),
            None => owners::by_owner(&self.repositories),
        }
    }

    /// Refuses a list of repositories that says nothing of their owners.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        self.targets().map(|_| ())
    }

    /// The body of the request that begins a run.
    fn body(&self, target: &Target) -> Value {
        json!({
            "login": target.login,
            "shadow": self.shadow,
            "full": self.full,
            "streams": self.streams,
            "repositories": target.repositories,
            "search": self.search,
            "since": self.since,
            "until": self.until,
            "dry_run": self.dry_run,
        })
    }

    /// What programs read: the document of the named user, or a list of documents.
    fn document(&self, name: &str, mut documents: Vec<Value>) -> Value {
        match self.login {
            Some(_) => documents.pop().unwrap_or_default(),
            None => json!({ name: documents }),
        }
    }
}

/// Begins a run for each user. Waits for their ends if requested, or if no server would work on them.
pub(crate) async fn run(args: &Args, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let targets = args.targets()?;
    if args.dry_run {
        return costs(args, &targets, client).await;
    }
    let (begun, mut exit) = begin_all(args, &targets, client).await?;
    let id = |run: &Value| follow::text(run, "/run_id").to_owned();
    let ids: Vec<String> = begun.iter().map(id).collect();
    if !args.wait.is_wanted() && !client.is_local() {
        let lines: Vec<String> = begun.iter().flat_map(summary::run_lines).collect();
        let document = args.document("runs", begun);
        client.context.out.answer(&document, &lines)?;
        for id in &ids {
            client.note(&format!("see `clinch github status {id}`"));
        }
        return Ok(exit);
    }
    for id in &ids {
        client.note(&format!("{id} began"));
    }
    let Ended::Runs(runs) = follow::runs(&ids, &args.wait, client).await? else {
        return Ok(exit.and(Exit::Unsettled));
    };
    let (mut documents, mut lines) = (Vec::with_capacity(runs.len()), Vec::new());
    for run in runs {
        let report = summary::report(run, client).await?;
        exit = exit.and(report.exit);
        lines.extend(report.lines);
        documents.push(report.document);
    }
    let document = args.document("runs", documents);
    client.context.out.answer(&document, &lines)?;
    Ok(exit)
}

/// Prints what the runs would cost.
async fn costs(
    args: &Args,
    targets: &[Target],
    client: &mut CollectorClient,
) -> Result<Exit, CliError> {
    let (mut documents, mut lines, mut exit) = (Vec::new(), Vec::new(), Exit::Ok);
    for target in targets {
        let path = "/v1/github/runs".to_owned();
        let cost = client.post(path, &args.body(target)).await?;
        if !cost["problem"].is_null() {
            exit = Exit::Failed;
        }
        lines.extend(cost::lines(&cost));
        documents.push(cost);
    }
    let document = args.document("costs", documents);
    client.context.out.answer(&document, &lines)?;
    Ok(exit)
}

/// Begins every run. A run of one owner that is active already keeps no other from beginning.
async fn begin_all(
    args: &Args,
    targets: &[Target],
    client: &mut CollectorClient,
) -> Result<(Vec<Value>, Exit), CliError> {
    let (mut begun, mut exit) = (Vec::with_capacity(targets.len()), Exit::Ok);
    for target in targets {
        match begin(target, args, client).await {
            Ok(run) => begun.push(run),
            Err(error) if targets.len() > 1 && error.exit() == Exit::Conflict => {
                exit = exit.and(error.report());
            }
            Err(error) => {
                // These go on, although the command ends here.
                for run in &begun {
                    client.note(&format!("{} began", follow::text(run, "/run_id")));
                }
                return Err(error);
            }
        }
    }
    Ok((begun, exit))
}

/// Begins a run of the user; without a server, continues an unfinished one.
async fn begin(
    target: &Target,
    args: &Args,
    client: &mut CollectorClient,
) -> Result<Value, CliError> {
    let body = args.body(target);
    let begun = client.post("/v1/github/runs".to_owned(), &body).await;
    let problem = match begun {
        Err(CliError::Problem(problem)) if client.is_local() && problem.code == "active_run" => {
            problem
        }
        other => return other,
    };
    let pairs = [("login", target.login.clone())];
    let runs = client
        .get(format!("/v1/github/runs{}", query(&pairs)))
        .await?;
    let runs = runs.pointer("/runs").and_then(Value::as_array);
    let active = runs.into_iter().flatten().find(|run| {
        let status = follow::text(run, "/status");
        (!args.shadow || run["shadow"] == true)
            && !matches!(status, "COMPLETED" | "FAILED" | "CANCELED")
    });
    match active {
        Some(run) => {
            let id = follow::text(run, "/run_id");
            client.note(&format!("continuing {id}"));
            Ok(run.clone())
        }
        None => Err(CliError::Problem(problem)),
    }
}

/// Collects from a fake GitHub in this process and checks every document.
pub(crate) async fn fake(args: &Args, global: Global) -> Result<Exit, CliError> {
    if global.url.as_deref().is_some_and(|url| !url.is_empty()) {
        let message = "--fake works in this process; leave out --url and CLINCH_URL";
        return Err(CliError::usage(message));
    }
    let named = args.targets()?;
    let config = config::load(&global, &[])?;
    let github = github::config(&config)?.unwrap_or_default();
    let settings = github::settings(&github)?;
    let streams = match args.streams.is_empty() {
        true => settings.streams.clone(),
        false => selected(&args.streams).map_err(|wrong| CliError::usage(wrong.to_string()))?,
    };
    let hub = FakeHub::start(args.seed, &streams).await?;
    let targets = fake_targets(args.is_partial(), named, hub.logins())?;
    let logins: Vec<&str> = targets.iter().map(|one| one.login.as_str()).collect();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let settings = hub.settings(settings)?;
    let transport = hub.transport(clock)?;
    let mut client =
        CollectorClient::local(&global, &config, settings, transport, Access::Work).await?;
    if matches!(collector_client::is_served(&global).await, Ok(true)) {
        client.note("a server is running here: if it uses this store too, stop it first");
    }
    client.note(&format!(
        "a fake GitHub at {}, with {}",
        hub.base(),
        logins.join(", ")
    ));
    let collected = collect(args, &targets, &hub, &mut client).await;
    client.close().await?;
    hub.stop().await;
    collected
}

/// Every user of the fake GitHub, the named one first. The repositories of a part belong to those
/// that are named.
fn fake_targets(
    is_partial: bool,
    named: Vec<Target>,
    mut logins: Vec<String>,
) -> Result<Vec<Target>, CliError> {
    let is_named = |login: &&String| {
        let mut logins = named.iter().map(|one| &one.login);
        logins.any(|one| one.eq_ignore_ascii_case(login))
    };
    if logins.iter().filter(is_named).count() < named.len() {
        let message = format!("the users of the fake GitHub are {}", logins.join(", "));
        return Err(CliError::usage(message));
    }
    logins.sort_by_key(|login| !is_named(&login));
    let whole = |login: String| Target {
        login,
        repositories: Vec::new(),
    };
    Ok(match is_partial {
        true => named,
        false => logins.into_iter().map(whole).collect(),
    })
}

async fn collect(
    args: &Args,
    targets: &[Target],
    hub: &FakeHub,
    client: &mut CollectorClient,
) -> Result<Exit, CliError> {
    let mut ids = Vec::with_capacity(targets.len());
    for target in targets {
        let run = begin(target, args, client).await?;
        ids.push(follow::text(&run, "/run_id").to_owned());
    }
    let Ended::Runs(runs) = follow::runs(&ids, &args.wait, client).await? else {
        return Ok(Exit::Unsettled);
    };
    let pages = runs.iter().map(Pages::of);
    let pages = pages.fold(Pages::default(), Pages::and);
    let mut exit = Exit::Ok;
    let mut reports: Vec<Report> = Vec::with_capacity(runs.len());
    for run in runs {
        let report = summary::report(run, client).await?;
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
    if let Some(local) = client
        .local
        .as_ref()
        .filter(|_| !(args.shadow || args.is_partial()))
    {
        let equality = hub.compare(&local.collector).await?;
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
    client.context.out.answer(&document, &lines)?;
    Ok(exit)
}
