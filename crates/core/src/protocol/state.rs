//! The row of an operation, as far as guards look at it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::{Rules, Safety};
use crate::{AttemptId, Effect, Failure, Timestamp};

/// The four states of an operation. COMPLETED and FAILED never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// Accepted; no attempt has begun.
    Pending,
    /// An attempt has begun; see [`Phase`].
    InProgress,
    /// Done, with a result.
    Completed,
    /// Ended without one.
    Failed,
}

impl Status {
    /// COMPLETED or FAILED.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }

    /// The name in JSON, SQL and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::InProgress => "IN_PROGRESS",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }
}

/// Where an IN_PROGRESS operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// An attempt holds a lease.
    Live,
    /// For a time.
    Waiting,
    /// For an answer or a person.
    Held,
}

/// The recorded outcome of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum WriteAhead {
    /// Nothing recorded.
    #[default]
    Empty,
    /// Recorded and not finalized: the row belongs to the Finalizer.
    Pending {
        /// What was recorded.
        verdict: Verdict,
        /// The fence it was written with.
        fence: u64,
    },
    /// Recorded and finalized.
    Done,
}

/// Which way a recorded outcome ends the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// COMPLETED.
    Ok,
    /// FAILED.
    Fail,
}

/// What ends a hold when probing brings nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldThen {
    /// Nothing: only an answer or a person. For calls that may not be repeated.
    Stay,
    /// FAILED with effect unknown.
    FailUnknown,
    /// FAILED `canceled` with effect unknown.
    Cancel,
}

/// Why an operation is held and what comes of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hold {
    /// What ends it when probing brings nothing; by the route at that moment.
    pub then: HoldThen,
    /// What brought it here, and what it fails with under `FailUnknown`.
    pub failure: Failure,
    /// Probes without a verdict so far.
    pub probes: u32,
    /// When to probe next; `None`: never again.
    pub probe_at: Option<Timestamp>,
}

/// What `NotCalled` gives back: the values from before the begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Refund {
    /// The permit that the begin used up.
    pub repeat_permit: bool,
    /// The start of the provider's memory before it.
    pub first_call_at: Option<Timestamp>,
}

/// What a redrive inherits: its predecessor's calls may still have their effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Inherited {
    /// Sticky across redrives.
    pub effect: Effect,
    /// Start of the provider's memory of the shared outbound key.
    pub first_call_at: Option<Timestamp>,
    /// Calls that may have had an effect.
    pub maybe_calls: u32,
    /// End of the predecessor's last lease.
    pub call_deadline: Option<Timestamp>,
}

/// Everything a transition reads and writes. One field, one column; see `docs/glossary.md`.
/// Payloads, results and checkpoints are not here: no guard looks at them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// `state` in JSON and SQL.
    pub status: Status,
    /// Of IN_PROGRESS.
    pub phase: Option<Phase>,
    /// +1 at every begin; every write of an attempt carries it.
    pub fence: u64,
    /// Fresh per begin: a begin whose commit is ambiguous is sent only if this reads back.
    pub attempt_id: Option<AttemptId>,
    /// Calls that may have left this machine; refunded by NotCalled.
    pub attempts: u32,
    /// Calls that ended other than NotCalled or Retry{no}. Never reset.
    pub maybe_calls: u32,
    /// Consecutive begins that ended in AttemptLost.
    pub deliveries: u32,
    /// Sticky: once a call ended unknown it stays so until an answer settles it.
    pub effect: Effect,
    /// Start of the provider's memory of our key.
    pub first_call_at: Option<Timestamp>,
    /// No call was sent later: the latest of the attempts' lease ends and actual ends.
    pub call_deadline: Option<Timestamp>,
    /// Of live: when the Reaper may take over.
    pub lease_until: Option<Timestamp>,
    /// Of PENDING and waiting: not before.
    pub next_attempt_at: Option<Timestamp>,
    /// No attempt begins at or after it.
    pub deadline: Option<Timestamp>,
    /// The recorded outcome.
    pub write_ahead: WriteAhead,
    /// No further call is to be made.
    pub cancel_requested: bool,
    /// A person allowed one more call, whatever safety says.
    pub repeat_permit: bool,
    /// Of live: what NotCalled gives back.
    pub refund: Option<Refund>,
    /// Of held.
    pub hold: Option<Hold>,
    /// Of FAILED, and of a recorded Fail.
    pub failure: Option<Failure>,
    /// Of FAILED: a provider's yes was recorded afterwards. It may not be redriven.
    #[serde(default)]
    pub late_ok: bool,
    /// +1 at every change.
    pub version: u64,
}

/// What the queue row of an open operation waits for, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// A begin, from this moment on.
    Begin(Timestamp),
    /// The Reaper, when the lease has ended. Never published.
    Reap(Timestamp),
    /// The Finalizer, now.
    Finalize,
    /// A probe; `None`: a person.
    Probe(Option<Timestamp>),
    /// Nothing: terminal, no queue row.
    Never,
}

