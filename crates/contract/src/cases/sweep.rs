//! Silent rows: operations whose hints a bus lost are announced again.

use std::collections::BTreeSet;
use std::time::Duration;

use clinch_core::ports::{Claim, Claimed, Publication};
use clinch_core::{OpId, Retry};

use crate::case::{Case, Stage, Verdict};
use crate::concurrent::together;
use crate::fixtures::{CLAIM, LONG, NATURAL, SILENCE, UNSAFE, claim, secs};
use crate::wire::HintBus;
use crate::world::{World, ids, only};
use crate::{Need, Subject};

pub(super) const CASES: &[Case] = area!(
    "sweep",
    Store {
        a_lost_hint_is_claimed_again_after_the_grace: ["CORE-11", "OUT-8"],
        each_round_waits_twice_as_long_up_to_a_bound: ["OUT-8"],
        never_the_same_row_to_two_claimers: ["OUT-2"],
        a_claim_that_ran_out_is_claimable_again: ["OUT-4"],
        nothing_that_was_never_announced: [],
        nothing_that_began_since: ["RUN-7"],
        nothing_that_waits_for_a_later_time: ["RUN-3"],
        no_rows_of_paused_domains: [],
        the_oldest_silence_first: [],
    }
);

/// Cases that need a bus.
pub(super) const WITH_BUS: &[Case] = &[Case {
    name: "sweep::a_hint_that_the_bus_lost_reaches_a_worker",
    proves: &["CORE-11", "CORE-13", "OUT-8"],
    needs: Need::StoreAndBus,
    run: |subject| Box::pin(a_hint_that_the_bus_lost_reaches_a_worker(subject)),
}];

async fn silent(w: &World) -> Verdict<Vec<Claimed>> {
    Ok(w.outbox.claim_silent(&claim(3, 99)?, &SILENCE).await?)
}

/// Announces every due row, on a bus that loses the hints.
async fn announce_all(w: &World) -> Verdict {
    let claimed = w.claim(999).await?;
    Ok(w.outbox.published(&claimed).await?)
}

async fn announced(w: &World, domain: &str) -> Verdict<OpId> {
    let op = w.pending(domain).await?;
    announce_all(w).await?;
    Ok(op)
}

async fn a_lost_hint_is_claimed_again_after_the_grace(w: World) -> Verdict {
    let op = announced(&w, NATURAL).await?;
    ensure_eq!(silent(&w).await?, [], "at once");
    w.advance(secs(8)).await;
    ensure_eq!(silent(&w).await?, [], "within the grace");
    w.advance(secs(3)).await;
    let claimed = only(silent(&w).await?)?;
    ensure_eq!(
        (claimed.op_id(), claimed.hint.dispatch_no),
        (op, 2),
        "the second announcement"
    );
    w.outbox.published(&[claimed]).await?;
    let row = w.row(op).await?;
    ensure_eq!(
        (row.dispatch_no, row.state.version),
        (2, 1),
        "publications and version"
    );
    Ok(())
}

async fn each_round_waits_twice_as_long_up_to_a_bound(w: World) -> Verdict {
    announced(&w, NATURAL).await?;
    for (round, pause) in [10, 20, 40, 60, 60, 60].into_iter().enumerate() {
        w.advance(secs(pause - 2)).await;
        ensure_eq!(silent(&w).await?, [], "round {round}: within {pause} s");
        w.advance(secs(3)).await;
        let claimed = only(silent(&w).await?)?;
        ensure_eq!(
            claimed.hint.dispatch_no,
            round as u64 + 2,
            "round {round}: dispatch_no"
        );
        w.outbox.published(&[claimed]).await?;
    }
    Ok(())
}

async fn never_the_same_row_to_two_claimers(w: World) -> Verdict {
    let mut new = Vec::new();
    for _ in 0..100 {
        new.push(w.op(NATURAL)?);
    }
    w.accept_all(&new).await?;
    announce_all(&w).await?;
    w.advance(secs(11)).await;
    let claimed = together(16, |number| {
        let w = w.clone();
        async move {
            let claimed = w.outbox.claim_silent(&claim(number, 10)?, &SILENCE).await?;
            ensure!(claimed.len() <= 10, "a claim of 10 got {}", claimed.len());
            Ok(ids(&claimed))
        }
    })
    .await?;
    let all = claimed.concat();
    ensure_eq!(all.len(), 100, "claims");
    ensure_eq!(
        all.iter().collect::<BTreeSet<_>>().len(),
        100,
        "distinct rows"
    );
    Ok(())
}

