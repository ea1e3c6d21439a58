//! Whose failure a bad answer is: that of one resource, or that of the API as a whole; and how many
//! requests a resource may have at the same time.
//!
//! A repository that always answers 502, or never answers, must not stop the requests for all others,
//! and an API that fails for every resource must be left alone. So the resources that fail are kept in
//! memory, each with the moment since when it fails. If another resource has had a good answer since,
//! the API is well and the resource is bad. Otherwise the resource is a suspect: several of them, or a
//! user while there was no good answer lately, are the API's failure. Connections that fail always
//! count; this module does not see them.
//!
//! A request that hangs holds one of the few slots for all requests. So a resource has one request at a
//! time until it has given a good answer, and again when it fails or hangs. After many failures in a row
//! the other jobs of the run fail without a request, until it is asked again a minute later: the jobs
//! of a large repository would otherwise hang one after the other for hours.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Failing resources that are remembered; more than a user has, unless the API fails.
const FAILING_MAX: usize = 64;
/// Resources whose requests are remembered. The others begin anew, with one request at a time.
const ASKED_MAX: usize = 10_000;
/// Older answers say nothing: longer than the retries of one job take.
const LATELY: Duration = Duration::from_secs(5 * 60);
/// Fewer suspects are not the API's failure: two bad repositories may come one after the other.
const SUSPECTS_MIN: usize = 3;
/// How long a job waits in its slot for the first answer of its resource: most take less.
const FIRST_ANSWER: Duration = Duration::from_secs(1);
/// A request of a resource that was well hangs if it takes longer.
const HANGS: Duration = Duration::from_secs(10);
/// Pause of a job without a turn, for each job before it that got none since the last good answer.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A resource that fails so often in a row is given up for [`GIVEN_UP_FOR`]: the retries of four jobs.
const GIVEN_UP_AFTER: u32 = 20;
const GIVEN_UP_FOR: Duration = Duration::from_secs(60);

/// What the latest answers say of the API and of its resources.
#[derive(Default)]
pub(crate) struct Health {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Answers so far.
    answers: u64,
    last_good: Option<Answered>,
    /// The resources whose last answer was bad, the longest unheard of first.
    failing: VecDeque<Failing>,
    /// The resources that were asked lately.
    asked: HashMap<String, Asked>,
}

/// Number and time of an answer.
#[derive(Clone, Copy)]
struct Answered {
    number: u64,
    at: Duration,
}

struct Failing {
    resource: String,
    /// Number of its first bad answer in a row.
    since: u64,
    /// The run that was told so last.
    run: String,
    /// Its bad answers in a row for this run that were no failure of the API.
    times: u32,
    last_at: Duration,
}

/// The requests of a resource.
struct Asked {
    /// When the requests began that are not answered yet, the oldest first.
    begun: VecDeque<Duration>,
    /// Its last answer was good, and came then.
    good_at: Option<Duration>,
    /// Jobs that got no turn since the last good answer.
    refused: u32,
    changed: Arc<Notify>,
}

/// When a job may ask for its resource.
pub(crate) enum Turn {
    /// Now. [`Health::leave`] must follow.
    Now,
    /// Perhaps when the first request is answered, which is expected within this time.
    Soon {
        changed: OwnedNotified,
        within: Duration,
    },
    /// Not while the resource fails or hangs: after this pause.
    Later(Duration),
    /// The resource is given up for now: so many requests in a row failed.
    Never { times: u32 },
}

impl Health {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a job of the run may ask for the resource now. `None`: what a person wants to be
    /// asked for again, which is never given up.
    pub(crate) fn turn(&self, resource: &str, run: Option<&str>, now: Duration) -> Turn {
        let mut seen = self.seen();
        let failing = seen.failing.iter().find(|one| one.resource == resource);
        let is_failing = failing.is_some();
        if let Some(failing) = failing.filter(|one| run == Some(&one.run))
            && failing.times >= GIVEN_UP_AFTER
            && now.saturating_sub(failing.last_at) < GIVEN_UP_FOR
        {
            return Turn::Never {
                times: failing.times,
            };
        }
        seen.make_room();
        let asked = seen.asked.entry(resource.to_owned()).or_default();
        let oldest = asked.begun.front().copied();
        let pending = oldest.map(|at| now.saturating_sub(at));
        let is_well = asked
            .good_at
            .is_some_and(|at| now.saturating_sub(at) < LATELY);
        let may_ask = match pending {
            None => true,
            Some(pending) => is_well && pending < HANGS,
        };
        if may_ask {
            asked.begun.push_back(now);
            return Turn::Now;
        }
        if let Some(pending) = pending.filter(|one| !is_failing && *one < FIRST_ANSWER) {
            return Turn::Soon {
                changed: asked.changed.clone().notified_owned(),
                within: FIRST_ANSWER - pending,
            };
        }
        asked.refused = asked.refused.saturating_add(1);
        Turn::Later(PAUSE.saturating_mul(asked.refused).min(PAUSE_MAX))
    }

