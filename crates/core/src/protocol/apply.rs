//! The entry to the protocol table: checks which events may change the row, then one file per
//! column.

use super::event::{Effects, Event};
use super::state::{State, WriteAhead};
use crate::policy::Rules;
use crate::{AttemptId, Timestamp};

/// The event changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{event} refused: {why}")]
pub struct IllegalTransition {
    /// The event's name.
    pub event: &'static str,
    /// Why it was refused.
    pub why: Why,
    /// The refused event carries an answer or a request: keep a ledger line.
    pub ledger: bool,
}

/// Why an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Why {
    /// COMPLETED and FAILED never change.
    #[error("the operation is terminal")]
    Terminal,
    /// An outcome is recorded: the row belongs to the Finalizer.
    #[error("an outcome is recorded and waits to be finalized")]
    WriteAheadPending,
    /// There is nothing to finalize.
    #[error("no outcome is recorded")]
    NothingRecorded,
    /// The recorded Fail was written with an older fence.
    #[error("the recorded outcome carries a stale fence")]
    RecordedFenceStale,
    /// The attempt is no longer the current one.
    #[error("the fence is stale")]
    StaleFence,
    /// An attempt is running.
    #[error("an attempt is live")]
    Live,
    /// The operation waits for a probe, a late answer or an operator.
    #[error("the operation is held")]
    Held,
    /// Only a held operation can be probed or resolved.
    #[error("the operation is not held")]
    NotHeld,
    /// Its time has not come.
    #[error("the operation is not due")]
    NotDue,
    /// Its time has come already.
    #[error("the operation is due already")]
    AlreadyDue,
    /// The domain is paused.
    #[error("the domain is paused")]
    Paused,
    /// The deadline passed: the overdue scan ends the operation.
    #[error("the deadline has passed")]
    DeadlinePassed,
    /// The deadline has not passed.
    #[error("the deadline has not passed")]
    BeforeDeadline,
    /// Cancel was requested.
    #[error("cancel was requested")]
    CancelRequested,
    /// An earlier operation of the lane is open.
    #[error("an earlier operation of its key is open")]
    LaneBusy,
    /// The lease has not ended.
    #[error("the lease has not ended")]
    LeaseRunning,
    /// Another process runs the attempt, or a remote worker does.
    #[error("another process runs the attempt")]
    OtherProcess,
    /// No attempt is running.
    #[error("no attempt is live")]
    NotLive,
    /// No begin has raised the fence to this value.
    #[error("no attempt has begun under this fence")]
    NeverBegun,
    /// The fence is the row's, but the attempt id is not.
    #[error("the fence belongs to another attempt")]
    OtherAttempt,
    /// A later attempt has begun since. The row keeps only the id of its last attempt; the ledger
    /// tells whether this pair of fence and token was ever issued.
    #[error("a later attempt has begun since")]
    EarlierAttempt,
}

impl Event {
    /// The event's name, as in the protocol table.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Begin(_) => "Begin",
            Self::Extend { .. } => "Extend",
            Self::Checkpoint { .. } => "Checkpoint",
            Self::NotCalled { .. } => "NotCalled",
            Self::Ok { .. } => "Ok",
            Self::Fail { .. } => "Fail",
            Self::Retry { .. } => "Retry",
            Self::AttemptLost => "AttemptLost",
            Self::ProcessDied { .. } => "ProcessDied",
            Self::DeadlinePassed => "DeadlinePassed",
            Self::Finalize => "Finalize",
            Self::Probed { .. } => "Probed",
            Self::Resolve(_) => "Resolve",
            Self::Cancel => "Cancel",
            Self::RetryNow => "RetryNow",
            Self::Restored { .. } => "Restored",
        }
    }

    /// The fence of the attempt that reports the event.
    pub fn fence(&self) -> Option<u64> {
        match self {
            Self::Extend { fence, .. }
            | Self::Checkpoint { fence }
            | Self::NotCalled { fence, .. }
            | Self::Fail { fence, .. }
            | Self::Retry { fence, .. }
            | Self::Probed { fence, .. } => Some(*fence),
            Self::Ok { fence } => *fence,
            _ => None,
        }
    }

    fn leaves_ledger_line(&self) -> bool {
        matches!(
            self,
            Self::NotCalled { .. }
                | Self::Ok { .. }
                | Self::Fail { .. }
                | Self::Retry { .. }
                | Self::Probed { .. }
                | Self::Resolve(_)
                | Self::Cancel
                | Self::RetryNow
        )
    }
}

