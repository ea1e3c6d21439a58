//! Every kind of row, on every kind of route.

use std::time::Duration;

use clinch_core::policy::{ProbeRules, Rules, Safety};
use clinch_core::protocol::{
    Hold, HoldThen, Inherited, Phase, Refund, State, Status, Verdict, WriteAhead,
};
use clinch_core::{AttemptId, Effect, Fail, Failure, Timestamp};
use uuid::Uuid;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
pub(crate) const KEY_TTL: Duration = Duration::from_secs(3_600);
/// Of every row that has begun before.
pub(crate) const FENCE: u64 = 7;

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn refusal() -> Fail {
    Fail::new("http_402", "no funds")
}

pub(crate) fn attempt_id(seed: u128) -> AttemptId {
    AttemptId(Uuid::from_u128(seed))
}

/// An enum whose variants have names that `transitions.txt` can select by prefix.
macro_rules! named {
    ($kind:ident { $($variant:ident = $name:literal,)+ }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum $kind { $($variant,)+ }

        impl $kind {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)+];

            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}
pub(crate) use named;

named!(Row {
    PendingNone = "pending.none",
    PendingUnknown = "pending.unknown",
    LiveNone = "live.none",
    LiveUnknown = "live.unknown",
    RecordedOkNone = "recorded.ok.none",
    RecordedOkUnknown = "recorded.ok.unknown",
    RecordedFailNone = "recorded.fail.none",
    RecordedFailUnknown = "recorded.fail.unknown",
    WaitingNone = "waiting.none",
    WaitingUnknown = "waiting.unknown",
    Held = "held",
    Completed = "completed",
    FailedNone = "failed.none",
    FailedUnknown = "failed.unknown",
});

named!(Route {
    Unsafe = "unsafe",
    Natural = "natural",
    KeyedFresh = "keyed.fresh",
    KeyedRemembers = "keyed.remembers",
    KeyedClosing = "keyed.closing",
    KeyedPast = "keyed.past",
});

impl Route {
    pub(crate) fn rules(self) -> Rules {
        let keyed = |remembers_refusals| Safety::Keyed {
            ttl: KEY_TTL,
            remembers_refusals,
        };
        Rules {
            safety: match self {
                Self::Unsafe => Safety::Unsafe,
                Self::Natural => Safety::Natural,
                Self::KeyedFresh => keyed(false),
                Self::KeyedRemembers | Self::KeyedClosing | Self::KeyedPast => keyed(true),
            },
            probe: Some(ProbeRules {
                not_found_final_after: Some(secs(20)),
                inconclusive_max: 3,
                ..ProbeRules::default()
            }),
            ..Rules::default()
        }
    }

    /// The age of the key at the provider tells the keyed routes apart: `closing` has time
    /// left, but less than a lease and the margin.
    pub(crate) fn first_call_at(self) -> Timestamp {
        match self {
            Self::KeyedClosing => NOW - KEY_TTL + secs(90),
            Self::KeyedPast => NOW - KEY_TTL,
            _ => NOW - secs(60),
        }
    }

    /// The law's `hold_then`: an unsafe call, and a keyed one past its ttl, waits for a
    /// person.
    pub(crate) fn hold_then(self, cancel_requested: bool) -> HoldThen {
        match self {
            Self::Unsafe | Self::KeyedClosing | Self::KeyedPast => HoldThen::Stay,
            _ if cancel_requested => HoldThen::Cancel,
            Self::Natural | Self::KeyedFresh | Self::KeyedRemembers => HoldThen::FailUnknown,
        }
    }
}

impl Row {
    pub(crate) fn effect(self) -> Effect {
        match self {
            Self::PendingNone | Self::LiveNone | Self::RecordedOkNone | Self::RecordedFailNone => {
                Effect::None
            }
            Self::WaitingNone | Self::Completed | Self::FailedNone => Effect::None,
            _ => Effect::Unknown,
        }
    }

    /// A row of this kind at [`NOW`]: due, before its deadline, with attempts left.
    pub(crate) fn state(self, route: Route) -> State {
        match self {
            Self::PendingNone => State::accepted(NOW, deadline(), Inherited::default()),
            Self::PendingUnknown => State::accepted(NOW, deadline(), inherited(route)),
            Self::LiveNone | Self::LiveUnknown => self.live(route),
            Self::RecordedOkNone | Self::RecordedOkUnknown => State {
                write_ahead: recorded(Verdict::Ok),
                ..self.live(route)
            },
            Self::RecordedFailNone | Self::RecordedFailUnknown => State {
                write_ahead: recorded(Verdict::Fail),
                failure: Some(Failure::from_fail(refusal(), Effect::None)),
                ..self.live(route)
            },
            Self::WaitingNone | Self::WaitingUnknown => State {
                phase: Some(Phase::Waiting),
                next_attempt_at: Some(NOW),
                ..self.begun(route)
            },
            Self::Held => State {
                phase: Some(Phase::Held),
                hold: Some(Hold {
                    then: route.hold_then(false),
                    failure: Failure::own("retry_exhausted", "used up", Effect::Unknown),
                    probes: 0,
                    probe_at: Some(NOW),
                }),
                ..self.begun(route)
            },
            Self::Completed => State {
                status: Status::Completed,
                write_ahead: WriteAhead::Done,
                ..self.begun(route)
            },
            Self::FailedNone | Self::FailedUnknown => State {
                status: Status::Failed,
                failure: Some(Failure::from_fail(refusal(), self.effect())),
                ..self.begun(route)
            },
        }
    }

    fn live(self, route: Route) -> State {
        State {
            phase: Some(Phase::Live),
            lease_until: Some(NOW + secs(10)),
            refund: Some(Refund {
                repeat_permit: false,
                first_call_at: Some(route.first_call_at()),
            }),
            ..self.begun(route)
        }
    }

    /// What all rows have in common that began at least once. One attempt was lost, so that
    /// a reset of `deliveries` shows.
    fn begun(self, route: Route) -> State {
        State {
            status: Status::InProgress,
            fence: FENCE,
            attempt_id: Some(attempt_id(FENCE.into())),
            attempts: 2,
            deliveries: 1,
            effect: self.effect(),
            maybe_calls: u32::from(self.effect() == Effect::Unknown),
            next_attempt_at: None,
            version: 11,
            ..State::accepted(NOW, deadline(), inherited(route))
        }
    }
}

fn deadline() -> Option<Timestamp> {
    Some(NOW + secs(3_600))
}

fn recorded(verdict: Verdict) -> WriteAhead {
    WriteAhead::Pending {
        verdict,
        fence: FENCE,
    }
}

fn inherited(route: Route) -> Inherited {
    Inherited {
        effect: Effect::Unknown,
        first_call_at: Some(route.first_call_at()),
        maybe_calls: 1,
        call_deadline: Some(NOW - secs(30)),
    }
}

#[test]
fn every_row_is_one_that_a_store_may_hold() {
    for row in Row::ALL {
        for route in Route::ALL {
            let state = row.state(*route);
            assert_eq!(state.check(), Ok(()), "{}", row.name());
            assert_eq!(state.effect, row.effect(), "{}", row.name());
            assert_eq!(route.rules().validate(), Ok(()), "{}", route.name());
        }
    }
}