    /// The job that had a turn at this time has ended.
    pub(crate) fn leave(&self, resource: &str, began: Duration) {
        let mut seen = self.seen();
        if let Some(asked) = seen.asked.get_mut(resource) {
            let at = asked.begun.iter().position(|at| *at == began);
            at.map(|at| asked.begun.remove(at));
            asked.changed.notify_waiters();
        }
    }

    /// The API gave an answer for the resource that can be used.
    pub(crate) fn note_good(&self, resource: &str, now: Duration) {
        let mut seen = self.seen();
        seen.answers += 1;
        let number = seen.answers;
        seen.failing.retain(|one| one.resource != resource);
        seen.last_good = Some(Answered { number, at: now });
        if let Some(asked) = seen.asked.get_mut(resource) {
            (asked.good_at, asked.refused) = (Some(now), 0);
        }
    }

    /// The API gave a bad answer for the resource, or none, to a job of this run. True: the API
    /// fails as a whole.
    pub(crate) fn note_bad(&self, resource: &str, run: &str, now: Duration) -> bool {
        let mut seen = self.seen();
        seen.answers += 1;
        if let Some(asked) = seen.asked.get_mut(resource) {
            asked.good_at = None;
        }
        let before = seen.failing.iter().find(|one| one.resource == resource);
        let since = before.map_or(seen.answers, |one| one.since);
        let times = before
            .filter(|one| one.run == run)
            .map_or(0, |one| one.times);
        let is_late = |at: Duration| now.saturating_sub(at) >= LATELY;
        seen.failing
            .retain(|one| one.resource != resource && !is_late(one.last_at));
        if seen.failing.len() >= FAILING_MAX {
            seen.failing.pop_front();
        }
        seen.failing.push_back(Failing {
            resource: resource.to_owned(),
            since,
            run: run.to_owned(),
            times,
            last_at: now,
        });
        let is_of_api = seen.is_of_api(resource, since, now);
        if let Some(failing) = seen.failing.back_mut().filter(|_| !is_of_api) {
            failing.times += 1;
        }
        is_of_api
    }
}

impl Seen {
    /// Whether the failure of a resource that fails since then is that of the API.
    fn is_of_api(&self, resource: &str, since: u64, now: Duration) -> bool {
        let good = self.last_good;
        let good = good.filter(|good| now.saturating_sub(good.at) < LATELY);
        let Some(good) = good else {
            // Repositories are asked after a good answer for their user: many jobs of a single bad
            // one may follow, for longer than answers are remembered.
            return !resource.starts_with("repo:") || self.failing.len() >= SUSPECTS_MIN;
        };
        let is_suspect = |one: &&Failing| one.since > good.number;
        since > good.number && self.failing.iter().filter(is_suspect).count() >= SUSPECTS_MIN
    }

