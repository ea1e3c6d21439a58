//! Finding operations and batches as an operator does: by the beginning of an id, by code, by
//! route, page by page.

use clinch_core::ports::{
    Batch, Batches, Filter, NewBatch, NewOperation, OfRoute, Page, Restriction,
};
use clinch_core::{BatchId, EventType, OpId, OpIdPrefix, Retry, code};

use crate::calls::Calls;
use crate::case::{Case, Verdict};
use crate::fixtures::{KEYED, NATURAL, UNSAFE, domain, keys, operation, payload};
use crate::world::World;

pub(super) const CASES: &[Case] = area!(
    "finding",
    Store {
        by_the_beginning_of_an_id: [],
        by_code: [],
        by_route: [],
        batches_by_falling_id: [],
        batches_of_a_restricted_key: [],
    }
);

/// An id with these first and last 64 bits.
fn id(high: u64, low: u64) -> OpId {
    OpId(uuid::Uuid::from_u64_pair(high, low))
}

fn prefix(text: &str) -> Verdict<OpIdPrefix> {
    Ok(text.parse::<OpIdPrefix>()?)
}

async fn by_the_beginning_of_an_id(w: World) -> Verdict {
    let high = 0x0aaa_bbbb_cccc_7001;
    let ids = [
        id(high, 1),
        id(high, 2),
        id(high + 1, 0),
        id(0x0aaa_bbbc_0000_7000, 0),
    ];
    for (number, op_id) in (0..).zip(ids) {
        let keys = keys(NATURAL, &format!("biz-{number}"), "i")?;
        w.take_in(&operation(op_id, keys, &payload(number)?))
            .await?;
    }
    // A settled operation is found like an open one.
    let attempt = w.begun(ids[1]).await?;
    w.settle_ok(&attempt).await??;
    let found = async |text: &str, max: usize| -> Verdict<Vec<OpId>> {
        let found = w.inspect.by_prefix(&prefix(text)?, max).await?;
        let natural = found.iter().all(|one| one.domain.as_str() == NATURAL);
        ensure!(natural, "another domain: {found:?}");
        Ok(found.into_iter().map(|one| one.op_id).collect())
    };
    ensure_eq!(found("0aaabbbb", 9).await?, ids[..3], "8 digits");
    ensure_eq!(found("0AAABBBB", 2).await?, ids[..2], "at most 2");
    ensure_eq!(found("0aaabbbb-cccc-7001", 9).await?, ids[..2], "16 digits");
    ensure_eq!(
        found("0aaabbbbcccc7002", 9).await?,
        ids[2..3],
        "without dashes"
    );
    ensure_eq!(
        found(&ids[1].to_string(), 9).await?,
        ids[1..2],
        "a whole id"
    );
    ensure_eq!(found("0aaabbbd", 9).await?, [], "of none");
    ensure_eq!(found("ffffffff", 9).await?, [], "the last range");
    Ok(())
}

async fn listed(w: &World, filter: &Filter) -> Verdict<Vec<OpId>> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = w.inspect.list(filter, cursor.as_deref(), 1).await?;
        ensure!(
            page.items.len() <= 1,
            "a page of one has {}",
            page.items.len()
        );
        found.extend(page.items.iter().map(|one| one.op_id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            found.sort();
            return Ok(found);
        }
    }
}

async fn by_code(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?;
    let held = w.held(UNSAFE).await?.op_id;
    let waiting = w.live(NATURAL).await?;
    // A message that quotes a code is no code.
    let quoted = "{\"code\":\"effect_unknown\"}";
    w.retry(&waiting, Retry::not_applied(quoted)).await??;
    w.pending(NATURAL).await?;
    w.completed(NATURAL).await?;
    let of = |code: &str| Filter {
        code: Some(code.to_owned()),
        ..Filter::default()
    };
    let refusal = failed.state.failure.map(|failure| failure.code);
    let refusal = refusal.unwrap_or_default();
    ensure_eq!(listed(&w, &of(&refusal)).await?, [failed.op_id], "failed");
    ensure_eq!(listed(&w, &of(code::EFFECT_UNKNOWN)).await?, [held], "held");
    let expected = [waiting.op_id];
    ensure_eq!(
        listed(&w, &of(code::NOT_APPLIED)).await?,
        expected,
        "waiting"
    );
    ensure_eq!(listed(&w, &of("not_")).await?, [], "a part of a code");
    ensure_eq!(listed(&w, &of("\"")).await?, [], "a quote");
    ensure_eq!(listed(&w, &of("%")).await?, [], "a percent sign");
    let of_domain = Filter {
        domains: vec![domain(UNSAFE)?],
        ..of(code::NOT_APPLIED)
    };
    ensure_eq!(listed(&w, &of_domain).await?, [], "of another domain");
    Ok(())
}

