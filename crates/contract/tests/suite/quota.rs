//! The area `quota::` bites: budgets that are wrong in one way each, and the case that must
//! notice (COL-8). Each is the reference with one flaw in the way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{
    BoxFuture, QuotaControl, QuotaFactory, QuotaSubject, check_quota, quota_cases,
};
use clinch_core::policy::{QuotaReading, QuotaRules, Reservation};
use clinch_core::ports::{Clock, Quota};
use clinch_core::{Result, Timestamp};
use clinch_memory::{ManualClock, MemoryQuota};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    GrantsWhatIsUnknown,
    ForgetsAnswersThatSayNothing,
    NeverGivesUpOnAnAnswer,
    TheLastAnswerWins,
    OldAnswersCount,
    PastResetsCount,
    MissingResetsBeginAWindow,
    BelievesEverything,
    NegativeIsPlenty,
    IgnoresRetryAfter,
    AnyRetryAfterReplaces,
    TakesOnePermitForAll,
    WaitsWithoutEnd,
    OneBudgetForAll,
    ReserveIsNotScaled,
    KeepsNoReserve,
    TakesAnyKey,
    RoundsMakeWindows,
    GivesNothingBack,
}

/// Every flaw with the case that must notice it.
const FLAWS: &[(Flaw, &str)] = &[
    (
        Flaw::GrantsWhatIsUnknown,
        "one_request_at_a_time_while_nothing_is_known",
    ),
    (
        Flaw::ForgetsAnswersThatSayNothing,
        "an_answer_that_says_nothing_lets_the_next_one_ask",
    ),
    (
        Flaw::NeverGivesUpOnAnAnswer,
        "an_ask_that_is_never_answered_blocks_nobody_for_long",
    ),
    (
        Flaw::TheLastAnswerWins,
        "the_least_remaining_of_a_window_counts",
    ),
    (
        Flaw::OldAnswersCount,
        "an_answer_of_an_older_window_changes_nothing",
    ),
    (
        Flaw::PastResetsCount,
        "a_reset_in_the_past_begins_no_window",
    ),
    (
        Flaw::MissingResetsBeginAWindow,
        "a_missing_reset_begins_no_window",
    ),
    (
        Flaw::BelievesEverything,
        "a_reset_nobody_can_believe_begins_no_window",
    ),
    (Flaw::NegativeIsPlenty, "a_negative_remaining_is_none"),
    (Flaw::IgnoresRetryAfter, "retry_after_stops_everybody"),
    (
        Flaw::AnyRetryAfterReplaces,
        "a_shorter_retry_after_does_not_end_a_longer_one",
    ),
    (
        Flaw::TakesOnePermitForAll,
        "several_permits_are_all_or_nothing",
    ),
    (Flaw::WaitsWithoutEnd, "no_wait_is_longer_than_its_bound"),
    (Flaw::OneBudgetForAll, "keys_have_budgets_of_their_own"),
    (
        Flaw::ReserveIsNotScaled,
        "the_reserve_is_at_most_a_tenth_of_the_limit",
    ),
    (
        Flaw::KeepsNoReserve,
        "a_known_budget_is_spent_to_its_reserve",
    ),
    (Flaw::TakesAnyKey, "no_permits_and_bad_keys_are_refused"),
    (
        Flaw::RoundsMakeWindows,
        "windows_that_end_close_together_are_one",
    ),
    (Flaw::GivesNothingBack, "what_cost_nothing_is_given_back"),
];

struct Broken {
    flaw: Flaw,
    clock: Arc<ManualClock>,
    rules: QuotaRules,
    /// Made anew where a flaw forgets.
    quota: Mutex<Arc<MemoryQuota>>,
    latest: Mutex<Option<Timestamp>>,
}

impl Broken {
    fn new(flaw: Flaw, clock: Arc<ManualClock>) -> Self {
        let plain = QuotaRules::default();
        let long = Duration::from_secs(10_000_000_000_000);
        let rules = match flaw {
            Flaw::NeverGivesUpOnAnAnswer => QuotaRules {
                answer_within: long,
                ..plain
            },
            Flaw::BelievesEverything => QuotaRules {
                window_max: long,
                ..plain
            },
            Flaw::WaitsWithoutEnd => QuotaRules {
                wait_max: long,
                ..plain
            },
            Flaw::KeepsNoReserve => QuotaRules {
                threshold: 0,
                ..plain
            },
            Flaw::RoundsMakeWindows => QuotaRules {
                same_window: Duration::ZERO,
                ..plain
            },
            _ => plain,
        };
        let quota = MemoryQuota::new(clock.clone(), rules.clone());
        Self {
            flaw,
            clock,
            rules,
            quota: Mutex::new(Arc::new(quota)),
            latest: Mutex::default(),
        }
    }

