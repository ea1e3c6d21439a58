//! Calls of a store's commit with one kind of write at a time, for the cases.

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, Amendment, Answer, BeginRequest, Changed, Extension, NewOperation, Operation,
    Refused, Reschedule, Store, Write, Written,
};
use clinch_core::{BatchId, Error, ErrorKind, OpId, Result};

/// The results of changes of rows, in order.
pub type Changes = Result<Vec<Result<Changed, Refused>>>;

/// One kind of write at a time; all writes of a call are one commit.
#[async_trait]
pub trait Calls {
    /// Accepts new operations.
    async fn accept(&self, new: &[NewOperation], routes: &Routes) -> Result<Vec<Accepted>>;
    /// Starts attempts.
    async fn begin(
        &self,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Result<Operation, Refused>>>;
    /// Extends leases.
    async fn extend(&self, extensions: &[Extension]) -> Changes;
    /// Records answers.
    async fn write_ahead(&self, answers: &[Answer], routes: &Routes) -> Changes;
    /// Makes recorded answers final.
    async fn finalize(&self, ops: &[OpId], routes: &Routes) -> Changes;
    /// Records answers and makes them final.
    async fn settle(&self, answers: &[Answer], routes: &Routes) -> Changes;
    /// Ends attempts that settled nothing.
    async fn reschedule(&self, attempts: &[Reschedule], routes: &Routes) -> Changes;
    /// Applies rare events.
    async fn amend(&self, amendments: &[Amendment], routes: &Routes) -> Changes;
    /// Seals batches. Returns the batches that this completed.
    async fn seal(&self, batches: &[BatchId], routes: &Routes) -> Result<Vec<BatchId>>;
}

async fn written<S: Store + ?Sized, I: Clone>(
    store: &S,
    items: &[I],
    routes: &Routes,
    write: fn(I) -> Write,
) -> Result<Vec<Written>> {
    let writes: Vec<Write> = items.iter().cloned().map(write).collect();
    let written = store.commit(&writes, routes).await?;
    match written.len() == writes.len() {
        true => Ok(written),
        false => Err(Error::new(ErrorKind::Ambiguous, "one answer per write")),
    }
}

fn changes(written: Vec<Written>) -> Changes {
    written.into_iter().map(Written::changed).collect()
}

#[async_trait]
impl<S: Store + ?Sized> Calls for S {
    async fn accept(&self, new: &[NewOperation], routes: &Routes) -> Result<Vec<Accepted>> {
        let written = written(self, new, routes, Write::Accept).await?;
        written.into_iter().map(Written::accepted).collect()
    }

    async fn begin(
        &self,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Result<Operation, Refused>>> {
        let written = written(self, begins, routes, Write::Begin).await?;
        written.into_iter().map(Written::begun).collect()
    }

    async fn extend(&self, extensions: &[Extension]) -> Changes {
        // No guard of an extension reads the route.
        changes(written(self, extensions, &Routes::new(), Write::Extend).await?)
    }

    async fn write_ahead(&self, answers: &[Answer], routes: &Routes) -> Changes {
        changes(written(self, answers, routes, Write::WriteAhead).await?)
    }

    async fn finalize(&self, ops: &[OpId], routes: &Routes) -> Changes {
        changes(written(self, ops, routes, Write::Finalize).await?)
    }

    async fn settle(&self, answers: &[Answer], routes: &Routes) -> Changes {
        changes(written(self, answers, routes, Write::Settle).await?)
    }

    async fn reschedule(&self, attempts: &[Reschedule], routes: &Routes) -> Changes {
        changes(written(self, attempts, routes, Write::Reschedule).await?)
    }

    async fn amend(&self, amendments: &[Amendment], routes: &Routes) -> Changes {
        changes(written(self, amendments, routes, Write::Amend).await?)
    }

    async fn seal(&self, batches: &[BatchId], routes: &Routes) -> Result<Vec<BatchId>> {
        let written = written(self, batches, routes, Write::Seal).await?;
        let mut completed = Vec::new();
        for (batch_id, written) in batches.iter().zip(written) {
            completed.extend(written.sealed()?.then_some(*batch_id));
        }
        Ok(completed)
    }
}
