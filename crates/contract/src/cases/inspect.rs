//! Reads: every commit is visible at once, pages have no gaps, and the ledger has every event.

use std::collections::BTreeSet;

use clinch_core::ports::{Filter, NewBatch, NewOperation, Restriction};
use clinch_core::protocol::{Event, Phase};
use clinch_core::{BizKey, EventType, IdemKey, OpId, Retry, Status};

use crate::case::{Case, Verdict};
use crate::fixtures::{
    LANE, LONG, NATURAL, UNSAFE, domain, label, ok_answer, operation, payload, secs, worker,
};
use crate::world::World;

pub(super) const CASES: &[Case] = area!(
    "inspect",
    Store {
        get_answers_in_order: [],
        get_sees_every_commit: ["OUT-10"],
        find_answers_by_all_four_keys: ["CORE-6"],
        list_is_newest_first: ["OUT-10"],
        list_shows_nothing_twice_and_skips_nothing_while_rows_are_added: ["OUT-10"],
        list_ends_with_the_last_page: [],
        list_shows_at_most_a_thousand: [],
        list_narrows_by_what_was_asked_for: ["OUT-10", "COL-15"],
        list_narrows_by_what_became_of_it: ["OUT-10", "COL-15"],
        list_narrows_by_all_fields_together: ["OUT-10"],
        list_narrows_to_sets_of_names_page_by_page: ["CORE-16"],
        what_began_long_ago_and_has_not_ended_is_found: ["CORE-15"],
        ledger_has_one_line_a_change: ["OUT-10", "CORE-16"],
        ledger_names_who_said_what_and_when: ["OUT-10", "CORE-16"],
        ledger_keeps_refused_and_late_answers: ["OUT-10"],
        ledger_survives_a_crash: ["OUT-10"],
        now_is_the_stores_clock: [],
    }
);

async fn get_answers_in_order(w: World) -> Verdict {
    let ops = w.pending_many(NATURAL, 3).await?;
    let asked = [ops[2], w.ids.op_id(), ops[0], ops[0]];
    let got: Vec<Option<OpId>> = w
        .inspect
        .get(&asked)
        .await?
        .into_iter()
        .map(|row| row.map(|row| row.op_id))
        .collect();
    ensure_eq!(
        got,
        [Some(ops[2]), None, Some(ops[0]), Some(ops[0])],
        "the rows"
    );
    Ok(())
}

async fn get_sees_every_commit(w: World) -> Verdict {
    for _ in 0..20 {
        let op = w.pending(NATURAL).await?;
        let attempt = w.begun(op).await?;
        ensure_eq!(w.row(op).await?, attempt, "after begin");
        let changed = w.settle_ok(&attempt).await??;
        ensure_eq!(w.row(op).await?.state, changed.state, "after settle");
    }
    Ok(())
}

async fn find_answers_by_all_four_keys(w: World) -> Verdict {
    let (one, two) = (w.op(NATURAL)?, w.op(UNSAFE)?);
    w.accept_all(&[one.clone(), two.clone()]).await?;
    let mut other = one.keys.clone();
    other.idem_key = IdemKey::new("nobody")?;
    let keys = [two.keys.clone(), other, one.keys.clone()];
    let got: Vec<Option<OpId>> = w
        .inspect
        .find(&keys)
        .await?
        .into_iter()
        .map(|known| known.map(|k| k.op_id))
        .collect();
    ensure_eq!(
        got,
        [Some(two.op_id), None, Some(one.op_id)],
        "the operations"
    );
    Ok(())
}

async fn listed(w: &World, filter: &Filter) -> Verdict<Vec<OpId>> {
    let page = w.inspect.list(filter, None, 500).await?;
    Ok(page.items.iter().map(|row| row.op_id).collect())
}

async fn list_is_newest_first(w: World) -> Verdict {
    let mut ops = Vec::new();
    for _ in 0..5 {
        ops.push(w.pending(NATURAL).await?);
        w.advance(secs(1)).await;
    }
    // A change does not move a row in the list.
    w.begun(ops[1]).await?;
    ops.reverse();
    ensure_eq!(listed(&w, &Filter::default()).await?, ops, "the order");
    let page = w.inspect.list(&Filter::default(), None, 9).await?;
    ensure_eq!(
        page.items[0],
        w.row(ops[0]).await?,
        "a listed row is the whole row"
    );
    Ok(())
}

