//! Every change of a row is what the protocol says: the suite computes it independently.

use std::collections::BTreeSet;

use clinch_core::policy::SplitMix;
use clinch_core::ports::{
    Answer, AnswerBody, Changed, Extension, Operation, Refused, Reschedule, Scan,
};
use clinch_core::protocol::{Begin, Due, Event, LaneStand, Phase, ProbeAnswer, Resolution, Why};
use clinch_core::{Applied, AttemptId, Effect, OpId, Retry, Status, Timestamp};

use uuid::Uuid;

use crate::calls::Calls;
use crate::case::{Case, Failure, Verdict};
use crate::chance::event;
use crate::compare::{same_answer, unchanged};
use crate::fixtures::{
    DEADLINE, LEASE, LONG, NATURAL, ROUTED, UNSAFE, claim, no, secs, worker, yes,
};
use crate::world::{World, ids, only};

pub(super) const CASES: &[Case] = area!(
    "amend",
    Store {
        random_events_change_rows_as_the_protocol_says: ["CORE-5", "CORE-7", "CORE-13"],
        random_events_move_queue_rows_with_their_rows: ["CORE-9"],
        nothing_changes_a_terminal_row: ["CORE-5", "CORE-13"],
        version_counts_every_change: ["CORE-12", "RUN-7"],
        begin_is_refused: [],
        items_of_one_call_see_each_other: [],
        a_result_comes_with_a_yes_only: [],
        routes_are_read_at_the_moment_of_the_change: [],
    }
);

/// Makes the store apply the event: by the kind of write for it if there is one, otherwise by
/// amend.
async fn send(
    w: &World,
    op_id: OpId,
    event: &Event,
    by_amend: bool,
) -> Verdict<Result<Changed, Refused>> {
    let (routes, worker) = (&w.routes, worker(0)?);
    let answer = |fence, body| Answer {
        op_id,
        fence,
        worker: worker.clone(),
        body,
        attempt_id: None,
    };
    let ended = |fence, after, reason: &str, applied| Reschedule {
        op_id,
        fence,
        worker: worker.clone(),
        retry: Retry {
            reason: reason.into(),
            after,
            pauses: false,
            applied,
            own: false,
        },
        attempt_id: None,
    };
    let answers = match event.clone() {
        Event::Extend { fence, lease } if !by_amend => {
            w.store
                .extend(&[Extension {
                    op_id,
                    fence,
                    lease,
                    attempt_id: None,
                }])
                .await?
        }
        Event::Ok { fence } if !by_amend => {
            w.store
                .write_ahead(&[answer(fence, AnswerBody::Ok(yes("t")))], routes)
                .await?
        }
        Event::Fail { fence, fail } if !by_amend => {
            let answer = answer(Some(fence), AnswerBody::Fail(fail));
            w.store.write_ahead(&[answer], routes).await?
        }
        Event::Finalize if !by_amend => w.store.finalize(&[op_id], routes).await?,
        Event::NotCalled {
            fence,
            after,
            reason,
        } if !by_amend => {
            let ended = ended(fence, after, &reason, Applied::NotCalled);
            w.store.reschedule(&[ended], routes).await?
        }
        Event::Retry {
            fence,
            after,
            effect,
            reason,
        } if !by_amend => {
            let ended = ended(fence, after, &reason, applied(effect));
            w.store.reschedule(&[ended], routes).await?
        }
        event => return w.amend(op_id, event).await,
    };
    only(answers)
}

fn applied(effect: Effect) -> Applied {
    match effect {
        Effect::None => Applied::No,
        Effect::Unknown => Applied::Unknown,
    }
}

/// One event on one row, compared with the protocol.
async fn step(w: &World, op: OpId, rng: &mut SplitMix) -> Verdict {
    let row = w.row(op).await?;
    let rules = w.routes.rules(&row.keys.domain, &row.keys.event_type);
    let before = w.now().await?;
    let event = event(&row, before, rng);
    let (answer, after) = match &event {
        Event::Begin(begin) => {
            let mut request = w.ids.begin(op, 0)?;
            request.attempt_id = begin.attempt_id;
            let begun = only(w.store.begin(&[request], &w.routes).await?)?;
            let after = w.now().await?;
            let row_after = w.row(op).await?;
            let changed = |effects| Changed {
                state: row_after.state,
                effects,
                batch_completed: None,
                result: row_after.result,
                finished_at: row_after.finished_at,
            };
            let effects = row
                .state
                .apply(&event, after, rules)
                .map(|(_, effects)| effects);
            let answer = match begun {
                Ok(_) | Err(Refused::Withheld(_)) => Ok(changed(effects.unwrap_or_default())),
                Err(refused) => Err(refused),
            };
            (answer, after)
        }
        _ => {
            let by_amend = rng.next_u64().is_multiple_of(2);
            let answer = send(w, op, &event, by_amend).await?;
            (answer, w.now().await?)
        }
    };
    let early = row.state.apply(&event, before, rules);
    let late = row.state.apply(&event, after, rules);
    let told = |failure: Failure| Failure::new(format!("{event:?} on {:?}: {failure}", row.state));
    same_answer(&answer, &early, &late)
        .or_else(|_| same_answer(&answer, &late, &late))
        .map_err(told)?;
    let now = w.row(op).await?;
    match answer {
        Ok(changed) if changed.state.version > row.state.version => {
            ensure_eq!(now.state, changed.state, "the stored state after {event:?}");
            now.state.check().map_err(Failure::new)
        }
        Ok(_) => {
            let mut marked = row.clone();
            marked.state.late_ok = true;
            unchanged(&marked, &now).map_err(told)
        }
        Err(_) => unchanged(&row, &now).map_err(told),
    }
}

