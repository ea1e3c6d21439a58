//! Bus: hints are delivered at least once, and a waiting reader does not poll.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use clinch_core::ports::{Delivery, Hint, Publication};

use crate::case::{Case, Verdict};
use crate::concurrent::{together, until_it_waits};
use crate::fixtures::{FOREVER, NATURAL, UNSAFE, secs};
use crate::wire::{HintBus, VISIBILITY, ask};
use crate::world::only;

pub(super) const CASES: &[Case] = area!(
    "bus",
    Bus {
        delivers_what_was_published: ["CORE-11"],
        delivers_what_was_published_before_anyone_listened: ["CORE-11"],
        a_hint_arrives_as_it_was_sent: ["CORE-11"],
        hints_of_a_lane_come_in_order: ["CORE-11"],
        hints_of_a_lane_come_in_order_across_calls: ["CORE-11"],
        delivers_nothing_before_its_delay: ["RUN-3", "COL-7"],
        a_waiting_call_is_woken_by_a_publish: ["COL-13", "COL-6"],
        a_waiting_call_is_woken_when_a_delay_ends: ["COL-7", "COL-13"],
        a_waiting_call_is_woken_by_a_nack: ["COL-13"],
        many_waiting_calls_are_woken: ["COL-13"],
        a_waiting_call_is_not_woken_by_another_domain: [],
        a_wait_ends: [],
        without_a_wait_it_never_blocks: ["RUN-1"],
        never_more_than_the_maximum: ["RUN-1"],
        only_of_the_named_domains: ["RUN-1"],
        no_domains_means_nothing: [],
        what_is_neither_acked_nor_extended_comes_again: ["CORE-11", "RUN-7", "COL-6"],
        the_redelivery_count_grows: ["CORE-11"],
        nothing_comes_again_before_the_visibility_timeout: ["RUN-7"],
        an_extension_moves_the_visibility_timeout: ["RUN-7"],
        an_acked_delivery_never_comes_again: ["CORE-11"],
        acking_twice_is_acking_once: ["CORE-11"],
        an_ack_is_for_its_own_delivery: [],
        a_nacked_delivery_comes_again_after_its_delay: ["CORE-11"],
        a_nack_without_a_delay_comes_again_at_once: [],
        a_nack_of_a_delivery_that_is_not_ours_does_nothing: ["RUN-7"],
        an_extension_of_a_delivery_that_is_not_ours_does_nothing: ["RUN-7"],
        each_hint_goes_to_one_of_concurrent_workers: ["RUN-7"],
        concurrent_publishers_lose_nothing: ["CORE-11"],
    }
);

fn ops(deliveries: &[Delivery]) -> Vec<clinch_core::OpId> {
    deliveries
        .iter()
        .map(|delivery| delivery.hint.op_id)
        .collect()
}

pub(super) fn hints_of(deliveries: &[Delivery]) -> Vec<Hint> {
    deliveries
        .iter()
        .map(|delivery| delivery.hint.clone())
        .collect()
}

async fn delivers_what_was_published(w: HintBus) -> Verdict {
    let mut expected = BTreeSet::new();
    for round in 0..10 {
        let mut hints = Vec::new();
        for _ in 0..=round {
            hints.push(w.hint(NATURAL)?);
        }
        w.publish(&hints).await?;
        expected.extend(hints.iter().map(|hint| hint.op_id));
    }
    let got: BTreeSet<_> = ops(&w.take(1_000).await?).into_iter().collect();
    ensure_eq!(got, expected, "every hint was delivered");
    Ok(())
}

async fn delivers_what_was_published_before_anyone_listened(w: HintBus) -> Verdict {
    let hint = w.hint(UNSAFE)?;
    w.publish(std::slice::from_ref(&hint)).await?;
    w.advance(secs(1_000)).await;
    let got = w.bus.dequeue(&ask(&[UNSAFE], 9, Duration::ZERO)?).await?;
    ensure_eq!(
        hints_of(&got),
        [hint],
        "the hint waited for its first reader"
    );
    Ok(())
}

async fn a_hint_arrives_as_it_was_sent(w: HintBus) -> Verdict {
    let mut hint = only(w.lane("주문 \"1\"", 1)?)?;
    hint.dispatch_no = 7_000_000_000;
    hint.trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    w.publish(std::slice::from_ref(&hint)).await?;
    let delivery = w.take_one().await?;
    ensure_eq!(delivery.hint, hint, "the hint");
    ensure_eq!(delivery.redeliveries, 0, "redeliveries");
    ensure_eq!(delivery.begun, None, "a bus of hints begins nothing");
    Ok(())
}

