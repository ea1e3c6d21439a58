//! Judges every step that the row makes. What it finds becomes a property.

use clinch_core::policy::{Rules, Safety};
use clinch_core::protocol::{
    Action, Effects, Event, Phase, ProbeAnswer, Resolution, State, Verdict,
};
use clinch_core::{Effect, Status};

use super::world::{Broken, History};

/// One step of a row.
pub(crate) struct Step<'a> {
    /// The row before it.
    pub(crate) before: &'a State,
    /// What happened, as the world knows it (not as a removed guard shows it).
    pub(crate) event: &'a Event,
    /// The row after it.
    pub(crate) after: &'a State,
    /// What followed.
    pub(crate) effects: &'a Effects,
}

impl Step<'_> {
    /// The step let an attempt call.
    fn calls(&self) -> bool {
        self.effects.contains(&Action::Call)
    }

    /// A final "not found" took the doubt away.
    pub(crate) fn writes_off(&self) -> bool {
        let not_found = matches!(
            self.event,
            Event::Probed {
                answer: ProbeAnswer::NotFound,
                ..
            }
        );
        not_found && self.before.effect == Effect::Unknown && self.after.effect == Effect::None
    }

    /// A probe asked before the last begin ended the operation or took its doubt away.
    fn heeds_stale_probe(&self) -> bool {
        let Event::Probed { fence, answer, .. } = self.event else {
            return false;
        };
        let decides = self.after.is_terminal() || self.writes_off();
        decides && *answer != ProbeAnswer::Succeeded && *fence != self.before.fence
    }

    /// Sticky: only an end, or a final "not found", takes a doubt away.
    fn forgets_doubt(&self) -> bool {
        let cleared = self.before.effect == Effect::Unknown && self.after.effect == Effect::None;
        cleared && !self.after.is_terminal() && !self.writes_off()
    }
}

impl History {
    /// The event was refused. A yes may be refused by a COMPLETED row only.
    pub(crate) fn refused(&mut self, before: &State, event: &Event) {
        if is_yes(event) && before.status != Status::Completed {
            self.breaks(Broken::YesDropped);
        }
    }

    /// The event was applied.
    pub(crate) fn applied(&mut self, step: &Step<'_>, rules: &Rules) {
        self.judge_row(step);
        if step.calls() {
            self.judge_call(rules);
        }
        if step.heeds_stale_probe() {
            self.breaks(Broken::StaleProbe);
        }
        self.remember(step);
    }

    fn judge_row(&mut self, step: &Step<'_>) {
        let (before, after) = (step.before, step.after);
        if before.is_terminal() {
            let alerted = step.effects.contains(&Action::AlertLateOk);
            self.late_yes |= alerted;
            let mut marked = before.clone();
            marked.late_ok |= alerted;
            if marked != *after {
                self.breaks(Broken::TerminalChanged);
            }
            if is_yes(step.event) && !alerted {
                self.breaks(Broken::YesDropped);
            }
            return;
        }
        if before.status == Status::InProgress && after.status == Status::Pending {
            self.breaks(Broken::BackToPending);
        }
        if after.fence != before.fence + u64::from(step.calls()) {
            self.breaks(Broken::Fence);
        }
        if after.version != before.version + 1 {
            self.breaks(Broken::Version);
        }
        if step.forgets_doubt() {
            self.breaks(Broken::DoubtForgotten);
        }
    }

    fn judge_call(&mut self, rules: &Rules) {
        if self.canceled {
            self.breaks(Broken::CallAfterCancel);
        }
        if self.recorded.is_some() {
            self.breaks(Broken::CallAfterRecord);
        }
        if self.doubt && !self.permit && rules.safety == Safety::Unsafe {
            self.breaks(Broken::SecondCall);
        }
        self.permit_in_use = std::mem::take(&mut self.permit);
    }

    /// What the world knows has happened, whatever the row made of it.
    fn remember(&mut self, step: &Step<'_>) {
        match step.event {
            Event::AttemptLost
            | Event::ProcessDied { .. }
            | Event::Retry {
                effect: Effect::Unknown,
                ..
            } => self.doubt = true,
            Event::Cancel => self.canceled = true,
            Event::Resolve(Resolution::Retry) => {
                self.permit = true;
                self.person_allowed_repeat = true;
                self.canceled = false;
            }
            Event::NotCalled { .. } => self.permit |= self.permit_in_use,
            Event::Ok { fence: Some(_) } if step.effects.contains(&Action::Record) => {
                self.recorded = self.recorded.or(Some(Verdict::Ok));
            }
            Event::Fail { .. } if step.effects.contains(&Action::Record) => {
                self.recorded = self.recorded.or(Some(Verdict::Fail));
            }
            _ => {}
        }
        if step.after.phase != Some(Phase::Live) {
            self.permit_in_use = false;
        }
        if step.writes_off() {
            self.doubt = false;
        }
        if step.after.is_terminal() {
            self.end = self.end.or(Some((step.after.status, step.after.effect)));
        }
    }

    fn breaks(&mut self, broken: Broken) {
        self.broken = self.broken.or(Some(broken));
    }
}

/// It says that the provider applied our call.
fn is_yes(event: &Event) -> bool {
    matches!(
        event,
        Event::Ok { .. }
            | Event::Probed {
                answer: ProbeAnswer::Succeeded,
                ..
            }
    )
}