/// Rows of every route, after random events at random times.
async fn workload(w: &World, seed: u64, steps: usize) -> Verdict<Vec<OpId>> {
    let mut rng = SplitMix::new(seed);
    let mut ops = Vec::new();
    for domain in ROUTED {
        for _ in 0..3 {
            ops.push(w.pending(domain).await?);
        }
    }
    for _ in 0..steps {
        for op in &mut ops {
            step(w, *op, &mut rng).await?;
            let row = w.row(*op).await?;
            // A terminal row is used a little longer, and is then replaced.
            if row.state.is_terminal() && rng.next_u64().is_multiple_of(3) {
                *op = w.pending(row.keys.domain.as_str()).await?;
            }
        }
        let pauses = [0, 0, 3, 3, 35, 35, 120, 600, 4_000, 30_000];
        w.advance(secs(pauses[(rng.next_u64() % 10) as usize]))
            .await;
    }
    Ok(ops)
}

async fn random_events_change_rows_as_the_protocol_says(w: World) -> Verdict {
    for seed in 1..=3 {
        workload(&w, seed, 50).await?;
        w.advance(DEADLINE).await;
    }
    Ok(())
}

/// Where a queue row must be found now.
fn found_by(row: &Operation, now: Timestamp) -> Option<Option<Scan>> {
    let overdue = row.state.is_overdue(now);
    match row.state.due() {
        Due::Finalize => Some(Some(Scan::Unfinalized)),
        Due::Reap(at) => (at <= now).then_some(Some(Scan::LeaseEnded)),
        Due::Probe(at) => at.filter(|at| *at <= now).map(|_| Some(Scan::ProbeDue)),
        Due::Begin(_) if overdue => Some(Some(Scan::Overdue)),
        Due::Begin(at) => (at <= now).then_some(None),
        Due::Never => None,
    }
}

async fn random_events_move_queue_rows_with_their_rows(w: World) -> Verdict {
    for (seed, steps) in [(11, 4), (12, 8), (13, 15), (14, 25), (15, 2)] {
        let ops = workload(&w, seed, steps).await?;
        let now = w.now().await?;
        let all = claim(5, 10_000)?;
        let rows: Vec<Operation> = w.inspect.get(&ops).await?.into_iter().flatten().collect();
        let expected = |scan: Option<Scan>| -> BTreeSet<OpId> {
            let here = |row: &&Operation| found_by(row, now) == Some(scan);
            rows.iter().filter(here).map(|row| row.op_id).collect()
        };
        let ours = |found: Vec<OpId>| -> BTreeSet<OpId> {
            found.into_iter().filter(|op| ops.contains(op)).collect()
        };
        for scan in [
            Scan::Unfinalized,
            Scan::LeaseEnded,
            Scan::ProbeDue,
            Scan::Overdue,
        ] {
            let found = ours(ids(&w.recovery.scan(scan, &all).await?));
            ensure_eq!(found, expected(Some(scan)), "seed {seed}: rows of {scan:?}");
        }
        let due = ours(ids(&w.outbox.claim(&all).await?));
        let overdue = expected(Some(Scan::Overdue));
        let due: BTreeSet<OpId> = due.difference(&overdue).copied().collect();
        ensure_eq!(due, expected(None), "seed {seed}: rows due for a begin");
        w.advance(LONG).await;
    }
    Ok(())
}

async fn nothing_changes_a_terminal_row(w: World) -> Verdict {
    let mut rng = SplitMix::new(99);
    let mut ends = vec![w.completed(NATURAL).await?, w.failed(UNSAFE).await?];
    let canceled = w.pending(NATURAL).await?;
    w.cancel(canceled).await?;
    ends.push(w.row(canceled).await?);
    for mut before in ends {
        ensure!(before.state.is_terminal(), "the row is not terminal");
        for _ in 0..200 {
            let event = event(&before, w.now().await?, &mut rng);
            if let Event::Begin(_) = event {
                w.begin(before.op_id).await?.err();
            } else {
                let is_yes = matches!(
                    event,
                    Event::Ok { .. }
                        | Event::Probed {
                            answer: ProbeAnswer::Succeeded,
                            ..
                        }
                );
                let by_amend = rng.next_u64().is_multiple_of(2);
                let answer = send(&w, before.op_id, &event, by_amend).await?;
                let alerted = answer.is_ok();
                let expected = is_yes && before.state.status == Status::Failed;
                ensure_eq!(alerted, expected, "{event:?} was taken");
                before.state.late_ok |= alerted;
            }
            w.advance(secs(rng.next_u64() % 50)).await;
            unchanged(&before, &w.row(before.op_id).await?)?;
        }
    }
    Ok(())
}

