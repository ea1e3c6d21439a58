//! Pauses, and counters that equal the rows.

use std::collections::BTreeMap;
use std::time::Duration;

use clinch_core::policy::SplitMix;
use clinch_core::ports::{
    Claimed, Counts, Filter, LetterFilter, LetterOrder, NewOperation, NewPause, Pause, Prune, Scan,
};
use clinch_core::protocol::{Event, Resolution};
use clinch_core::{Actor, EventType, MESSAGE_BYTES_MAX, OpId, Priority, Retry, Status, Timestamp};

use crate::case::{Case, Verdict};
use crate::concurrent::together;
use crate::fixtures::{KEYED, LEASE, LONG, NATURAL, PROBED, ROUTED, UNSAFE, no, run_at, secs};
use crate::world::World;

pub(super) const CASES: &[Case] = area!(
    "domains",
    Store {
        a_domain_can_be_paused_before_its_first_operation: ["COL-15"],
        pausing_twice_is_pausing_once: ["COL-15"],
        a_pause_survives_a_crash: ["COL-15"],
        a_pause_keeps_who_when_and_why: ["COL-15"],
        a_pause_stops_one_domain: [],
        in_a_paused_domain_running_attempts_settle: [],
        in_a_paused_domain_probes_and_deadlines_go_on: [],
        a_paused_domain_still_accepts: [],
        lists_domains_by_name: ["COL-15"],
        lists_domains_that_had_operations: ["COL-15"],
        counters_follow_every_change: ["CORE-15"],
        counters_equal_the_rows_after_a_random_workload: ["CORE-15"],
        counters_equal_the_rows_after_a_concurrent_workload: ["CORE-15"],
        tells_the_age_of_the_oldest_due_row: ["CORE-15"],
        the_oldest_due_row_may_have_been_announced: ["CORE-15"],
        tells_the_age_of_the_oldest_due_row_of_each_event_type: ["CORE-15"],
        a_run_at_in_the_past_makes_no_row_old: ["CORE-15"],
    }
);

async fn a_domain_can_be_paused_before_its_first_operation(w: World) -> Verdict {
    w.pause(NATURAL, true).await?;
    let view = w.domain(NATURAL).await?;
    let view = view.map(|view| (view.paused, view.counts));
    ensure_eq!(view, Some((true, Counts::default())), "the paused domain");
    let op = w.pending(NATURAL).await?;
    ensure!(w.begin(op).await?.is_err(), "its first operation began");
    ensure_eq!(w.claim(9).await?, [], "its first operation was announced");
    Ok(())
}

async fn pausing_twice_is_pausing_once(w: World) -> Verdict {
    w.pause(NATURAL, true).await?;
    w.pause(NATURAL, true).await?;
    w.pause(NATURAL, false).await?;
    w.pause(NATURAL, false).await?;
    let paused = w.domain(NATURAL).await?.is_some_and(|view| view.paused);
    ensure!(!paused, "it is still paused");
    w.live(NATURAL).await?;
    Ok(())
}

async fn a_pause_survives_a_crash(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    w.pause(NATURAL, true).await?;
    let w = w.crash().await?;
    ensure!(w.begin(op).await?.is_err(), "the pause was forgotten");
    w.pause(NATURAL, false).await?;
    let w = w.crash().await?;
    w.begun(op).await?;
    Ok(())
}

async fn a_pause_keeps_who_when_and_why(w: World) -> Verdict {
    let domain = crate::fixtures::domain(NATURAL)?;
    let anna = NewPause::new(
        &Actor::key("00ff", "anna"),
        "the provider is down, ticket 7",
    );
    w.domains.pause(&domain, &anna).await?;
    let at = w.inspect.now().await?;
    let expected = Pause {
        at,
        by: anna.by.clone(),
        reason: anna.reason.clone(),
    };
    w.advance(secs(5)).await;
    w.domains.pause(&domain, &NewPause::default()).await?;
    let w = w.crash().await?;
    // Counters of the domain change while it is paused.
    w.pending(NATURAL).await?;
    let pause = w.domain(NATURAL).await?.and_then(|view| view.pause);
    let close = pause
        .as_ref()
        .is_some_and(|pause| at.since(pause.at) <= secs(1));
    ensure!(close, "when it was paused: {pause:?}, at about {at:?}");
    let pause = pause.map(|pause| Pause { at, ..pause });
    ensure_eq!(pause, Some(expected), "the first pause");
    w.domains.resume(&domain).await?;
    let view = w.domain(NATURAL).await?;
    ensure_eq!(view.and_then(|view| view.pause), None, "after the resume");
    let long = "é".repeat(MESSAGE_BYTES_MAX);
    let again = NewPause::new(&Actor::local(), &long);
    w.domains.pause(&domain, &again).await?;
    let view = w.domain(NATURAL).await?;
    let kept = view
        .and_then(|view| view.pause)
        .map(|pause| (pause.by, pause.reason));
    ensure_eq!(kept, Some((again.by, again.reason)), "the second pause");
    Ok(())
}

