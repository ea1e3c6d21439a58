//! Changes of the streams by chance.

use clinch::testing::SplitMix;

use super::Entry;
use crate::fake::kind::Kind;
use crate::fake::world::{Found, World};

/// A run that was created longer ago cannot be run again, as at GitHub.
const RERUN_SECONDS: i64 = 30 * 86_400;

/// Another attempt of a workflow run.
fn repeat(run: &mut Entry, now: i64) {
    run.revision += 1;
    run.updated = now;
}

impl World {
    /// One change of a stream, now.
    pub(in crate::fake) fn change_streams(&mut self, rng: &mut SplitMix) {
        let draw = rng.next_u64() % 24;
        if draw == 0 && self.organization.is_some() {
            return self.change_organization(rng);
        }
        let Some(at) = self.any_repository(rng) else {
            return;
        };
        let is_done = match draw {
            1..=5 => self.comment(at, rng),
            6..=8 => self.review(at, rng),
            9 => self.edit(at, Kind::IssueComment, rng) || self.comment(at, rng),
            10 => self.edit(at, Kind::ReviewComment, rng) || self.review(at, rng),
            11 => self.edit(at, Kind::Release, rng) || self.edit(at, Kind::Label, rng),
            12 => self.edit(at, Kind::Milestone, rng),
            13 => self.delete(at, Kind::Label, rng),
            14 => self.delete(at, Kind::Release, rng),
            15 => self.delete(at, Kind::Branch, rng),
            16 => self.delete(at, Kind::Stargazer, rng),
            17..=18 => self.rerun(at, rng),
            19 => self.start_run(at, rng),
            20 => self.add_release(at),
            21 => self.add_to_head(at, Kind::Branch),
            22 => self.add_to_head(at, Kind::Deployment),
            _ => self.add_to_head(at, Kind::CommitComment),
        };
        if !is_done {
            let kind = [Kind::Label, Kind::Stargazer, Kind::Milestone][(draw % 3) as usize];
            let entry = Entry::new(0, self.latest);
            self.repositories[at].streams.add(kind, entry);
        }
    }

    /// A new comment, sometimes with a reaction to the issue.
    fn comment(&mut self, at: usize, rng: &mut SplitMix) -> bool {
        let Some(n) = self.any_issue(at, rng) else {
            return false;
        };
        let entry = Entry::new(n as u64, self.latest);
        let repository = &mut self.repositories[at];
        repository.streams.add(Kind::IssueComment, entry);
        if rng.next_u64().is_multiple_of(3) {
            repository.streams.add(Kind::Reaction, entry);
        }
        let issue = &mut repository.issues[n];
        issue.comments += 1;
        issue.updated = self.latest;
        true
    }

    /// A new review of a pull request, with a comment on a line.
    fn review(&mut self, at: usize, rng: &mut SplitMix) -> bool {
        let n = self.any_issue(at, rng);
        let repository = &mut self.repositories[at];
        let Some(n) = n.filter(|n| repository.issues[*n].is_pull) else {
            return false;
        };
        let entry = Entry::new(n as u64, self.latest);
        repository.streams.add(Kind::Review, entry);
        repository.streams.add(Kind::ReviewComment, entry);
        let issue = &mut repository.issues[n];
        issue.review_comments += 1;
        issue.updated = self.latest;
        true
    }

    /// Records that an issue was closed or reopened.
    pub(in crate::fake) fn record_issue_event(&mut self, at: usize, n: usize) {
        let entry = Entry::new(n as u64, self.latest);
        self.repositories[at].streams.add(Kind::IssueEvent, entry);
    }

    fn edit(&mut self, at: usize, kind: Kind, rng: &mut SplitMix) -> bool {
        let latest = self.latest;
        let Some(entry) = self.any_entry(at, kind, rng) else {
            return false;
        };
        entry.revision += 1;
        entry.updated = latest;
        true
    }

    fn delete(&mut self, at: usize, kind: Kind, rng: &mut SplitMix) -> bool {
        let Some(serial) = self.any_entry(at, kind, rng).map(|entry| entry.serial) else {
            return false;
        };
        let entries = self.repositories[at].streams.of_mut(kind);
        entries.retain(|entry| entry.serial != serial);
        true
    }

