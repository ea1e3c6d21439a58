//! What each act of model A does to the world. Every change of the row goes through
//! `State::apply`.

use clinch_core::protocol::{Begin, Event, LaneStand, ProbeAnswer, Resolution};
use clinch_core::{AttemptId, Effect, Fail, ProcessId};
use uuid::Uuid;

use super::clock::NOW;
use super::guards;
use super::history::Step;
use super::operation::{Act, Heard, Operation, Word};
use super::provider::Decision;
use super::world::{Attempt, Known, Probe, Report, Request, World};

/// Of every attempt: fences tell them apart.
const ATTEMPT: AttemptId = AttemptId(Uuid::nil());

impl Operation {
    pub(crate) fn act(&self, world: &mut World, act: Act) {
        match act {
            Act::Tick => world.tick(self.floors()),
            Act::Begin => self.begin(world),
            Act::Lost => _ = self.commit(world, &Event::AttemptLost),
            Act::TakenForDead => {
                let process = ProcessId::new(ATTEMPT);
                self.commit(world, &Event::ProcessDied { process });
            }
            Act::Deadline => _ = self.commit(world, &Event::DeadlinePassed),
            Act::Finalize => _ = self.commit(world, &Event::Finalize),
            Act::Cancel => {
                if self.commit(world, &Event::Cancel) {
                    world.left.cancels -= 1;
                }
            }
            Act::RetryNow => _ = self.commit(world, &Event::RetryNow),
            Act::SentNothing(fence) => {
                world.left.not_called -= 1;
                settle(world, fence, Request::Gone, Some(Report::NotCalled));
            }
            Act::Timeout(fence) => {
                settle(world, fence, Request::Wire, Some(Report::RetryUnknown));
            }
            Act::DieSending(fence) => settle(world, fence, Request::Wire, None),
            Act::Die(fence) => settle(world, fence, Request::Gone, None),
            Act::Arrive(fence, decision, heard) => self.arrive(world, fence, decision, heard),
            Act::Deliver(fence, again) => self.deliver(world, fence, again),
            Act::Spill(fence) => {
                settle(world, fence, Request::Gone, Some(Report::SpilledOk));
            }
            Act::Extend(fence) => self.extend(world, fence),
            Act::Ask(answer) => world.probes.push(Probe {
                fence: world.row.fence,
                asked_at: NOW,
                answer,
            }),
            Act::ProbeBack(index) => self.probe_back(world, index),
            Act::Person(word) => self.person(world, word),
        }
    }

    /// Applies `event` to the row and looks at what came of it. False: refused.
    fn commit(&self, world: &mut World, event: &Event) -> bool {
        let before = world.row.clone();
        let Ok((after, effects)) = guards::apply(self.removed, &before, event, &self.rules) else {
            world.history.refused(&before, event);
            return false;
        };
        let step = Step {
            before: &before,
            event,
            after: &after,
            effects: &effects,
        };
        world.history.applied(&step, &self.rules);
        if step.writes_off() {
            write_off(world);
        }
        for attempt in &mut world.attempts {
            if attempt.given_up.is_none() && !after.is_current(attempt.fence) {
                attempt.given_up = Some(after.call_deadline.unwrap_or(NOW));
            }
        }
        world.row = after;
        // No guard looks at it, and its steps have been judged.
        world.row.version = before.version;
        true
    }

    fn begin(&self, world: &mut World) {
        let begin = Begin {
            attempt_id: ATTEMPT,
            lease: self.rules.lease,
            paused: false,
            lane: LaneStand::Unordered,
            intact: true,
        };
        let fence = world.row.fence;
        self.commit(world, &Event::Begin(begin));
        if world.row.fence > fence {
            world.attempts.push(Attempt {
                fence: world.row.fence,
                request: Request::Unsent,
                report: None,
                lease_end: world.row.lease_until.unwrap_or(NOW),
                given_up: None,
                first_call_at: world.row.first_call_at.unwrap_or(NOW),
                written_off: false,
            });
        }
    }