async fn a_pause_stops_one_domain(w: World) -> Verdict {
    w.pause(NATURAL, true).await?;
    w.live(UNSAFE).await?;
    let paused: Vec<_> = w
        .domains
        .domains()
        .await?
        .into_iter()
        .filter(|v| v.paused)
        .collect();
    ensure_eq!(paused.len(), 1, "paused domains");
    Ok(())
}

async fn in_a_paused_domain_running_attempts_settle(w: World) -> Verdict {
    let (one, two) = (w.live(NATURAL).await?, w.live(NATURAL).await?);
    let (three, four) = (w.live(NATURAL).await?, w.live(NATURAL).await?);
    w.pause(NATURAL, true).await?;
    w.settle_ok(&one).await??;
    w.record_ok(&two).await?;
    w.finalize(two.op_id).await??;
    w.retry(&three, Retry::not_applied("busy")).await??;
    w.advance(LEASE + secs(5)).await;
    w.amend(four.op_id, Event::AttemptLost).await??;
    let counts = w.counts(NATURAL).await?;
    ensure_eq!((counts.completed, counts.waiting), (2, 2), "the counters");
    Ok(())
}

async fn in_a_paused_domain_probes_and_deadlines_go_on(w: World) -> Verdict {
    let held = w.held(PROBED).await?;
    let pending = w.pending(PROBED).await?;
    w.pause(PROBED, true).await?;
    ensure_eq!(
        w.scan(Scan::ProbeDue).await?,
        [held.op_id],
        "a probe is due"
    );
    let verdict = Resolution::Failed {
        fail: no(),
        effect: None,
    };
    w.amend(held.op_id, Event::Resolve(verdict)).await??;
    w.advance(crate::fixtures::AGES).await;
    ensure_eq!(w.scan(Scan::Overdue).await?, [pending], "a deadline passed");
    w.amend(pending, Event::DeadlinePassed).await??;
    ensure_eq!(w.counts(PROBED).await?.failed, 2, "FAILED");
    Ok(())
}

async fn a_paused_domain_still_accepts(w: World) -> Verdict {
    w.pause(NATURAL, true).await?;
    let op = w.pending(NATURAL).await?;
    w.cancel(op).await?;
    w.pending(NATURAL).await?;
    let counts = w.counts(NATURAL).await?;
    ensure_eq!((counts.pending, counts.failed), (1, 1), "the counters");
    Ok(())
}

async fn lists_domains_by_name(w: World) -> Verdict {
    ensure_eq!(w.domains.domains().await?, [], "an empty store");
    for domain in [UNSAFE, NATURAL, KEYED] {
        w.pending(domain).await?;
    }
    w.pause(PROBED, true).await?;
    let names: Vec<String> = w
        .domains
        .domains()
        .await?
        .iter()
        .map(|view| view.domain.to_string())
        .collect();
    ensure_eq!(names, [KEYED, NATURAL, PROBED, UNSAFE], "the names");
    Ok(())
}

async fn lists_domains_that_had_operations(w: World) -> Verdict {
    w.completed(NATURAL).await?;
    w.advance(LONG).await;
    let age = secs(1);
    let prune = Prune {
        completed: age,
        failed: age,
        keys: age,
        max: 99,
        reckoned: None,
        jump_max: std::time::Duration::MAX,
    };
    ensure_eq!(w.recovery.prune(&prune).await?.operations, 1, "pruned");
    let view = w.domain(NATURAL).await?.map(|view| view.counts);
    ensure_eq!(
        view,
        Some(Counts::default()),
        "a domain that had operations"
    );
    Ok(())
}

