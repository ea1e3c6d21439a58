//! The events of an operation, and the actions that follow them.

use std::time::Duration;

use crate::{AttemptId, Effect, Fail, ProcessId, Timestamp};

/// Everything that can happen to an accepted operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// Start an attempt.
    Begin(Begin),
    /// The attempt is still running: extend its lease.
    Extend {
        /// The attempt's fence.
        fence: u64,
        /// Length of the lease from now.
        lease: Duration,
    },
    /// Keep bytes for the next attempt. The bytes travel next to the event.
    Checkpoint {
        /// The attempt's fence.
        fence: u64,
    },
    /// The attempt has begun but sent nothing: refund it.
    NotCalled {
        /// The attempt's fence.
        fence: u64,
        /// No attempt before this time has passed. Default: the backoff.
        after: Option<Duration>,
        /// The reason, for humans.
        reason: String,
    },
    /// The provider applied the call.
    Ok {
        /// The attempt's fence; `None` for an answer from a spill file.
        fence: Option<u64>,
    },
    /// The provider refused for good.
    Fail {
        /// The attempt's fence.
        fence: u64,
        /// The refusal.
        fail: Fail,
    },
    /// The attempt settled nothing.
    Retry {
        /// The attempt's fence.
        fence: u64,
        /// The delay that the provider asked for.
        after: Option<Duration>,
        /// `Unknown`: the call may have been applied; `None`: it certainly was not.
        effect: Effect,
        /// The reason, for humans.
        reason: String,
    },
    /// The lease has ended. Only the Reaper raises this event.
    AttemptLost,
    /// The process that made the call has died. Only the Reaper raises this event.
    ProcessDied {
        /// The process.
        process: ProcessId,
    },
    /// The deadline passed while no attempt was running. Only the overdue scan raises this event.
    DeadlinePassed,
    /// Make the recorded outcome final.
    Finalize,
    /// A probe returned.
    Probed {
        /// The row's fence when the probe was sent.
        fence: u64,
        /// When the probe was sent, on the store's clock.
        asked_at: Timestamp,
        /// What the provider knows about the call.
        answer: ProbeAnswer,
    },
    /// An operator settles a held operation.
    Resolve(Resolution),
    /// No further call is wanted.
    Cancel,
    /// An operator wants the next attempt now, whatever it waits for. Every guard of Begin still
    /// decides.
    RetryNow,
    /// The row was restored from a backup, which cannot know what was called since.
    Restored {
        /// No call can be older than this: the moment of acceptance.
        earliest_call: Timestamp,
    },
}

/// A begin, with the facts that the store knows about the row's surroundings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Begin {
    /// New for this begin.
    pub attempt_id: AttemptId,
    /// Length of the lease from now.
    pub lease: Duration,
    /// The domain is paused.
    pub paused: bool,
    /// The operation's position in its lane.
    pub lane: LaneStand,
    /// The stored payload matches its content hash.
    pub intact: bool,
}

/// The position of an operation in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaneStand {
    /// The operation has no lane.
    Unordered,
    /// The operation holds the lane, or the lane is free and no earlier seq is open.
    Ours,
    /// An earlier operation is open.
    Behind,
}

/// What the provider says became of the call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProbeAnswer {
    /// It was applied. The result travels next to the event.
    Succeeded,
    /// It was refused.
    Failed(Fail),
    /// The provider does not know the call.
    NotFound,
    /// The provider cannot say.
    Unknown,
}

/// How an operator settles a held operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// It was applied.
    Completed,
    /// It was not applied, or will not be pursued.
    Failed {
        /// The failure to record.
        fail: Fail,
        /// What the operator knows about the effect, if anything.
        effect: Option<Effect>,
    },
    /// Call once more, whatever safety says.
    Retry,
}

/// What has to follow an event, in the same commit or after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Hand out the envelope: this attempt may call.
    Call,
    /// Store the answer; finalize comes next.
    Record,
    /// The operation waits for its next attempt: move the queue row.
    Wait,
    /// The operation is held: move the queue row to its next probe.
    Hold,
    /// The operation is terminal: delete the queue row, free the lane, count the batch, wake
    /// waiters, and on COMPLETED accept the operations that the answer spawns.
    Settle,
    /// The operation ended FAILED other than by cancel: keep a dead letter.
    DeadLetter,
    /// Tell the running attempt that it is canceled.
    TellAttempt,
    /// The provider applied a call of an operation that had FAILED: alert an operator. The state
    /// stays and is marked. An operation that redrives this one gets the same Ok in the same
    /// commit.
    AlertLateOk,
}

/// The actions that follow one event, in order.
pub type Effects = Vec<Action>;
