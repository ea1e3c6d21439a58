//! Lists of dead letters: filters, orders, pages.

use clinch_core::ports::{LetterFilter, LetterOrder, LetterState, LetterView};
use clinch_core::protocol::{Event, Resolution};
use clinch_core::{ErrorKind, EventType, Fail};

use super::letters::{dismiss, in_state, letter, pages};
use crate::case::{Case, Verdict};
use crate::fixtures::{KEYED, NATURAL, UNSAFE, secs};
use crate::world::{World, failed_as};

pub(super) const CASES: &[Case] = area!(
    "letter_lists",
    Store {
        each_field_of_the_filter_selects: ["OUT-6"],
        pages_in_each_order_skip_nothing: ["OUT-6"],
        the_order_of_acceptance_is_that_of_a_lane: ["CORE-11", "OUT-6"],
        a_cursor_of_another_order_is_invalid: [],
        letters_are_read_by_id_in_order: [],
        dead_letters_come_newest_first_in_pages: ["OUT-6"],
    }
);

async fn each_field_of_the_filter_selects(w: World) -> Verdict {
    let one = w.failed(NATURAL).await?;
    w.advance(secs(10)).await;
    let two = w.held(UNSAFE).await?;
    let verdict = Resolution::Failed {
        fail: Fail::new("gave_up", "after 3 tries"),
        effect: None,
    };
    let event = Event::Resolve(verdict);
    w.amend(two.op_id, event).await??;
    let (first, second) = (letter(&w, one.op_id).await?, letter(&w, two.op_id).await?);
    let all = LetterFilter::default;
    let selected = |filter: LetterFilter| {
        let w = w.clone();
        async move { pages(&w, &filter, LetterOrder::OldestFirst).await }
    };
    let both = selected(all()).await?;
    ensure_eq!(both, [one.op_id, two.op_id], "no filter");
    let narrow: [fn(&mut LetterFilter, &LetterView); 7] = [
        |filter, letter| filter.domains = vec![letter.keys.domain.clone()],
        |filter, letter| filter.biz_key = Some(letter.keys.biz_key.clone()),
        |filter, letter| filter.idem_key = Some(letter.keys.idem_key.clone()),
        |filter, letter| filter.code = Some(letter.failure.code.clone()),
        |filter, letter| filter.fingerprint = Some(letter.fingerprint.clone()),
        |filter, letter| {
            filter.from = Some(letter.failed_at);
            filter.to = Some(letter.failed_at + secs(1));
        },
        |filter, letter| {
            filter.domains = vec![letter.keys.domain.clone()];
            filter.seq_max = Some(letter.seq);
        },
    ];
    for (number, narrow) in narrow.into_iter().enumerate() {
        for letter in [&first, &second] {
            let mut filter = all();
            narrow(&mut filter, letter);
            let found = selected(filter).await?;
            ensure_eq!(found, [letter.op_id], "field {number}");
        }
    }
    let mut filter = all();
    filter.event_types = vec![first.keys.event_type.clone()];
    ensure_eq!(selected(filter).await?.len(), 2, "their event type");
    let mut filter = all();
    filter.event_types = vec![EventType::new("absent")?];
    ensure_eq!(selected(filter).await?, [], "another event type");
    let mut filter = all();
    filter.seq_max = Some(first.seq);
    ensure_eq!(selected(filter).await?, [one.op_id], "up to a seq");
    Ok(())
}

