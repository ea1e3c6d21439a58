//! What a run must have read, and what its failed jobs excuse.

use std::collections::{BTreeMap, BTreeSet};

use clinch::ports::Inspect as _;
use clinch_github::fake::Links;
use clinch_github::{Bounds, Job, JobFilter, JobState, Run, Space, Start};

use crate::lab::{Bare, Lab};

/// Where the documents of an item's kind are listed.
fn parents(kind: &str) -> &'static [&'static str] {
    match kind {
        "review" | "pull_request_detail" => &["pull_request"],
        "reaction" | "timeline" => &["issue", "pull_request"],
        "workflow_job" => &["workflow_run"],
        "commit_detail" => &["commit"],
        // What a branch has and the default branch has not.
        "branch_commit" => &["branch"],
        _ => &[],
    }
}

/// What the failed and unavailable jobs of a run excuse: the documents of their own kind, at the
/// user or in their repository, which is named by its id.
#[derive(Default)]
struct Excuses {
    /// Kind and place: `user`, or the id of a repository.
    broken: BTreeSet<(String, String)>,
    /// Kind and place of every list that was asked for.
    asked: BTreeSet<(String, String)>,
}

/// The repository of a job's key, `repo:ID#ITEM`, or `user`.
fn place(key: &str) -> String {
    let key = key.split('#').next().unwrap_or_default();
    key.strip_prefix("repo:").unwrap_or("user").to_owned()
}