async fn hints_of_a_lane_come_in_order(w: HintBus) -> Verdict {
    let (a, b) = (w.lane("a", 20)?, w.lane("b", 20)?);
    let mixed: Vec<Hint> = a
        .iter()
        .zip(&b)
        .flat_map(|(a, b)| [a.clone(), b.clone()])
        .collect();
    w.publish(&mixed).await?;
    let got = hints_of(&w.take(100).await?);
    for lane in [a, b] {
        let of_lane: Vec<_> = got
            .iter()
            .filter(|hint| hint.lane == lane[0].lane)
            .collect();
        ensure_eq!(
            of_lane,
            lane.iter().collect::<Vec<_>>(),
            "the order of a lane"
        );
    }
    Ok(())
}

async fn hints_of_a_lane_come_in_order_across_calls(w: HintBus) -> Verdict {
    let lane = w.lane("a", 12)?;
    for hint in &lane {
        w.publish(std::slice::from_ref(hint)).await?;
    }
    let mut got = Vec::new();
    while got.len() < lane.len() {
        let taken = w.take(5).await?;
        ensure!(!taken.is_empty(), "only {} of 12 hints came", got.len());
        let receipts: Vec<_> = taken
            .iter()
            .map(|delivery| delivery.receipt.clone())
            .collect();
        w.bus.ack(&receipts).await?;
        got.extend(hints_of(&taken));
    }
    ensure_eq!(got, lane, "the order of a lane");
    Ok(())
}

async fn delivers_nothing_before_its_delay(w: HintBus) -> Verdict {
    let (late, now) = (w.hint(NATURAL)?, w.hint(NATURAL)?);
    let publication = |hint: &Hint, delay| Publication::to_all(hint.clone(), delay);
    let both = [
        publication(&late, secs(100)),
        publication(&now, Duration::ZERO),
    ];
    w.bus.publish(&both).await?;
    let first = w.take_one().await?;
    ensure_eq!(first.hint, now, "only what has no delay");
    w.bus.ack(&[first.receipt]).await?;
    w.advance(secs(90)).await;
    ensure_eq!(w.take(9).await?, [], "after 90 of 100 seconds");
    w.advance(secs(10)).await;
    ensure_eq!(w.take_one().await?.hint, late, "after its delay");
    Ok(())
}

/// A waiting call returns this hint once `news` has happened, while no time passes.
async fn is_woken(w: &HintBus, hint: &Hint, news: impl Future<Output = Verdict>) -> Verdict {
    let ask = ask(&[NATURAL], 9, FOREVER)?;
    let mut waiting = pin!(w.bus.dequeue(&ask));
    until_it_waits(waiting.as_mut()).await?;
    news.await?;
    let got = waiting.await?;
    ensure_eq!(
        hints_of(&got),
        std::slice::from_ref(hint),
        "what the waiting call got"
    );
    Ok(())
}

async fn a_waiting_call_is_woken_by_a_publish(w: HintBus) -> Verdict {
    for _ in 0..3 {
        let hint = w.hint(NATURAL)?;
        is_woken(&w, &hint, w.publish(std::slice::from_ref(&hint))).await?;
    }
    Ok(())
}

async fn a_waiting_call_is_woken_when_a_delay_ends(w: HintBus) -> Verdict {
    let hint = w.hint(NATURAL)?;
    w.publish_after(std::slice::from_ref(&hint), secs(100))
        .await?;
    is_woken(&w, &hint, async {
        w.advance(secs(101)).await;
        Ok(())
    })
    .await
}

async fn a_waiting_call_is_woken_by_a_nack(w: HintBus) -> Verdict {
    let hint = w.announce().await?;
    let delivery = w.take_one().await?;
    is_woken(&w, &hint, async {
        Ok(w.bus.nack(&[(delivery.receipt, Duration::ZERO)]).await?)
    })
    .await
}

async fn many_waiting_calls_are_woken(w: HintBus) -> Verdict {
    const WORKERS: usize = 8;
    let ask = ask(&[NATURAL], 1, FOREVER)?;
    let mut waiting = Vec::new();
    for _ in 0..WORKERS {
        let mut call = Box::pin(w.bus.dequeue(&ask));
        until_it_waits(call.as_mut()).await?;
        waiting.push(call);
    }
    let mut hints = Vec::new();
    for _ in 0..WORKERS {
        hints.push(w.hint(NATURAL)?);
    }
    w.publish(&hints).await?;
    let mut got = BTreeSet::new();
    for call in waiting {
        got.extend(ops(&call.await?));
    }
    ensure_eq!(got.len(), WORKERS, "each worker got a hint of its own");
    Ok(())
}

async fn a_waiting_call_is_not_woken_by_another_domain(w: HintBus) -> Verdict {
    let ask = ask(&[NATURAL], 9, FOREVER)?;
    let mut waiting = pin!(w.bus.dequeue(&ask));
    until_it_waits(waiting.as_mut()).await?;
    let other = w.hint(UNSAFE)?;
    w.publish(std::slice::from_ref(&other)).await?;
    until_it_waits(waiting.as_mut()).await?;
    let hint = w.announce().await?;
    ensure_eq!(
        hints_of(&waiting.await?),
        [hint],
        "what the waiting call got"
    );
    Ok(())
}

