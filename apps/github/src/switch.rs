//! Which documents are live: the real ones, or the shadow, after a switch to it.
//!
//! Both have their own sink, cursors and runs. So a switch changes one record, and so does the way
//! back: the cursors of the side that is not live stay where they are, and its next run reads
//! everything that happened meanwhile. After a switch the collector judges each run that ends, and
//! goes back by itself if too many jobs fail, a run takes too long, or the sink is away.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clinch::types::{ErrorKind, Timestamp};
use clinch::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::collector::{Collector, Inner};
use crate::compare::{NOISE, took};
use crate::model::{Run, RunId, RunStatus, Space, Trigger};
use crate::plan::is_permanent;

/// The key of the record.
const KEY: &str = "github-switch";
/// Active runs that are read at once.
const PAGE: usize = 500;
/// Jobs that a run must have before its share of failed ones is judged: of three jobs one is a lot.
const JOBS_MIN: u64 = 20;

/// When the collector goes back by itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SwitchLimits {
    /// Failed jobs of a run, in percent.
    pub max_failed_percent: f64,
    /// How many times as long a run may take as the latest run before the switch that read as much.
    pub max_time_ratio: f64,
    /// How long the sink may refuse all documents, in seconds.
    pub max_sink_outage_secs: u64,
}

impl Default for SwitchLimits {
    /// Five percent and twice the time are the conditions of the requirements (§8.4).
    fn default() -> Self {
        Self {
            max_failed_percent: 5.0,
            max_time_ratio: 2.0,
            max_sink_outage_secs: 10 * 60,
        }
    }
}

/// A way back that the collector took by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WayBack {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
    /// The run that was the reason.
    pub run: Option<RunId>,
}

/// Which documents are live.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Switch {
    /// The documents that runs store and readers get, unless they ask for others.
    pub live: Space,
    /// Since when; `None`: from the beginning.
    pub since: Option<Timestamp>,
    /// The conditions of a way back.
    pub limits: SwitchLimits,
    /// The last way back that the collector took by itself, since a person switched.
    pub way_back: Option<WayBack>,
    /// Trials that delete what earlier ones have left in the shadow. Until they have, nobody
    /// switches to it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    clearing: BTreeSet<RunId>,
}

/// How long the sink of the shadow has refused documents, in this process.
#[derive(Default)]
pub(crate) struct Outage {
    refused: Mutex<Option<Refused>>,
}

/// Refusals of the sink in a row.
#[derive(Clone, Copy)]
struct Refused {
    since: Duration,
    last: Duration,
}

/// A job whose documents are refused offers them again within seconds. After a longer pause, in which
/// nobody has offered any, another outage begins.
const REFUSED_AGAIN_WITHIN: Duration = Duration::from_secs(2 * 60);

impl Outage {
    fn refused(&self) -> std::sync::MutexGuard<'_, Option<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sink took or refused documents of a run. That it refuses some for good says nothing of
    /// others.
    pub(crate) fn note(&self, space: Space, stored: Result<(), &Error>, now: Duration) {
        if space != Space::Shadow {
            return;
        }
        let mut refused = self.refused();
        match stored {
            Ok(()) => *refused = None,
            Err(error) if is_permanent(error) => {}
            Err(_) => {
                let is_same = |one: &Refused| now.saturating_sub(one.last) <= REFUSED_AGAIN_WITHIN;
                let since = refused.filter(is_same).map_or(now, |one| one.since);
                *refused = Some(Refused { since, last: now });
            }
        }
    }

    /// How long it has refused them, if it has done so since then.
    fn lasts(&self, since: Duration) -> Option<Duration> {
        let refused = self.refused().filter(|one| one.last >= since)?;
        Some(refused.last.saturating_sub(refused.since))
    }
}

impl Inner {
    /// Which documents are live.
    pub(crate) async fn switch(&self) -> Result<Switch> {
        let found = self.records.read::<Switch>(KEY.to_owned()).await?;
        Ok(found.map(|(switch, _)| switch).unwrap_or_default())
    }