async fn pages_in_each_order_skip_nothing(w: World) -> Verdict {
    let mut ops = Vec::new();
    for number in 0..8 {
        ops.push(w.failed(NATURAL).await?.op_id);
        if number % 3 == 0 {
            w.advance(secs(1)).await;
        }
    }
    let filter = LetterFilter::default();
    let accepted = pages(&w, &filter, LetterOrder::Accepted).await?;
    ensure_eq!(accepted, ops, "in the order of acceptance");
    let oldest = pages(&w, &filter, LetterOrder::OldestFirst).await?;
    let mut newest = pages(&w, &filter, LetterOrder::NewestFirst).await?;
    newest.reverse();
    ensure_eq!(newest, oldest, "newest first is the reverse");
    let any = pages(&w, &LetterFilter::all(), LetterOrder::OldestFirst).await?;
    ensure_eq!(any, oldest, "in any state");
    // What was shown leaves the list while it is read.
    let (mut got, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let order = LetterOrder::Accepted;
        let page = w
            .recovery
            .dead_letters(&filter, order, cursor.as_deref(), 3)
            .await?;
        for letter in &page.items {
            dismiss(&w, letter.op_id).await?;
        }
        got.extend(page.items.into_iter().map(|letter| letter.op_id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    ensure_eq!(got, ops, "all, while they change");
    ensure_eq!(
        in_state(&w, LetterState::Dismissed).await?,
        oldest,
        "dismissed"
    );
    Ok(())
}

async fn the_order_of_acceptance_is_that_of_a_lane(w: World) -> Verdict {
    let (first, second) = (w.failed(NATURAL).await?, w.live(NATURAL).await?);
    let third = w.live(NATURAL).await?;
    // The later one fails first, as a follower of a lane does whose deadline passes.
    w.settle_fail(&third).await??;
    w.advance(secs(1)).await;
    w.settle_fail(&second).await??;
    let listed = pages(&w, &LetterFilter::default(), LetterOrder::Accepted).await?;
    let expected = [first.op_id, second.op_id, third.op_id];
    ensure_eq!(listed, expected, "in the order of acceptance");
    Ok(())
}

async fn a_cursor_of_another_order_is_invalid(w: World) -> Verdict {
    for _ in 0..3 {
        w.failed(NATURAL).await?;
    }
    let orders = [
        LetterOrder::NewestFirst,
        LetterOrder::OldestFirst,
        LetterOrder::Accepted,
    ];
    let filter = LetterFilter::default();
    for order in orders {
        let page = w.recovery.dead_letters(&filter, order, None, 1).await?;
        let cursor = page.next_cursor;
        ensure!(
            cursor.is_some(),
            "{order:?}: a first page of three has a next"
        );
        for other in orders.into_iter().filter(|other| *other != order) {
            let read = w
                .recovery
                .dead_letters(&filter, other, cursor.as_deref(), 1);
            failed_as(read.await, ErrorKind::Invalid)?;
        }
    }
    let any = LetterFilter::all();
    let read = w
        .recovery
        .dead_letters(&any, LetterOrder::Accepted, None, 1);
    failed_as(read.await, ErrorKind::Invalid)
}

async fn letters_are_read_by_id_in_order(w: World) -> Verdict {
    let (one, two) = (w.failed(NATURAL).await?.op_id, w.failed(KEYED).await?.op_id);
    let completed = w.completed(NATURAL).await?.op_id;
    let ops = [two, completed, one, w.ids.op_id(), two];
    let found = w.recovery.letters(&ops).await?;
    let found: Vec<_> = found.into_iter().map(|one| one.map(|l| l.op_id)).collect();
    ensure_eq!(
        found,
        [Some(two), None, Some(one), None, Some(two)],
        "by id"
    );
    ensure_eq!(w.recovery.letters(&[]).await?, [], "none");
    Ok(())
}

async fn dead_letters_come_newest_first_in_pages(w: World) -> Verdict {
    let mut ops = Vec::new();
    for _ in 0..7 {
        ops.push(w.failed(NATURAL).await?.op_id);
        w.advance(secs(1)).await;
    }
    ops.reverse();
    let (mut got, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = w
            .recovery
            .dead_letters(
                &LetterFilter::all(),
                LetterOrder::NewestFirst,
                cursor.as_deref(),
                3,
            )
            .await?;
        ensure!(
            page.items.len() <= 3,
            "a page of 3 has {}",
            page.items.len()
        );
        got.extend(page.items.iter().map(|letter| letter.op_id));
        pages += 1;
        // A letter that arrives meanwhile is newer than all following pages.
        w.failed(NATURAL).await?;
        w.advance(secs(1)).await;
        cursor = page.next_cursor;
        if cursor.is_none() || pages > 9 {
            break;
        }
    }
    ensure_eq!(got, ops, "newest first, none twice, none skipped");
    Ok(())
}
