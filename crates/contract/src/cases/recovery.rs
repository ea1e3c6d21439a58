//! Scans: rows that need recovery are found by age, and by one claimer at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use clinch_core::ports::{Extension, NewOperation, Operation, Scan};
use clinch_core::protocol::{Event, Phase, ProbeAnswer};
use clinch_core::{OpId, Retry};

use crate::calls::Calls;
use crate::case::{Case, Verdict};
use crate::concurrent::together;
use crate::fixtures::{
    CLAIM, DEADLINE, LANE, LEASE, LONG, NATURAL, PROBED, UNSAFE, claim, deadline, secs,
};
use crate::world::{World, ids, only};

pub(super) const CASES: &[Case] = area!(
    "recovery",
    Store {
        unfinalized_finds_recorded_outcomes_at_once: ["RUN-5"],
        lease_ended_finds_live_rows_past_their_lease: ["RUN-6"],
        lease_ended_goes_by_the_extended_lease: ["RUN-6", "RUN-7"],
        probe_due_finds_held_rows_whose_probe_is_due: ["RUN-6"],
        probe_due_passes_over_rows_that_wait_for_a_person: ["RUN-6"],
        overdue_finds_rows_past_their_deadline: [],
        overdue_finds_paused_rows_and_followers: [],
        scans_find_their_own_kind_only: ["RUN-9"],
        pause_does_not_stop_recovery: ["RUN-9"],
        oldest_first: ["RUN-5", "RUN-6"],
        never_more_than_the_maximum: ["RUN-5"],
        a_claimed_row_tells_version_fence_and_age: ["RUN-5"],
        never_the_same_row_to_two_claimers: ["RUN-5", "RUN-6"],
        a_claim_that_ran_out_is_claimable_again: ["RUN-5", "OUT-4"],
        a_change_ends_the_claim: ["RUN-6"],
        next_due_tells_when_a_scan_finds_a_row: ["COL-13"],
        next_due_is_none_when_nothing_waits: ["COL-13"],
        next_due_waits_for_a_claim_to_run_out: ["OUT-4"],
        a_scan_survives_a_crash: ["RUN-5", "RUN-6"],
        a_thousand_recorded_outcomes_are_found_in_batches: ["RUN-5", "RUN-8"],
    }
);

const SCANS: [Scan; 4] = [
    Scan::Unfinalized,
    Scan::LeaseEnded,
    Scan::ProbeDue,
    Scan::Overdue,
];

/// Brings a new row into the state that `scan` finds, now or later.
async fn needing(w: &World, scan: Scan) -> Verdict<OpId> {
    match scan {
        Scan::Unfinalized => {
            let attempt = w.live(NATURAL).await?;
            w.record_ok(&attempt).await?;
            Ok(attempt.op_id)
        }
        Scan::LeaseEnded => Ok(w.live(NATURAL).await?.op_id),
        Scan::ProbeDue => Ok(w.held(PROBED).await?.op_id),
        Scan::Overdue => {
            let soon = w.now().await? + secs(40);
            let new = NewOperation {
                options: deadline(soon),
                ..w.op(NATURAL)?
            };
            w.take_in(&new).await?;
            Ok(new.op_id)
        }
    }
}

async fn unfinalized_finds_recorded_outcomes_at_once(w: World) -> Verdict {
    let (yes, no) = (w.live(NATURAL).await?, w.live(UNSAFE).await?);
    w.live(NATURAL).await?;
    w.record_ok(&yes).await?;
    w.record_fail(&no).await?;
    ensure_eq!(
        w.scan(Scan::Unfinalized).await?,
        [yes.op_id, no.op_id],
        "recorded outcomes"
    );
    w.finalize(yes.op_id).await??;
    w.finalize(no.op_id).await??;
    w.advance(LONG).await;
    ensure_eq!(w.scan(Scan::Unfinalized).await?, [], "when they are final");
    Ok(())
}

async fn lease_ended_finds_live_rows_past_their_lease(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let recorded = w.live(NATURAL).await?;
    w.record_ok(&recorded).await?;
    ensure_eq!(w.scan(Scan::LeaseEnded).await?, [], "at once");
    w.advance(LEASE - secs(5)).await;
    ensure_eq!(w.scan(Scan::LeaseEnded).await?, [], "within the lease");
    w.advance(secs(6)).await;
    ensure_eq!(
        w.scan(Scan::LeaseEnded).await?,
        [attempt.op_id],
        "after the lease"
    );
    Ok(())
}

