//! Whose failure a bad answer is: that of one resource, or that of the API as a whole.
//!
//! A repository that always answers 502 must not stop the requests for all others, and an API that
//! fails for every resource must be left alone. So the resources that fail are kept in memory, each
//! with the moment since when it fails. If another resource has had a good answer since, the API is
//! well and the resource is bad. Otherwise the resource is a suspect: several of them, or one while
//! there was no good answer lately, are the API's failure. Connections that fail always count; this
//! module does not see them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Failing resources that are remembered; more than a user has, unless the API fails.
const FAILING_MAX: usize = 64;
/// Older answers say nothing: longer than the retries of one job take.
const LATELY: Duration = Duration::from_secs(5 * 60);
/// Fewer suspects are not the API's failure: two bad repositories may come one after the other.
const SUSPECTS_MIN: usize = 3;

/// What the latest answers say of the API.
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
    last_at: Duration,
}

impl Health {
    /// The API gave an answer for the resource that can be used.
    pub(crate) fn note_good(&self, resource: &str, now: Duration) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.answers += 1;
        let number = seen.answers;
        seen.failing.retain(|one| one.resource != resource);
        seen.last_good = Some(Answered { number, at: now });
    }

    /// The API gave a bad answer for the resource. True: the API fails as a whole.
    pub(crate) fn note_bad(&self, resource: &str, now: Duration) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.answers += 1;
        let before = seen.failing.iter().find(|one| one.resource == resource);
        let since = before.map_or(seen.answers, |one| one.since);
        let is_late = |at: Duration| now.saturating_sub(at) >= LATELY;
        seen.failing
            .retain(|one| one.resource != resource && !is_late(one.last_at));
        if seen.failing.len() >= FAILING_MAX {
            seen.failing.pop_front();
        }
        seen.failing.push_back(Failing {
            resource: resource.to_owned(),
            since,
            last_at: now,
        });
        let Some(good) = seen.last_good.filter(|good| !is_late(good.at)) else {
            return true;
        };
        let is_suspect = |one: &&Failing| one.since > good.number;
        since > good.number && seen.failing.iter().filter(is_suspect).count() >= SUSPECTS_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    #[test]
    fn bad_resources_beside_good_ones_are_their_own_failure() {
        let health = Health::default();
        health.note_good("user:octocat", NOW);
        for n in 0..50 {
            assert!(!health.note_bad(&format!("repo:a/{n}"), NOW), "{n}");
            health.note_good("repo:good/one", NOW);
        }
        // At the end of a run only the bad ones are tried again.
        for _ in 0..5 {
            for n in 0..50 {
                assert!(!health.note_bad(&format!("repo:a/{n}"), NOW), "{n}");
            }
        }
    }

    #[test]
    fn several_resources_that_begin_to_fail_are_the_failure_of_the_api() {
        let health = Health::default();
        health.note_good("user:octocat", NOW);
        assert!(!health.note_bad("repo:a/a", NOW));
        assert!(!health.note_bad("repo:a/b", NOW));
        for _ in 0..10 {
            assert!(!health.note_bad("repo:a/a", NOW), "the same one again");
        }
        assert!(health.note_bad("repo:a/c", NOW));
        assert!(health.note_bad("repo:a/a", NOW), "it is one of the three");
        health.note_good("user:octocat", NOW);
        assert!(!health.note_bad("repo:a/a", NOW), "the API is well again");
    }

    #[test]
    fn an_api_without_a_good_answer_lately_fails_as_a_whole() {
        let health = Health::default();
        assert!(health.note_bad("user:octocat", NOW));
        health.note_good("user:octocat", NOW);
        assert!(!health.note_bad("repo:a/a", NOW));
        assert!(health.note_bad("repo:a/a", NOW + LATELY));
    }

    #[test]
    fn the_memory_is_bounded() {
        let health = Health::default();
        for n in 0..10_000 {
            health.note_bad(&format!("repo:a/{n}"), NOW);
        }
        let seen = health.seen.lock().expect("the answers");
        assert_eq!(seen.failing.len(), FAILING_MAX);
    }
}
