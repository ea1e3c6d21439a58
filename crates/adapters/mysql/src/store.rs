//! The hot path: [`clinch_stored::commit`] plans a commit; the transaction loads what the plan
//! needs and writes it.

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::policy::Routes;
use clinch_core::ports::{Store, Write, Written};
use clinch_stored::commit::{Next, Unit};

use crate::Mysql;
use crate::tx::Tx;
use crate::write::seqs_of;

#[async_trait]
impl Store for Mysql {
    async fn commit(&self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>> {
        let call = (writes.to_vec(), routes.clone());
        self.write(call, |tx, (writes, routes)| {
            Box::pin(tx.perform(Unit::new(writes, routes)))
        })
        .await
    }
}

impl Tx<'_> {
    /// Loads and writes until every write has its answer. The last plan is sent together with the
    /// commit. If the answers need the seqs that the plan draws, this function commits; otherwise
    /// the caller does, with [`Tx::commit`].
    pub(crate) async fn perform(&mut self, mut unit: Unit<'_>) -> Result<Vec<Written>> {
        loop {
            match unit.next(self.now)? {
                Next::Load => {
                    let (wanted, seen) = unit.load();
                    self.load(wanted, seen).await?;
                }
                Next::Write(plan) => {
                    let is_last = unit.is_last(&plan);
                    let draws = self.add_plan(&plan)?;
                    let first_ids = match is_last {
                        true if draws.is_empty() => Vec::new(),
                        true if self.may_commit => self.commit().await?,
                        _ => self.flush().await?,
                    };
                    let seqs = seqs_of(&draws, &first_ids, self.step)?;
                    unit.written(plan, &seqs);
                }
                Next::Done(answers) => return Ok(answers),
            }
        }
    }
}