async fn lease_ended_goes_by_the_extended_lease(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.advance(secs(20)).await;
    let extension = Extension {
        op_id: attempt.op_id,
        fence: 1,
        lease: LEASE,
        attempt_id: None,
    };
    only(w.store.extend(&[extension]).await?)??;
    w.advance(secs(20)).await;
    ensure_eq!(
        w.scan(Scan::LeaseEnded).await?,
        [],
        "within the extended lease"
    );
    w.advance(secs(11)).await;
    ensure_eq!(w.scan(Scan::LeaseEnded).await?, [attempt.op_id], "after it");
    Ok(())
}

async fn inconclusive(w: &World, held: &Operation) -> Verdict {
    let event = Event::Probed {
        fence: held.state.fence,
        asked_at: w.now().await?,
        answer: ProbeAnswer::Unknown,
    };
    w.amend(held.op_id, event).await??;
    Ok(())
}

async fn probe_due_finds_held_rows_whose_probe_is_due(w: World) -> Verdict {
    let held = w.held(PROBED).await?;
    ensure_eq!(
        w.scan(Scan::ProbeDue).await?,
        [held.op_id],
        "probed at once"
    );
    inconclusive(&w, &held).await?;
    ensure_eq!(w.scan(Scan::ProbeDue).await?, [], "the next probe is later");
    let at = w
        .row(held.op_id)
        .await?
        .state
        .hold
        .and_then(|hold| hold.probe_at);
    let wait = at.map_or(Duration::ZERO, |at| at.since(held.accepted_at));
    w.advance(wait + secs(1)).await;
    ensure_eq!(
        w.scan(Scan::ProbeDue).await?,
        [held.op_id],
        "when its time has come"
    );
    Ok(())
}

async fn probe_due_passes_over_rows_that_wait_for_a_person(w: World) -> Verdict {
    let held = w.held(UNSAFE).await?;
    ensure_eq!(held.state.phase, Some(Phase::Held), "the phase");
    w.advance(LONG).await;
    ensure_eq!(w.scan(Scan::ProbeDue).await?, [], "nobody can be asked");
    // After the last probe without a verdict, only an operator can help.
    let probed = w.held(PROBED).await?;
    for _ in 0..3 {
        inconclusive(&w, &probed).await?;
    }
    w.advance(LONG).await;
    ensure_eq!(w.scan(Scan::ProbeDue).await?, [], "probing has ended");
    Ok(())
}

async fn overdue_finds_rows_past_their_deadline(w: World) -> Verdict {
    let pending = w.pending(NATURAL).await?;
    let waiting = w.waiting(NATURAL).await?.op_id;
    w.held(UNSAFE).await?;
    w.live(NATURAL).await?;
    w.advance(DEADLINE - secs(60)).await;
    ensure_eq!(w.scan(Scan::Overdue).await?, [], "before the deadline");
    w.advance(secs(61)).await;
    ensure_eq!(w.scan(Scan::Overdue).await?, [pending, waiting], "after it");
    w.amend(pending, Event::DeadlinePassed).await??;
    ensure!(
        w.row(pending).await?.state.is_terminal(),
        "the sweeper ends it"
    );
    Ok(())
}

async fn overdue_finds_paused_rows_and_followers(w: World) -> Verdict {
    w.pause(NATURAL, true).await?;
    let paused = w.pending(NATURAL).await?;
    let (head, follower) = (w.op_for(LANE, "order-1")?, w.op_for(LANE, "order-1")?);
    w.accept_all(&[head.clone(), follower.clone()]).await?;
    w.begun(head.op_id).await?;
    w.advance(DEADLINE + secs(5)).await;
    ensure_eq!(
        w.scan(Scan::Overdue).await?,
        [paused, follower.op_id],
        "overdue rows"
    );
    Ok(())
}

async fn scans_find_their_own_kind_only(w: World) -> Verdict {
    let mut ops = Vec::new();
    for scan in SCANS {
        ops.push(needing(&w, scan).await?);
    }
    w.advance(secs(50)).await;
    for (scan, op) in SCANS.into_iter().zip(ops) {
        ensure_eq!(w.scan(scan).await?, [op], "{scan:?}");
    }
    Ok(())
}

async fn pause_does_not_stop_recovery(w: World) -> Verdict {
    let mut ops = Vec::new();
    for scan in SCANS {
        ops.push(needing(&w, scan).await?);
    }
    w.pause(NATURAL, true).await?;
    w.pause(PROBED, true).await?;
    w.advance(secs(50)).await;
    for (scan, op) in SCANS.into_iter().zip(ops) {
        ensure_eq!(w.scan(scan).await?, [op], "{scan:?}");
    }
    Ok(())
}