    /// The documents that a request without a choice is about.
    pub(crate) async fn live(&self) -> Result<Space> {
        Ok(self.switch().await?.live)
    }

    /// Forgets the runs of this user: the one that was the reason of a way back, and trials.
    pub(crate) async fn forget_switched(&self, login: &str) -> Result<()> {
        let forget = |switch: Option<Switch>| {
            let mut switch = switch?;
            let before = switch.clearing.len();
            switch.clearing.retain(|run| run.login != login);
            let mut has_changed = switch.clearing.len() < before;
            if let Some(back) = &mut switch.way_back
                && let Some(run) = back.run.take_if(|run| run.login == login)
            {
                back.reason = back.reason.replace(&format!("{}.", run.login), "run ");
                has_changed = true;
            }
            has_changed.then_some((switch, ()))
        };
        self.records.change(KEY.to_owned(), forget).await?;
        Ok(())
    }

    /// Notes, in the record that a switch changes, that a trial deletes what earlier ones have left
    /// in its space. False: these documents are live, and stay. Otherwise they do not become live
    /// before [`Inner::end_clearing`].
    pub(crate) async fn begin_clearing(&self, trial: &RunId) -> Result<bool> {
        let begin = |switch: Option<Switch>| {
            let mut switch = switch.unwrap_or_default();
            let is_at_rest = trial.space == Space::Shadow && switch.live != trial.space;
            switch.clearing.insert(trial.clone());
            is_at_rest.then_some((switch, ()))
        };
        let begun = self.records.change(KEY.to_owned(), begin).await?;
        Ok(begun.is_some())
    }

    /// The trial has deleted what it wanted to delete.
    pub(crate) async fn end_clearing(&self, trial: &RunId) -> Result<()> {
        let end = |switch: Option<Switch>| {
            let mut switch = switch?;
            let was_noted = switch.clearing.remove(trial);
            was_noted.then_some((switch, ()))
        };
        self.records.change(KEY.to_owned(), end).await?;
        Ok(())
    }

    /// The trials that are noted as deleting and do not delete any more: their process died, and
    /// they were canceled before another one continued.
    async fn abandoned_trials(&self) -> Result<BTreeSet<RunId>> {
        let mut abandoned = BTreeSet::new();
        for trial in self.switch().await?.clearing {
            let run = self.records.run(&trial).await?;
            let is_over = run.is_none_or(|run| run.status.is_terminal());
            if is_over && !self.has_live_step(&trial.login).await? {
                abandoned.insert(trial);
            }
        }
        Ok(abandoned)
    }

    /// Why a run that has ended is beyond the limits.
    async fn verdict(&self, run: &Run, limits: &SwitchLimits) -> Result<Option<String>> {
        let (failed, total) = (run.jobs.failed, run.jobs.total);
        let percent = failed as f64 * 100.0 / total.max(1) as f64;
        if total >= JOBS_MIN && percent > limits.max_failed_percent {
            return Ok(Some(format!("{failed} of {total} jobs failed")));
        }
        let before = self.records.latest(&run.run_id.login, Space::Main).await?;
        let is_like = |before: &Run| {
            before.status == RunStatus::Completed
                && before.is_full == run.is_full
                && before.streams == run.streams
        };
        let Some(before) = before.filter(is_like) else {
            return Ok(None);
        };
        let (took, took_before) = (took(run), took(&before));
        let is_slow = took > took_before.mul_f64(limits.max_time_ratio.clamp(0.0, 1e6))
            && took >= took_before + NOISE;
        Ok(is_slow.then(|| {
            format!(
                "the run took {} s, {} before the switch took {} s",
                took.as_secs(),
                before.run_id,
                took_before.as_secs()
            )
        }))
    }
}

