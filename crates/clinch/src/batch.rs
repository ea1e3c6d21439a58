//! Groups of operations with one end.

use clinch_core::ports;
use clinch_core::{BatchId, OpId, Result};
use clinch_engine::{Orchestrator, Redriven};

use crate::types::Request;

/// A group of operations with one end: when the batch is sealed and its last member is settled. The
/// end is reported once.
///
/// ```
/// # use clinch::{Backend, Call, Clinch, Retry, Route};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// # let invoice: Route<u32, ()> = Route::new("billing", "invoice").natural();
/// # let report: Route<String, ()> = Route::new("billing", "report").natural();
/// # let clinch = Clinch::builder()
/// #     .backend(Backend::memory())
/// #     .handle(&invoice, |_: Call<u32>| async { Ok::<_, Retry>(()) })
/// #     .handle(&report, |_: Call<String>| async { Ok::<_, Retry>(()) })
/// #     .build()?;
/// // The report is accepted in the commit that completes the batch.
/// let batch = clinch.batch(Some(report.request("2026-11", "report", &"2026-11".to_owned()))).await?;
/// let members = (0..10).map(|n| invoice.request(format!("customer-{n}"), "2026-11", &n));
/// batch.add(members.collect()).await?;
/// batch.seal().await?;
/// # while clinch.pump(10).await?.executed > 0 {}
/// assert_eq!(batch.look().await?.completed, 10);
/// # Ok(())
/// # }
/// ```
///
/// A program that may start again in the middle opens the batch under an id of its own. Doing
/// everything twice has the effect of doing it once:
///
/// ```
/// # use clinch::{Backend, Clinch, Route};
/// use clinch::types::BatchId;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// # let invoice: Route<u32, ()> = Route::new("billing", "invoice").natural();
/// # let clinch = Clinch::builder().backend(Backend::memory()).remote(&invoice).build()?;
/// let november: BatchId = "01917f5e-0000-7000-8000-000000000011".parse()?;
/// for _start in 0..2 {
///     let batch = clinch.batch_as::<()>(november, None).await?;
///     batch.add(vec![invoice.request("customer-7", "2026-11", &7)]).await?;
/// }
/// assert_eq!(clinch.find_batch(november).look().await?.total, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Batch {
    pub(crate) batch_id: BatchId,
    pub(crate) orchestrator: Orchestrator,
}

impl Batch {
    /// The batch's id, for [`Clinch::find_batch`](crate::Clinch::find_batch) in another process.
    pub fn batch_id(&self) -> BatchId {
        self.batch_id
    }

    /// Accepts requests as members, all in one commit. An invalid request fails alone. A request
    /// that was accepted before does not become a member. Nothing is shed.
    pub async fn add<O>(&self, requests: Vec<Request<O>>) -> Result<Vec<Result<OpId>>> {
        let (commands, places) = crate::clinch::valid(requests);
        let orchestrator = &self.orchestrator;
        let known = orchestrator
            .submit_to_batch(self.batch_id, commands)
            .await?;
        Ok(crate::clinch::in_order(known, places))
    }

    /// Redrives dead letters as members, in order. A second call creates no second operation.
    pub async fn redrive(&self, ops: &[OpId]) -> Result<Vec<Redriven>> {
        let orchestrator = &self.orchestrator;
        orchestrator.redrive_to_batch(self.batch_id, ops).await
    }

    /// Seals the batch: it takes no more members from outside. Returns true if sealing completed
    /// it.
    pub async fn seal(&self) -> Result<bool> {
        self.orchestrator.seal_batch(self.batch_id).await
    }

    /// The batch as it is now.
    pub async fn look(&self) -> Result<ports::Batch> {
        self.orchestrator.batch(self.batch_id).await
    }
}
