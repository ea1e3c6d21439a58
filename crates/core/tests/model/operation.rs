//! Model A: one operation, its workers, its provider and the people around it.

use clinch_core::Timestamp;
use clinch_core::policy::Rules;
use clinch_core::protocol::{Inherited, Phase, State};
use stateright::{Model, Property};

use super::clock::{Floors, NOW, final_after};
use super::guards::Guard;
use super::properties;
use super::provider::Decision;
use super::world::{Attempt, Budget, History, Known, Provider, Report, Request, World};

/// One operation under the rules of its route.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    /// The route's rules.
    pub(crate) rules: Rules,
    /// The bounds.
    pub(crate) bounds: Bounds,
    /// The guard that is taken away, if any.
    pub(crate) removed: Option<Guard>,
    /// The races that the guarantees name are no breach.
    pub(crate) excuses_named_races: bool,
    floors: Floors,
}

/// How far the exploration goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// How often the unbounded may happen.
    pub(crate) budget: Budget,
    /// Attempts that can still act at the same time.
    pub(crate) in_flight: usize,
    /// Probes that are out at the same time.
    pub(crate) probes: usize,
    /// A worker may say everything twice.
    pub(crate) doubled_reports: bool,
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Time passes.
    Tick,
    /// A hint reaches a worker: the first, a lost one found by the sweeper, a doubled one.
    Begin,
    /// The Reaper looks at the row.
    Lost,
    /// The process of the live attempt is taken for dead. It need not be.
    TakenForDead,
    /// The sweeper looks at the deadline.
    Deadline,
    /// The Finalizer looks at the row.
    Finalize,
    /// Somebody cancels.
    Cancel,
    /// Somebody wants the next attempt now.
    RetryNow,
    /// A worker finds that it sent nothing.
    SentNothing(u64),
    /// A worker stops waiting; its request is on the wire.
    Timeout(u64),
    /// A worker dies; its request is on the wire.
    DieSending(u64),
    /// A worker dies with all it knows, or a request is lost on the wire.
    Die(u64),
    /// A request arrives, however late.
    Arrive(u64, Decision, Heard),
    /// A worker writes what it knows; `true`: it will do so again.
    Deliver(u64, bool),
    /// A worker cannot reach the store: its yes goes to a file.
    Spill(u64),
    /// A worker extends its lease.
    Extend(u64),
    /// The provider is asked.
    Ask(Known),
    /// The n-th probe comes back.
    ProbeBack(usize),
    /// A person settles a held operation.
    Person(Word),
}

/// What a worker hears of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The answer.
    Answer,
    /// Nothing: the connection broke.
    Nothing,
    /// Nothing: nobody is there to hear.
    Nobody,
}

/// What a person says of a held operation. A person lies neither about a yes nor about an
/// effect, but need not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// It was applied.
    Completed,
    /// It was not applied.
    FailedNoEffect,
    /// Give up; it may have been applied.
    FailedEffectUnknown,
    /// Give up, and nothing about the effect.
    Failed,
    /// Call once more.
    Retry,
}

impl Operation {
    /// All guards on.
    pub(crate) fn new(rules: Rules, bounds: Bounds) -> Self {
        Self {
            floors: Floors::of(&rules),
            removed: None,
            excuses_named_races: true,
            rules,
            bounds,
        }
    }

    /// The same without one guard.
    pub(crate) fn without(mut self, guard: Guard) -> Self {
        self.removed = Some(guard);
        self
    }

    /// The same with no excuse for the races that the guarantees name.
    pub(crate) fn without_excuse(mut self) -> Self {
        self.excuses_named_races = false;
        self
    }

    pub(crate) fn floors(&self) -> &Floors {
        &self.floors
    }

    /// No person knows that a call had no effect before a probe could: only then is
    /// "it was not applied" a truthful word.
    fn person_can_deny(&self, world: &World) -> bool {
        let after = final_after(&self.rules).unwrap_or_default();
        let past = |deadline: Timestamp| NOW > deadline + after;
        world.provider.effects == 0 && world.row.call_deadline.is_some_and(past)
    }

    fn worker_acts(&self, world: &World, attempt: &Attempt, acts: &mut Vec<Act>) {
        let fence = attempt.fence;
        acts.push(Act::Die(fence));
        match attempt.request {
            Request::Unsent => {
                acts.extend([Act::Timeout(fence), Act::DieSending(fence)]);
                if world.left.not_called > 0 {
                    acts.push(Act::SentNothing(fence));
                }
                if world.left.extends > 0 {
                    acts.push(Act::Extend(fence));
                }
                for &decision in world.provider.decisions(&self.rules) {
                    let heard = [Heard::Answer, Heard::Nothing, Heard::Nobody];
                    acts.extend(heard.map(|heard| Act::Arrive(fence, decision, heard)));
                }
            }
            Request::Wire => {
                let decisions = world.provider.decisions(&self.rules).iter();
                let looked_at = decisions.filter(|decision| **decision != Decision::Decline);
                acts.extend(looked_at.map(|d| Act::Arrive(fence, *d, Heard::Nobody)));
            }
            Request::Gone => {}
        }
        if let Some(report) = attempt.report {
            acts.push(Act::Deliver(fence, false));
            if self.bounds.doubled_reports {
                acts.push(Act::Deliver(fence, true));
            }
            if report == Report::Ok {
                acts.push(Act::Spill(fence));
            }
        }
    }

    fn held_acts(&self, world: &World, acts: &mut Vec<Act>) {
        if world.probes.len() < self.bounds.probes {
            acts.extend(
                world
                    .provider
                    .answers(&self.rules)
                    .into_iter()
                    .map(Act::Ask),
            );
        }
        acts.push(Act::Person(Word::Failed));
        acts.push(Act::Person(Word::FailedEffectUnknown));
        if world.provider.effects > 0 {
            acts.push(Act::Person(Word::Completed));
        }
        if self.person_can_deny(world) {
            acts.push(Act::Person(Word::FailedNoEffect));
        }
        if world.left.person_retries > 0 {
            acts.push(Act::Person(Word::Retry));
        }
    }
}

impl Model for Operation {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let deadline = self.rules.deadline.map(|after| NOW + after);
        vec![World {
            row: State::accepted(NOW, deadline, Inherited::default()),
            attempts: Vec::new(),
            probes: Vec::new(),
            provider: Provider::default(),
            left: self.bounds.budget,
            history: History::default(),
        }]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        if world.history.broken.is_some() {
            return;
        }
        acts.extend([Act::Tick, Act::Lost, Act::TakenForDead]);
        acts.extend([Act::Deadline, Act::Finalize]);
        if world.left.cancels > 0 {
            acts.push(Act::Cancel);
        }
        if world.row.next_attempt_at.is_some_and(|at| at > NOW) {
            acts.push(Act::RetryNow);
        }
        if world.attempts.len() < self.bounds.in_flight {
            acts.push(Act::Begin);
        }
        for attempt in &world.attempts {
            self.worker_acts(world, attempt, acts);
        }
        acts.extend((0..world.probes.len()).map(Act::ProbeBack));
        if world.row.phase == Some(Phase::Held) {
            self.held_acts(world, acts);
        }
    }

    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        let mut next = world.clone();
        self.act(&mut next, act);
        next.tidy(&self.rules);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