async fn version_counts_every_change(w: World) -> Verdict {
    let op = w.pending(UNSAFE).await?;
    ensure_eq!(w.row(op).await?.state.version, 1, "accepted");
    let attempt = w.begun(op).await?;
    ensure_eq!(attempt.state.version, 2, "begun");
    let extension = Extension {
        op_id: op,
        fence: 1,
        lease: LEASE,
        attempt_id: None,
    };
    let version = only(w.store.extend(&[extension]).await?)??.state.version;
    ensure_eq!(version, 3, "extended");
    let checkpoint = w.amend(op, Event::Checkpoint { fence: 1 }).await??;
    ensure_eq!(checkpoint.state.version, 4, "checkpoint");
    let retried = w.retry(&attempt, Retry::unknown("timeout")).await??;
    ensure_eq!(retried.state.version, 5, "held");
    w.retry(&attempt, Retry::unknown("timeout")).await?.err();
    w.begin(op).await?.err();
    w.finalize(op).await?.err();
    ensure_eq!(w.row(op).await?.state.version, 5, "refusals count nothing");
    let resolved = w.amend(op, Event::Resolve(Resolution::Retry)).await??;
    ensure_eq!(resolved.state.version, 6, "resolved");
    let attempt = w.begun(op).await?;
    ensure_eq!(
        w.record_ok(&attempt).await?.state.version,
        8,
        "begun and recorded"
    );
    ensure_eq!(w.cancel(op).await?.state.version, 9, "cancel noted");
    ensure_eq!(w.finalize(op).await??.state.version, 10, "final");
    let w = w.crash().await?;
    ensure_eq!(w.row(op).await?.state.version, 10, "after a crash");
    Ok(())
}

async fn begin_is_refused(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    let before = w.row(op).await?;
    let begin = Event::Begin(Begin {
        attempt_id: AttemptId(Uuid::from_u128(1)),
        lease: LEASE,
        paused: false,
        lane: LaneStand::Unordered,
        intact: true,
    });
    ensure!(
        w.amend(op, begin).await?.is_err(),
        "a begin without an envelope"
    );
    unchanged(&before, &w.row(op).await?)
}

async fn items_of_one_call_see_each_other(w: World) -> Verdict {
    let attempt = w.live(UNSAFE).await?;
    let op = attempt.op_id;
    let reason = "x".to_owned();
    let (after, effect) = (None, Effect::Unknown);
    let events = [
        Event::Extend {
            fence: 1,
            lease: LONG,
        },
        Event::Retry {
            fence: 1,
            after,
            effect,
            reason,
        },
        Event::Extend {
            fence: 1,
            lease: LONG,
        },
        Event::Resolve(Resolution::Completed),
        Event::Cancel,
    ];
    let amendments: Result<Vec<_>, _> = events
        .into_iter()
        .map(|event| w.amendment(op, event))
        .collect();
    let answers = w.store.amend(&amendments?, &w.routes).await?;
    let whys: Vec<Option<Why>> = answers
        .iter()
        .map(|answer| match answer {
            Err(Refused::Illegal(refused)) => Some(refused.why),
            _ => None,
        })
        .collect();
    let expected = [None, None, Some(Why::StaleFence), None, Some(Why::Terminal)];
    ensure_eq!(whys, expected, "why each was refused");
    ensure_eq!(
        w.row(op).await?.state.version,
        attempt.state.version + 3,
        "the version"
    );
    Ok(())
}

async fn a_result_comes_with_a_yes_only(w: World) -> Verdict {
    let held = w.held(UNSAFE).await?;
    let mut cancel = w.amendment(held.op_id, Event::Cancel)?;
    cancel.ok = Some(yes("stray"));
    w.amend_with(cancel).await??;
    ensure_eq!(
        w.row(held.op_id).await?.result,
        None,
        "a result that came with a cancel"
    );
    let failed = Resolution::Failed {
        fail: no(),
        effect: None,
    };
    let mut resolve = w.amendment(held.op_id, Event::Resolve(failed))?;
    resolve.ok = Some(yes("stray"));
    w.amend_with(resolve).await??;
    let row = w.row(held.op_id).await?;
    ensure_eq!(
        (row.state.status, row.result),
        (Status::Failed, None),
        "a failure's result"
    );
    Ok(())
}

async fn routes_are_read_at_the_moment_of_the_change(w: World) -> Verdict {
    let (one, two) = (w.live(NATURAL).await?, w.live(NATURAL).await?);
    w.retry(&one, Retry::unknown("timeout")).await??;
    ensure_eq!(
        w.row(one.op_id).await?.state.phase,
        Some(Phase::Waiting),
        "as declared"
    );
    let w = w.under(NATURAL, |rules| {
        rules.safety = clinch_core::policy::Safety::Unsafe
    })?;
    w.retry(&two, Retry::unknown("timeout")).await??;
    ensure_eq!(
        w.row(two.op_id).await?.state.phase,
        Some(Phase::Held),
        "as edited"
    );
    Ok(())
}