impl Collector {
    /// Which documents are live, and whether the collector went back by itself.
    pub async fn switch(&self) -> Result<Switch> {
        self.inner.switch().await
    }

    /// Makes these documents live. Active runs continue where they began. `Conflict`: a trial is
    /// deleting documents of the shadow.
    pub async fn switch_to(&self, live: Space, limits: SwitchLimits) -> Result<Switch> {
        let since = Some(self.inner.clock.now());
        let abandoned = self.inner.abandoned_trials().await?;
        let mut deletes = None;
        let next = |before: Option<Switch>| {
            let mut clearing = before.unwrap_or_default().clearing;
            clearing.retain(|trial| !abandoned.contains(trial));
            deletes = clearing.first().cloned();
            if live == Space::Shadow && deletes.is_some() {
                return None;
            }
            let switch = Switch {
                live,
                since,
                limits,
                way_back: None,
                clearing,
            };
            Some((switch.clone(), switch))
        };
        let switched = self.inner.records.change(KEY.to_owned(), next).await?;
        let Some(switched) = switched else {
            let trial = deletes.map_or_else(String::new, |trial| format!(" {trial}"));
            let message = format!(
                "the trial{trial} is deleting what an earlier one has left in the shadow; try again \
                 in a minute"
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        };
        tracing::warn!(target: "clinch::github", live = live.collection(), "the live documents were switched");
        Ok(switched)
    }

    /// Judges a run that has ended, if its documents are live after a switch.
    pub(crate) async fn judge(&self, id: &RunId) -> Result<()> {
        if id.space != Space::Shadow {
            return Ok(());
        }
        let switch = self.inner.switch().await?;
        let run = self.inner.records.run(id).await?;
        let is_judged =
            |run: &Run| run.status == RunStatus::Completed && Some(run.created_at) >= switch.since;
        let Some(run) = run.filter(is_judged) else {
            return Ok(());
        };
        if switch.live != Space::Shadow {
            return Ok(());
        }
        match self.inner.verdict(&run, &switch.limits).await? {
            Some(reason) => self.go_back(reason, Some(id.clone())).await,
            None => Ok(()),
        }
    }

    /// Goes back if the sink of the live shadow has refused documents for too long, and did so in the
    /// attempt that began then.
    pub(crate) async fn judge_sink(&self, id: &RunId, began: Duration) -> Result<()> {
        let Some(lasts) = self.inner.outage.lasts(began) else {
            return Ok(());
        };
        let switch = self.inner.switch().await?;
        let most = Duration::from_secs(switch.limits.max_sink_outage_secs);
        if switch.live != Space::Shadow || lasts < most {
            return Ok(());
        }
        let reason = format!("the sink refused documents for {} s", lasts.as_secs());
        self.go_back(reason, Some(id.clone())).await
    }

    /// Makes the real documents live again, once; cancels the runs into the shadow, and collects
    /// their users again. The cursors of the real documents are where they were before the switch,
    /// so that nothing is missed, whoever begins the next run.
    async fn go_back(&self, reason: String, run: Option<RunId>) -> Result<()> {
        let now = self.inner.clock.now();
        let back = |switch: Option<Switch>| {
            let switch = switch.filter(|one| one.live == Space::Shadow)?;
            let (since, back) = (
                switch.since,
                Switch {
                    live: Space::Main,
                    since: Some(now),
                    way_back: Some(WayBack {
                        at: now,
                        reason: reason.clone(),
                        run: run.clone(),
                    }),
                    ..switch
                },
            );
            Some((back, since))
        };
        let Some(since) = self.inner.records.change(KEY.to_owned(), back).await? else {
            return Ok(());
        };
        let name = run.map_or_else(String::new, |run| format!(" ({run})"));
        let message = format!(
            "the collector went back to its real documents{name}: {reason}; `clinch github switch` shows it"
        );
        tracing::error!(target: "clinch::github", "{message}");
        self.inner
            .clinch()?
            .alert("github_switched_back", &message, None)
            .await;
        // Not bound to the time of one attempt. If the process dies now, the next run of each user
        // reads the same.
        let this = self.clone();
        tokio::spawn(async move {
            if let Err(error) = this.collect_again(since).await {
                tracing::warn!(target: "clinch::github", %error, "not every user is collected again at once; the next runs do it");
            }
        });
        Ok(())
    }

    /// Begins a run of every user whose documents went to the shadow since then.
    async fn collect_again(&self, since: Option<Timestamp>) -> Result<()> {
        let mut after = None;
        let mut active = Vec::new();
        loop {
            let (runs, next) = self.inner.records.active_runs(after, PAGE).await?;
            let of_shadow = |run: &Run| {
                run.run_id.space == Space::Shadow && !run.is_trial && !run.status.is_terminal()
            };
            active.extend(runs.into_iter().filter(of_shadow));
            after = next;
            if after.is_none() {
                break;
            }
        }
        let mut users: BTreeSet<String> = BTreeSet::new();
        let mut failed = None;
        for run in active {
            users.insert(run.run_id.login.clone());
            let canceled = self.cancel(&run.run_id, "the collector went back").await;
            note_failed(&mut failed, &run.run_id.login, canceled);
        }
        let of_shadow = |run: Run| {
            if run.run_id.space == Space::Shadow && !run.is_trial {
                users.insert(run.run_id.login);
            }
        };
        let since = since.unwrap_or(Timestamp::from_millis(0));
        self.each_run_since(since, usize::MAX, of_shadow).await?;
        for user in users {
            let begun = self.start(&user, Trigger::Manual, Space::Main).await;
            note_failed(&mut failed, &user, begun);
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Notes the first error of several users, and logs each; one that has a run or has none any more is
/// no error.
fn note_failed(failed: &mut Option<Error>, user: &str, result: Result<Run>) {
    match result {
        Err(error) if error.kind() != ErrorKind::Conflict => {
            tracing::warn!(target: "clinch::github", user, %error, "the user is not collected again at once");
            failed.get_or_insert(error);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1_000);

    fn away(kind: ErrorKind) -> Error {
        Error::new(kind, "the sink is away")
    }

    /// Notes refusals of this kind from then on, and returns when the last one was.
    fn refuse(outage: &Outage, kind: ErrorKind, from: Duration, times: u32) -> Duration {
        let pause = Duration::from_secs(5);
        for n in 0..times {
            let at = from + pause * n;
            outage.note(Space::Shadow, Err(&away(kind)), at);
        }
        from + pause * times.saturating_sub(1)
    }

    #[test]
    fn col_18_an_outage_lasts_from_the_first_refusal_to_the_last() {
        let outage = Outage::default();
        let last = refuse(&outage, ErrorKind::Unavailable, START, 200);
        assert_eq!(outage.lasts(last), Some(last - START));
        let later = last + Duration::from_secs(1);
        assert_eq!(outage.lasts(later), None, "none since then");
        outage.note(Space::Main, Ok(()), later);
        assert_eq!(outage.lasts(last), Some(last - START), "the other sink");
        outage.note(Space::Shadow, Ok(()), later);
        assert_eq!(outage.lasts(START), None);
    }

    #[test]
    fn col_18_documents_that_are_refused_for_good_are_no_outage() {
        let outage = Outage::default();
        refuse(&outage, ErrorKind::Invalid, START, 200);
        assert_eq!(outage.lasts(START), None);
    }

    #[test]
    fn col_18_refusals_of_two_nights_are_two_outages() {
        let outage = Outage::default();
        refuse(&outage, ErrorKind::Unavailable, START, 2);
        let next = START + Duration::from_secs(24 * 60 * 60);
        let last = refuse(&outage, ErrorKind::Unavailable, next, 2);
        assert_eq!(outage.lasts(START), Some(last - next));
    }
}
