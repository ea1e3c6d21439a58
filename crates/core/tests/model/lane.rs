//! Model B: three operations of one key under `order = "key"`.
//!
//! The lane is the real `Lane` and every row moves by the real `State::apply`. What
//! providers and people say is left free (model A knows the truth; here only order counts),
//! and a row without its fence's exact value is the same row: reports carry the current one.

use clinch_core::policy::Rules;
use clinch_core::protocol::{
    Action, Begin, Event, Inherited, Lane, Phase, ProbeAnswer, Resolution, State,
};
use clinch_core::{AttemptId, Effect, Fail, Status};
use stateright::{Model, Property};
use uuid::Uuid;

use super::clock::{Floors, NOW};
use super::guards::{self, Guard};
use super::world::erase;

/// Operations in the lane.
const MEMBERS: usize = 3;
/// The order of the lane.
pub(crate) const IN_ORDER: &str = "no operation begins before every earlier one has ended";

/// A lane of operations under the rules of their route.
#[derive(Debug, Clone)]
pub(crate) struct LaneModel {
    /// The route's rules.
    pub(crate) rules: Rules,
    /// The guard that is taken away, if any.
    pub(crate) removed: Option<Guard>,
}

/// The lane and its members, by seq.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Street {
    lane: Lane,
    members: [Member; MEMBERS],
    broken: Option<Disorder>,
}

/// An operation of the lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Member {
    /// Not accepted yet.
    Coming,
    /// Accepted.
    Open(Box<State>),
    /// Terminal.
    Ended,
}

/// What must not happen in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Disorder {
    /// A later operation began while an earlier one was open.
    Overtaking,
    /// An operation became head and was not made due, or the other way round.
    NotTold,
}

/// What can happen in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneAct {
    /// Time passes.
    Tick,
    /// The next operation joins; `Unknown`: it is a redrive that inherits a doubt.
    Join(Effect),
    /// Something happens to the operation with this seq.
    To(usize, What),
}

/// What can happen to one operation of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A hint reaches a worker.
    Begin,
    /// The Reaper looks at it.
    Lost,
    /// The sweeper looks at its deadline.
    Deadline,
    /// The Finalizer looks at it.
    Finalize,
    /// Somebody cancels.
    Cancel,
    /// Its attempt sent nothing.
    NotCalled,
    /// Its attempt was answered with yes.
    Ok,
    /// Its attempt was refused.
    Fail,
    /// Its attempt settled nothing.
    Retry(Effect),
    /// A yes from a spill file.
    LateOk,
    /// The provider does not know it.
    NotFound,
    /// The provider cannot say.
    CannotSay,
    /// A person gives it up.
    GiveUp,
    /// A person has it called again.
    CallAgain,
}

const WHATS: [What; 15] = [
    What::Begin,
    What::Lost,
    What::Deadline,
    What::Finalize,
    What::Cancel,
    What::NotCalled,
    What::Ok,
    What::Fail,
    What::Retry(Effect::None),
    What::Retry(Effect::Unknown),
    What::LateOk,
    What::NotFound,
    What::CannotSay,
    What::GiveUp,
    What::CallAgain,
];

impl What {
    fn event(self, row: &State, lane: &Lane, seq: u64, rules: &Rules) -> Event {
        let fence = row.fence;
        let fail = Fail::new("refused", "");
        let probed = |answer| Event::Probed {
            fence,
            asked_at: NOW,
            answer,
        };
        match self {
            Self::Begin => Event::Begin(Begin {
                attempt_id: AttemptId(Uuid::nil()),
                lease: rules.lease,
                paused: false,
                lane: lane.stand(seq),
                intact: true,
            }),
            Self::Lost => Event::AttemptLost,
            Self::Deadline => Event::DeadlinePassed,
            Self::Finalize => Event::Finalize,
            Self::Cancel => Event::Cancel,
            Self::NotCalled => Event::NotCalled {
                fence,
                after: None,
                reason: String::new(),
            },
            Self::Ok => Event::Ok { fence: Some(fence) },
            Self::Fail => Event::Fail { fence, fail },
            Self::Retry(effect) => Event::Retry {
                fence,
                after: None,
                effect,
                reason: String::new(),
            },
            Self::LateOk => Event::Ok { fence: None },
            Self::NotFound => probed(ProbeAnswer::NotFound),
            Self::CannotSay => probed(ProbeAnswer::Unknown),
            Self::GiveUp => Event::Resolve(Resolution::Failed {
                fail,
                effect: Some(Effect::Unknown),
            }),
            Self::CallAgain => Event::Resolve(Resolution::Retry),
        }
    }
}

impl Street {
    /// The seq of the first open operation.
    fn first_open(&self) -> Option<u64> {
        let open = |member: &Member| matches!(member, Member::Open(_));
        (0_u64..)
            .zip(&self.members)
            .find_map(|(seq, m)| open(m).then_some(seq))
    }