async fn oldest_first(w: World) -> Verdict {
    for scan in SCANS {
        let mut ops = Vec::new();
        for _ in 0..4 {
            // Ids fall while ages fall: the order is by age, not by id.
            ops.push(needing(&w, scan).await?);
            w.advance(secs(3)).await;
        }
        w.advance(secs(60)).await;
        let mut got = Vec::new();
        for max in [1, 2, 9] {
            let claimed = w.recovery.scan(scan, &claim(2, max)?).await?;
            let ages: Vec<_> = claimed.iter().map(|claimed| claimed.since).collect();
            ensure!(ages.is_sorted(), "{scan:?}: ages {ages:?}");
            got.extend(ids(&claimed).into_iter().filter(|op| ops.contains(op)));
        }
        ensure_eq!(got, ops, "{scan:?}: the order");
        w.advance(CLAIM).await;
    }
    Ok(())
}

async fn never_more_than_the_maximum(w: World) -> Verdict {
    for scan in SCANS {
        for _ in 0..5 {
            needing(&w, scan).await?;
        }
    }
    w.advance(secs(50)).await;
    for scan in SCANS {
        let mut sizes = Vec::new();
        for max in [2, 1, 9] {
            sizes.push(w.recovery.scan(scan, &claim(2, max)?).await?.len());
        }
        ensure_eq!(sizes, [2, 1, 2], "{scan:?}: what five rows came in");
    }
    Ok(())
}

async fn a_claimed_row_tells_version_fence_and_age(w: World) -> Verdict {
    for scan in SCANS {
        let op = needing(&w, scan).await?;
        w.advance(secs(50)).await;
        let claimed = w.recovery.scan(scan, &claim(2, 9)?).await?;
        let claimed = only(
            claimed
                .into_iter()
                .filter(|row| row.op_id() == op)
                .collect(),
        )?;
        let row = w.row(op).await?;
        ensure_eq!(claimed.version, row.state.version, "{scan:?}: the version");
        ensure_eq!(claimed.fence, row.state.fence, "{scan:?}: the fence");
        let expected = match scan {
            Scan::Unfinalized => None,
            Scan::LeaseEnded => row.state.lease_until,
            Scan::ProbeDue => row.state.hold.and_then(|hold| hold.probe_at),
            Scan::Overdue => row.state.deadline,
        };
        let since = claimed.since;
        ensure_eq!(
            since,
            expected.unwrap_or(since),
            "{scan:?}: since when it needs it"
        );
        ensure!(since <= claimed.now, "{scan:?}: the need lies in the past");
    }
    Ok(())
}

async fn never_the_same_row_to_two_claimers(w: World) -> Verdict {
    const ROWS: usize = 60;
    for scan in SCANS {
        for _ in 0..ROWS {
            needing(&w, scan).await?;
        }
    }
    w.advance(secs(50)).await;
    for scan in SCANS {
        let claimed = together(16, |number| {
            let w = w.clone();
            async move {
                let mut mine = Vec::new();
                loop {
                    let claimed = w.recovery.scan(scan, &claim(number, 3)?).await?;
                    if claimed.is_empty() {
                        return Ok(mine);
                    }
                    mine.extend(ids(&claimed));
                    ensure!(
                        mine.len() <= ROWS,
                        "{scan:?}: one claimer got more than all"
                    );
                    tokio::task::yield_now().await;
                }
            }
        })
        .await?;
        let all = claimed.concat();
        ensure_eq!(all.len(), ROWS, "{scan:?}: claims");
        ensure_eq!(
            all.iter().collect::<BTreeSet<_>>().len(),
            ROWS,
            "{scan:?}: distinct rows"
        );
    }
    Ok(())
}

async fn a_claim_that_ran_out_is_claimable_again(w: World) -> Verdict {
    for scan in SCANS {
        let op = needing(&w, scan).await?;
        w.advance(secs(50)).await;
        ensure!(w.scan(scan).await?.contains(&op), "{scan:?}: found");
        ensure_eq!(w.scan(scan).await?, [], "{scan:?}: while it is claimed");
        w.advance(CLAIM + secs(1)).await;
        ensure!(
            w.scan(scan).await?.contains(&op),
            "{scan:?}: after its owner died"
        );
        w.advance(CLAIM + secs(1)).await;
    }
    Ok(())
}

