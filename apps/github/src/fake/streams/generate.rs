//! Adds streams to a generated world.

use clinch::testing::SplitMix;

use super::{Entry, Organization};
use crate::fake::generate::below;
use crate::fake::kind::Kind;
use crate::fake::world::World;

/// With fewer users a world has no organisation: two are left to be members.
const USERS_OF_ORGANIZATION: usize = 3;

const DAY: i64 = 86_400;

impl World {
    /// Adds further streams to every repository and user: comments, reviews, events of issues,
    /// reactions, releases, tags, branches, labels, milestones, stars, contributors, workflows with
    /// runs and jobs, deployments, comments on commits, languages, and the details of pull requests
    /// and commits.
    ///
    /// - The seed decides what there is.
    /// - Of three or more users the last one is an organisation; the others are its members.
    /// - Repositories without commits have neither branches nor tags, workflows or deployments.
    pub fn with_streams(mut self) -> Self {
        self.has_streams = true;
        let existing: Vec<usize> = self.existing().map(|(at, _)| at).collect();
        for at in existing {
            let mut rng = self.rng(20, self.repositories[at].id);
            self.discuss(at, &mut rng);
            self.add_lists(at, &mut rng);
            self.add_code(at, &mut rng);
        }
        self.found_organization();
        self
    }

    fn found_organization(&mut self) {
        let user = self.users.len() - 1;
        if user + 1 < USERS_OF_ORGANIZATION || self.organization.is_some() {
            return;
        }
        let created = self.users[user].created;
        let team = |serial: u64| Entry {
            serial,
            ..Entry::new(0, created)
        };
        self.organization = Some(Organization {
            user,
            members: (0..user).collect(),
            teams: (1..=3).map(team).collect(),
        });
    }

    /// Comments, reviews, events and reactions of every issue.
    fn discuss(&mut self, at: usize, rng: &mut SplitMix) {
        let repository = &mut self.repositories[at];
        let streams = &mut repository.streams;
        let issues = repository.issues.iter_mut().enumerate();
        for (n, issue) in issues.filter(|(_, issue)| !issue.is_deleted) {
            let mut add = |kind: Kind, most: u64| -> u32 {
                let count = rng.next_u64() % (most + 1);
                for _ in 0..count {
                    let created = between(rng, issue.created, issue.updated);
                    let updated = between(rng, created, issue.updated);
                    let entry = Entry::new(n as u64, created);
                    streams.add(kind, Entry { updated, ..entry });
                }
                count as u32
            };
            issue.comments = add(Kind::IssueComment, 2);
            add(Kind::IssueEvent, 2);
            add(Kind::Reaction, 1);
            if issue.is_pull {
                add(Kind::Review, 2);
                issue.review_comments = add(Kind::ReviewComment, 2);
            }
        }
    }

    /// Labels, milestones and stars.
    fn add_lists(&mut self, at: usize, rng: &mut SplitMix) {
        let end = self.latest;
        let repository = &mut self.repositories[at];
        let start = repository.created;
        for (kind, least, most) in [
            (Kind::Label, 3, 9),
            (Kind::Milestone, 0, 4),
            (Kind::Stargazer, 0, 40),
        ] {
            for created in dates(rng, least, most, start, end) {
                let revision = match kind {
                    Kind::Milestone => (rng.next_u64() % 2) as u32,
                    _ => 0,
                };
                let entry = Entry::new(0, created);
                repository.streams.add(kind, Entry { revision, ..entry });
            }
        }
    }

    /// Everything that belongs to commits.
    fn add_code(&mut self, at: usize, rng: &mut SplitMix) {
        let end = self.latest;
        let repository = &mut self.repositories[at];
        let start = repository.created;
        let listed = repository.history.listed();
        if listed.is_empty() {
            return;
        }
        let streams = &mut repository.streams;
        let any = |rng: &mut SplitMix| listed[rng.next_u64() as usize % listed.len()];
        for created in dates(rng, 0, 4, start, end) {
            streams.release(any(rng) as u64, created);
        }
        for (kind, most) in [
            (Kind::Tag, 3),
            (Kind::Branch, 4),
            (Kind::Deployment, 5),
            (Kind::CommitComment, 4),
        ] {
            for created in dates(rng, 0, most, start, end) {
                streams.add(kind, Entry::new(any(rng) as u64, created));
            }
        }
        for created in dates(rng, 0, 3, start, end) {
            let workflow = streams.add(Kind::Workflow, Entry::new(0, created));
            // Some runs are young enough to be run again.
            let begin = created.max(end - 200 * DAY);
            for created in dates(rng, 1, 12, begin, end) {
                let commit = any(rng);
                let run = Entry::new(workflow, created);
                let run = streams.add(Kind::WorkflowRun, Entry { commit, ..run });
                streams.add_jobs(run, created);
            }
        }
    }
}

impl super::Streams {
    /// The jobs of another attempt of a run.
    pub(super) fn replace_jobs(&mut self, run: u64, created: i64) {
        self.of_mut(Kind::WorkflowJob)
            .retain(|job| job.parent != run);
        self.add_jobs(run, created);
    }

    /// The jobs of one attempt of a run.
    pub(super) fn add_jobs(&mut self, run: u64, created: i64) {
        for _ in 0..1 + run % 3 {
            self.add(Kind::WorkflowJob, Entry::new(run, created));
        }
    }
}

fn between(rng: &mut SplitMix, from: i64, to: i64) -> i64 {
    from + below(rng, (to - from).unsigned_abs())
}

/// Some times, oldest first.
fn dates(rng: &mut SplitMix, least: u64, most: u64, from: i64, to: i64) -> Vec<i64> {
    let count = least + rng.next_u64() % (most - least + 1);
    let mut dates: Vec<i64> = (0..count).map(|_| between(rng, from, to)).collect();
    dates.sort_unstable();
    dates
}