async fn list_shows_nothing_twice_and_skips_nothing_while_rows_are_added(w: World) -> Verdict {
    let ops = w.pending_many(NATURAL, 20).await?;
    let (mut got, mut cursor) = (Vec::new(), None);
    for _ in 0..20 {
        let page = w
            .inspect
            .list(&Filter::default(), cursor.as_deref(), 3)
            .await?;
        ensure!(
            page.items.len() <= 3,
            "a page of 3 has {}",
            page.items.len()
        );
        got.extend(page.items.iter().map(|row| row.op_id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
        w.pending(NATURAL).await?;
        w.begun(ops[got.len() % 20]).await.ok();
    }
    let expected: Vec<OpId> = ops.iter().rev().copied().collect();
    ensure_eq!(got, expected, "the rows that were there from the start");
    Ok(())
}

async fn list_ends_with_the_last_page(w: World) -> Verdict {
    let empty = w.inspect.list(&Filter::default(), None, 5).await?;
    ensure_eq!(
        (empty.items, empty.next_cursor),
        (vec![], None),
        "an empty store"
    );
    w.pending_many(NATURAL, 4).await?;
    let page = w.inspect.list(&Filter::default(), None, 5).await?;
    ensure_eq!((page.items.len(), page.next_cursor), (4, None), "one page");
    let page = w.inspect.list(&Filter::default(), None, 2).await?;
    ensure!(page.next_cursor.is_some(), "two pages");
    let rest = w
        .inspect
        .list(&Filter::default(), page.next_cursor.as_deref(), 9)
        .await?;
    ensure_eq!(
        (rest.items.len(), rest.next_cursor),
        (2, None),
        "the last page"
    );
    Ok(())
}

async fn list_shows_at_most_a_thousand(w: World) -> Verdict {
    let mut new = Vec::new();
    for _ in 0..1_010 {
        new.push(w.op(NATURAL)?);
    }
    w.accept_all(&new).await?;
    let page = w.inspect.list(&Filter::default(), None, 5_000).await?;
    ensure_eq!(page.items.len(), 1_000, "rows on a page");
    let rest = w
        .inspect
        .list(&Filter::default(), page.next_cursor.as_deref(), 5_000)
        .await?;
    let all: BTreeSet<OpId> = page
        .items
        .iter()
        .chain(&rest.items)
        .map(|row| row.op_id)
        .collect();
    ensure_eq!(all.len(), 1_010, "rows in all");
    Ok(())
}

async fn list_narrows_by_what_was_asked_for(w: World) -> Verdict {
    let batch_id = w.ids.batch_id();
    let batch = NewBatch {
        batch_id,
        on_complete: None,
        owner: Restriction::default(),
    };
    w.batches.open(&[batch]).await?;
    let mut keys = crate::fixtures::keys(UNSAFE, "order-7", "idem-x")?;
    keys.event_type = EventType::new("refund")?;
    let wanted = NewOperation {
        options: label("team", "shop")?,
        batch_id: Some(batch_id),
        ..operation(w.ids.op_id(), keys.clone(), &payload(1)?)
    };
    let other = NewOperation {
        options: label("team", "bank")?,
        ..w.op(NATURAL)?
    };
    w.accept_all(&[wanted.clone(), other]).await?;
    let mut filters = vec![Filter::default(); 6];
    filters[0].domains = vec![keys.domain];
    filters[1].event_types = vec![keys.event_type];
    filters[2].biz_key = Some(keys.biz_key);
    filters[3].idem_key = Some(keys.idem_key);
    filters[4].label = Some(("team".into(), "shop".into()));
    filters[5].batch_id = Some(batch_id);
    for filter in &filters {
        ensure_eq!(listed(&w, filter).await?, [wanted.op_id], "{filter:?}");
    }
    let nobody = Filter {
        biz_key: Some(BizKey::new("nobody")?),
        ..Filter::default()
    };
    ensure_eq!(listed(&w, &nobody).await?, [], "nobody");
    Ok(())
}

async fn list_narrows_by_what_became_of_it(w: World) -> Verdict {
    let early = w.pending(NATURAL).await?;
    w.advance(secs(100)).await;
    let at = w.now().await?;
    let op = w.pending(UNSAFE).await?;
    let mut filters = vec![Filter::default(); 5];
    filters[0].from = Some(at);
    ensure_eq!(listed(&w, &filters[0]).await?, [op], "accepted at or after");
    filters[1].to = Some(at);
    ensure_eq!(listed(&w, &filters[1]).await?, [early], "accepted before");
    let attempt = w.begun(op).await?;
    filters[2].phase = Some(Phase::Live);
    ensure_eq!(listed(&w, &filters[2]).await?, [op], "by phase");
    w.settle(ok_answer(op, Some(attempt.state.fence), "txn-7")?)
        .await??;
    ensure_eq!(
        listed(&w, &filters[2]).await?,
        [],
        "by a phase that is over"
    );
    filters[3].status = Some(Status::Completed);
    ensure_eq!(listed(&w, &filters[3]).await?, [op], "by state");
    filters[4].provider_txn_id = Some("txn-7".into());
    ensure_eq!(listed(&w, &filters[4]).await?, [op], "by transaction");
    Ok(())
}

async fn list_narrows_by_all_fields_together(w: World) -> Verdict {
    let wanted = w.completed(NATURAL).await?;
    w.completed(UNSAFE).await?;
    w.failed(NATURAL).await?;
    let filter = Filter {
        domains: vec![domain(NATURAL)?],
        status: Some(Status::Completed),
        ..Filter::default()
    };
    ensure_eq!(
        listed(&w, &filter).await?,
        [wanted.op_id],
        "COMPLETED of one domain"
    );
    Ok(())
}

async fn list_narrows_to_sets_of_names_page_by_page(w: World) -> Verdict {
    let mut wanted = Vec::new();
    for _ in 0..4 {
        wanted.push(w.pending(NATURAL).await?);
        w.pending(LANE).await?;
        wanted.push(w.pending(UNSAFE).await?);
    }
    wanted.reverse();
    let filter = Filter {
        domains: vec![domain(UNSAFE)?, domain(NATURAL)?, domain("nowhere")?],
        ..Filter::default()
    };
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = w.inspect.list(&filter, cursor.as_deref(), 3).await?;
        seen.extend(page.items.iter().map(|row| row.op_id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    ensure_eq!(seen, wanted, "two domains, newest first, each once");
    let event_type = w.row(wanted[0]).await?.keys.event_type;
    let typed = |event_types: Vec<EventType>| Filter {
        event_types,
        ..filter.clone()
    };
    let (other, third) = (EventType::new("other")?, EventType::new("third")?);
    let some = typed(vec![other.clone(), event_type]);
    ensure_eq!(listed(&w, &some).await?, wanted, "one of two event types");
    let none = typed(vec![other, third]);
    ensure_eq!(listed(&w, &none).await?, [], "event types of none");
    Ok(())
}

/// Versions of the lines that record a change, in order.
async fn versions(w: &World, op: OpId) -> Verdict<Vec<u64>> {
    let ledger = w.ledger(op).await?;
    let changes = ledger
        .iter()
        .filter(|line| line.refused.is_none() && line.late.is_none());
    Ok(changes.map(|line| line.version).collect())
}

async fn what_began_long_ago_and_has_not_ended_is_found(w: World) -> Verdict {
    let (live, waiting) = (w.live(NATURAL).await?, w.waiting(NATURAL).await?);
    let (held, recorded) = (w.held(UNSAFE).await?, w.live(NATURAL).await?);
    w.record_ok(&recorded).await?;
    w.completed(NATURAL).await?;
    w.failed(NATURAL).await?;
    w.pending(NATURAL).await?;
    w.advance(LONG).await;
    w.live(NATURAL).await?;
    w.waiting(NATURAL).await?;
    let before = w.now().await? - secs(60);
    let found = w.inspect.long_in_progress(before, 99).await?;
    let found: BTreeSet<OpId> = found.into_iter().collect();
    let expected = [live, waiting, held, recorded].map(|row| row.op_id);
    ensure_eq!(found, BTreeSet::from(expected), "those of long ago");
    let some = w.inspect.long_in_progress(before, 3).await?;
    ensure_eq!(some.len(), 3, "at most so many");
    Ok(())
}

async fn ledger_has_one_line_a_change(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    let attempt = w.begun(op).await?;
    w.retry(&attempt, Retry::not_applied("busy")).await??;
    w.advance(LONG).await;
    let attempt = w.begun(op).await?;
    w.record_ok(&attempt).await?;
    w.cancel(op).await?;
    w.finalize(op).await??;
    let version = w.row(op).await?.state.version;
    let expected: Vec<u64> = (1..=version).collect();
    ensure_eq!(versions(&w, op).await?, expected, "a line for each version");
    let events: Vec<String> = w
        .ledger(op)
        .await?
        .into_iter()
        .map(|line| line.event)
        .collect();
    let expected = ["Begin", "Retry", "Begin", "Ok", "Cancel", "Finalize"];
    ensure_eq!(events[1..], expected, "the events after the acceptance");
    let mut begun = w.op(NATURAL)?;
    begun.begin = Some(w.ids.begin(begun.op_id, 0)?);
    w.take_in(&begun).await?;
    ensure_eq!(
        versions(&w, begun.op_id).await?,
        [1, 2],
        "accepted and begun in one commit"
    );
    Ok(())
}

async fn ledger_names_who_said_what_and_when(w: World) -> Verdict {
    let attempt = w.live(UNSAFE).await?;
    w.advance(secs(10)).await;
    let before = w.now().await?;
    w.retry(&attempt, Retry::unknown("connection reset"))
        .await??;
    let mut cancel = w.amendment(attempt.op_id, Event::Cancel)?;
    cancel.by = worker(42)?;
    cancel.reason = "customer called".into();
    w.amend_with(cancel).await??;
    let ledger = w.ledger(attempt.op_id).await?;
    let [.., retry, cancel] = ledger.as_slice() else {
        return Err(crate::case::Failure::new(format!(
            "too few lines: {ledger:?}"
        )));
    };
    ensure!(retry.at >= before, "when: {:?}", retry.at);
    ensure_eq!(retry.by, Some(worker(0)?), "who retried");
    ensure!(
        retry.note.contains("connection reset"),
        "why: {:?}",
        retry.note
    );
    ensure_eq!(
        (retry.status, retry.phase),
        (Status::InProgress, Some(Phase::Held)),
        "the state"
    );
    ensure_eq!((retry.fence, retry.version), (1, 3), "fence and version");
    ensure_eq!(cancel.by, Some(worker(42)?), "who canceled");
    ensure!(
        cancel.note.contains("customer called"),
        "why: {:?}",
        cancel.note
    );
    Ok(())
}

async fn ledger_keeps_refused_and_late_answers(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?;
    let changes = versions(&w, failed.op_id).await?;
    w.settle(ok_answer(failed.op_id, Some(1), "late-txn")?)
        .await??;
    w.settle_fail(&failed).await?.err();
    w.amend(failed.op_id, Event::Cancel).await?.err();
    let ledger = w.ledger(failed.op_id).await?;
    ensure_eq!(ledger.len(), changes.len() + 3, "lines");
    let [.., late, fail, cancel] = ledger.as_slice() else {
        return Err(crate::case::Failure::new(format!(
            "too few lines: {ledger:?}"
        )));
    };
    let txn = late
        .late
        .as_ref()
        .and_then(|record| record.provider_txn_id.clone());
    ensure_eq!(txn.as_deref(), Some("late-txn"), "the late answer");
    ensure!(
        fail.refused.is_some() && cancel.refused.is_some(),
        "refused: {fail:?}, {cancel:?}"
    );
    let versions: BTreeSet<u64> = [late, fail, cancel].map(|line| line.version).into();
    ensure_eq!(
        versions,
        BTreeSet::from([failed.state.version]),
        "the version stays"
    );
    Ok(())
}

async fn ledger_survives_a_crash(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?;
    let before = w.ledger(failed.op_id).await?;
    let w = w.crash().await?;
    ensure_eq!(w.ledger(failed.op_id).await?, before, "the ledger");
    ensure_eq!(w.ledger(w.ids.op_id()).await?, [], "of nobody");
    Ok(())
}

async fn now_is_the_stores_clock(w: World) -> Verdict {
    let before = w.now().await?;
    w.advance(secs(500)).await;
    let after = w.now().await?;
    ensure!(
        after >= before + secs(500),
        "500 s took {:?}",
        after.since(before)
    );
    let op = w.pending(NATURAL).await?;
    ensure!(
        w.row(op).await?.accepted_at >= after,
        "rows are stamped by the same clock"
    );
    Ok(())
}