impl State {
    /// An accepted operation: PENDING, due at `run_at`.
    pub fn accepted(run_at: Timestamp, deadline: Option<Timestamp>, inherited: Inherited) -> Self {
        Self {
            status: Status::Pending,
            phase: None,
            fence: 0,
            attempt_id: None,
            attempts: 0,
            maybe_calls: inherited.maybe_calls,
            deliveries: 0,
            effect: inherited.effect,
            first_call_at: inherited.first_call_at,
            call_deadline: inherited.call_deadline,
            lease_until: None,
            next_attempt_at: Some(run_at),
            deadline,
            write_ahead: WriteAhead::Empty,
            cancel_requested: false,
            repeat_permit: false,
            refund: None,
            hold: None,
            failure: None,
            late_ok: false,
            version: 1,
        }
    }

    /// What a redrive of this operation inherits.
    pub fn bequest(&self) -> Inherited {
        Inherited {
            effect: self.effect,
            first_call_at: self.first_call_at,
            maybe_calls: self.maybe_calls,
            call_deadline: self.call_deadline,
        }
    }

    /// COMPLETED or FAILED.
    pub fn is_terminal(&self) -> bool {
        self.status.is_terminal()
    }

    /// PENDING or waiting: a begin may come.
    pub fn awaits_begin(&self) -> bool {
        self.status == Status::Pending || self.phase == Some(Phase::Waiting)
    }

    /// What the queue row waits for. Lane followers and paused domains wait longer; that is
    /// the store's to know.
    pub fn due(&self) -> Due {
        if matches!(self.write_ahead, WriteAhead::Pending { .. }) {
            return Due::Finalize;
        }
        match (self.status, self.phase) {
            (Status::Completed | Status::Failed, _) => Due::Never,
            (_, Some(Phase::Live)) => Due::Reap(self.lease_until.unwrap_or_default()),
            (_, Some(Phase::Held)) => Due::Probe(self.hold.as_ref().and_then(|h| h.probe_at)),
            _ => Due::Begin(self.next_attempt_at.unwrap_or_default()),
        }
    }

    /// `fence` belongs to the attempt that is running now. After AttemptLost the old fence
    /// is stale although no new one was given; an expired lease that the Reaper has not
    /// reached is still current.
    pub fn is_current(&self, fence: u64) -> bool {
        self.phase == Some(Phase::Live) && self.fence == fence
    }

    /// The deadline has passed.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Another call is allowed although one may have been applied.
    pub(super) fn may_repeat(&self, now: Timestamp, lease: Duration, rules: &Rules) -> bool {
        self.effect == Effect::None || self.repeat_permit || self.is_repeatable(now, lease, rules)
    }

    /// By its route the call may be repeated now. Keyed past its ttl is unsafe.
    pub(super) fn is_repeatable(&self, now: Timestamp, lease: Duration, rules: &Rules) -> bool {
        match rules.safety {
            Safety::Natural => true,
            Safety::Unsafe => false,
            Safety::Keyed { ttl, .. } => self
                .first_call_at
                .is_none_or(|first| now + lease + rules.margin < first + ttl),
        }
    }

    /// What must hold of every stored state; `Err` names what does not. SQL `CHECK`s repeat
    /// it.
    pub fn check(&self) -> Result<(), &'static str> {
        let live = self.phase == Some(Phase::Live);
        let held = self.phase == Some(Phase::Held);
        let failed = self.status == Status::Failed;
        let pending_fail = matches!(
            self.write_ahead,
            WriteAhead::Pending {
                verdict: Verdict::Fail,
                ..
            }
        );
        let rules = [
            (
                self.phase.is_some() == (self.status == Status::InProgress),
                "a phase belongs to IN_PROGRESS",
            ),
            (
                self.lease_until.is_some() == live,
                "a lease belongs to live",
            ),
            (self.refund.is_some() == live, "a refund belongs to live"),
            (
                self.next_attempt_at.is_some() == self.awaits_begin(),
                "a next attempt belongs to PENDING and waiting",
            ),
            (self.hold.is_some() == held, "a hold belongs to held"),
            (
                !held || self.effect == Effect::Unknown,
                "held means that the effect is unknown",
            ),
            (
                self.failure.is_some() == (failed || pending_fail),
                "a failure belongs to FAILED or a recorded Fail",
            ),
            (
                !failed
                    || self
                        .failure
                        .as_ref()
                        .is_some_and(|f| f.effect == self.effect),
                "FAILED says what is known of the effect",
            ),
            (!self.late_ok || failed, "a late yes is a mark of FAILED"),
            (
                !matches!(self.write_ahead, WriteAhead::Pending { .. }) || live,
                "a recorded outcome is finalized from live",
            ),
            (
                self.status != Status::Completed || self.effect == Effect::None,
                "COMPLETED leaves nothing unknown",
            ),
            (
                u64::from(self.attempts) <= self.fence,
                "every attempt raised the fence",
            ),
            (
                !live || self.attempt_id.is_some(),
                "every begin leaves its attempt id",
            ),
            (
                !live || (self.attempts > 0 && self.first_call_at.is_some()),
                "a live attempt may have called",
            ),
            (self.version > 0, "versions count from 1"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, broken)) => Err(broken),
            None => Ok(()),
        }
    }
}