    fn open(&self) -> impl Iterator<Item = &State> {
        self.members.iter().filter_map(|member| match member {
            Member::Open(row) => Some(row.as_ref()),
            Member::Coming | Member::Ended => None,
        })
    }

    /// Nobody is in the lane.
    pub(crate) fn is_clear(&self) -> bool {
        self.open().next().is_none()
    }

    /// The head waits for a person and nothing else.
    pub(crate) fn needs_person(&self) -> bool {
        self.open().next().is_some_and(super::world::needs_person)
    }
}

impl LaneModel {
    /// All guards on.
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            removed: None,
        }
    }

    /// The same without one guard.
    pub(crate) fn without(mut self, guard: Guard) -> Self {
        self.removed = Some(guard);
        self
    }

    fn join(street: &mut Street, effect: Effect, rules: &Rules) {
        let coming = |member: &Member| *member == Member::Coming;
        let Some(index) = street.members.iter().position(coming) else {
            return;
        };
        let inherited = match effect {
            Effect::None => Inherited::default(),
            Effect::Unknown => Inherited {
                effect,
                first_call_at: Some(NOW),
                maybe_calls: 1,
                call_deadline: Some(NOW),
            },
        };
        let deadline = rules.deadline.map(|after| NOW + after);
        let row = State::accepted(NOW, deadline, inherited);
        street.members[index] = Member::Open(Box::new(row));
        let is_head = street.lane.join(index as u64);
        if is_head != (street.first_open() == Some(index as u64)) {
            street.broken = Some(Disorder::NotTold);
        }
    }

    fn happens(&self, street: &mut Street, index: usize, what: What) {
        let Member::Open(row) = &street.members[index] else {
            return;
        };
        let seq = index as u64;
        let event = what.event(row, &street.lane, seq, &self.rules);
        let Ok((mut after, effects)) = guards::apply(self.removed, row, &event, &self.rules) else {
            return;
        };
        let first = street.first_open();
        if effects.contains(&Action::Call) && first != Some(seq) {
            street.broken = Some(Disorder::Overtaking);
        }
        if after.is_terminal() {
            street.members[index] = Member::Ended;
            let told = street.lane.leave(seq);
            let head = street.first_open();
            if told != head.filter(|_| head != first) {
                street.broken = Some(Disorder::NotTold);
            }
            return;
        }
        if after.status == Status::InProgress {
            street.lane.take(seq);
        }
        erase(&mut after, &self.rules);
        after.version = row.version;
        after.attempts = after.attempts.min(self.rules.retry.max_attempts + 1);
        after.fence = after.fence.min(1).max(u64::from(after.attempts));
        street.members[index] = Member::Open(Box::new(after));
    }
}

impl Model for LaneModel {
    type State = Street;
    type Action = LaneAct;

    fn init_states(&self) -> Vec<Street> {
        vec![Street {
            lane: Lane::default(),
            members: [Member::Coming, Member::Coming, Member::Coming],
            broken: None,
        }]
    }

    fn actions(&self, street: &Street, acts: &mut Vec<LaneAct>) {
        if street.broken.is_some() {
            return;
        }
        acts.push(LaneAct::Tick);
        acts.extend([Effect::None, Effect::Unknown].map(LaneAct::Join));
        for (index, member) in street.members.iter().enumerate() {
            if let Member::Open(row) = member {
                let begun = |what: &What| *what != What::LateOk || row.fence > 0;
                let whats = WHATS.into_iter().filter(begun);
                acts.extend(whats.map(|what| LaneAct::To(index, what)));
            }
        }
    }

    fn next_state(&self, street: &Street, act: LaneAct) -> Option<Street> {
        let mut next = street.clone();
        match act {
            LaneAct::Tick => {
                let floors = Floors::of(&self.rules);
                for member in &mut next.members {
                    if let Member::Open(row) = member {
                        floors.age_row(row);
                    }
                }
            }
            LaneAct::Join(effect) => Self::join(&mut next, effect, &self.rules),
            LaneAct::To(index, what) => self.happens(&mut next, index, what),
        }
        (next != *street).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(IN_ORDER, |_, street: &Street| {
                street.broken != Some(Disorder::Overtaking)
            }),
            Property::always(
                "who becomes head is told, and nobody else",
                |_, street: &Street| street.broken != Some(Disorder::NotTold),
            ),
            Property::always("one open operation has begun", |_, street: &Street| {
                street.open().filter(|row| row.fence > 0).count() <= 1
            }),
            Property::always("the head is the first open one", |_, street: &Street| {
                street.lane.head() == street.first_open()
            }),
            Property::always(
                "the lane is empty when nobody is in it",
                |_, street: &Street| street.lane.is_empty() == street.is_clear(),
            ),
            Property::sometimes("a follower is held", |_, street: &Street| {
                let held = |row: &State| row.phase == Some(Phase::Held);
                street.open().skip(1).any(held)
            }),
            Property::sometimes(
                "the last has begun",
                |_, street: &Street| matches!(&street.members[MEMBERS - 1], Member::Open(row) if row.fence > 0),
            ),
        ]
    }
}
