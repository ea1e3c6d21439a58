//! Ten thousand random histories, each step held against the laws.
//!
//! The seed is fixed, so that the same histories run everywhere;
//! `PROPTEST_RNG_SEED=1 PROPTEST_CASES=1000000` runs others, and more of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use clinch_core::policy::{Backoff, ProbeRules, ReaperStrategy, RetryRules, Rules, Safety};
use clinch_core::protocol::{
    Action, Begin, Event, Inherited, LaneStand, Phase, ProbeAnswer, Resolution, State, Verdict,
    WriteAhead,
};
use clinch_core::{Effect, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::cases::died;
use crate::laws::{Change, Step, broken_by_change, broken_by_refusal};
use crate::rows::{NOW, attempt_id, refusal, secs};

const HISTORIES: u32 = 10_000;
const STEPS_MAX: usize = 40;

/// What one step will be, once it is known on which row it falls.
#[derive(Debug, Clone)]
struct Draw {
    /// Of 100: which event.
    event: u8,
    /// Of 16: whose fence it carries.
    fence: u8,
    /// Of 16: how much time passes before it.
    pause: u8,
    /// Whatever else the event leaves open.
    detail: u8,
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let draw = (0..100_u8, 0..16_u8, 0..16_u8, any::<u8>());
    let draw = draw.prop_map(|(event, fence, pause, detail)| Draw {
        event,
        fence,
        pause,
        detail,
    });
    vec(draw, 10..=STEPS_MAX)
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let keyed = |secs| {
        any::<bool>().prop_map(move |remembers_refusals| Safety::Keyed {
            ttl: Duration::from_secs(secs),
            remembers_refusals,
        })
    };
    let safety = prop_oneof![
        Just(Safety::Unsafe),
        Just(Safety::Natural),
        keyed(120),
        keyed(3_600),
    ];
    let final_after = prop::option::of(Just(secs(20)));
    let probe = prop::option::of((final_after, 1..=3_u32));
    let reaper = prop::sample::select(vec![
        ReaperStrategy::Auto,
        ReaperStrategy::Auto,
        ReaperStrategy::Retry,
        ReaperStrategy::Probe,
        ReaperStrategy::Fail,
    ]);
    let deadline = prop::option::of(Just(secs(7_200)));
    (safety, probe, reaper, 1..=5_u32, 1..=4_u32, deadline).prop_map(
        |(safety, probe, reaper, max_attempts, deliveries_max, deadline)| Rules {
            safety,
            retry: RetryRules {
                max_attempts,
                ..RetryRules::WORKER
            },
            deliveries_max,
            deadline,
            probe: probe.map(|(not_found_final_after, inconclusive_max)| ProbeRules {
                not_found_final_after,
                inconclusive_max,
                backoff: Backoff::SDK,
            }),
            reaper,
            ..Rules::default()
        },
    )
}

/// A new operation, or the redrive of one whose effect is in doubt.
fn first_row() -> impl Strategy<Value = State> {
    let inherited = prop_oneof![
        4 => Just(Inherited::default()),
        1 => (1..=2_u32).prop_map(|maybe_calls| Inherited {
            effect: Effect::Unknown,
            first_call_at: Some(NOW - secs(40)),
            maybe_calls,
            call_deadline: Some(NOW - secs(10)),
        }),
    ];
    let deadline = prop::option::of(prop_oneof![Just(secs(60)), Just(secs(7_200))]);
    (inherited, deadline).prop_map(|(inherited, deadline)| {
        State::accepted(NOW, deadline.map(|after| NOW + after), inherited)
    })
}

impl Draw {
    /// Often exactly the moment that the row waits for.
    fn time(&self, row: &State, now: Timestamp) -> Timestamp {
        let probe_at = row.hold.as_ref().and_then(|hold| hold.probe_at);
        let awaited = row.next_attempt_at.or(row.lease_until).or(probe_at);
        match self.pause {
            0..=2 => now,
            3..=10 => awaited.unwrap_or(now).max(now),
            11 => now + Duration::from_millis(700),
            12 => now + secs(5),
            13 => now + secs(45),
            14 => row
                .deadline
                .unwrap_or(now + secs(30))
                .min(now + secs(30))
                .max(now),
            _ => now + secs(u64::from(self.detail) * 30),
        }
    }

    fn fence(&self, row: &State) -> u64 {
        match self.fence {
            0..=11 => row.fence,
            12 | 13 => row.fence.saturating_sub(1),
            14 => row.fence + 1,
            _ => 0,
        }
    }

    /// Mostly an event that the row may heed, or else its history is over too soon; the rest
    /// is anything.
    fn event(&self, row: &State, now: Timestamp) -> Event {
        let fence = self.fence(row);
        if matches!(row.write_ahead, WriteAhead::Pending { .. }) && self.event < 60 {
            return Event::Finalize;
        }
        match (row.phase, self.event) {
            (Some(Phase::Live), 0..=29) => self.retry(fence),
            (Some(Phase::Live), 30..=41) => Event::AttemptLost,
            (Some(Phase::Live), 42..=47) => self.died(row),
            (Some(Phase::Live), 48..=58) => self.not_called(fence),
            (Some(Phase::Live), 59..=64) => self.extend(fence),
            (Some(Phase::Live), 65..=74) => self.fail(fence),
            (Some(Phase::Live), 75..=79) => Event::Ok { fence: Some(fence) },
            (Some(Phase::Held), 0..=54) => self.probed(fence, row, now),
            (Some(Phase::Held), 55..=74) => Event::Resolve(self.resolution()),
            (Some(Phase::Waiting), 0..=9) => Event::RetryNow,
            (Some(Phase::Waiting), 10..=79) => Event::Begin(self.begin(row)),
            (None, 0..=79) if !row.is_terminal() => Event::Begin(self.begin(row)),
            _ => self.anything(fence, row, now),
        }
    }

    /// Mostly the process of the row's attempt.
    fn died(&self, row: &State) -> Event {
        let id = row.attempt_id.filter(|_| !self.detail.is_multiple_of(5));
        died(id.unwrap_or(attempt_id(u128::MAX)))
    }

    fn anything(&self, fence: u64, row: &State, now: Timestamp) -> Event {
        match self.event % 20 {
            0 | 1 => Event::Begin(self.begin(row)),
            2 | 3 => self.retry(fence),
            4 if self.detail.is_multiple_of(2) => self.died(row),
            4 => Event::AttemptLost,
            5 | 6 => self.not_called(fence),
            7 | 8 => self.fail(fence),
            9 | 10 => self.probed(fence, row, now),
            11 => self.extend(fence),
            12 => Event::Checkpoint { fence },
            13 if self.detail.is_multiple_of(4) => Event::Ok { fence: None },
            13 => Event::Ok { fence: Some(fence) },
            14 => Event::Finalize,
            15 | 16 => Event::DeadlinePassed,
            17 if self.detail.is_multiple_of(3) => Event::RetryNow,
            17 => Event::Cancel,
            18 => Event::Resolve(self.resolution()),
            _ => Event::Restored {
                earliest_call: NOW - secs(1),
            },
        }
    }

    fn retry(&self, fence: u64) -> Event {
        Event::Retry {
            fence,
            after: self.after(),
            effect: match self.detail % 2 {
                0 => Effect::None,
                _ => Effect::Unknown,
            },
            reason: "a reason".to_owned(),
        }
    }

    fn not_called(&self, fence: u64) -> Event {
        Event::NotCalled {
            fence,
            after: self.after(),
            reason: "a reason".to_owned(),
        }
    }

    fn after(&self) -> Option<Duration> {
        (self.detail % 8 == 3).then(|| secs(self.detail.into()))
    }

    fn fail(&self, fence: u64) -> Event {
        Event::Fail {
            fence,
            fail: refusal(),
        }
    }

    fn extend(&self, fence: u64) -> Event {
        Event::Extend {
            fence,
            lease: secs(u64::from(self.detail) % 50),
        }
    }

    fn begin(&self, row: &State) -> Begin {
        Begin {
            attempt_id: attempt_id(u128::from(row.version) << 64 | u128::from(self.detail)),
            lease: secs(10 + u64::from(self.detail % 3) * 10),
            paused: self.detail % 16 == 1,
            lane: match self.detail % 16 {
                2 => LaneStand::Behind,
                3..=6 => LaneStand::Ours,
                _ => LaneStand::Unordered,
            },
            intact: self.detail % 64 != 63,
        }
    }

    fn probed(&self, fence: u64, row: &State, now: Timestamp) -> Event {
        let last_call = row.call_deadline.unwrap_or(now);
        let asked_at = match self.detail % 3 {
            0 => now,
            1 => last_call + secs(20),
            _ => last_call + secs(20) + Duration::from_millis(1),
        };
        Event::Probed {
            fence,
            asked_at,
            answer: match self.detail / 3 % 16 {
                0 => ProbeAnswer::Succeeded,
                1 => ProbeAnswer::Failed(refusal()),
                2..=7 => ProbeAnswer::NotFound,
                _ => ProbeAnswer::Unknown,
            },
        }
    }

    fn resolution(&self) -> Resolution {
        let failed = |effect| Resolution::Failed {
            fail: refusal(),
            effect,
        };
        match self.detail % 16 {
            0 => Resolution::Completed,
            1 => failed(None),
            2 => failed(Some(Effect::None)),
            3 => failed(Some(Effect::Unknown)),
            _ => Resolution::Retry,
        }
    }
}

/// How often each kind of row, event and end was reached.
type Visits = BTreeMap<String, u32>;

fn count(visits: &RefCell<Visits>, what: String) {
    *visits.borrow_mut().entry(what).or_default() += 1;
}

fn kind(row: &State) -> String {
    let phase = row.phase.map(|phase| format!("{phase:?}"));
    let recorded = match row.write_ahead {
        WriteAhead::Pending { verdict, .. } => Some(verdict),
        WriteAhead::Empty | WriteAhead::Done => None,
    };
    let recorded = recorded.map_or("", |verdict| match verdict {
        Verdict::Ok => " ok recorded",
        Verdict::Fail => " fail recorded",
    });
    let status = row.status.as_str();
    let phase = phase.unwrap_or_default();
    format!("{status} {phase} {:?}{recorded}", row.effect)
}

/// Runs one history; `Err` tells the whole of it up to the law that broke.
fn run(
    first: &State,
    rules: &Rules,
    draws: &[Draw],
    visits: &RefCell<Visits>,
) -> Result<(), String> {
    let (mut row, mut now) = (first.clone(), NOW);
    count(visits, kind(&row));
    let mut excused = first.effect == Effect::Unknown;
    let mut told = Vec::new();
    for draw in draws {
        now = draw.time(&row, now);
        let event = draw.event(&row, now);
        let step = Step {
            before: &row,
            event: &event,
            now,
            rules,
        };
        let answer = row.apply(&event, now, rules);
        if answer != row.apply(&event, now, rules) {
            return Err("the same arguments gave two answers".to_owned());
        }
        told.push(format!("{} {event:?}", now.since(NOW).as_millis()));
        let broken = match &answer {
            Ok((after, actions)) => broken_by_change(&step, &Change { after, actions }),
            Err(_) => broken_by_refusal(&step),
        };
        if let Some(law) = broken {
            let history = told.join("\n");
            return Err(format!("{law}\n{history}\n{row:#?}\nbecame {answer:#?}"));
        }
        if let Ok((after, actions)) = answer {
            count(visits, kind(&after));
            count(visits, event.name().to_owned());
            actions
                .iter()
                .for_each(|action| count(visits, format!("{action:?}")));
            if let Some(hold) = &after.hold {
                count(visits, format!("then {:?}", hold.then));
            }
            if let Some(failure) = &after.failure
                && actions.contains(&Action::Settle)
            {
                count(visits, format!("{} {:?}", failure.code, failure.effect));
            }
            excused |= excuses_a_second_call(&event, &after);
            row = after;
            if rules.safety == Safety::Unsafe && row.maybe_calls > 1 && !excused {
                let history = told.join("\n");
                return Err(format!("an unsafe call was made twice\n{history}"));
            }
        }
    }
    Ok(())
}

/// A person, a provider that knows nothing of the first call, or a restore.
fn excuses_a_second_call(event: &Event, after: &State) -> bool {
    match event {
        Event::Resolve(_) | Event::Restored { .. } => true,
        Event::Probed { .. } => after.effect == Effect::None,
        _ => false,
    }
}

#[test]
fn core_5_core_7_run_7_random_histories_keep_every_law() {
    let default = Config::default();
    let config = Config {
        cases: default.cases.max(HISTORIES),
        failure_persistence: None,
        rng_seed: match default.rng_seed {
            RngSeed::Random => RngSeed::Fixed(7),
            fixed => fixed,
        },
        ..default
    };
    let visits = RefCell::new(Visits::new());
    let histories = (first_row(), any_rules(), draws());
    let held = TestRunner::new(config).run(&histories, |(first, rules, draws)| {
        prop_assert_eq!(rules.validate(), Ok(()));
        run(&first, &rules, &draws, &visits).map_err(TestCaseError::fail)
    });
    if let Err(broken) = held {
        panic!("{broken}");
    }
    let visits = visits.into_inner();
    for (what, least) in EXPECTED {
        let times = visits.get(*what).copied().unwrap_or(0);
        assert!(times >= *least, "{what}: only {times} times in {visits:#?}");
    }
}

/// A tame generator proves nothing: each of these must be reached at least so often.
const EXPECTED: &[(&str, u32)] = &[
    ("PENDING  None", 5_000),
    ("PENDING  Unknown", 1_000),
    ("IN_PROGRESS Live None", 5_000),
    ("IN_PROGRESS Live Unknown", 3_000),
    ("IN_PROGRESS Live None ok recorded", 300),
    ("IN_PROGRESS Live Unknown ok recorded", 200),
    ("IN_PROGRESS Live None fail recorded", 500),
    ("IN_PROGRESS Live Unknown fail recorded", 60),
    ("IN_PROGRESS Waiting None", 1_000),
    ("IN_PROGRESS Waiting Unknown", 3_000),
    ("IN_PROGRESS Held Unknown", 5_000),
    ("COMPLETED  None", 1_000),
    ("FAILED  None", 1_000),
    ("FAILED  Unknown", 1_000),
    ("Begin", 5_000),
    ("Extend", 400),
    ("Checkpoint", 60),
    ("NotCalled", 800),
    ("Ok", 1_000),
    ("Fail", 800),
    ("Retry", 2_000),
    ("AttemptLost", 800),
    ("ProcessDied", 400),
    ("DeadlinePassed", 50),
    ("Finalize", 800),
    ("Probed", 3_000),
    ("Resolve", 1_000),
    ("Cancel", 300),
    ("RetryNow", 150),
    ("Restored", 300),
    ("AlertLateOk", 1_000),
    ("then Stay", 3_000),
    ("then FailUnknown", 1_000),
    ("then Cancel", 100),
    ("retry_exhausted None", 200),
    ("retry_exhausted Unknown", 80),
    ("deadline None", 100),
    ("deadline Unknown", 30),
    ("canceled None", 100),
    ("canceled Unknown", 30),
    ("poison Unknown", 30),
    ("attempt_lost Unknown", 100),
    ("integrity None", 50),
    ("integrity Unknown", 10),
    ("http_402 None", 500),
    ("http_402 Unknown", 200),
];
