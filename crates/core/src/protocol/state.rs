//! The part of an operation's row that the protocol reads and writes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::{Rules, Safety};
use crate::{AttemptId, CODE_BYTES_MAX, Effect, Failure, MESSAGE_BYTES_MAX, Timestamp, shorten};

/// The four states of an operation. COMPLETED and FAILED never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// Accepted; no attempt has begun.
    Pending,
    /// An attempt has begun; see [`Phase`].
    InProgress,
    /// The provider applied the call; there is a result.
    Completed,
    /// Ended without a result.
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

/// The phase of an IN_PROGRESS operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// An attempt holds a lease.
    Live,
    /// No attempt before `next_attempt_at`.
    Waiting,
    /// The effect is unknown: waits for a probe, a late answer or an operator.
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
        /// The fence that it was written with.
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

/// What ends a hold if probing gives no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldThen {
    /// Nothing: only an answer or an operator ends it. For calls that may not be repeated.
    Stay,
    /// FAILED with effect unknown.
    FailUnknown,
    /// FAILED `canceled` with effect unknown.
    Cancel,
}

/// Why an operation is held and how the hold ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hold {
    /// What ends the hold if probing gives no verdict, by the route's rules when the hold began.
    pub then: HoldThen,
    /// What led to the hold. Under `FailUnknown`, the operation fails with it.
    pub failure: Failure,
    /// Probes without a verdict so far.
    pub probes: u32,
    /// When to probe next. `None`: never again.
    pub probe_at: Option<Timestamp>,
}

/// The values before the begin, which `NotCalled` restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Refund {
    /// The repeat permit that the begin used up.
    pub repeat_permit: bool,
    /// `first_call_at` before the begin.
    pub first_call_at: Option<Timestamp>,
}

/// What a redrive inherits: the calls of its predecessor may still take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Inherited {
    /// Sticky across redrives.
    pub effect: Effect,
    /// When the provider's memory of the shared outbound key began.
    pub first_call_at: Option<Timestamp>,
    /// Calls that may have been applied.
    pub maybe_calls: u32,
    /// End of the predecessor's last lease.
    pub call_deadline: Option<Timestamp>,
}

/// The last error of an operation that has not completed, for operators. No guard reads it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LastError {
    /// The code of a Fail, or one of [`code`](crate::code).
    pub code: String,
    /// What happened, cut like a ledger note.
    pub message: String,
    /// When it was reported, on the store's clock.
    pub at: Timestamp,
}

/// Everything that a transition reads and writes. One field is one column; see `docs/glossary.md`.
/// Payloads, results and checkpoints are not here, because no guard reads them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// `state` in JSON and SQL.
    pub status: Status,
    /// The phase of IN_PROGRESS.
    pub phase: Option<Phase>,
    /// Raised by one at every begin; every write of an attempt carries it.
    pub fence: u64,
    /// New for each begin: after an ambiguous begin commit, the call is made only if this id reads
    /// back.
    pub attempt_id: Option<AttemptId>,
    /// Calls that may have left this machine; refunded by `NotCalled`.
    pub attempts: u32,
    /// Calls that ended other than by `NotCalled` or `Retry` with effect none. Never reset.
    pub maybe_calls: u32,
    /// Attempts lost in a row.
    pub deliveries: u32,
    /// Sticky: after a call ended unknown, it stays `Unknown` until an answer settles the
    /// operation.
    pub effect: Effect,
    /// When the provider's memory of the outbound key began.
    pub first_call_at: Option<Timestamp>,
    /// No call was sent later: the latest of the attempts' lease ends and actual ends.
    pub call_deadline: Option<Timestamp>,
    /// While live: when the Reaper may take over.
    pub lease_until: Option<Timestamp>,
    /// While PENDING or waiting: no attempt begins before.
    pub next_attempt_at: Option<Timestamp>,
    /// No attempt begins at or after it.
    pub deadline: Option<Timestamp>,
    /// The recorded outcome.
    pub write_ahead: WriteAhead,
    /// No further call may be made.
    pub cancel_requested: bool,
    /// An operator allowed one more call, whatever safety says.
    pub repeat_permit: bool,
    /// While live: the values that `NotCalled` restores.
    pub refund: Option<Refund>,
    /// While held.
    pub hold: Option<Hold>,
    /// Of FAILED, and of a recorded Fail.
    pub failure: Option<Failure>,
    /// Of FAILED: a provider's Ok was recorded afterwards. The operation may not be redriven.
    #[serde(default)]
    pub late_ok: bool,
    /// The last error, until the operation completes. A recorded Fail is in `failure` instead.
    #[serde(default)]
    pub last_error: Option<Box<LastError>>,
    /// Raised by one at every change.
    pub version: u64,
}

/// What the queue row of an open operation waits for, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// A begin, from this moment on.
    Begin(Timestamp),
    /// The Reaper, when the lease has ended. Never announced.
    Reap(Timestamp),
    /// The Finalizer, now.
    Finalize,
    /// A probe. `None`: an operator.
    Probe(Option<Timestamp>),
    /// Nothing: the operation is terminal and has no queue row.
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
            last_error: None,
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

    /// PENDING or waiting: a begin may follow.
    pub fn awaits_begin(&self) -> bool {
        self.status == Status::Pending || self.phase == Some(Phase::Waiting)
    }

    /// What the queue row waits for. Lane followers and paused domains wait longer; only the store
    /// knows about those.
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

    /// Whether `fence` belongs to the attempt that is running now. After AttemptLost the old fence
    /// is stale, although there is no new one yet. An attempt whose lease has ended is still
    /// current until the Reaper reaches the row.
    pub fn is_current(&self, fence: u64) -> bool {
        self.phase == Some(Phase::Live) && self.fence == fence
    }

    /// The deadline has passed.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Remembers an error for operators.
    pub(super) fn erred(&mut self, code: &str, message: &str, at: Timestamp) {
        self.last_error = Some(Box::new(LastError {
            code: shorten(code.to_owned(), CODE_BYTES_MAX),
            message: shorten(message.to_owned(), MESSAGE_BYTES_MAX),
            at,
        }));
    }

    /// Whether another call is allowed although an earlier call may have been applied.
    pub(super) fn may_repeat(&self, now: Timestamp, lease: Duration, rules: &Rules) -> bool {
        self.effect == Effect::None || self.repeat_permit || self.is_repeatable(now, lease, rules)
    }

    /// Whether the route allows to repeat the call now. A keyed route past its ttl counts as
    /// unsafe.
    pub(super) fn is_repeatable(&self, now: Timestamp, lease: Duration, rules: &Rules) -> bool {
        match rules.safety {
            Safety::Natural => true,
            Safety::Unsafe => false,
            Safety::Keyed { ttl, .. } => self
                .first_call_at
                .is_none_or(|first| now + lease + rules.margin < first + ttl),
        }
    }

    /// The invariants of every stored state; `Err` names the violated one. SQL `CHECK`s repeat
    /// them.
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