async fn a_wait_ends(w: HintBus) -> Verdict {
    // Short, since the wait of a real adapter may use a real clock.
    let ask = ask(&[NATURAL], 9, Duration::from_millis(50))?;
    let (got, ()) = tokio::join!(w.bus.dequeue(&ask), async {
        tokio::task::yield_now().await;
        w.advance(secs(1)).await;
    });
    ensure_eq!(got?, [], "nothing came");
    Ok(())
}

async fn without_a_wait_it_never_blocks(w: HintBus) -> Verdict {
    ensure_eq!(w.take(9).await?, [], "an empty bus");
    let hint = w.hint(NATURAL)?;
    w.publish_after(&[hint], secs(10)).await?;
    ensure_eq!(w.take(9).await?, [], "a bus with a delayed hint");
    Ok(())
}

async fn never_more_than_the_maximum(w: HintBus) -> Verdict {
    let mut hints = Vec::new();
    for _ in 0..10 {
        hints.push(w.hint(NATURAL)?);
    }
    w.publish(&hints).await?;
    let mut sizes = Vec::new();
    for max in [3, 1, 4, 100] {
        sizes.push(w.take(max).await?.len());
    }
    ensure_eq!(sizes, [3, 1, 4, 2], "what ten hints came in");
    Ok(())
}

async fn only_of_the_named_domains(w: HintBus) -> Verdict {
    let (one, two) = (w.hint(NATURAL)?, w.hint(UNSAFE)?);
    w.publish(&[two.clone(), one.clone()]).await?;
    ensure_eq!(w.take_one().await?.hint, one, "the named domain");
    let both = w
        .bus
        .dequeue(&ask(&[NATURAL, UNSAFE], 9, Duration::ZERO)?)
        .await?;
    ensure_eq!(hints_of(&both), [two], "the other domain is still there");
    Ok(())
}

async fn no_domains_means_nothing(w: HintBus) -> Verdict {
    let hint = w.announce().await?;
    let got = w.bus.dequeue(&ask(&[], 9, Duration::ZERO)?).await?;
    ensure_eq!(got, [], "no domain was named");
    ensure_eq!(w.take_one().await?.hint, hint, "it is still there");
    Ok(())
}

async fn what_is_neither_acked_nor_extended_comes_again(w: HintBus) -> Verdict {
    let hint = w.announce().await?;
    w.take_one().await?;
    w.advance(VISIBILITY + secs(1)).await;
    let again = w.take_one().await?;
    ensure_eq!(again.hint, hint, "the same hint");
    ensure_eq!(again.redeliveries, 1, "redeliveries");
    Ok(())
}

async fn the_redelivery_count_grows(w: HintBus) -> Verdict {
    w.announce().await?;
    for expected in 0..4 {
        let delivery = w.take_one().await?;
        ensure_eq!(delivery.redeliveries, expected, "redeliveries");
        w.advance(VISIBILITY + secs(1)).await;
    }
    Ok(())
}

async fn nothing_comes_again_before_the_visibility_timeout(w: HintBus) -> Verdict {
    w.announce().await?;
    w.take_one().await?;
    ensure_eq!(w.take(9).await?, [], "at once");
    w.advance(VISIBILITY - secs(5)).await;
    ensure_eq!(w.take(9).await?, [], "shortly before");
    Ok(())
}

async fn an_extension_moves_the_visibility_timeout(w: HintBus) -> Verdict {
    w.announce().await?;
    let delivery = w.take_one().await?;
    for _ in 0..3 {
        w.advance(secs(20)).await;
        w.bus
            .extend(std::slice::from_ref(&delivery.receipt), VISIBILITY)
            .await?;
        ensure_eq!(w.take(9).await?, [], "while it is extended");
    }
    w.advance(VISIBILITY + secs(1)).await;
    ensure_eq!(w.take(9).await?.len(), 1, "when the extensions stop");
    Ok(())
}

async fn an_acked_delivery_never_comes_again(w: HintBus) -> Verdict {
    w.announce().await?;
    let delivery = w.take_one().await?;
    w.bus.ack(&[delivery.receipt]).await?;
    for _ in 0..4 {
        w.advance(VISIBILITY * 2).await;
        ensure_eq!(w.take(9).await?, [], "after the ack");
    }
    Ok(())
}

async fn acking_twice_is_acking_once(w: HintBus) -> Verdict {
    w.announce().await?;
    let receipt = w.take_one().await?.receipt;
    w.bus.ack(&[receipt.clone(), receipt.clone()]).await?;
    let hint = w.announce().await?;
    w.bus.ack(&[receipt]).await?;
    ensure_eq!(
        w.take_one().await?.hint,
        hint,
        "another hint is not touched"
    );
    Ok(())
}

