//! Renders workflows, their runs, and the jobs of runs.

use serde_json::{Value, json};

use super::Entry;
use super::code::extend;
use crate::fake::kind::Kind;
use crate::fake::render::date;
use crate::fake::world::World;

const CONCLUSIONS: [&str; 4] = ["success", "failure", "success", "cancelled"];
/// How long an attempt of a run takes, in seconds.
const DURATION: i64 = 120;

impl World {
    pub(super) fn render_workflow(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        let (html, path) = (self.html_root(at), workflow_path(entry.serial));
        json!({
            "id": id,
            "node_id": format!("W_{id}"),
            "name": workflow_name(entry.serial),
            "path": path,
            "state": "active",
            "created_at": date(entry.created),
            "updated_at": date(entry.updated),
            "url": format!("{}/actions/workflows/{id}", self.root(at)),
            "html_url": format!("{html}/blob/main/{path}"),
            "badge_url": format!("{html}/workflows/{}/badge.svg", workflow_name(entry.serial)),
        })
    }

    /// Every change is one more attempt.
    pub(super) fn render_run(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        let url = format!("{}/actions/runs/{id}", self.root(at));
        let workflow = self.repositories[at].id * 10_000_000 + entry.parent;
        let attempt = entry.revision + 1;
        let before = (attempt > 1).then(|| format!("{url}/attempts/{}", attempt - 1));
        let commit = self.render_commit(at, entry.commit);
        let mut body = json!({
            "id": id,
            "node_id": format!("WFR_{id}"),
            "name": workflow_name(entry.parent),
            "check_suite_id": id + 1,
            "check_suite_node_id": format!("CS_{}", id + 1),
            "head_branch": "main",
            "head_sha": commit["sha"],
            "path": workflow_path(entry.parent),
            "run_number": entry.serial,
            "run_attempt": attempt,
            "event": "push",
            "display_title": self.text(48, id, 5),
            "status": "completed",
            "conclusion": conclusion(entry),
            "workflow_id": workflow,
            "pull_requests": [],
            "created_at": date(entry.created),
            "updated_at": date(entry.updated),
            "run_started_at": date(entry.updated - DURATION),
            "actor": self.actor_account(id),
            "triggering_actor": self.actor_account(id + u64::from(entry.revision)),
            "head_commit": {
                "id": commit["sha"],
                "tree_id": self.digits(49, id),
                "message": commit["commit"]["message"],
                "timestamp": commit["commit"]["committer"]["date"],
                "author": commit["commit"]["author"],
                "committer": commit["commit"]["committer"],
            },
        });
        let links = json!({
            "url": url,
            "html_url": format!("{}/actions/runs/{id}", self.html_root(at)),
            "jobs_url": format!("{url}/jobs"),
            "logs_url": format!("{url}/logs"),
            "check_suite_url": format!("{}/check-suites/{}", self.root(at), id + 1),
            "artifacts_url": format!("{url}/artifacts"),
            "cancel_url": format!("{url}/cancel"),
            "rerun_url": format!("{url}/rerun"),
            "previous_attempt_url": before,
            "workflow_url": format!("{}/actions/workflows/{workflow}", self.root(at)),
            "referenced_workflows": [],
            "repository": self.minimal_repository(at),
            "head_repository": self.minimal_repository(at),
        });
        extend(&mut body, links);
        body
    }

    /// A repository under its first name.
    fn minimal_repository(&self, at: usize) -> Value {
        let repository = &self.repositories[at];
        let (_, name) = repository.first_name.split_once('/').unwrap_or_default();
        json!({
            "id": repository.id,
            "node_id": format!("R_{}", repository.id),
            "name": name,
            "full_name": repository.first_name,
            "private": false,
            "html_url": self.html_root(at),
            "description": self.text(4, repository.id, 10),
            "fork": repository.id.is_multiple_of(7),
            "url": self.root(at),
        })
    }

    pub(super) fn render_job(&self, at: usize, entry: &Entry) -> Value {
        let id = self.entry_id(at, entry);
        let run_id = self.repositories[at].id * 10_000_000 + entry.parent;
        let runs = self.repositories[at].streams.of(Kind::WorkflowRun).iter();
        let run = runs.copied().find(|run| run.serial == entry.parent);
        let run = run.unwrap_or_default();
        let run_url = format!("{}/actions/runs/{run_id}", self.root(at));
        let begun = date(entry.created);
        let done = date(entry.created + DURATION);
        let steps = (1..=3).map(|number| {
            json!({
                "name": format!("Step {number}"),
                "status": "completed",
                "conclusion": "success",
                "number": number,
                "started_at": begun,
                "completed_at": done,
            })
        });
        let steps: Vec<Value> = steps.collect();
        json!({
            "id": id,
            "node_id": format!("CR_{id}"),
            "run_id": run_id,
            "run_url": run_url,
            "run_attempt": run.revision + 1,
            "workflow_name": workflow_name(run.parent),
            "head_branch": "main",
            "head_sha": self.sha(at, run.commit),
            "url": format!("{}/actions/jobs/{id}", self.root(at)),
            "html_url": format!("{}/actions/runs/{run_id}/job/{id}", self.html_root(at)),
            "check_run_url": format!("{}/check-runs/{id}", self.root(at)),
            "status": "completed",
            "conclusion": conclusion(&run),
            "created_at": begun,
            "started_at": begun,
            "completed_at": done,
            "name": format!("job-{}", entry.serial % 5),
            "steps": steps,
            "labels": ["ubuntu-latest"],
            "runner_id": 1 + id % 9,
            "runner_name": format!("runner-{}", 1 + id % 9),
            "runner_group_id": 2,
            "runner_group_name": "hosted",
        })
    }
}

fn workflow_name(serial: u64) -> String {
    format!("checks-{serial}")
}

fn workflow_path(serial: u64) -> String {
    format!(".github/workflows/checks-{serial}.yml")
}

fn conclusion(run: &Entry) -> &'static str {
    CONCLUSIONS[((run.serial + u64::from(run.revision)) % 4) as usize]
}
