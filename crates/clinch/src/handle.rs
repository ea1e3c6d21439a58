//! The result of a request.

use clinch_core::{Failure, OpId, OperationHandle, Payload, Result, Status};
use clinch_engine::Snapshot;
use serde::de::DeserializeOwned;

use crate::Done;
use crate::call::decode_result;

/// An operation as it was when the wait ended.
///
/// ```
/// # use std::time::Duration;
/// # use clinch::{Backend, Call, Clinch, Done, Retry, Route};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// # let ping: Route<(), String> = Route::new("demo", "ping").natural();
/// # let clinch = Clinch::builder()
/// #     .backend(Backend::memory())
/// #     .handle(&ping, |_: Call<()>| async { Ok::<_, Retry>("pong".to_owned()) })
/// #     .build()?;
/// let handle = clinch.start(ping.request("a", "1", &()), Duration::from_secs(2)).await?;
/// let status = if handle.settled().is_some() { 200 } else { 202 };
/// assert_eq!(status, 200);
/// let again = clinch.start(ping.request("a", "1", &()), Duration::from_secs(2)).await?;
/// assert!(again.replayed());
/// assert_eq!(again.op_id(), handle.op_id());
/// assert_eq!(handle.into_result().expect("settled").expect("completed").value, "pong");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Handle<O> {
    op_id: OpId,
    replayed: bool,
    status: Status,
    pub(crate) settled: Option<Settled<O>>,
}

/// How an operation ended. This never changes.
///
/// ```
/// use clinch::Done;
/// use clinch::types::Settled;
///
/// let settled = Settled::Completed(Done::new(7));
/// assert!(matches!(settled, Settled::Completed(done) if done.value == 7));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Settled<O> {
    /// COMPLETED, with its result.
    Completed(Done<O>),
    /// FAILED, and why. `failure.effect` says whether a call may have been applied.
    Failed(Failure),
    /// COMPLETED, but the stored result is not an `O`: it is from an older version of the route, or
    /// was left out because it was too long.
    OtherResult {
        /// The provider's own transaction id.
        provider_txn_id: Option<String>,
        /// The result as it is stored.
        payload: Payload,
    },
    /// The operation was pruned: only its final status is left.
    Pruned(Status),
}

impl<O> Handle<O> {
    /// The operation.
    pub fn op_id(&self) -> OpId {
        self.op_id
    }

    /// The same keys had been accepted before.
    pub fn replayed(&self) -> bool {
        self.replayed
    }

    /// PENDING, IN_PROGRESS, COMPLETED or FAILED, as of when the wait ended.
    pub fn status(&self) -> Status {
        self.status
    }

    /// How the operation ended: answer 200. `None`: it did not end within the budget; answer 202,
    /// the work continues.
    pub fn settled(&self) -> Option<&Settled<O>> {
        self.settled.as_ref()
    }

    /// The end as a `Result`. `None` if there is no end yet, or its result is not an `O`.
    pub fn into_result(self) -> Option<Result<Done<O>, Failure>> {
        match self.settled? {
            Settled::Completed(done) => Some(Ok(done)),
            Settled::Failed(failure) => Some(Err(failure)),
            Settled::OtherResult { .. } | Settled::Pruned(_) => None,
        }
    }
}

impl<O: DeserializeOwned> Handle<O> {
    pub(crate) fn of(handle: OperationHandle) -> Self {
        let (op_id, current) = (handle.op_id, handle.status);
        let settled = match (handle.status, handle.result, handle.failure) {
            (status, ..) if handle.pruned => Some(Settled::Pruned(status)),
            (Status::Completed, Some((txn_id, payload)), _) => Some(completed(txn_id, payload)),
            (Status::Failed, _, Some(failure)) => Some(Settled::Failed(failure)),
            _ => None,
        };
        Self {
            op_id,
            replayed: handle.replayed,
            status: current,
            settled,
        }
    }

    pub(crate) fn of_snapshot(snapshot: Snapshot) -> Self {
        let Snapshot { operation, result } = snapshot;
        let op_id = operation.op_id;
        let settled = match operation.state.status {
            Status::Completed => {
                let txn_id = operation.result.and_then(|result| result.provider_txn_id);
                let payload = result.unwrap_or_else(Payload::null);
                Some(completed(txn_id, payload))
            }
            Status::Failed => operation.state.failure.map(Settled::Failed),
            Status::Pending | Status::InProgress => None,
        };
        Self {
            op_id,
            replayed: false,
            status: operation.state.status,
            settled,
        }
    }
}

/// A result of another type is a mistake of the route, not of the operation: the operation is
/// COMPLETED.
fn completed<O: DeserializeOwned>(provider_txn_id: Option<String>, payload: Payload) -> Settled<O> {
    match decode_result(&payload) {
        Some(value) => Settled::Completed(Done {
            value,
            provider_txn_id,
            spawn: Vec::new(),
        }),
        None => Settled::OtherResult {
            provider_txn_id,
            payload,
        },
    }
}

#[cfg(test)]
mod tests {
    use clinch_core::ports::Ids;
    use clinch_system::SystemIds;

    use super::*;
    use crate::call::encode_result;

    fn kept<T: serde::Serialize + DeserializeOwned>(value: &T) -> Settled<T> {
        completed(None, encode_result(SystemIds.op_id(), value))
    }

    #[test]
    fn a_result_is_kept_whatever_its_numbers() {
        let snowflake = kept(&1_234_567_890_123_456_789_u64);
        assert!(
            matches!(snowflake, Settled::Completed(done) if done.value == 1_234_567_890_123_456_789)
        );
        let huge = kept(&"x".repeat(3 * 1024 * 1024));
        assert!(
            matches!(huge, Settled::OtherResult { .. }),
            "COMPLETED all the same"
        );
    }
}