async fn by_route(w: World) -> Verdict {
    let take = async |domain: &str, event_type: &str, biz: &str| -> Verdict<OpId> {
        let mut keys = keys(domain, biz, "i")?;
        keys.event_type = EventType::new(event_type)?;
        let new: NewOperation = operation(w.ids.op_id(), keys, &payload(1)?);
        w.take_in(&new).await?;
        Ok(new.op_id)
    };
    let charge = take(NATURAL, "charge", "a").await?;
    let refund = take(NATURAL, "refund", "b").await?;
    let other = take(KEYED, "charge", "c").await?;
    let route = |of: &str, event_type: Option<&str>, except: &[&str]| -> Verdict<OfRoute> {
        let types = except.iter().map(|name| EventType::new(*name));
        Ok(OfRoute {
            domain: domain(of)?,
            event_type: event_type.map(EventType::new).transpose()?,
            except: types.collect::<Result<_, _>>()?,
        })
    };
    let of = |routes: Vec<OfRoute>| Filter {
        routes,
        ..Filter::default()
    };
    let one = of(vec![route(NATURAL, Some("charge"), &[])?]);
    ensure_eq!(listed(&w, &one).await?, [charge], "one event type");
    let rest = of(vec![route(NATURAL, None, &["charge"])?]);
    ensure_eq!(listed(&w, &rest).await?, [refund], "every other event type");
    let all = of(vec![
        route(NATURAL, None, &[])?,
        route(KEYED, Some("charge"), &[])?,
    ]);
    let mut expected = vec![charge, refund, other];
    expected.sort();
    ensure_eq!(listed(&w, &all).await?, expected, "two routes");
    let none = of(vec![route(UNSAFE, None, &[])?]);
    ensure_eq!(listed(&w, &none).await?, [], "a route without operations");
    let narrowed = Filter {
        domains: vec![domain(KEYED)?],
        ..all
    };
    ensure_eq!(
        listed(&w, &narrowed).await?,
        [other],
        "of one of the domains"
    );
    Ok(())
}

fn batch(number: u64, owner: Restriction) -> NewBatch {
    NewBatch {
        batch_id: BatchId(uuid::Uuid::from_u64_pair(number, 1)),
        on_complete: None,
        owner,
    }
}

async fn pages(w: &World, of: &Restriction, limit: usize) -> Verdict<Vec<BatchId>> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page: Page<Batch> = Batches::list(&*w.batches, of, cursor.as_deref(), limit).await?;
        ensure!(page.items.len() <= limit, "a page of {limit}");
        found.extend(page.items.iter().map(|one| one.batch_id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

async fn batches_by_falling_id(w: World) -> Verdict {
    let everyone = Restriction::default();
    ensure_eq!(pages(&w, &everyone, 5).await?, [], "an empty store");
    // The largest id too: no page leaves it out.
    let mut numbers: Vec<u64> = vec![3, 1, 2, 5, 4];
    let new: Vec<NewBatch> = numbers
        .iter()
        .map(|n| batch(*n, everyone.clone()))
        .collect();
    w.batches.open(&new).await?;
    numbers.sort_by_key(|number| std::cmp::Reverse(*number));
    let expected: Vec<BatchId> = numbers
        .iter()
        .map(|n| batch(*n, everyone.clone()).batch_id)
        .collect();
    for limit in [1, 2, 5, 9] {
        ensure_eq!(
            pages(&w, &everyone, limit).await?,
            expected,
            "by falling id"
        );
    }
    w.store.seal(&[expected[0]], &w.routes).await?;
    let page = Batches::list(&*w.batches, &everyone, None, 1).await?;
    let read = w.batches.read(&expected[..1]).await?;
    ensure_eq!(
        page.items.first(),
        read[0].as_ref(),
        "as it is read by its id"
    );
    let wrong = Batches::list(&*w.batches, &everyone, Some("7"), 1).await;
    crate::world::failed_as(wrong, clinch_core::ErrorKind::Invalid)
}

async fn batches_of_a_restricted_key(w: World) -> Verdict {
    let own = Restriction {
        domains: vec![domain(NATURAL)?],
        event_types: Vec::new(),
    };
    let everyone = Restriction::default();
    let foreign = (10..1_300).map(|n| batch(n, everyone.clone()));
    let mut new: Vec<NewBatch> = foreign.collect();
    new.push(batch(1, own.clone()));
    new.push(batch(2_000, own.clone()));
    for some in new.chunks(100) {
        w.batches.open(some).await?;
    }
    let expected = [2_000, 1].map(|n| batch(n, own.clone()).batch_id);
    ensure_eq!(pages(&w, &own, 50).await?, expected, "its own");
    ensure_eq!(pages(&w, &own, 1).await?, expected, "its own, one by one");
    ensure_eq!(pages(&w, &everyone, 1_000).await?.len(), 1_292, "all");
    Ok(())
}
