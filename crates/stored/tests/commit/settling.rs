//! Settling, what follows from it, and answers that come too late.

use super::*;

#[test]
fn settling_ends_the_row_and_accepts_what_it_spawned() {
    let answer = yes(1, Some(1), vec![new("pay", 3)]);
    let plan = plan(&[Write::Settle(answer)], having([live(1)]));
    let [parent, child] = &plan.rows[..] else {
        panic!("parent and child")
    };
    assert_eq!(parent.row.state.status, Status::Completed);
    assert_eq!(events(parent), ["Ok", "Finalize"]);
    assert_eq!(parent.spawn, SpawnWrite::Leave, "it was never stored");
    assert_eq!(parent.row.finished_at, Some(now()));
    assert_eq!(child.row.op_id, op(3));
    assert!(child.before.is_none());
    assert_eq!(plan.settled, [op(1)]);
    assert_eq!(plan.counts[0].1, [1, -1, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn what_a_recorded_answer_spawns_is_stored_until_it_is_final() {
    let answer = yes(1, Some(1), vec![new("pay", 3)]);
    let mut ahead = plan(&[Write::WriteAhead(answer)], having([live(1)]));
    let recorded = ahead.rows.remove(0);
    assert!(matches!(&recorded.spawn, SpawnWrite::Store(spawn) if spawn.len() == 1));
    assert_eq!(recorded.awaits, Awaits::Recovery(Scan::Unfinalized, now()));
    let mut seen = having([recorded.row]);
    seen.spawned(op(1), vec![new("pay", 3)]);
    let finalized = plan(&[Write::Finalize(op(1))], seen);
    assert_eq!(finalized.rows[0].spawn, SpawnWrite::Delete);
    assert_eq!(finalized.rows[1].row.op_id, op(3));
}

#[test]
fn a_spawned_operation_with_known_keys_is_a_line_of_its_parent() {
    let child = new("pay", 3);
    let mut seen = having([live(1)]);
    let key = KnownKey {
        known: Known {
            op_id: op(8),
            status: Status::Pending,
            pruned: false,
        },
        fingerprint: new("pay", 4).fingerprints.first().copied(),
    };
    seen.key(child.keys.hash(), key);
    let plan = plan(&[Write::Settle(yes(1, Some(1), vec![child]))], seen);
    assert_eq!(plan.rows.len(), 1);
    assert_eq!(events(&plan.rows[0]), ["Ok", "Finalize", "Spawn"]);
}

#[test]
fn a_failure_keeps_a_dead_letter() {
    let plan = plan(&[Write::Settle(no(1, 1))], having([live(1)]));
    assert!(plan.rows[0].dead_letter);
    assert_eq!(plan.rows[0].row.state.status, Status::Failed);
}

#[test]
fn a_stale_answer_is_a_line_and_nothing_else() {
    let plan = plan(&[Write::Settle(no(1, 9))], having([live(1)]));
    let write = &plan.rows[0];
    assert_eq!(write.extent, Extent::Ledger);
    assert!(write.lines[0].refused.is_some());
    assert!(plan.counts.is_empty() && plan.settled.is_empty());
}

#[test]
fn a_late_yes_completes_the_operation_that_redrives_a_failed_one() {
    let mut failed = plan(&[Write::Settle(no(1, 1))], having([live(1)]));
    let mut failed = failed.rows.remove(0).row;
    failed.redriven_by = Some(op(2));
    let seen = having([failed, stored(new("pay", 2))]);
    let plan = plan(&[Write::WriteAhead(yes(1, Some(1), Vec::new()))], seen);
    let [late, told] = &plan.rows[..] else {
        panic!("both")
    };
    assert!(late.late_ok && late.extent == Extent::Ledger);
    assert!(late.lines[0].late.is_some());
    assert_eq!(told.row.state.status, Status::Completed);
    assert_eq!(plan.settled, [op(2)]);
}