async fn a_change_ends_the_claim(w: World) -> Verdict {
    let lost = w.live(PROBED).await?;
    w.advance(LEASE + secs(5)).await;
    ensure_eq!(
        w.scan(Scan::LeaseEnded).await?,
        [lost.op_id],
        "the Reaper claims it"
    );
    w.amend(lost.op_id, Event::AttemptLost).await??;
    ensure_eq!(
        w.scan(Scan::ProbeDue).await?,
        [lost.op_id],
        "the prober finds it at once"
    );
    // A late extension: the same need arises again within the first claim.
    let slow = w.live(NATURAL).await?;
    w.advance(LEASE + secs(5)).await;
    ensure_eq!(
        w.scan(Scan::LeaseEnded).await?,
        [slow.op_id],
        "the Reaper claims it"
    );
    let extension = Extension {
        op_id: slow.op_id,
        fence: 1,
        lease: secs(10),
        attempt_id: None,
    };
    only(w.store.extend(&[extension]).await?)??;
    w.advance(secs(11)).await;
    ensure_eq!(
        w.scan(Scan::LeaseEnded).await?,
        [slow.op_id],
        "and finds it again"
    );
    // Waits for a begin, after a claim of the outbox.
    let op = w.pending(NATURAL).await?;
    ensure_eq!(ids(&w.claim(9).await?), [op], "the relay claims it");
    let attempt = w.begun(op).await?;
    w.retry(&attempt, Retry::not_applied("busy").after(secs(1)))
        .await??;
    w.advance(secs(2)).await;
    ensure_eq!(ids(&w.claim(9).await?), [op], "and finds it again");
    Ok(())
}

async fn next_due_tells_when_a_scan_finds_a_row(w: World) -> Verdict {
    let plan = [
        (Scan::Unfinalized, 0),
        (Scan::LeaseEnded, 30),
        (Scan::ProbeDue, 0),
        (Scan::Overdue, 40),
    ];
    for (scan, after) in plan {
        needing(&w, scan).await?;
        let due = w.recovery.next_due(scan).await?;
        let (low, high) = (secs(after).saturating_sub(secs(20)), secs(after));
        ensure!(
            due.is_some_and(|due| low <= due && due <= high),
            "{scan:?} finds a row in {after} s, next_due says {due:?}"
        );
        w.advance(secs(after) + secs(1)).await;
        let due = w.recovery.next_due(scan).await?;
        ensure_eq!(
            due,
            Some(Duration::ZERO),
            "{scan:?}: when its time has come"
        );
    }
    Ok(())
}

async fn next_due_is_none_when_nothing_waits(w: World) -> Verdict {
    w.completed(NATURAL).await?;
    w.held(UNSAFE).await?;
    for scan in SCANS {
        ensure_eq!(w.recovery.next_due(scan).await?, None, "{scan:?}");
    }
    Ok(())
}

async fn next_due_waits_for_a_claim_to_run_out(w: World) -> Verdict {
    for scan in SCANS {
        needing(&w, scan).await?;
        w.advance(secs(50)).await;
        w.scan(scan).await?;
        let due = w.recovery.next_due(scan).await?;
        ensure!(
            due > Some(Duration::ZERO) && due <= Some(CLAIM),
            "{scan:?}: every row is claimed, next_due says {due:?}"
        );
    }
    Ok(())
}

async fn a_scan_survives_a_crash(w: World) -> Verdict {
    let mut ops = Vec::new();
    for scan in SCANS {
        ops.push(needing(&w, scan).await?);
    }
    let w = w.crash().await?;
    w.advance(secs(50)).await;
    for (scan, op) in SCANS.into_iter().zip(ops) {
        ensure_eq!(w.scan(scan).await?, [op], "{scan:?}");
    }
    Ok(())
}

async fn a_thousand_recorded_outcomes_are_found_in_batches(w: World) -> Verdict {
    let mut new = Vec::new();
    for _ in 0..1_000 {
        let mut op = w.op(NATURAL)?;
        op.begin = Some(w.ids.begin(op.op_id, 0)?);
        new.push(op);
    }
    w.accept_all(&new).await?;
    let answer = |new: &NewOperation| crate::fixtures::ok_answer(new.op_id, Some(1), "txn");
    let answers: Result<Vec<_>, _> = new.iter().map(answer).collect();
    w.store.write_ahead(&answers?, &w.routes).await?;
    let mut rounds = 0;
    loop {
        let claimed = w.recovery.scan(Scan::Unfinalized, &claim(2, 100)?).await?;
        if claimed.is_empty() {
            break;
        }
        w.store.finalize(&ids(&claimed), &w.routes).await?;
        rounds += 1;
        ensure!(rounds <= 10, "more rounds than there are rows for");
    }
    ensure_eq!(rounds, 10, "rounds of 100");
    ensure_eq!(w.counts(NATURAL).await?.completed, 1_000, "COMPLETED");
    Ok(())
}
