//! Generates a world from a seed.

use clinch::testing::SplitMix;

use super::history::History;
use super::streams::Streams;
use super::world::{Event, Issue, Repository, Size, User, World};

/// 2020-01-01 and 2025-01-01: all generated times are between them.
const START: i64 = 1_577_836_800;
const END: i64 = 1_735_689_600;

const LOGINS: [&str; 3] = ["octocat", "hubot", "monalisa"];
const NAMES: [&str; 16] = [
    "spoon",
    "hello",
    "boysenberry",
    "linguist",
    "atlas",
    "quartz",
    "lantern",
    "meadow",
    "comet",
    "harbor",
    "violet",
    "tundra",
    "ember",
    "willow",
    "cobalt",
    "saffron",
];

/// Fewer than the API shows, so that some can be added and all remain visible.
const EVENTS_PER_USER: usize = 200;

/// One event in this many happens in the same second as another.
const TIE: u64 = 16;

/// One commit in this many begins a branch.
const BRANCH: u64 = 8;

impl World {
    /// A world of this size.
    ///
    /// - Of twenty repositories one is empty, one has issues but no commits, and two have issues
    ///   disabled. The second is the empty one; the third has issues disabled.
    /// - It has as many documents as requested, unless the users and repositories alone are more,
    ///   or there is no repository to hold them.
    pub fn generate(seed: u64, size: &Size) -> Self {
        let mut world = Self::empty(seed, END);
        let mut rng = SplitMix::new(seed);
        for index in 0..size.users.max(1) {
            world.add_user(index, &mut rng);
        }
        for _ in 0..size.repositories {
            let created = START + below(&mut rng, (END - START).unsigned_abs() / 2);
            world.add_repository(created);
        }
        let base = world.users.len() + world.repositories.len();
        let rest = size.documents.saturating_sub(base);
        let is_bare = !(0..size.repositories).any(holds_documents);
        let events = match is_bare {
            true => rest.min(300 * world.users.len()),
            false => (rest / 10).min(EVENTS_PER_USER * world.users.len()),
        };
        world.generate_events(events, &mut rng);
        if !is_bare {
            world.fill(rest - events, &mut rng);
        }
        world
    }

    fn add_user(&mut self, index: usize, rng: &mut SplitMix) {
        let created = START - 1 - below(rng, 100_000_000);
        let named = LOGINS.get(index).map(|login| (*login).to_owned());
        self.users.push(User {
            login: named.unwrap_or_else(|| format!("user-{}", index + 1)),
            id: 1_000 + index as u64,
            created,
            updated: END,
            events: Vec::new(),
        });
    }

    pub(super) fn add_repository(&mut self, created: i64) {
        let index = self.repositories.len();
        // The step shares no factor with the number of names, so that the order of names is not
        // that of ids.
        let word = NAMES[index * 7 % NAMES.len()];
        let name = format!("{word}-{}", index + 1);
        let owner = index % self.users.len();
        self.repositories.push(Repository {
            id: 100_000 + index as u64,
            owner,
            first_name: format!("{}/{name}", self.users[owner].login),
            name,
            has_issues: index % 10 != 2,
            created,
            updated: created,
            pushed: created,
            issues: Vec::new(),
            history: History::default(),
            streams: Streams::default(),
            is_deleted: false,
            is_private: false,
        });
    }

    fn generate_events(&mut self, count: usize, rng: &mut SplitMix) {
        for at in times(rng, count, START) {
            let user = self.events as usize % self.users.len();
            self.add_event(user, at, rng);
        }
    }

    pub(super) fn add_event(&mut self, user: usize, at: i64, rng: &mut SplitMix) {
        let repository = self.any_repository(rng);
        self.users[user].events.push(Event {
            serial: self.events,
            at,
            repository,
        });
        self.events += 1;
    }

    /// Distributes `count` documents: a few repositories get most of them.
    fn fill(&mut self, count: usize, rng: &mut SplitMix) {
        let able: Vec<usize> = (0..self.repositories.len())
            .filter(|index| holds_documents(*index))
            .collect();
        let weights: Vec<usize> = able.iter().map(|_| weight(rng)).collect();
        let mut weight_left: usize = weights.iter().sum();
        let mut left = count;
        for (index, weight) in able.into_iter().zip(weights) {
            // The last repository takes the rest.
            let share = left * weight / weight_left;
            self.fill_one(index, share, rng);
            left -= share;
            weight_left -= weight;
        }
    }

    fn fill_one(&mut self, index: usize, count: usize, rng: &mut SplitMix) {
        let repository = &mut self.repositories[index];
        let start = repository.created;
        let (pulls, commits) = match (repository.has_issues, holds_commits(index)) {
            (_, false) => (0, 0),
            (true, true) => (count / 5, count * 2 / 5),
            (false, true) => (count / 4, count - count / 4),
        };
        let dates = times(rng, commits, start);
        let history = History::generate(&dates, || rng.next_u64().is_multiple_of(BRANCH));
        repository.history = history;
        let mut issues: Vec<Issue> = Vec::new();
        let mut pulls_left = pulls as u64;
        for (done, created) in times(rng, count - commits, start).into_iter().enumerate() {
            let to_come = (count - commits - done) as u64;
            let is_pull = rng.next_u64() % to_come < pulls_left;
            pulls_left -= u64::from(is_pull);
            let before = issues.last().map_or(created, |issue| issue.updated);
            let updated = match rng.next_u64().is_multiple_of(TIE) && before >= created {
                true => before,
                false => created + below(rng, (END - created).unsigned_abs()),
            };
            issues.push(Issue {
                updated,
                closed: (!rng.next_u64().is_multiple_of(3)).then_some(updated),
                ..Issue::open(created, is_pull)
            });
        }
        let touched = issues.iter().map(|issue| issue.updated).max();
        repository.issues = issues;
        repository.pushed = dates.last().copied().unwrap_or(start);
        repository.updated = touched.unwrap_or(start).max(repository.pushed);
    }
}

fn holds_documents(index: usize) -> bool {
    index % 20 != 1
}

fn holds_commits(index: usize) -> bool {
    index % 20 != 11
}

/// One repository in eight is ten times as large.
fn weight(rng: &mut SplitMix) -> usize {
    let drawn = rng.next_u64();
    let usual = 1 + (drawn % 10) as usize;
    match drawn >> 61 {
        0 => usual * 10,
        _ => usual,
    }
}

/// `count` times between `from` and the end, oldest first, some of them equal.
fn times(rng: &mut SplitMix, count: usize, from: i64) -> Vec<i64> {
    let step = (END - from) / (count as i64).max(1);
    let mut last = from;
    let mut all = Vec::with_capacity(count);
    for n in 0..count as i64 {
        if !rng.next_u64().is_multiple_of(TIE) {
            last = from + step * n + below(rng, step.unsigned_abs());
        }
        all.push(last);
    }
    all
}

pub(super) fn below(rng: &mut SplitMix, bound: u64) -> i64 {
    (rng.next_u64() % bound.max(1)) as i64
}
