//! The hot path: what a commit needs is loaded, and its plans are written.

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{Store, Write, Written};
use clinch_core::{Result, WorkerId};
use clinch_stored::commit::{Next, Plan, Unit};

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

#[async_trait]
impl Store for Postgres {
    async fn commit(&self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>> {
        let call = (writes.to_vec(), routes.clone());
        self.write(call, |tx, (writes, routes)| {
            Box::pin(async move {
                // Before the first row is written: a second try would draw its seq again.
                tx.need_workers(writes.iter().filter_map(worker_of))?;
                tx.perform(Unit::new(writes, routes), |_| true).await
            })
        })
        .await
    }
}

/// The worker that the ledger line of a write names.
fn worker_of(write: &Write) -> Option<&WorkerId> {
    match write {
        Write::Accept(new) => new.begin.as_ref().map(|begin| &begin.worker),
        Write::Begin(begin) => Some(&begin.worker),
        Write::WriteAhead(answer) | Write::Settle(answer) => Some(&answer.worker),
        Write::Reschedule(attempt) => Some(&attempt.worker),
        Write::Amend(amendment) => Some(&amendment.by),
        Write::Extend(_) | Write::Finalize(_) | Write::Seal(_) => None,
    }
}