async fn an_ack_is_for_its_own_delivery(w: HintBus) -> Verdict {
    let (one, two) = (w.announce().await?, w.announce().await?);
    let got = w.take(9).await?;
    let first = got.iter().find(|delivery| delivery.hint == one);
    let receipts: Vec<_> = first
        .map(|delivery| delivery.receipt.clone())
        .into_iter()
        .collect();
    w.bus.ack(&receipts).await?;
    w.advance(VISIBILITY + secs(1)).await;
    ensure_eq!(
        w.take_one().await?.hint,
        two,
        "what was not acked comes again"
    );
    Ok(())
}

async fn a_nacked_delivery_comes_again_after_its_delay(w: HintBus) -> Verdict {
    let hint = w.announce().await?;
    let delivery = w.take_one().await?;
    w.bus.nack(&[(delivery.receipt, secs(100))]).await?;
    w.advance(secs(90)).await;
    ensure_eq!(w.take(9).await?, [], "before its delay");
    w.advance(secs(11)).await;
    let again = w.take_one().await?;
    ensure_eq!(
        (again.hint, again.redeliveries),
        (hint, 1),
        "after its delay"
    );
    Ok(())
}

async fn a_nack_without_a_delay_comes_again_at_once(w: HintBus) -> Verdict {
    let hint = w.announce().await?;
    let delivery = w.take_one().await?;
    w.bus.nack(&[(delivery.receipt, Duration::ZERO)]).await?;
    ensure_eq!(w.take_one().await?.hint, hint, "at once");
    Ok(())
}

/// An expired receipt, while the hint is on loan to another worker.
async fn overtaken(w: &HintBus) -> Verdict<clinch_core::ports::Receipt> {
    w.announce().await?;
    let stale = w.take_one().await?.receipt;
    w.advance(VISIBILITY + secs(1)).await;
    let current = w.take_one().await?.receipt;
    ensure!(stale != current, "two deliveries have one receipt");
    Ok(stale)
}

async fn a_nack_of_a_delivery_that_is_not_ours_does_nothing(w: HintBus) -> Verdict {
    let stale = overtaken(&w).await?;
    w.bus.nack(&[(stale, Duration::ZERO)]).await?;
    ensure_eq!(w.take(9).await?, [], "it is still on loan to the other");
    Ok(())
}

async fn an_extension_of_a_delivery_that_is_not_ours_does_nothing(w: HintBus) -> Verdict {
    let stale = overtaken(&w).await?;
    w.bus.extend(&[stale], FOREVER).await?;
    w.advance(VISIBILITY + secs(1)).await;
    ensure_eq!(
        w.take(9).await?.len(),
        1,
        "the other's loan runs out as it would"
    );
    // An extension of an acked delivery does not restore it.
    let hint = w.announce().await?;
    let delivery = w.take_one().await?;
    ensure_eq!(delivery.hint, hint, "the fresh hint");
    w.bus.ack(std::slice::from_ref(&delivery.receipt)).await?;
    w.bus.extend(&[delivery.receipt], secs(1)).await?;
    w.advance(secs(5)).await;
    ensure_eq!(w.take(9).await?, [], "an acked delivery");
    Ok(())
}

async fn each_hint_goes_to_one_of_concurrent_workers(w: HintBus) -> Verdict {
    let mut hints = Vec::new();
    for _ in 0..200 {
        hints.push(w.hint(NATURAL)?);
    }
    w.publish(&hints).await?;
    let taken = together(16, |_| {
        let w = w.clone();
        async move {
            let mut mine = Vec::new();
            loop {
                let taken = w.take(7).await?;
                if taken.is_empty() {
                    return Ok(mine);
                }
                mine.extend(ops(&taken));
                ensure!(mine.len() <= 200, "one worker got more than there is");
            }
        }
    })
    .await?;
    let mut all = taken.concat();
    ensure_eq!(all.len(), 200, "deliveries");
    all.sort_unstable();
    all.dedup();
    ensure_eq!(all.len(), 200, "distinct hints");
    Ok(())
}

async fn concurrent_publishers_lose_nothing(w: HintBus) -> Verdict {
    let sent = together(16, |_| {
        let w = w.clone();
        async move {
            let mut sent = Vec::new();
            for _ in 0..10 {
                sent.push(w.announce().await?.op_id);
            }
            Ok(sent)
        }
    })
    .await?;
    let mut sent = sent.concat();
    sent.sort_unstable();
    let mut got = ops(&w.take(1_000).await?);
    got.sort_unstable();
    ensure_eq!(got, sent, "every hint was delivered");
    Ok(())
}