    fn extend(&self, world: &mut World, fence: u64) {
        let lease = self.rules.lease;
        if self.commit(world, &Event::Extend { fence, lease }) {
            world.left.extends -= 1;
            let lease_end = world.row.lease_until.unwrap_or(NOW);
            if let Some(attempt) = find(world, fence) {
                attempt.lease_end = lease_end;
            }
        }
    }

    /// A call arrives. Two late arrivals are named in the guarantees and marked here: of a
    /// call that was declared to have had no effect, and of one that outlived its key.
    fn arrive(&self, world: &mut World, fence: u64, decision: Decision, heard: Heard) {
        let Some(attempt) = find(world, fence).map(|attempt| attempt.clone()) else {
            return;
        };
        let effect = world.provider.decide(decision, &attempt, &self.rules);
        let declared_void = attempt.written_off && attempt.is_late();
        if effect && (declared_void || attempt.outlived_its_key(&self.rules)) {
            world.history.residual = true;
        }
        let report = match heard {
            Heard::Answer => Some(decision.report()),
            Heard::Nothing => Some(Report::RetryUnknown),
            Heard::Nobody => attempt.report,
        };
        settle(world, fence, Request::Gone, report);
    }

    fn deliver(&self, world: &mut World, fence: u64, again: bool) {
        let Some(attempt) = find(world, fence) else {
            return;
        };
        let Some(report) = attempt.report else {
            return;
        };
        if !again {
            attempt.report = None;
        }
        self.commit(world, &report.event(fence));
    }

    fn probe_back(&self, world: &mut World, index: usize) {
        let probe = world.probes.remove(index);
        let answer = match probe.answer {
            Known::Succeeded => ProbeAnswer::Succeeded,
            Known::Failed => ProbeAnswer::Failed(refusal()),
            Known::NotFound => ProbeAnswer::NotFound,
            Known::Unknown => ProbeAnswer::Unknown,
        };
        let event = Event::Probed {
            fence: probe.fence,
            asked_at: probe.asked_at,
            answer,
        };
        self.commit(world, &event);
    }

    fn person(&self, world: &mut World, word: Word) {
        let failed = |effect| Resolution::Failed {
            fail: refusal(),
            effect,
        };
        let resolution = match word {
            Word::Completed => Resolution::Completed,
            Word::FailedNoEffect => failed(Some(Effect::None)),
            Word::FailedEffectUnknown => failed(Some(Effect::Unknown)),
            Word::Failed => failed(None),
            Word::Retry => Resolution::Retry,
        };
        if word == Word::Retry {
            world.left.person_retries -= 1;
        }
        if word == Word::FailedNoEffect {
            write_off(world);
        }
        self.commit(world, &Event::Resolve(resolution));
    }
}

impl Report {
    fn event(self, fence: u64) -> Event {
        let retry = |effect| Event::Retry {
            fence,
            after: None,
            effect,
            reason: String::new(),
        };
        match self {
            Self::NotCalled => Event::NotCalled {
                fence,
                after: None,
                reason: String::new(),
            },
            Self::Ok => Event::Ok { fence: Some(fence) },
            Self::SpilledOk => Event::Ok { fence: None },
            Self::Fail => Event::Fail {
                fence,
                fail: refusal(),
            },
            Self::RetryNo => retry(Effect::None),
            Self::RetryUnknown => retry(Effect::Unknown),
        }
    }
}

fn refusal() -> Fail {
    Fail::new("refused", "")
}

fn find(world: &mut World, fence: u64) -> Option<&mut Attempt> {
    world.attempts.iter_mut().find(|a| a.fence == fence)
}

fn settle(world: &mut World, fence: u64, request: Request, report: Option<Report>) {
    if let Some(attempt) = find(world, fence) {
        attempt.request = request;
        attempt.report = report;
    }
}

/// It was declared that no call had an effect. True of every call that arrived in time; an
/// effect of one that did not is the race that the guarantees name.
fn write_off(world: &mut World) {
    for attempt in &mut world.attempts {
        attempt.written_off = true;
    }
    if world.provider.effects > 0 && world.provider.first_effect_late {
        world.history.residual = true;
    }
}