    /// Forgets resources that nobody asks for now, if there are too many.
    fn make_room(&mut self) {
        if self.asked.len() >= ASKED_MAX {
            self.asked.retain(|_, one| !one.begun.is_empty());
        }
    }
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            begun: VecDeque::new(),
            good_at: None,
            refused: 0,
            changed: Arc::new(Notify::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "octocat.1";
    const NOW: Duration = Duration::from_secs(1_000);

    #[test]
    fn bad_resources_beside_good_ones_are_their_own_failure() {
        let health = Health::default();
        health.note_good("user:octocat", NOW);
        for n in 0..50 {
            assert!(!health.note_bad(&format!("repo:a/{n}"), RUN, NOW), "{n}");
            health.note_good("repo:good/one", NOW);
        }
        // At the end of a run only the bad ones are tried again.
        for _ in 0..5 {
            for n in 0..50 {
                assert!(!health.note_bad(&format!("repo:a/{n}"), RUN, NOW), "{n}");
            }
        }
    }

    #[test]
    fn several_resources_that_begin_to_fail_are_the_failure_of_the_api() {
        let health = Health::default();
        health.note_good("user:octocat", NOW);
        assert!(!health.note_bad("repo:a/a", RUN, NOW));
        assert!(!health.note_bad("repo:a/b", RUN, NOW));
        for _ in 0..10 {
            assert!(!health.note_bad("repo:a/a", RUN, NOW), "the same one again");
        }
        assert!(health.note_bad("repo:a/c", RUN, NOW));
        assert!(
            health.note_bad("repo:a/a", RUN, NOW),
            "it is one of the three"
        );
        health.note_good("user:octocat", NOW);
        assert!(
            !health.note_bad("repo:a/a", RUN, NOW),
            "the API is well again"
        );
    }

    #[test]
    fn an_api_without_a_good_answer_lately_fails_as_a_whole() {
        let health = Health::default();
        assert!(health.note_bad("user:octocat", RUN, NOW));
        health.note_good("user:octocat", NOW);
        assert!(!health.note_bad("repo:a/a", RUN, NOW));
        assert!(health.note_bad("user:octocat", RUN, NOW + LATELY));
        let health = Health::default();
        health.note_good("user:octocat", NOW);
        for n in 0..100 {
            let later = NOW + LATELY + Duration::from_secs(n);
            assert!(
                !health.note_bad("repo:a/a", RUN, later),
                "a single repository"
            );
        }
        assert!(!health.note_bad("repo:a/b", RUN, NOW + LATELY));
        assert!(health.note_bad("repo:a/c", RUN, NOW + LATELY));
    }

    /// Asks and says whether the turn came at once.
    fn asks(health: &Health, resource: &str, now: Duration) -> bool {
        matches!(health.turn(resource, Some(RUN), now), Turn::Now)
    }

    #[test]
    fn a_resource_has_one_request_until_it_answers_well() {
        let health = Health::default();
        assert!(asks(&health, "repo:1", NOW));
        assert!(matches!(
            health.turn("repo:1", Some(RUN), NOW),
            Turn::Soon { .. }
        ));
        assert!(asks(&health, "repo:2", NOW), "another one");
        let late = NOW + FIRST_ANSWER;
        assert!(
            matches!(health.turn("repo:1", Some(RUN), late), Turn::Later(pause) if pause == PAUSE)
        );
        assert!(
            matches!(health.turn("repo:1", Some(RUN), late), Turn::Later(pause) if pause == PAUSE * 2)
        );
        health.note_good("repo:1", late);
        health.leave("repo:1", NOW);
        for _ in 0..20 {
            assert!(asks(&health, "repo:1", late));
        }
        let hangs = late + HANGS;
        assert!(matches!(
            health.turn("repo:1", Some(RUN), hangs),
            Turn::Later(_)
        ));
        for _ in 0..20 {
            health.leave("repo:1", late);
        }
        assert!(asks(&health, "repo:1", hangs));
        health.note_bad("repo:1", RUN, hangs);
        assert!(matches!(
            health.turn("repo:1", Some(RUN), hangs),
            Turn::Later(_)
        ));
    }

    #[test]
    fn a_resource_that_always_fails_is_given_up_for_a_minute() {
        let health = Health::default();
        health.note_good("user:octocat", NOW);
        for n in 0..GIVEN_UP_AFTER {
            assert!(asks(&health, "repo:1", NOW), "{n}");
            health.note_bad("repo:1", RUN, NOW);
            health.leave("repo:1", NOW);
        }
        let times = GIVEN_UP_AFTER;
        assert!(
            matches!(health.turn("repo:1", Some(RUN), NOW), Turn::Never { times: n } if n == times)
        );
        assert!(asks(&health, "repo:2", NOW));
        for other in [Some("octocat.2"), None] {
            assert!(matches!(health.turn("repo:1", other, NOW), Turn::Now));
            health.leave("repo:1", NOW);
        }
        let later = NOW + GIVEN_UP_FOR;
        assert!(asks(&health, "repo:1", later));
        health.note_bad("repo:1", RUN, later);
        health.leave("repo:1", later);
        assert!(matches!(
            health.turn("repo:1", Some(RUN), later),
            Turn::Never { .. }
        ));
        health.note_good("repo:1", later);
        assert!(asks(&health, "repo:1", later + GIVEN_UP_FOR));
    }

    #[test]
    fn failures_of_the_api_give_no_resource_up() {
        let health = Health::default();
        for _ in 0..2 * GIVEN_UP_AFTER {
            assert!(health.note_bad("user:octocat", RUN, NOW));
        }
        assert!(asks(&health, "user:octocat", NOW));
    }

    #[test]
    fn the_memory_is_bounded() {
        let health = Health::default();
        for n in 0..=2 * ASKED_MAX {
            let resource = format!("repo:a/{n}");
            health.turn(&resource, Some(RUN), NOW);
            health.note_bad(&resource, RUN, NOW);
            health.leave(&resource, NOW);
        }
        let seen = health.seen();
        assert_eq!(seen.failing.len(), FAILING_MAX);
        assert!(seen.asked.len() <= ASKED_MAX);
    }
}