impl Excuses {
    async fn of(lab: &Lab, run: &Run) -> Self {
        let (mut excuses, mut broken, mut after) = (Self::default(), 0, None);
        loop {
            let all = JobFilter::default();
            let page = lab.collector.jobs(&run.run_id, &all, after.as_deref(), 500);
            let (jobs, more) = page.await.expect("jobs");
            let ids: Vec<_> = jobs.iter().map(|job| job.op_id).collect();
            let rows = lab.memory.get(&ids).await.expect("read");
            for (job, row) in jobs.iter().zip(rows) {
                let row = row.expect("an operation");
                let place = place(row.keys.biz_key.as_str());
                let list = (job.kind.document().to_owned(), place);
                if matches!(job.state, JobState::Failed | JobState::Unavailable) {
                    broken += 1;
                    excuses.note(job, lab, list.clone());
                }
                excuses.asked.insert(list);
            }
            after = more;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(
            broken,
            run.jobs.failed + run.jobs.unavailable,
            "every one is named"
        );
        excuses
    }

    fn note(&mut self, job: &Job, lab: &Lab, list: (String, String)) {
        let error = job.error.as_deref().unwrap_or_default();
        assert!(!error.is_empty(), "{job:?}");
        let is_alias = matches!(lab.fake.links(), Links::OtherHost | Links::OtherScheme);
        if error.starts_with("link_refused") {
            assert!(is_alias, "{job:?}");
        }
        self.broken.insert(list);
    }

    fn is_broken(&self, kind: &str, place: &str) -> bool {
        let list = |kind: &str, place: &str| (kind.to_owned(), place.to_owned());
        if self.broken.contains(&list(kind, place)) {
            return true;
        }
        let user = self.broken.contains(&list("user", "user"));
        if place == "user" {
            return user && !["user", "event"].contains(&kind);
        }
        let parents = parents(kind);
        let of_parent = parents.iter().any(|parent| self.is_broken(parent, place));
        // Without the list of repositories nobody knows of this one.
        let is_unknown = user || self.broken.contains(&list("repository", "user"));
        let is_asked = self.asked.contains(&list(kind, place)) || !parents.is_empty();
        of_parent || (is_unknown && !is_asked)
    }
}

/// A document's kind and name, whatever its content.
type Name = (String, String);

fn named(document: &Bare) -> Name {
    let (kind, _, place, body) = document;
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let name = match kind.as_str() {
        "commit" | "commit_detail" => body["sha"].to_string(),
        "branch_commit" => format!("{place} {}", body["sha"]),
        // What has no id of its own is told by its place.
        "tag" | "branch" => format!("{place} {}", body["name"]),
        "stargazer" => format!("{place} {}", body["user"]["id"]),
        "contributor" | "languages" | "member" | "organization" => {
            format!("{place} {}", body["id"])
        }
        "timeline" => format!("{place} {} {} {}", body["event"], body["id"], body["sha"]),
        _ => body["id"].to_string(),
    };
    (kind.clone(), name)
}

/// Documents by their names.
fn by_name(documents: Vec<Bare>) -> BTreeMap<Name, Bare> {
    documents
        .into_iter()
        .map(|one| (named(&one), one))
        .collect()
}

/// The ids of the repositories by their places: `repo:octocat/hello`.
fn repositories(documents: &BTreeMap<Name, Bare>) -> BTreeMap<String, String> {
    let found = documents.values().filter(|one| one.0 == "repository");
    let found = found.map(|one| {
        let body: serde_json::Value = serde_json::from_str(&one.3).expect("JSON");
        let name = body["full_name"].as_str().expect("a name");
        (format!("repo:{name}"), body["id"].to_string())
    });
    found.collect()
}

/// The time by which a bounded run takes a document, if it has one of its own; `Err`: it is that of
/// its item.
fn dated(document: &Bare) -> Result<Option<String>, ()> {
    let body: serde_json::Value = serde_json::from_str(&document.3).expect("JSON");
    let pointer = match document.0.as_str() {
        "issue" | "pull_request" | "issue_comment" | "review_comment" => "/updated_at",
        "event" | "issue_event" | "workflow_run" => "/created_at",
        "commit" => "/commit/committer/date",
        kind if parents(kind).is_empty() => return Ok(None),
        _ => return Err(()),
    };
    Ok(body
        .pointer(pointer)
        .and_then(|at| at.as_str())
        .map(str::to_owned))
}

/// Whether a run of these bounds takes the document. What is read by its item is left to the item,
/// and commits to tests of their own.
fn is_due(document: &Bare, bounds: &Bounds) -> bool {
    if bounds.is_all() {
        return true;
    }
    match dated(document) {
        Ok(None) => true,
        Ok(Some(_)) if document.0 == "commit" => false,
        Ok(Some(at)) => {
            let is_early = bounds.since().is_some_and(|since| *at < *since);
            !is_early && bounds.until().is_none_or(|until| *at <= *until)
        }
        Err(()) => false,
    }
}

/// Changes of these have no date, and the commits of a branch change with the default branch, so that
/// a run without everything may miss them.
const UNDATED: [&str; 3] = ["reaction", "timeline", "branch_commit"];

/// What was there when the run began and is there still was read, or a job of its kind and place is
/// named, or it was not asked for. What has not changed since has the content that it has there.
pub(crate) async fn assert_nothing_is_lost(lab: &Lab, run: &Run, start: &Start, before: &[Bare]) {
    let excuses = Excuses::of(lab, run).await;
    let collected = by_name(lab.documents(Space::Main).await);
    let before = by_name(before.to_vec());
    let now = by_name(world_of(lab, run));
    let (ids, ids_now) = (repositories(&before), repositories(&now));
    let is_calm = before == now;
    let selected = run.selection.repositories();
    for (name, document) in &before {
        let Some(document_now) = now.get(name) else {
            continue;
        };
        let place = document.2.as_str();
        if !is_collected(run, document) {
            continue;
        }
        let id = match place.starts_with("repo:") {
            true => ids.get(place).expect("its repository").as_str(),
            false => "user",
        };
        let short = |place: &str| place.rsplit('/').next().unwrap_or_default().to_lowercase();
        let is_in = |place: &str| selected.contains(&short(place));
        let is_outside = id != "user"
            && !selected.is_empty()
            && !(is_in(place) && is_in(document_now.2.as_str()));
        // A bounded list is read once: while the world moves, it moves too.
        let is_bounded = !start.bounds.is_all();
        let is_bounded_out = is_bounded && !(is_calm && is_due(document, &start.bounds));
        let is_undated = UNDATED.contains(&name.0.as_str()) && !run.is_full;
        // Somebody else's for a while, or given back: read by the next run.
        let has_left = id != "user" && !ids_now.values().any(|one| one == id);
        if is_outside || is_bounded_out || has_left || excuses.is_broken(&name.0, id) {
            continue;
        }
        let is = collected.get(name);
        assert!(
            is.is_some() || is_undated,
            "{name:?} of {place} is missing without a word"
        );
        if document == document_now && !is_undated {
            assert_eq!(
                is,
                Some(document),
                "{name:?} of {place} is not as it was all the time"
            );
        }
    }
}

fn is_collected(run: &Run, document: &Bare) -> bool {
    run.streams.iter().any(|kind| kind.document() == document.0)
}

/// What the run is to collect of the world, as it is now.
fn world_of(lab: &Lab, run: &Run) -> Vec<Bare> {
    let mut all = lab.world(&["octocat"]);
    all.retain(|document| is_collected(run, document));
    all
}

/// Whether a document may be kept that the world has no more: a former contributor of one of these
/// repositories. GitHub shows a part of that list, so that it does not tell who is gone.
fn may_be_left(document: &Bare, repositories: &BTreeMap<String, String>) -> bool {
    document.0 == "contributor" && repositories.contains_key(&document.2)
}

/// Asserts that the documents are those of the world and no others, but for what may be left.
pub(crate) async fn assert_equal(lab: &Lab, run: &Run) {
    let collected = by_name(lab.documents(Space::Main).await);
    let now = by_name(world_of(lab, run));
    for (name, document) in &now {
        assert_eq!(collected.get(name), Some(document), "{name:?}");
    }
    let repositories = repositories(&now);
    for (name, document) in &collected {
        let is_left = now.contains_key(name) || may_be_left(document, &repositories);
        assert!(is_left, "{name:?} of {} is gone", document.2);
    }
}

/// Asserts that a run by what changed has read everything, as it is now. What is gone may be left
/// over until everything is read.
pub(crate) async fn assert_exact(lab: &Lab, run: &Run) {
    let collected = by_name(lab.documents(Space::Main).await);
    for document in world_of(lab, run) {
        let name = named(&document);
        if !UNDATED.contains(&name.0.as_str()) {
            assert_eq!(collected.get(&name), Some(&document), "{name:?}");
        }
    }
}
