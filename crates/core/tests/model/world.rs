//! What the model knows: the row, what is on its way, and what is true at the provider.

use clinch_core::policy::Rules;
use clinch_core::protocol::{Hold, HoldThen, State, Verdict};
use clinch_core::{Effect, Status, Timestamp};

use super::clock::{Floors, age};

/// Everything there is, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// The row, changed by `State::apply` alone.
    pub(crate) row: State,
    /// Attempts that can still do something, oldest first.
    pub(crate) attempts: Vec<Attempt>,
    /// Probes asked and not yet answered.
    pub(crate) probes: Vec<Probe>,
    /// The truth at the provider.
    pub(crate) provider: Provider,
    /// What may still happen: the bounds of the exploration.
    pub(crate) left: Budget,
    /// What properties need to remember.
    pub(crate) history: History,
}

/// How often the unbounded may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Budget {
    /// Attempts that find out that they sent nothing.
    pub(crate) not_called: u8,
    /// A person saying "call again".
    pub(crate) person_retries: u8,
    /// Extensions of a lease.
    pub(crate) extends: u8,
    /// Somebody asking to cancel.
    pub(crate) cancels: u8,
}

/// An attempt as its worker and the wire know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    /// Its fence.
    pub(crate) fence: u64,
    /// Where its request is.
    pub(crate) request: Request,
    /// What its worker has to say and has not got into the store.
    pub(crate) report: Option<Report>,
    /// The end of its lease, as the worker knows it.
    pub(crate) lease_end: Timestamp,
    /// The row's `call_deadline` since the row gave it up; `None` while it is current.
    pub(crate) given_up: Option<Timestamp>,
    /// The row's `first_call_at` when it began.
    pub(crate) first_call_at: Timestamp,
    /// A final "not found" or a person has declared that it had no effect.
    pub(crate) written_off: bool,
}

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    /// The worker has it: running, or paused for as long as it likes.
    Unsent,
    /// On its way; nobody waits for the answer any more.
    Wire,
    /// It arrived, or will never be sent.
    Gone,
}

/// What a worker has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Report {
    /// Nothing was sent.
    NotCalled,
    /// The provider's yes.
    Ok,
    /// The provider's yes, in a spill file that outlives the worker.
    SpilledOk,
    /// The provider's final no.
    Fail,
    /// A clean refusal.
    RetryNo,
    /// Sent, and no answer.
    RetryUnknown,
}

/// A probe on its way back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Probe {
    /// The row's fence when it was asked.
    pub(crate) fence: u64,
    /// When it was asked.
    pub(crate) asked_at: Timestamp,
    /// What the provider knew then.
    pub(crate) answer: Known,
}

/// What a provider says of our calls when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Known {
    /// It applied one.
    Succeeded,
    /// It refused one.
    Failed,
    /// It shows none.
    NotFound,
    /// It cannot say.
    Unknown,
}

/// The truth at the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Provider {
    /// Effects had; two is as bad as any more.
    pub(crate) effects: u8,
    /// When the first one was had.
    pub(crate) first_effect_at: Option<Timestamp>,
    /// The first one came from a call that arrived later than its row could know.
    pub(crate) first_effect_late: bool,
    /// A call was refused for good, and a probe can find that.
    pub(crate) refused: bool,
    /// What it remembers of our key.
    pub(crate) key: Option<KeyMemory>,
}

/// A provider's memory of our key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyMemory {
    /// When it began.
    pub(crate) since: Timestamp,
    /// Of a yes; else of a refusal.
    pub(crate) applied: bool,
}

/// What properties need to remember. Nothing here is read by the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct History {
    /// How the operation ended, when it did first.
    pub(crate) end: Option<(Status, Effect)>,
    /// A call ended unknown and no answer has settled it.
    pub(crate) doubt: bool,
    /// A person's permit that no call has used.
    pub(crate) permit: bool,
    /// The running attempt was begun with a person's permit.
    pub(crate) permit_in_use: bool,
    /// A person has allowed a call to be repeated.
    pub(crate) person_allowed_repeat: bool,
    /// Cancel was asked for and nobody took it back.
    pub(crate) canceled: bool,
    /// The first outcome that was recorded.
    pub(crate) recorded: Option<Verdict>,
    /// A yes came to a FAILED row.
    pub(crate) late_yes: bool,
    /// One of the races that `docs/guarantees.md` names has happened.
    pub(crate) residual: bool,
    /// A step that the protocol forbids has been made.
    pub(crate) broken: Option<Broken>,
}