async fn counters_follow_every_change(w: World) -> Verdict {
    let counted = |counts: Counts| {
        [
            counts.pending,
            counts.live,
            counts.recorded,
            counts.waiting,
            counts.held,
            counts.completed,
            counts.failed,
        ]
    };
    let op = w.pending(UNSAFE).await?;
    ensure_eq!(
        counted(w.counts(UNSAFE).await?),
        [1, 0, 0, 0, 0, 0, 0],
        "accepted"
    );
    let attempt = w.begun(op).await?;
    ensure_eq!(
        counted(w.counts(UNSAFE).await?),
        [0, 1, 0, 0, 0, 0, 0],
        "begun"
    );
    w.retry(&attempt, Retry::not_applied("busy")).await??;
    ensure_eq!(
        counted(w.counts(UNSAFE).await?),
        [0, 0, 0, 1, 0, 0, 0],
        "waiting"
    );
    w.advance(LONG).await;
    let attempt = w.begun(op).await?;
    w.retry(&attempt, Retry::unknown("timeout")).await??;
    ensure_eq!(
        counted(w.counts(UNSAFE).await?),
        [0, 0, 0, 0, 1, 0, 0],
        "held"
    );
    w.amend(op, Event::Resolve(Resolution::Retry)).await??;
    let attempt = w.begun(op).await?;
    w.record_ok(&attempt).await?;
    ensure_eq!(
        counted(w.counts(UNSAFE).await?),
        [0, 0, 1, 0, 0, 0, 0],
        "recorded"
    );
    w.finalize(op).await??;
    ensure_eq!(
        counted(w.counts(UNSAFE).await?),
        [0, 0, 0, 0, 0, 1, 0],
        "completed"
    );
    w.failed(UNSAFE).await?;
    ensure_eq!(
        counted(w.counts(UNSAFE).await?),
        [0, 0, 0, 0, 0, 1, 1],
        "failed"
    );
    Ok(())
}