/// A transition that passed its guards: the next state, still with the old version.
pub(super) type Step = Result<(State, Effects), Why>;

impl State {
    /// Applies one event at `now` under the route's current rules.
    ///
    /// - The same arguments give the same answer; no clock is read, nothing is sent.
    /// - A change raises `version` by exactly one; a refusal changes nothing.
    /// - A terminal state never changes. A late Ok on FAILED sets its mark `late_ok`, under the
    ///   same version, and gives [`Action::AlertLateOk`](super::Action::AlertLateOk).
    /// - While an outcome is recorded and not final, only Finalize, Ok and Cancel apply.
    pub fn apply(
        &self,
        event: &Event,
        now: Timestamp,
        rules: &Rules,
    ) -> Result<(State, Effects), IllegalTransition> {
        let refused = |why| IllegalTransition {
            event: event.name(),
            why,
            ledger: event.leaves_ledger_line(),
        };
        let (mut next, effects) = self.step(event, now, rules).map_err(refused)?;
        if !self.is_terminal() {
            next.version = self.version + 1;
        }
        debug_assert_eq!(next.check(), Ok(()), "{event:?} on {self:?}");
        Ok((next, effects))
    }

    /// [`State::apply`] for a report that names its attempt: changes nothing unless fence and
    /// attempt id are those of the row's last begin.
    ///
    /// - `None`: the caller that applies the event vouches for its fence.
    /// - A pair that is not the row's is refused without a ledger line, an Ok included.
    pub fn apply_as(
        &self,
        attempt_id: Option<AttemptId>,
        event: &Event,
        now: Timestamp,
        rules: &Rules,
    ) -> Result<(State, Effects), IllegalTransition> {
        if let Some(attempt_id) = attempt_id {
            self.must_be_attempt(attempt_id, event.fence())
                .map_err(|why| IllegalTransition {
                    event: event.name(),
                    why,
                    ledger: false,
                })?;
        }
        self.apply(event, now, rules)
    }

    fn must_be_attempt(&self, attempt_id: AttemptId, fence: Option<u64>) -> Result<(), Why> {
        match fence {
            Some(fence) if fence > self.fence => Err(Why::NeverBegun),
            Some(fence) if fence < self.fence => Err(Why::EarlierAttempt),
            Some(_) if self.attempt_id == Some(attempt_id) => Ok(()),
            _ => Err(Why::OtherAttempt),
        }
    }

    fn step(&self, event: &Event, now: Timestamp, rules: &Rules) -> Step {
        if event.is_yes() {
            return self.say_yes(event);
        }
        if self.is_terminal() {
            return Err(Why::Terminal);
        }
        if matches!(self.write_ahead, WriteAhead::Pending { .. }) {
            return match event {
                Event::Finalize => self.finalize(),
                Event::Cancel => self.note_cancel(),
                _ => Err(Why::WriteAheadPending),
            };
        }
        match event {
            Event::Begin(begin) => self.begin(begin, now, rules),
            Event::Extend { fence, lease } => self.extend(*fence, now + *lease),
            Event::Checkpoint { fence } => self.checkpoint(*fence),
            Event::NotCalled {
                fence,
                after,
                reason,
            } => self.not_called(*fence, *after, reason, now, rules),
            Event::Fail { fence, fail } => self.refused(*fence, fail, now, rules),
            Event::Retry {
                fence,
                after,
                effect,
                reason,
            } => self.retry(*fence, *after, *effect, reason, now, rules),
            Event::AttemptLost => self.attempt_lost(now, rules),
            Event::ProcessDied { process } => self.process_died(*process, now, rules),
            Event::DeadlinePassed => self.deadline_passed(now, rules),
            Event::Probed {
                fence,
                asked_at,
                answer,
            } => self.probed(*fence, *asked_at, answer, now, rules),
            Event::Resolve(resolution) => self.resolve(resolution, now, rules),
            Event::Cancel => self.cancel(now, rules),
            Event::RetryNow => self.retry_now(now),
            Event::Restored { earliest_call } => self.restored(*earliest_call, now, rules),
            Event::Finalize | Event::Ok { .. } => Err(Why::NothingRecorded),
        }
    }
}
