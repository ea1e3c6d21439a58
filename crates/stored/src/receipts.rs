//! The queue of a store that is its own bus: a delivery is an attempt that has begun, and its
//! receipt names the attempt.

use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{Delivery, Extension, Hint, Operation, Receipt, Reschedule, Store, Write};
use clinch_core::{Error, ErrorKind, OpId, Result, Retry, WorkerId};

/// The hint of an operation.
pub fn hint_of(operation: &Operation) -> Hint {
    Hint {
        op_id: operation.op_id,
        domain: operation.keys.domain.clone(),
        event_type: operation.keys.event_type.clone(),
        lane: operation.lane,
        dispatch_no: operation.dispatch_no + 1,
        trace: operation.trace.clone(),
    }
}

/// The delivery of an operation whose attempt has begun.
pub fn delivery(operation: Operation) -> Delivery {
    Delivery {
        hint: hint_of(&operation),
        receipt: Receipt(format!("{}/{}", operation.op_id, operation.state.fence)),
        redeliveries: operation.state.deliveries,
        begun: Some(Box::new(operation)),
    }
}

/// Gives these deliveries back.
pub async fn nack(
    store: &(impl Store + ?Sized),
    receipts: &[(Receipt, Duration)],
    routes: &Routes,
) -> Result<()> {
    let ended = nacks(receipts)?.into_iter().map(Write::Reschedule);
    let ended: Vec<Write> = ended.collect();
    store.commit(&ended, routes).await.map(drop)
}

/// Extends the leases of these deliveries.
pub async fn extend(
    store: &(impl Store + ?Sized),
    receipts: &[Receipt],
    lease: Duration,
) -> Result<()> {
    let leases = extensions(receipts, lease)?.into_iter().map(Write::Extend);
    let leases: Vec<Write> = leases.collect();
    // The rules of an extension do not depend on the route.
    store.commit(&leases, &Routes::new()).await.map(drop)
}

/// The reschedules that give these deliveries back.
fn nacks(receipts: &[(Receipt, Duration)]) -> Result<Vec<Reschedule>> {
    let worker = WorkerId::new("nack");
    let worker = worker.map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))?;
    let attempt = |(receipt, delay): &(Receipt, Duration)| {
        let (op_id, fence) = parse(receipt)?;
        Ok(Reschedule {
            op_id,
            fence,
            worker: worker.clone(),
            retry: Retry::not_called("nack").after(*delay),
            attempt_id: None,
        })
    };
    receipts.iter().map(attempt).collect()
}

/// The extensions of these deliveries' leases.
fn extensions(receipts: &[Receipt], lease: Duration) -> Result<Vec<Extension>> {
    let extension = |receipt| {
        let (op_id, fence) = parse(receipt)?;
        Ok(Extension {
            op_id,
            fence,
            lease,
            attempt_id: None,
        })
    };
    receipts.iter().map(extension).collect()
}

fn parse(receipt: &Receipt) -> Result<(OpId, u64)> {
    let parts = receipt.0.split_once('/');
    let parsed = parts.and_then(|(op, fence)| Some((op.parse().ok()?, fence.parse().ok()?)));
    parsed.ok_or_else(|| Error::new(ErrorKind::Invalid, "the receipt is not one of this store"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_names_its_attempt() {
        let op = "0190d3c0-7e4b-7000-8000-000000000001";
        let read = parse(&Receipt(format!("{op}/7"))).expect("reads");
        assert_eq!((read.0.to_string().as_str(), read.1), (op, 7));
        for strange in ["", "/", "7", "x/7", op] {
            assert!(parse(&Receipt(strange.into())).is_err(), "{strange}");
        }
    }
}
