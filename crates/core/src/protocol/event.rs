//! What can happen to an operation, and what whoever applied it does next.

use std::time::Duration;

use crate::{AttemptId, Effect, Fail, Timestamp};

/// Everything that can happen to an accepted operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// Start an attempt.
    Begin(Begin),
    /// The attempt is still running: move its lease.
    Extend {
        /// The attempt's fence.
        fence: u64,
        /// From now.
        lease: Duration,
    },
    /// Keep bytes for the next attempt (the bytes themselves go beside the event).
    Checkpoint {
        /// The attempt's fence.
        fence: u64,
    },
    /// The begun attempt sent nothing: refund it.
    NotCalled {
        /// The attempt's fence.
        fence: u64,
        /// Not again before this much time has passed; by default the backoff.
        after: Option<Duration>,
        /// Why, for people.
        reason: String,
    },
    /// The provider said yes.
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
        /// Why, for people.
        reason: String,
    },
    /// The lease ran out. Only the Reaper says so.
    AttemptLost,
    /// The deadline passed while no attempt was running. Only the sweeper says so.
    DeadlinePassed,
    /// Make the recorded outcome final.
    Finalize,
    /// A probe came back.
    Probed {
        /// The fence when it was asked.
        fence: u64,
        /// When it was asked, on the store's clock.
        asked_at: Timestamp,
        /// What the provider knows of our call.
        answer: ProbeAnswer,
    },
    /// A person settles a held operation.
    Resolve(Resolution),
    /// No further call is wanted.
    Cancel,
    /// The row came out of a backup, which cannot know what was called since.
    Restored {
        /// No call can be older: the moment of acceptance.
        earliest_call: Timestamp,
    },
}

/// A begin, with what the store knows of the row's surroundings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Begin {
    /// Fresh for this begin.
    pub attempt_id: AttemptId,
    /// From now.
    pub lease: Duration,
    /// The domain is paused.
    pub paused: bool,
    /// Where the operation stands in its lane.
    pub lane: LaneStand,
    /// The stored payload matches its content hash.
    pub intact: bool,
}

/// Where an operation stands in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaneStand {
    /// It has none.
    Unordered,
    /// It holds the lane, or the lane is free and no earlier seq is open.
    Ours,
    /// An earlier operation is open.
    Behind,
}

/// What the provider says has become of our call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProbeAnswer {
    /// It was applied (the result goes beside the event).
    Succeeded,
    /// It was refused.
    Failed(Fail),
    /// It does not know it.
    NotFound,
    /// It cannot say.
    Unknown,
}

/// How a person settles a held operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// It was applied.
    Completed,
    /// It was not, or will not be pursued.
    Failed {
        /// What to record.
        fail: Fail,
        /// What the person knows of the effect, if anything.
        effect: Option<Effect>,
    },
    /// Call once more, whatever safety says.
    Retry,
}

/// What whoever applied an event does in the same commit, or after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Hand out the envelope: this attempt may call.
    Call,
    /// Keep the answer beside the row; finalize comes next.
    Record,
    /// It waits for its next attempt: move the queue row.
    Wait,
    /// It is held: move the queue row to its next probe.
    Hold,
    /// It is terminal: delete the queue row, free the lane, count the batch, wake waiters,
    /// and on COMPLETED accept what the answer spawns.
    Settle,
    /// It ended FAILED other than by cancel: keep a dead letter.
    DeadLetter,
    /// Tell the running attempt that it is canceled.
    TellAttempt,
    /// The provider did what we had given up: page someone. The state stays and is marked; an
    /// operation that redrives this one is told the same yes in the same commit.
    AlertLateOk,
}

/// What follows from one event, in order.
pub type Effects = Vec<Action>;
