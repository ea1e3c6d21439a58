//! Changes of a world by chance.

use clinch::testing::SplitMix;
use clinch::types::Timestamp;

use super::generate::below;
use super::world::{Issue, World};

/// 2099, as a computer with a wrong clock has it.
const FAR_FUTURE: i64 = 4_070_908_800;
const DAY: i64 = 86_400;

impl World {
    /// Adds `count` changes after everything that happened so far: new and altered issues and pull
    /// requests, commits, events and repositories.
    pub fn change(&mut self, seed: u64, count: usize) {
        let mut rng = SplitMix::new(seed ^ self.seed.rotate_left(17));
        for _ in 0..count {
            self.pass_time(&mut rng);
            if self.has_streams && rng.next_u64().is_multiple_of(2) {
                self.change_streams(&mut rng);
                continue;
            }
            let draw = rng.next_u64() % 20;
            self.grow(draw, &mut rng);
        }
    }

    /// Like [`World::change`], but anything may happen: merges, commits with wrong dates,
    /// force-pushes, collected garbage, deleted issues and repositories, renames and transfers.
    pub fn upset(&mut self, seed: u64, count: usize) {
        let mut rng = SplitMix::new(seed ^ self.seed.rotate_left(23));
        for _ in 0..count {
            self.pass_time(&mut rng);
            if self.has_streams && rng.next_u64().is_multiple_of(2) {
                self.change_streams(&mut rng);
                continue;
            }
            let draw = rng.next_u64() % 40;
            let is_done = match (draw, self.any_repository(&mut rng)) {
                (20.., Some(at)) => self.disturb(at, draw, &mut rng),
                _ => false,
            };
            if !is_done {
                self.grow(draw % 20, &mut rng);
            }
        }
    }

    /// Moves on to the present of a fake's clock.
    pub(super) fn follow(&mut self, now: Timestamp) {
        self.latest = self.latest.max(now.as_millis().div_euclid(1_000));
        self.follows_clock = true;
    }

    /// Minutes pass before a change, unless a clock says how late it is: then seconds at most, so
    /// that the world does not run ahead.
    fn pass_time(&mut self, rng: &mut SplitMix) {
        let most = match self.follows_clock {
            true => 2,
            false => 600,
        };
        self.latest += below(rng, most);
    }

    fn grow(&mut self, draw: u64, rng: &mut SplitMix) {
        let repository = self.any_repository(rng);
        match (draw, repository) {
            (0, _) => self.open_repository(),
            (1..=4, Some(at)) => self.open_issue(at, false),
            (5..=6, Some(at)) => self.open_issue(at, true),
            (7..=11, Some(at)) => self.touch_issue(at, rng),
            (12..=16, Some(at)) => self.commit(at),
            _ => self.act(repository, rng),
        }
    }

    /// False: the repository has nothing that could change so.
    fn disturb(&mut self, at: usize, draw: u64, rng: &mut SplitMix) -> bool {
        let name = self.full_name(at);
        match draw {
            20..=23 => self.merge(&name, &self.any_dates(rng)),
            24..=26 => self.push(&name, &self.any_dates(rng)),
            27..=29 => {
                let dropped = below(rng, 6) as usize;
                self.force_push(&name, dropped, &self.any_dates(rng))
            }
            30 => self.collect_garbage(&name),
            31..=35 => {
                let issue = self.any_issue(at, rng);
                issue.is_some_and(|n| self.delete_issue(&name, n as u64 + 1))
            }
            36 => self.delete_repository(&name),
            37 => {
                let owner = rng.next_u64() as usize % self.users.len();
                let owner = self.users[owner].login.clone();
                self.transfer(&name, &owner)
            }
            _ => {
                let new = format!("moved-{}-{}", at + 1, rng.next_u64() % 1_000);
                self.rename(&name, &new)
            }
        }
    }

    /// One to four dates: usually now or lately, sometimes long ago or far in the future.
    fn any_dates(&self, rng: &mut SplitMix) -> Vec<i64> {
        let count = 1 + below(rng, 4);
        let dates = (0..count).map(|_| match rng.next_u64() % 8 {
            0 => FAR_FUTURE + below(rng, 1_000),
            1..=2 => self.latest - below(rng, 2_000 * DAY.unsigned_abs()),
            3..=4 => self.latest - below(rng, 40 * DAY.unsigned_abs()),
            _ => self.latest,
        });
        dates.collect()
    }

    /// A repository that is not deleted.
    pub(super) fn any_repository(&self, rng: &mut SplitMix) -> Option<usize> {
        let drawn = rng.next_u64() as usize;
        let there: Vec<usize> = self.existing().map(|(at, _)| at).collect();
        drawn.checked_rem(there.len()).map(|n| there[n])
    }

    /// An issue or pull request that is not deleted.
    pub(super) fn any_issue(&self, at: usize, rng: &mut SplitMix) -> Option<usize> {
        let drawn = rng.next_u64() as usize;
        let issues = self.repositories[at].issues.iter().enumerate();
        let there = issues.filter(|(_, issue)| !issue.is_deleted);
        let there: Vec<usize> = there.map(|(n, _)| n).collect();
        drawn.checked_rem(there.len()).map(|n| there[n])
    }

    fn open_repository(&mut self) {
        self.add_repository(self.latest);
        if let Some(repository) = self.repositories.last() {
            self.users[repository.owner].updated = self.latest;
        }
    }

    fn open_issue(&mut self, at: usize, is_pull: bool) {
        let latest = self.latest;
        let repository = &mut self.repositories[at];
        // A repository without commits has no pull requests, and some have no issues either.
        let is_pull = match repository.history.is_empty() {
            true if !repository.has_issues => return self.commit(at),
            true => false,
            false => is_pull || !repository.has_issues,
        };
        let mut issue = Issue::open(latest, is_pull);
        if self.has_streams {
            issue.comments = 0;
        }
        repository.issues.push(issue);
    }

    fn touch_issue(&mut self, at: usize, rng: &mut SplitMix) {
        let Some(n) = self.any_issue(at, rng) else {
            return self.open_issue(at, false);
        };
        let latest = self.latest;
        let issue = &mut self.repositories[at].issues[n];
        issue.updated = latest;
        issue.revision += 1;
        issue.closed = match issue.closed {
            Some(_) => None,
            None => Some(latest),
        };
        match self.has_streams {
            true => self.record_issue_event(at, n),
            false => issue.comments += 1,
        }
    }

    fn commit(&mut self, at: usize) {
        let latest = self.latest;
        let repository = &mut self.repositories[at];
        repository.history.push(&[latest]);
        repository.pushed = latest;
        repository.updated = latest;
    }

    fn act(&mut self, repository: Option<usize>, rng: &mut SplitMix) {
        let owner = repository.map_or(0, |at| self.repositories[at].owner);
        self.add_event(owner, self.latest, rng);
    }
}
