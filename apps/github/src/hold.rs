//! Why jobs that are due are not begun: the domain is paused, or the API is not called now.
//!
//! The engine begins nothing for a destination whose breaker is open or whose provider asked for a
//! pause, and nothing at all for a paused domain. Their rows stay due, without a reason of their own.

use clinch::Result;
use clinch::policy::DestinationStatus;
use clinch::ports::{CircuitState, DomainView};
use clinch::types::Timestamp;

use crate::collector::Inner;
use crate::model::{Job, JobState};
use crate::routes::{DESTINATION, DOMAIN};

/// What keeps due jobs from being begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    reason: String,
    /// `None`: until an operator ends it, or until a running request has ended.
    until: Option<Timestamp>,
    is_of_domain: bool,
}

impl Hold {
    fn of_domain(view: &DomainView) -> Self {
        let why = view.pause.as_ref().map(|pause| pause.reason.as_str());
        Self {
            reason: with_cause("the domain github is paused", why.unwrap_or_default()),
            until: None,
            is_of_domain: true,
        }
    }

    /// A breaker and a pause may both hold jobs; the one that lasts longer counts.
    fn of_destination(status: &DestinationStatus, now: Timestamp) -> Option<Self> {
        let pause = status.paused.map(|left| Self {
            reason: "the API asked for a pause".to_owned(),
            until: Some(now + left),
            is_of_domain: false,
        });
        let holds = [Self::of_breaker(status, now), pause];
        let by_end = |hold: &Self| (hold.until.is_none(), hold.until);
        holds.into_iter().flatten().max_by_key(by_end)
    }

    fn of_breaker(status: &DestinationStatus, now: Timestamp) -> Option<Self> {
        let room = &status.room;
        let is_full = room.is_closed() && room.reason.is_some_and(|one| one.as_str() == BREAKER);
        let (reason, left) = match status.breaker {
            CircuitState::Open => {
                let told = status.opener.as_ref().map(|opener| opener.reason.as_str());
                let seen = status.last_failure.as_ref().map(|one| one.message.as_str());
                let what = "the breaker of the destination github is open";
                let why = told.or(seen).unwrap_or_default();
                (with_cause(what, why), status.circuit.open_for)
            }
            CircuitState::HalfOpen if is_full => {
                let what = "the breaker of the destination github is half open: a few requests \
                            test the API";
                (what.to_owned(), None)
            }
            CircuitState::HalfOpen | CircuitState::Closed => return None,
        };
        Some(Self {
            reason,
            until: left.map(|left| now + left),
            is_of_domain: false,
        })
    }

    /// Why the steps of a run are not begun either; they call no destination.
    pub(crate) fn of_steps(&self) -> Option<&str> {
        self.is_of_domain.then_some(self.reason.as_str())
    }

    /// Whether a job whose next attempt is planned for this time waits for longer than that.
    fn outlasts(&self, planned: Option<Timestamp>) -> bool {
        self.until.is_none_or(|until| Some(until) > planned)
    }
}

/// The reason of a breaker that takes no call.
const BREAKER: &str = "breaker_open";

fn with_cause(what: &str, why: &str) -> String {
    match why {
        "" => what.to_owned(),
        why => format!("{what}: {why}"),
    }
}

/// What a job waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) reason: Option<String>,
    /// `None`: nothing says when it ends.
    pub(crate) until: Option<Timestamp>,
}

impl Wait {
    /// What the job waits for; `None`: it does not wait.
    pub(crate) fn of(job: &Job, hold: Option<&Hold>) -> Option<Self> {
        let planned = match job.state {
            JobState::Ready => job.not_before,
            JobState::Enqueued => None,
            JobState::Running | JobState::Succeeded | JobState::Failed | JobState::Unavailable => {
                return None;
            }
        };
        let held = hold.filter(|hold| hold.outlasts(planned));
        match held {
            Some(hold) => Some(Self {
                reason: Some(hold.reason.clone()),
                until: hold.until,
            }),
            None => planned.map(|at| Self {
                reason: job.error.clone(),
                until: Some(at),
            }),
        }
    }

    /// Whether this wait ends before the other one.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        self.by_end() < other.by_end()
    }

    /// Waits without an end come last.
    pub(crate) fn by_end(&self) -> (bool, Option<Timestamp>) {
        (self.until.is_none(), self.until)
    }
}

impl Inner {
    /// The collector's domain with its counters. `None`: it never had an operation.
    pub(crate) async fn domain_view(&self) -> Result<Option<DomainView>> {
        let domains = self.clinch()?.runtime().ports().domains.clone();
        let views = domains.domains().await?;
        let mut ours = views
            .into_iter()
            .filter(|view| view.domain.as_str() == DOMAIN);
        Ok(ours.next())
    }

    /// What keeps due jobs from being begun, if something does. Only a process that executes jobs
    /// knows the state of the destination.
    pub(crate) async fn hold(&self, view: Option<&DomainView>) -> Result<Option<Hold>> {
        if let Some(view) = view.filter(|view| view.paused) {
            return Ok(Some(Hold::of_domain(view)));
        }
        let clinch = self.clinch()?;
        // Another process may have stopped the requests.
        clinch.catch_up_destinations().await;
        let now = self.clock.now();
        let mut all = clinch.destinations().into_iter();
        let github = all.find(|status| status.name == DESTINATION);
        Ok(github.and_then(|status| Hold::of_destination(&status, now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::JobKind;

    fn at(millis: i64) -> Option<Timestamp> {
        Some(Timestamp::from_millis(millis))
    }

    fn job(state: JobState, not_before: Option<Timestamp>) -> Job {
        Job {
            op_id: "01917f5e-0000-7000-8000-000000000001"
                .parse()
                .expect("an id"),
            kind: JobKind::USER_BASIC,
            run: None,
            resource: String::new(),
            page: String::new(),
            state,
            attempts: 1,
            not_before,
            done: None,
            error: Some("HTTP 502".to_owned()),
        }
    }

    fn hold(until: Option<Timestamp>) -> Hold {
        Hold {
            reason: "closed".to_owned(),
            until,
            is_of_domain: false,
        }
    }

    #[test]
    fn a_job_waits_for_what_lasts_longer() {
        let ready = job(JobState::Ready, at(20));
        let cases = [
            (None, Some(("HTTP 502", at(20)))),
            (Some(hold(at(10))), Some(("HTTP 502", at(20)))),
            (Some(hold(at(30))), Some(("closed", at(30)))),
            (Some(hold(None)), Some(("closed", None))),
        ];
        for (hold, expected) in cases {
            let expected = expected.map(|(reason, until)| Wait {
                reason: Some(reason.to_owned()),
                until,
            });
            assert_eq!(Wait::of(&ready, hold.as_ref()), expected, "{hold:?}");
        }
        let due = job(JobState::Enqueued, None);
        assert_eq!(Wait::of(&due, None), None, "a worker takes it");
        assert!(Wait::of(&due, Some(&hold(at(1)))).is_some());
        let running = job(JobState::Running, None);
        assert_eq!(Wait::of(&running, Some(&hold(None))), None);
    }

    #[test]
    fn a_wait_without_an_end_is_the_last() {
        let wait = |until| Wait {
            reason: None,
            until,
        };
        assert!(wait(at(1)).is_before(&wait(at(2))) && wait(at(2)).is_before(&wait(None)));
        assert!(!wait(None).is_before(&wait(None)) && !wait(None).is_before(&wait(at(2))));
    }
}