    fn quota(&self) -> Arc<MemoryQuota> {
        self.quota.lock().expect("no panic").clone()
    }

    fn forget(&self) {
        let fresh = MemoryQuota::new(self.clock.clone(), self.rules.clone());
        *self.quota.lock().expect("no panic") = Arc::new(fresh);
    }

    /// The reading as this one takes it.
    fn distort(&self, mut reading: QuotaReading) -> QuotaReading {
        let now = self.clock.now();
        let hour = Duration::from_secs(3_600);
        let mut latest = self.latest.lock().expect("no panic");
        match self.flaw {
            Flaw::OldAnswersCount => {
                *latest = reading.reset_at.max(*latest);
                reading.reset_at = reading.reset_at.and(*latest);
            }
            Flaw::PastResetsCount => {
                reading.reset_at = reading.reset_at.map(|at| at.max(now + hour));
            }
            Flaw::MissingResetsBeginAWindow => {
                reading.reset_at = reading.reset_at.or(Some(now + hour));
            }
            Flaw::NegativeIsPlenty => {
                reading.remaining = reading.remaining.map(|left| match left {
                    ..0 => 1_000,
                    left => left,
                });
            }
            Flaw::IgnoresRetryAfter => reading.retry_after = None,
            Flaw::GivesNothingBack => reading.unspent = 0,
            Flaw::ReserveIsNotScaled => {
                // The threshold in full, by taking it away beforehand.
                let left = |left: i64| (left - 100).max(0);
                reading.remaining = reading.remaining.map(left);
            }
            _ => {}
        }
        reading
    }
}

#[async_trait]
impl Quota for Broken {
    async fn reserve(&self, key: &str, permits: u32) -> Result<Reservation> {
        let (key, permits) = match self.flaw {
            Flaw::OneBudgetForAll if !key.is_empty() => ("all", permits),
            Flaw::TakesAnyKey => ("any", permits.max(1)),
            Flaw::TakesOnePermitForAll => (key, permits.min(1)),
            _ => (key, permits),
        };
        let got = self.quota().reserve(key, permits).await?;
        let told = self.latest.lock().expect("no panic").is_some();
        if self.flaw == Flaw::GrantsWhatIsUnknown && !told {
            return Ok(Reservation::Granted);
        }
        Ok(got)
    }

    async fn update(&self, key: &str, reading: &QuotaReading) -> Result<()> {
        let says_nothing = *reading == QuotaReading::default();
        if self.flaw == Flaw::ForgetsAnswersThatSayNothing && says_nothing && !key.is_empty() {
            return Ok(());
        }
        let forgets = match self.flaw {
            Flaw::TheLastAnswerWins => true,
            Flaw::AnyRetryAfterReplaces => reading.retry_after.is_some(),
            _ => false,
        };
        if forgets {
            self.forget();
        }
        let key = match self.flaw {
            Flaw::OneBudgetForAll if !key.is_empty() => "all",
            Flaw::TakesAnyKey => "any",
            _ => key,
        };
        self.quota().update(key, &self.distort(*reading)).await
    }
}

struct Hands(Arc<ManualClock>);

#[async_trait]
impl QuotaControl for Hands {
    async fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by);
    }
}

fn with(flaw: Flaw) -> QuotaFactory {
    Arc::new(
        move || -> BoxFuture<std::result::Result<QuotaSubject, String>> {
            let clock = Arc::new(ManualClock::default());
            let subject = QuotaSubject {
                quota: Arc::new(Broken::new(flaw, clock.clone())),
                control: Arc::new(Hands(clock)),
            };
            Box::pin(async move { Ok(subject) })
        },
    )
}

#[test]
fn col_8_a_budget_without_a_flaw_passes_every_case() {
    for case in quota_cases() {
        assert_eq!(
            check_quota(&case, &with(Flaw::None)),
            Ok(()),
            "{}",
            case.name
        );
    }
}

#[test]
fn col_8_every_flaw_is_noticed() {
    let cases = quota_cases();
    for (flaw, noticed_by) in FLAWS {
        let name = format!("quota::{noticed_by}");
        let case = cases.iter().find(|case| case.name == name);
        let case = case.expect("the case is there");
        let verdict = check_quota(case, &with(*flaw));
        assert!(verdict.is_err(), "{flaw:?} passes {name}");
    }
}
