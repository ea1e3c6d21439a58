//! The hot path: a commit is written from what the process knows; for the rest, what it needs is
//! loaded first.

use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{AnswerBody, Store, Write, Written};
use clinch_core::{Domain, Error, ErrorKind, EventType, Result, WorkerId};
use clinch_stored::commit::{Next, Plan, RowWrite, Seen, Unit};

use crate::Postgres;
use crate::tx::Tx;

impl Tx<'_> {
    /// Plans, loads and writes until every write of the unit is answered. `ends` says whether
    /// the call is over with a plan that answers the last write.
    pub(crate) async fn perform(
        &mut self,
        mut unit: Unit<'_>,
        ends: impl Fn(&Plan) -> bool + Send,
    ) -> Result<Vec<Written>> {
        loop {
            match unit.next(self.now)? {
                Next::Load => {
                    let (wanted, seen) = unit.load();
                    self.load(wanted, seen).await?;
                }
                Next::Write(plan) => {
                    let is_last = unit.is_last(&plan) && ends(&plan);
                    let seqs = self.write(&plan, is_last).await?;
                    unit.written(plan, &seqs);
                }
                Next::Done(answers) => return Ok(answers),
            }
        }
    }
}

impl Postgres {
    /// Plans from what this process knows, without a read; `None`: something has to be read.
    fn guess<'w>(&self, writes: &'w [Write], routes: &'w Routes) -> Option<(Unit<'w>, Plan)> {
        if writes.iter().any(spawns) {
            // Whether the children are new decides what is written of their parent.
            return None;
        }
        let changed = writes.iter().filter(|one| !matches!(one, Write::Accept(_)));
        let changed = changed.map(Write::op_id).collect::<Option<Vec<_>>>()?;
        let seen = self.shared.live_rows.seen(changed.into_iter())?;
        self.guess_from(seen, writes, routes)
    }

    /// Plans from these rows, without a read; `None`: something has to be read.
    pub(crate) fn guess_from<'w>(
        &self,
        seen: Seen,
        writes: &'w [Write],
        routes: &'w Routes,
    ) -> Option<(Unit<'w>, Plan)> {
        let now = self.shared.server_clock.now(self.clock().monotonic())?;
        let mut unit = Unit::with(writes, routes, seen);
        let mut next = unit.next(now).ok()?;
        if let Next::Load = next {
            // What is not loaded is taken to be absent.
            next = match unit.wanted().is_of_new_keys() {
                true => unit.next(now).ok()?,
                false => return None,
            };
        }
        match next {
            Next::Write(plan) if unit.is_last(&plan) && plan.is_rows_alone() => Some((unit, plan)),
            Next::Load | Next::Write(_) | Next::Done(_) => None,
        }
    }

    /// Writes a guess; whatever was not as it took it to be is read and planned again.
    async fn commit_guess(
        &self,
        mut unit: Unit<'_>,
        plan: Plan,
        writes: &[Write],
        routes: &Routes,
    ) -> Result<Vec<Written>> {
        let plan = Arc::new(plan);
        let written = self.write(plan.clone(), |tx, plan| Box::pin(tx.write_guess(plan)));
        let written = written.await?;
        let seq = |new: &RowWrite| written.get(&new.row.op_id).copied().flatten();
        let seqs: Vec<u64> = plan.new_rows().map(|new| seq(new).unwrap_or(0)).collect();
        unit.written(Arc::unwrap_or_clone(plan), &seqs);
        let mut answers = unit.into_answers();
        let is_left = |write: &Write| write.op_id().is_none_or(|op| !written.contains_key(&op));
        let left: Vec<Write> = writes.iter().filter(|one| is_left(one)).cloned().collect();
        if left.is_empty() {
            return Ok(answers);
        }
        let again = self.commit_read(left, routes.clone()).await;
        let again = again.map_err(|error| match written.is_empty() {
            true => error,
            false => partly(error),
        })?;
        let stale = writes.iter().zip(&mut answers);
        let stale = stale.filter(|(write, _)| is_left(write));
        for ((_, stale), answer) in stale.zip(again) {
            *stale = answer;
        }
        Ok(answers)
    }

    /// Reads and locks rows, then writes.
    async fn commit_read(&self, writes: Vec<Write>, routes: Routes) -> Result<Vec<Written>> {
        self.write((writes, routes), |tx, (writes, routes)| {
            Box::pin(async move {
                // Before the first row is written: a second try would draw its seq again.
                tx.miss_streams(writes.iter().filter_map(stream_of));
                tx.need_workers(writes.iter().flat_map(workers_of))?;
                tx.perform(Unit::new(writes, routes), |_| true).await
            })
        })
        .await
    }
}

#[async_trait]
impl Store for Postgres {
    async fn commit(&self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>> {
        match self.guess(writes, routes) {
            Some((unit, plan)) => self.commit_guess(unit, plan, writes, routes).await,
            None => self.commit_read(writes.to_vec(), routes.clone()).await,
        }
    }
}

/// The answer spawns operations.
fn spawns(write: &Write) -> bool {
    let ok = match write {
        Write::WriteAhead(answer) | Write::Settle(answer) => match &answer.body {
            AnswerBody::Ok(ok) => Some(ok),
            AnswerBody::Fail(_) => None,
        },
        Write::Amend(amendment) => amendment.ok.as_ref(),
        _ => None,
    };
    ok.is_some_and(|ok| !ok.spawn.is_empty())
}

/// Part of a call is committed, and the rest failed.
fn partly(error: Error) -> Error {
    let message = "part of the call was committed; read back what happened";
    Error::new(ErrorKind::Ambiguous, message).caused_by(error)
}

/// The stream of an operation that a write accepts.
fn stream_of(write: &Write) -> Option<(&Domain, &EventType, i8)> {
    match write {
        Write::Accept(new) => {
            let rank = -new.options.priority.get();
            Some((&new.keys.domain, &new.keys.event_type, rank))
        }
        _ => None,
    }
}

/// The workers and people that the ledger lines of a write name.
fn workers_of(write: &Write) -> impl Iterator<Item = &WorkerId> {
    let begins = match write {
        Write::Accept(new) => new.begin.as_ref().map(|begin| &begin.worker),
        _ => None,
    };
    begins.into_iter().chain(actor_of(write))
}

fn actor_of(write: &Write) -> Option<&WorkerId> {
    match write {
        Write::Accept(new) => new.by.as_ref(),
        Write::Begin(begin) => Some(&begin.worker),
        Write::WriteAhead(answer) | Write::Settle(answer) => Some(&answer.worker),
        Write::Reschedule(attempt) => Some(&attempt.worker),
        Write::Amend(amendment) => Some(&amendment.by),
        Write::Extend(_) | Write::Finalize(_) | Write::Seal(_) => None,
        Write::Letter(change) => Some(&change.by),
        Write::Note(note) => Some(&note.by),
    }
}
