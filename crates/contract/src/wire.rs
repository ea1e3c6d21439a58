//! A bus as the cases use it.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::LaneKey;
use clinch_core::ports::{Bus, Delivery, Dequeue, Hint, Publication, Topic};

use crate::case::{Failure, Stage, Verdict};
use crate::fixtures::{self, NATURAL, Sequence, secs};
use crate::{Control, Subject};

/// How long a delivery is on loan.
pub(crate) const VISIBILITY: Duration = secs(30);

/// A bus of hints under test.
#[derive(Clone)]
pub(crate) struct HintBus {
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) control: Arc<dyn Control>,
    pub(crate) ids: Arc<Sequence>,
}

impl Stage for HintBus {
    fn open(subject: Subject) -> Verdict<Self> {
        let Some(bus) = subject.bus else {
            return Err(Failure::new(
                "the capabilities promise a bus; there is none",
            ));
        };
        Ok(Self {
            bus,
            control: subject.control,
            ids: Arc::default(),
        })
    }
}

/// One worker's request for hints of these domains, waiting up to `wait`.
pub(crate) fn ask(domains: &[&str], max: usize, wait: Duration) -> Verdict<Dequeue> {
    let domains: Result<Vec<_>, _> = domains.iter().map(|name| fixtures::domain(name)).collect();
    ask_for(domains?.iter().map(Topic::of).collect(), max, wait)
}

/// The same for hints of these topics.
pub(crate) fn ask_for(topics: Vec<Topic>, max: usize, wait: Duration) -> Verdict<Dequeue> {
    Ok(Dequeue {
        topics,
        max,
        wait,
        visibility: VISIBILITY,
        worker: fixtures::worker(0)?,
        attempts: fixtures::fresh_attempts(max),
        routes: Arc::new(fixtures::routes()?),
        only: Arc::new(fixtures::routes()?),
    })
}

impl HintBus {
    /// A hint without a lane.
    pub(crate) fn hint(&self, domain: &str) -> Verdict<Hint> {
        Ok(Hint {
            op_id: self.ids.op_id(),
            domain: fixtures::domain(domain)?,
            event_type: fixtures::keys(domain, "any", "any")?.event_type,
            lane: None,
            dispatch_no: 1,
            trace: None,
        })
    }

    /// Hints of one lane.
    pub(crate) fn lane(&self, biz_key: &str, count: usize) -> Verdict<Vec<Hint>> {
        let keys = fixtures::keys(NATURAL, biz_key, "idem")?;
        let lane = Some(LaneKey::of(&keys.domain, &keys.biz_key));
        let hint = |_| {
            Ok(Hint {
                lane,
                ..self.hint(NATURAL)?
            })
        };
        (0..count).map(hint).collect()
    }

    /// Announces hints without a delay.
    pub(crate) async fn publish(&self, hints: &[Hint]) -> Verdict {
        self.publish_after(hints, Duration::ZERO).await
    }

    /// Announces hints with a delay.
    pub(crate) async fn publish_after(&self, hints: &[Hint], delay: Duration) -> Verdict {
        let publication = |hint: &Hint| Publication::to_all(hint.clone(), delay);
        let publications: Vec<_> = hints.iter().map(publication).collect();
        Ok(self.bus.publish(&publications).await?)
    }

    /// Announces one new hint.
    pub(crate) async fn announce(&self) -> Verdict<Hint> {
        let hint = self.hint(NATURAL)?;
        self.publish(std::slice::from_ref(&hint)).await?;
        Ok(hint)
    }

    /// Takes the hints that are there, without waiting.
    pub(crate) async fn take(&self, max: usize) -> Verdict<Vec<Delivery>> {
        let taken = self
            .bus
            .dequeue(&ask(&[NATURAL], max, Duration::ZERO)?)
            .await?;
        ensure!(taken.len() <= max, "asked for {max}, got {}", taken.len());
        Ok(taken)
    }

    /// Takes the one delivery that must be there.
    pub(crate) async fn take_one(&self) -> Verdict<Delivery> {
        crate::world::only(self.take(9).await?)
    }

    /// Advances the bus's clock.
    pub(crate) async fn advance(&self, by: Duration) {
        self.control.advance(by).await;
    }
}