    fn any_entry(&mut self, at: usize, kind: Kind, rng: &mut SplitMix) -> Option<&mut Entry> {
        let drawn = rng.next_u64() as usize;
        let entries = self.repositories[at].streams.of_mut(kind);
        let n = drawn.checked_rem(entries.len())?;
        entries.get_mut(n)
    }

    /// Another attempt of a recent run. Its jobs are new ones.
    fn rerun(&mut self, at: usize, rng: &mut SplitMix) -> bool {
        let drawn = rng.next_u64() as usize;
        let latest = self.latest;
        let streams = &mut self.repositories[at].streams;
        let runs = streams.of_mut(Kind::WorkflowRun).iter_mut();
        let recent = runs.filter(|run| latest - run.created <= RERUN_SECONDS);
        let mut recent: Vec<&mut Entry> = recent.collect();
        let Some(n) = drawn.checked_rem(recent.len()) else {
            return self.start_run(at, rng);
        };
        repeat(recent[n], latest);
        let serial = recent[n].serial;
        streams.replace_jobs(serial, latest);
        true
    }

    /// Starts runs of a workflow, now.
    ///
    /// False: there is no such repository, or it has no workflow or no commit.
    pub fn start_runs(&mut self, full_name: &str, count: usize) -> bool {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return false;
        };
        let mut rng = SplitMix::new(self.seed);
        (0..count).all(|_| self.start_run(at, &mut rng))
    }

    /// Repeats the oldest workflow run that can still be repeated. It keeps its place in the list.
    ///
    /// False: there is no such repository, or no such run.
    pub fn repeat_run(&mut self, full_name: &str) -> bool {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return false;
        };
        self.latest += 1;
        let latest = self.latest;
        let streams = &mut self.repositories[at].streams;
        let runs = streams.of_mut(Kind::WorkflowRun).iter_mut();
        let recent = runs.filter(|run| latest - run.created <= RERUN_SECONDS);
        let Some(run) = recent.min_by_key(|run| (run.created, run.serial)) else {
            return false;
        };
        repeat(run, latest);
        let serial = run.serial;
        streams.replace_jobs(serial, latest);
        true
    }

    /// A run of a workflow for the head.
    fn start_run(&mut self, at: usize, rng: &mut SplitMix) -> bool {
        let workflow = self.any_entry(at, Kind::Workflow, rng);
        let workflow = workflow.map(|workflow| workflow.serial);
        let latest = self.latest;
        let repository = &mut self.repositories[at];
        let (Some(workflow), Some(commit)) = (workflow, repository.history.head()) else {
            return false;
        };
        let run = Entry {
            commit,
            ..Entry::new(workflow, latest)
        };
        let run = repository.streams.add(Kind::WorkflowRun, run);
        repository.streams.add_jobs(run, latest);
        true
    }

    fn add_release(&mut self, at: usize) -> bool {
        let latest = self.latest;
        let repository = &mut self.repositories[at];
        let Some(head) = repository.history.head() else {
            return false;
        };
        repository.streams.release(head as u64, latest);
        true
    }

    fn add_to_head(&mut self, at: usize, kind: Kind) -> bool {
        let latest = self.latest;
        let repository = &mut self.repositories[at];
        let Some(head) = repository.history.head() else {
            return false;
        };
        let entry = Entry::new(head as u64, latest);
        repository.streams.add(kind, entry);
        true
    }

    /// A member leaves or joins, or a team is founded.
    fn change_organization(&mut self, rng: &mut SplitMix) {
        let latest = self.latest;
        let Some(organization) = &mut self.organization else {
            return;
        };
        let drawn = rng.next_u64();
        let user = drawn as usize % organization.user;
        let members = &mut organization.members;
        match drawn >> 62 {
            0 => {
                let last = organization.teams.last().map_or(0, |team| team.serial);
                let team = Entry::new(0, latest);
                organization.teams.push(Entry {
                    serial: last + 1,
                    ..team
                });
            }
            _ if members.contains(&user) => members.retain(|member| *member != user),
            _ => members.push(user),
        }
    }
}