/// Steps that the protocol forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    /// A terminal row changed.
    TerminalChanged,
    /// PENDING after IN_PROGRESS.
    BackToPending,
    /// The fence went down, or rose other than by one begin.
    Fence,
    /// The version did not rise by one.
    Version,
    /// A doubt was forgotten without an answer.
    DoubtForgotten,
    /// A call that may not be repeated was begun again.
    SecondCall,
    /// A call was begun after cancel.
    CallAfterCancel,
    /// A call was begun although an outcome was recorded.
    CallAfterRecord,
    /// A probe asked before the last begin decided.
    StaleProbe,
    /// A provider's yes was turned away from an open row, or came to a FAILED one unnoticed.
    YesDropped,
}

impl Attempt {
    /// It can still send, arrive or speak.
    fn matters(&self) -> bool {
        self.request != Request::Gone || self.report.is_some()
    }
}

impl World {
    /// Forgets what can make no difference any more, so that states meet: attempts that
    /// can do nothing, and what no guard looks at.
    pub(crate) fn tidy(&mut self, rules: &Rules) {
        self.attempts.retain(Attempt::matters);
        erase(&mut self.row, rules);
        if self.row.is_terminal() {
            self.tidy_end();
        }
    }

    /// Of a terminal row the status is looked at and nothing else.
    fn tidy_end(&mut self) {
        let row = &mut self.row;
        for moment in [
            &mut row.first_call_at,
            &mut row.call_deadline,
            &mut row.deadline,
        ] {
            *moment = None;
        }
        for count in [&mut row.attempts, &mut row.maybe_calls, &mut row.deliveries] {
            *count = 0;
        }
        row.cancel_requested = false;
        row.late_ok = false;
        self.left = Budget::default();
        self.history.doubt = false;
        self.history.permit = false;
        self.history.canceled = false;
    }

    /// Everything grows one tick older. Probes that are out for too long are lost.
    pub(crate) fn tick(&mut self, floors: &Floors) {
        floors.age_row(&mut self.row);
        for attempt in &mut self.attempts {
            age(Some(&mut attempt.lease_end), floors.worker);
            age(attempt.given_up.as_mut(), floors.worker);
            age(Some(&mut attempt.first_call_at), floors.key);
        }
        self.probes.retain(|probe| probe.asked_at > floors.probe);
        for probe in &mut self.probes {
            age(Some(&mut probe.asked_at), floors.probe);
        }
        age(self.provider.first_effect_at.as_mut(), floors.shown);
        if let Some(key) = self.provider.key.as_mut() {
            age(Some(&mut key.since), floors.key);
            if key.since <= floors.key {
                self.provider.key = None;
            }
        }
    }
}

/// Erases from a row what no guard looks at: texts, and counts beyond their last threshold.
pub(crate) fn erase(row: &mut State, rules: &Rules) {
    row.maybe_calls = row.maybe_calls.min(2);
    row.last_error = None;
    if let Some(hold) = row.hold.as_mut() {
        let probe = rules.probe.as_ref();
        hold.probes = hold.probes.min(probe.map_or(1, |p| p.inconclusive_max));
    }
    let hold = row.hold.as_mut().map(|hold| &mut hold.failure);
    for failure in row.failure.iter_mut().chain(hold) {
        failure.code.clear();
        failure.message.clear();
    }
}

/// It is held and nothing but a person (or a late yes) will end it.
pub(crate) fn needs_person(row: &State) -> bool {
    let stays = |hold: &Hold| hold.then == HoldThen::Stay && hold.probe_at.is_none();
    row.hold.as_ref().is_some_and(stays)
}