async fn a_claim_that_ran_out_is_claimable_again(w: World) -> Verdict {
    let op = announced(&w, NATURAL).await?;
    w.advance(secs(11)).await;
    let long = Claim {
        lasting: CLAIM,
        ..claim(3, 9)?
    };
    ensure_eq!(
        ids(&w.outbox.claim_silent(&long, &SILENCE).await?),
        [op],
        "the row"
    );
    ensure_eq!(silent(&w).await?, [], "while it is claimed");
    w.advance(CLAIM + secs(1)).await;
    let again = only(silent(&w).await?)?;
    ensure_eq!(
        (again.op_id(), again.hint.dispatch_no),
        (op, 2),
        "after the claim ran out"
    );
    // The released row is claimable at once, and still silent.
    w.outbox.release(&[again]).await?;
    let found = [ids(&silent(&w).await?), ids(&w.claim(9).await?)].concat();
    ensure_eq!(found, [op], "after a release");
    Ok(())
}

async fn nothing_that_was_never_announced(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    w.advance(LONG).await;
    ensure_eq!(silent(&w).await?, [], "it is the relay's");
    ensure_eq!(ids(&w.claim(9).await?), [op], "and the relay finds it");
    Ok(())
}

async fn nothing_that_began_since(w: World) -> Verdict {
    let ops = [announced(&w, NATURAL).await?, announced(&w, NATURAL).await?];
    w.begun(ops[0]).await?;
    let attempt = w.begun(ops[1]).await?;
    w.settle_ok(&attempt).await??;
    w.advance(LONG).await;
    ensure_eq!(silent(&w).await?, [], "one is live, one is settled");
    Ok(())
}

async fn nothing_that_waits_for_a_later_time(w: World) -> Verdict {
    let op = announced(&w, NATURAL).await?;
    let attempt = w.begun(op).await?;
    w.retry(&attempt, Retry::not_applied("busy").after(secs(500)))
        .await??;
    w.advance(secs(400)).await;
    ensure_eq!(silent(&w).await?, [], "during the backoff");
    w.advance(secs(200)).await;
    ensure_eq!(silent(&w).await?, [], "due again and not announced since");
    ensure_eq!(ids(&w.claim(9).await?), [op], "the relay finds it");
    Ok(())
}

async fn no_rows_of_paused_domains(w: World) -> Verdict {
    let paused = announced(&w, NATURAL).await?;
    let open = announced(&w, UNSAFE).await?;
    w.pause(NATURAL, true).await?;
    w.advance(secs(11)).await;
    ensure_eq!(ids(&silent(&w).await?), [open], "while it is paused");
    w.pause(NATURAL, false).await?;
    ensure_eq!(ids(&silent(&w).await?), [paused], "after it was resumed");
    Ok(())
}

async fn the_oldest_silence_first(w: World) -> Verdict {
    let mut ops = Vec::new();
    for _ in 0..3 {
        ops.push(announced(&w, NATURAL).await?);
        w.advance(secs(2)).await;
    }
    w.advance(secs(20)).await;
    let one = Claim {
        max: 2,
        ..claim(3, 2)?
    };
    let mut got = ids(&w.outbox.claim_silent(&one, &SILENCE).await?);
    got.extend(ids(&silent(&w).await?));
    ensure_eq!(got, ops, "the order");
    Ok(())
}

async fn a_hint_that_the_bus_lost_reaches_a_worker(subject: Subject) -> Verdict {
    let (w, wire) = (World::open(subject.clone())?, HintBus::open(subject)?);
    // The relay announced it, and the bus lost it: nothing was ever published.
    let op = announced(&w, NATURAL).await?;
    ensure_eq!(wire.take(9).await?, [], "the bus is empty");
    w.advance(secs(11)).await;
    let claimed = only(silent(&w).await?)?;
    let publication = Publication::to_all(claimed.hint.clone(), Duration::ZERO);
    wire.bus.publish(&[publication]).await?;
    w.outbox.published(&[claimed]).await?;
    let delivery = wire.take_one().await?;
    ensure_eq!(
        (delivery.hint.op_id, delivery.hint.dispatch_no),
        (op, 2),
        "the hint"
    );
    let attempt = w.begun(op).await?;
    w.settle_ok(&attempt).await??;
    wire.bus.ack(&[delivery.receipt]).await?;
    w.advance(LONG).await;
    ensure_eq!(silent(&w).await?, [], "nothing is silent any more");
    Ok(())
}
