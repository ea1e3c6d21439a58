//! Batches: who may join, and when they complete.

use super::*;

fn batch(sealed: bool, total: u64) -> BatchRow {
    let new_batch = NewBatch {
        batch_id: BatchId(Uuid::from_u128(9)),
        on_complete: Some(new("pay", 99)),
        owner: Restriction::default(),
    };
    let mut row = BatchRow::open(&new_batch).expect("json");
    row.batch = Batch {
        sealed,
        total,
        ..row.batch
    };
    row
}

#[test]
fn a_batch_counts_its_members_and_completes_once() {
    let member = |number| {
        let mut row = live(number);
        row.batch_id = Some(BatchId(Uuid::from_u128(9)));
        row
    };
    let mut seen = having([member(1), member(2)]);
    seen.batch(batch(true, 2));
    let writes = [
        Write::Settle(yes(1, Some(1), Vec::new())),
        Write::Settle(no(2, 1)),
    ];
    let plan = plan(&writes, seen.clone());
    let [write] = &plan.batches[..] else {
        panic!("one batch")
    };
    assert!(write.completes);
    assert_eq!((write.batch.completed, write.batch.failed), (1, 1));
    assert_eq!(write.batch.completed_at, Some(now()));
    assert_eq!(plan.new_rows().count(), 1, "its completion event");
    let completed = |written: &Written| match written {
        Written::Changed(changed) => changed.batch_completed.is_some(),
        _ => false,
    };
    let told: Vec<bool> = answers(&writes, seen).iter().map(completed).collect();
    assert_eq!(told, [false, true]);
}

#[test]
fn a_sealed_batch_is_closed_to_callers_and_open_to_what_members_spawn() {
    let mut outside = new("pay", 3);
    outside.batch_id = Some(BatchId(Uuid::from_u128(9)));
    let mut seen = Seen::default();
    seen.batch(batch(true, 5));
    let closed = answers(&[Write::Accept(outside)], seen);
    assert_eq!(closed, [Written::Accepted(Accepted::BatchClosed)]);

    let mut parent = live(1);
    parent.batch_id = Some(BatchId(Uuid::from_u128(9)));
    let mut seen = having([parent]);
    seen.batch(batch(true, 5));
    let spawned = yes(1, Some(1), vec![new("pay", 3)]);
    let plan = plan(&[Write::Settle(spawned)], seen);
    assert_eq!(plan.batches[0].batch.total, 6);
}

#[test]
fn sealing_completes_a_batch_whose_members_have_ended() {
    let batch_id = BatchId(Uuid::from_u128(9));
    let writes = [Write::Seal(batch_id), Write::Seal(batch_id)];
    let mut seen = Seen::default();
    seen.batch(batch(false, 0));
    let expected = [true, false].map(|completed| Written::Sealed { completed });
    assert_eq!(answers(&writes, seen), expected);
    let unknown = answers(&writes[..1], Seen::default());
    assert_eq!(unknown, [Written::Sealed { completed: false }]);
}