/// The counters equal the rows, in every domain.
async fn counters_equal_rows(w: &World) -> Verdict {
    let mut rows: BTreeMap<String, Counts> = BTreeMap::new();
    let mut cursor = None;
    loop {
        let page = w
            .inspect
            .list(&Filter::default(), cursor.as_deref(), 500)
            .await?;
        for row in &page.items {
            row.state.check().map_err(crate::case::Failure::new)?;
            *rows
                .entry(row.keys.domain.to_string())
                .or_default()
                .of(&row.state) += 1;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let (open, order) = (LetterFilter::default(), LetterOrder::NewestFirst);
    let mut cursor = None;
    loop {
        let page = w
            .recovery
            .dead_letters(&open, order, cursor.as_deref(), 500);
        let page = page.await?;
        for letter in &page.items {
            let domain = letter.keys.domain.to_string();
            rows.entry(domain).or_default().dead_letters_open += 1;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let counters: BTreeMap<String, Counts> = w
        .domains
        .domains()
        .await?
        .into_iter()
        .map(|view| (view.domain.to_string(), view.counts))
        .filter(|(_, counts)| *counts != Counts::default())
        .collect();
    ensure_eq!(counters, rows, "the counters of every domain");
    Ok(())
}

/// One random step of one operation, whatever its result.
async fn step(w: &World, op: OpId, dice: u64) -> Verdict {
    let row = w.row(op).await?;
    match dice % 10 {
        0..=2 => drop(w.begin(op).await?),
        3 => drop(w.settle_ok(&row).await?),
        4 => drop(w.settle_fail(&row).await?),
        5 => drop(w.retry(&row, Retry::not_applied("x")).await?),
        6 => drop(w.retry(&row, Retry::unknown("x")).await?),
        7 => drop(w.amend(op, Event::AttemptLost).await?),
        8 => drop(w.amend(op, Event::Resolve(Resolution::Retry)).await?),
        _ if dice % 70 == 9 => drop(w.amend(op, Event::Cancel).await?),
        _ => drop(w.finalize(op).await?),
    }
    Ok(())
}

async fn counters_equal_the_rows_after_a_random_workload(w: World) -> Verdict {
    let mut rng = SplitMix::new(0xC0DE);
    let mut w = w;
    let mut ops = Vec::new();
    for round in 0..40 {
        for domain in ROUTED {
            let new = w.op_for(domain, &format!("order-{}", rng.next_u64() % 5))?;
            w.take_in(&new).await?;
            ops.push(new.op_id);
        }
        for _ in 0..30 {
            let op = ops[rng.next_u64() as usize % ops.len()];
            step(&w, op, rng.next_u64()).await?;
        }
        w.advance(secs(rng.next_u64() % 40)).await;
        if round == 20 {
            w = w.crash().await?;
        }
    }
    counters_equal_rows(&w).await?;
    let age = secs(200);
    w.recovery
        .prune(&Prune {
            completed: age,
            failed: age,
            keys: age,
            max: 50,
            reckoned: None,
            jump_max: std::time::Duration::MAX,
        })
        .await?;
    counters_equal_rows(&w).await
}

async fn counters_equal_the_rows_after_a_concurrent_workload(w: World) -> Verdict {
    let mut new: Vec<NewOperation> = Vec::new();
    for domain in ROUTED {
        for _ in 0..10 {
            new.push(w.op_for(domain, "order-1")?);
        }
    }
    w.accept_all(&new).await?;
    let ops: Vec<OpId> = new.iter().map(|new| new.op_id).collect();
    together(8, |number| {
        let (w, ops) = (w.clone(), ops.clone());
        async move {
            let mut rng = SplitMix::new(number as u64);
            for _ in 0..150 {
                let op = ops[rng.next_u64() as usize % ops.len()];
                step(&w, op, rng.next_u64()).await?;
                tokio::task::yield_now().await;
            }
            Ok(())
        }
    })
    .await?;
    counters_equal_rows(&w).await
}

async fn tells_the_age_of_the_oldest_due_row(w: World) -> Verdict {
    let oldest = async |w: &World| -> Verdict<Option<Duration>> {
        Ok(w.domain(NATURAL).await?.and_then(|view| view.oldest_due))
    };
    let later = w.now().await? + LONG;
    let new = NewOperation {
        options: run_at(later),
        ..w.op(NATURAL)?
    };
    w.take_in(&new).await?;
    ensure_eq!(oldest(&w).await?, None, "nothing is due");
    let first = w.pending(NATURAL).await?;
    w.advance(secs(50)).await;
    w.pending(NATURAL).await?;
    w.advance(secs(50)).await;
    let age = oldest(&w).await?;
    ensure!(
        age >= Some(secs(100)) && age <= Some(secs(130)),
        "the oldest is {age:?} old"
    );
    let attempt = w.begun(first).await?;
    let age = oldest(&w).await?;
    ensure!(
        age >= Some(secs(50)) && age <= Some(secs(80)),
        "the next oldest is {age:?} old"
    );
    w.settle_ok(&attempt).await??;
    ensure_eq!(
        w.row(first).await?.state.status,
        Status::Completed,
        "the end"
    );
    Ok(())
}

async fn the_oldest_due_row_may_have_been_announced(w: World) -> Verdict {
    w.pending(NATURAL).await?;
    let claimed = w.claim(9).await?;
    w.outbox.published(&claimed).await?;
    w.advance(secs(100)).await;
    let age = w.domain(NATURAL).await?.and_then(|view| view.oldest_due);
    ensure!(
        age >= Some(secs(100)) && age <= Some(secs(130)),
        "announced and not begun for 100 s: {age:?}"
    );
    Ok(())
}

async fn tells_the_age_of_the_oldest_due_row_of_each_event_type(w: World) -> Verdict {
    let of_type = |name: &str| -> Verdict<NewOperation> {
        let mut new = w.op(NATURAL)?;
        new.keys.event_type = EventType::new(name)?;
        Ok(new)
    };
    w.take_in(&of_type("first")?).await?;
    w.take_in(&of_type("announced")?).await?;
    let claimed = w.claim(9).await?;
    let is_announced = |claimed: &Claimed| claimed.hint.event_type.as_str() == "announced";
    let (announced, others): (Vec<_>, Vec<_>) = claimed.into_iter().partition(is_announced);
    w.outbox.published(&announced).await?;
    w.outbox.release(&others).await?;
    w.advance(secs(50)).await;
    let mut urgent = of_type("second")?;
    urgent.options.priority = Priority::new(5)?;
    w.take_in(&urgent).await?;
    w.take_in(&of_type("first")?).await?;
    w.advance(secs(50)).await;
    let view = w.domain(NATURAL).await?;
    let ages = view.map(|view| view.oldest_due_by_type).unwrap_or_default();
    let names: Vec<_> = ages.keys().map(EventType::as_str).collect();
    ensure_eq!(names, ["announced", "first", "second"], "the event types");
    for (event_type, age) in ages {
        let least = match event_type.as_str() {
            "second" => secs(50),
            _ => secs(100),
        };
        ensure!(
            age >= least && age <= least + secs(30),
            "{event_type} is {age:?} old"
        );
    }
    Ok(())
}

async fn a_run_at_in_the_past_makes_no_row_old(w: World) -> Verdict {
    let first = w.pending(NATURAL).await?;
    w.advance(secs(10)).await;
    let long_ago = Timestamp::from_millis(1);
    let new = NewOperation {
        options: run_at(long_ago),
        ..w.op(NATURAL)?
    };
    w.take_in(&new).await?;
    let age = w.domain(NATURAL).await?.and_then(|view| view.oldest_due);
    let is_right = age >= Some(secs(10)) && age <= Some(secs(40));
    ensure!(is_right, "the oldest is {age:?} old");
    let order: Vec<_> = w.claim(9).await?.iter().map(Claimed::op_id).collect();
    ensure_eq!(order, [first, new.op_id], "the order of service");
    let run_at = w.row(new.op_id).await?.options.run_at;
    ensure_eq!(run_at, Some(long_ago), "what was asked for");
    Ok(())
}
