//! Topics: hints for different destinations are separate.

use std::time::Duration;

use clinch_core::ports::{Delivery, Hint, Publication, Topic};

use super::bus::hints_of;
use crate::case::{Case, Verdict};
use crate::fixtures::{self, NATURAL, secs};
use crate::wire::{HintBus, VISIBILITY, ask_for};
use crate::world::only;

pub(super) const CASES: &[Case] = area!(
    "topics",
    Bus {
        only_those_that_are_named: ["RUN-1", "CORE-13"],
        what_comes_again_stays_in_its_own: ["CORE-11"],
    }
);

/// Three hints of one domain: one on the domain-wide topic, and one for each of two destinations.
async fn by_destination(w: &HintBus, delay: Duration) -> Verdict<[(Topic, Hint); 3]> {
    let domain = fixtures::domain(NATURAL)?;
    let topics = [
        Topic::of(&domain),
        Topic::at(&domain, "bank"),
        Topic::at(&domain, "shop"),
    ];
    let [all, bank, shop] = topics.map(|topic| w.hint(NATURAL).map(|hint| (topic, hint)));
    let named = [all?, bank?, shop?];
    let publication = |(topic, hint): &(Topic, Hint)| Publication {
        topic: topic.clone(),
        hint: hint.clone(),
        delay,
    };
    let publications: Vec<_> = named.iter().map(publication).collect();
    w.bus.publish(&publications).await?;
    Ok(named)
}

/// The hints of this topic alone.
async fn in_topic(w: &HintBus, topic: &Topic) -> Verdict<Vec<Delivery>> {
    let ask = ask_for(vec![topic.clone()], 9, Duration::ZERO)?;
    Ok(w.bus.dequeue(&ask).await?)
}

async fn only_those_that_are_named(w: HintBus) -> Verdict {
    for (topic, hint) in by_destination(&w, Duration::ZERO).await?.iter().rev() {
        let taken = in_topic(&w, topic).await?;
        ensure_eq!(only(taken)?.hint, *hint, "{}", topic.as_str());
    }
    let named = by_destination(&w, Duration::ZERO).await?;
    let [_, bank, shop] = named.clone().map(|(topic, _)| topic);
    let both = w
        .bus
        .dequeue(&ask_for(vec![bank, shop], 9, Duration::ZERO)?)
        .await?;
    let ours = |(_, hint): &(Topic, Hint)| hints_of(&both).contains(hint);
    ensure_eq!(named.each_ref().map(ours), [false, true, true], "of three");
    Ok(())
}

async fn what_comes_again_stays_in_its_own(w: HintBus) -> Verdict {
    let [_, (bank, hint), (shop, _)] = by_destination(&w, secs(5)).await?;
    ensure_eq!(in_topic(&w, &bank).await?, [], "before its delay");
    w.advance(secs(6)).await;
    let first = only(in_topic(&w, &bank).await?)?;
    ensure_eq!(first.hint, hint, "after its delay");
    w.bus.nack(&[(first.receipt, secs(5))]).await?;
    w.advance(secs(6)).await;
    let again = only(in_topic(&w, &bank).await?)?;
    ensure_eq!(again.hint, hint, "after a nack");
    w.advance(VISIBILITY + secs(1)).await;
    let other = hints_of(&in_topic(&w, &shop).await?);
    ensure!(!other.contains(&hint), "it is in another topic");
    let lost = only(in_topic(&w, &bank).await?)?;
    ensure_eq!(lost.hint, hint, "after its visibility timeout");
    w.bus.ack(&[lost.receipt]).await?;
    w.advance(VISIBILITY + secs(1)).await;
    ensure_eq!(in_topic(&w, &bank).await?, [], "after the ack");
    Ok(())
}
