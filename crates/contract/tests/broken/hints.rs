//! Flaws of a bus.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{Bus, Clock, Delivery, Dequeue, Publication, Receipt, Topic};

use crate::flaw::{Flaw, Real};

/// What is not due now is dropped.
#[derive(Default)]
pub(crate) struct LosesDelayedHints;

#[async_trait]
impl Flaw for LosesDelayedHints {
    async fn publish(&self, real: &Real, publications: &[Publication]) -> Result<()> {
        let now: Vec<_> = publications
            .iter()
            .filter(|one| one.delay.is_zero())
            .cloned()
            .collect();
        real.bus.publish(&now).await
    }
}

/// Sooner is better.
#[derive(Default)]
pub(crate) struct IgnoresDelays;

#[async_trait]
impl Flaw for IgnoresDelays {
    async fn publish(&self, real: &Real, publications: &[Publication]) -> Result<()> {
        let mut now = publications.to_vec();
        for publication in &mut now {
            publication.delay = Duration::ZERO;
        }
        real.bus.publish(&now).await
    }
}

/// A domain is a domain.
#[derive(Default)]
pub(crate) struct MixesDestinations;

#[async_trait]
impl Flaw for MixesDestinations {
    async fn publish(&self, real: &Real, publications: &[Publication]) -> Result<()> {
        let to_all = |one: &Publication| Publication::to_all(one.hint.clone(), one.delay);
        let all: Vec<_> = publications.iter().map(to_all).collect();
        real.bus.publish(&all).await
    }
    async fn dequeue(&self, real: &Real, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let topics = dequeue.domains().iter().map(Topic::of).collect();
        real.bus
            .dequeue(&Dequeue {
                topics,
                ..dequeue.clone()
            })
            .await
    }
}

/// Delivered is done.
#[derive(Default)]
pub(crate) struct AcksOnDequeue;

#[async_trait]
impl Flaw for AcksOnDequeue {
    async fn dequeue(&self, real: &Real, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let deliveries = real.bus.dequeue(dequeue).await?;
        let receipts: Vec<_> = deliveries.iter().map(|one| one.receipt.clone()).collect();
        real.bus.ack(&receipts).await?;
        Ok(deliveries)
    }
}

/// Done is not done.
#[derive(Default)]
pub(crate) struct RedeliversWhatWasAcked;

#[async_trait]
impl Flaw for RedeliversWhatWasAcked {
    async fn ack(&self, _real: &Real, _receipts: &[Receipt]) -> Result<()> {
        Ok(())
    }
}

/// What is on loan to one is handed to the next.
#[derive(Default)]
pub(crate) struct IgnoresVisibility;

#[async_trait]
impl Flaw for IgnoresVisibility {
    async fn dequeue(&self, real: &Real, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let visibility = Duration::ZERO;
        real.bus
            .dequeue(&Dequeue {
                visibility,
                ..dequeue.clone()
            })
            .await
    }
}

/// Looks once a second, by the clock: nobody is woken.
#[derive(Default)]
pub(crate) struct PollsForHints;

#[async_trait]
impl Flaw for PollsForHints {
    async fn dequeue(&self, real: &Real, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let look = Dequeue {
            wait: Duration::ZERO,
            ..dequeue.clone()
        };
        let until = real.clock.monotonic() + dequeue.wait;
        loop {
            let deliveries = real.bus.dequeue(&look).await?;
            if !deliveries.is_empty() || real.clock.monotonic() >= until {
                return Ok(deliveries);
            }
            real.clock.sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Last in, first out.
#[derive(Default)]
pub(crate) struct DeliversALaneBackwards;

#[async_trait]
impl Flaw for DeliversALaneBackwards {
    async fn dequeue(&self, real: &Real, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let mut deliveries = real.bus.dequeue(dequeue).await?;
        deliveries.reverse();
        Ok(deliveries)
    }
}

/// A receipt names the message, not the delivery.
#[derive(Default)]
pub(crate) struct BelievesStaleReceipts(Mutex<BTreeMap<Receipt, clinch_core::OpId>>);

#[async_trait]
impl Flaw for BelievesStaleReceipts {
    async fn dequeue(&self, real: &Real, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let deliveries = real.bus.dequeue(dequeue).await?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for delivery in &deliveries {
            known.insert(delivery.receipt.clone(), delivery.hint.op_id);
        }
        Ok(deliveries)
    }
    async fn nack(&self, real: &Real, receipts: &[(Receipt, Duration)]) -> Result<()> {
        let all: Vec<_> = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let same = |(receipt, delay): &(Receipt, Duration)| {
                let op = known.get(receipt);
                let same = known.iter().filter(|(_, other)| op == Some(other));
                same.map(|(receipt, _)| (receipt.clone(), *delay))
                    .collect::<Vec<_>>()
            };
            receipts.iter().flat_map(same).collect()
        };
        real.bus.nack(&all).await
    }
}

/// Every delivery is the first.
#[derive(Default)]
pub(crate) struct ForgetsRedeliveries;

#[async_trait]
impl Flaw for ForgetsRedeliveries {
    async fn dequeue(&self, real: &Real, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let mut deliveries = real.bus.dequeue(dequeue).await?;
        for delivery in &mut deliveries {
            delivery.redeliveries = 0;
        }
        Ok(deliveries)
    }
}
