//! Commits of several kinds of writes, and the rows that a refused accept must not leave behind
//! (CORE-9, CORE-11).

use clinch_contract::Calls;
use clinch_core::policy::{EventTypes, Order, Routes, Rules};
use clinch_core::ports::{
    Accepted, Amendment, Inspect, Known, NewOperation, Store, Write, Written,
};
use clinch_core::protocol::Event;
use clinch_core::{BatchId, IdemKey, OpId, Status};
use mysql_async::prelude::Queryable;

use crate::common::{self, Database, keys, on_a_runtime, operation_of, payload, worker};

fn ordered() -> Routes {
    let rules = Rules {
        order: Order::Key,
        ..Rules::default()
    };
    Routes::new().with(keys("ordered", 1).domain, EventTypes::Any, rules)
}

/// An operation of the only lane in these tests.
fn of_lane(idem: &str) -> NewOperation {
    let mut keys = keys("ordered", 1);
    keys.idem_key = IdemKey::new(idem).expect("valid");
    operation_of(keys, &payload("1"))
}

fn cancel(op_id: OpId) -> Write {
    Write::Amend(Amendment {
        op_id,
        event: Event::Cancel,
        ok: None,
        checkpoint: None,
        by: worker("person"),
        reason: "enough".into(),
        attempt_id: None,
    })
}

/// Rows of keys, lanes and members.
async fn rows(database: &Database) -> (u64, u64, u64) {
    let sql = "SELECT (SELECT COUNT(*) FROM clinch_key), (SELECT COUNT(*) FROM clinch_lane), \
               (SELECT COUNT(*) FROM clinch_lane_member)";
    let mut conn = database.conn().await;
    let row = conn.query_first(sql).await.expect("reads");
    row.expect("a row")
}

fn core_11_a_refused_accept_leaves_no_key_and_no_lane() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        let first = of_lane("first");
        let accepted = store.accept(std::slice::from_ref(&first), &ordered()).await;
        assert!(matches!(
            accepted.expect("answers")[..],
            [Accepted::New { .. }]
        ));
        assert_eq!(rows(&database).await, (1, 1, 1));
        let ended = store.commit(&[cancel(first.op_id)], &ordered()).await;
        assert!(matches!(ended.expect("answers")[..], [Written::Changed(_)]));
        assert_eq!(rows(&database).await, (1, 0, 0), "the lane is gone");
        let again = store.accept(&[of_lane("first")], &ordered()).await;
        assert!(matches!(again.expect("answers")[..], [Accepted::Known(_)]));
        assert_eq!(rows(&database).await, (1, 0, 0), "known");
        let mut refused = of_lane("second");
        refused.batch_id = Some(BatchId(refused.op_id.0));
        let second = of_lane("second");
        let alone = store
            .accept(std::slice::from_ref(&refused), &ordered())
            .await;
        assert_eq!(alone.expect("answers"), [Accepted::BatchClosed]);
        assert_eq!(rows(&database).await, (1, 0, 0), "refused");
        // The key was inserted for the refused operation; the other one gets it.
        let both = store.accept(&[refused, second.clone()], &ordered()).await;
        let both = both.expect("answers");
        assert!(matches!(
            both[..],
            [Accepted::BatchClosed, Accepted::New { .. }]
        ));
        assert_eq!(rows(&database).await, (2, 1, 1));
        let known = store.find(&[second.keys]).await.expect("reads");
        assert_eq!(known[0].as_ref().map(|one| one.op_id), Some(second.op_id));
    });
}

fn core_9_a_commit_changes_what_it_accepts() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        let (first, next) = (of_lane("first"), of_lane("next"));
        let mut successor = of_lane("successor");
        successor.redrive_of = Some(next.op_id);
        let writes = [
            Write::Accept(first.clone()),
            cancel(first.op_id),
            Write::Accept(of_lane("first")),
            Write::Accept(next.clone()),
        ];
        let written = store.commit(&writes, &ordered()).await.expect("answers");
        let seq = |at: usize| match &written[at] {
            Written::Accepted(Accepted::New { seq, .. }) => Some(*seq),
            _ => None,
        };
        assert!(seq(0).is_some() && seq(0) < seq(3), "{written:?}");
        let canceled = written[1].clone().changed().expect("of a change");
        let canceled = canceled.map(|changed| changed.state.status);
        assert_eq!(canceled, Ok(Status::Failed));
        let is_first = |known: &Known| (known.op_id, known.status) == (first.op_id, Status::Failed);
        let known = written[2].clone().accepted().expect("of an accept");
        assert!(matches!(known, Accepted::Known(known) if is_first(&known)));
        assert_eq!(rows(&database).await, (2, 1, 1));
        // A row that ends in the same commit is marked as redriven by the following accept.
        let writes = [cancel(next.op_id), Write::Accept(successor.clone())];
        let written = store.commit(&writes, &ordered()).await.expect("answers");
        assert_eq!(written.len(), 2);
        let read = store.get(&[next.op_id, successor.op_id]).await;
        let read: Vec<_> = read.expect("reads").into_iter().flatten().collect();
        assert_eq!(read[0].redriven_by, Some(successor.op_id));
        assert_eq!(read[1].redrive_of, Some(next.op_id));
        let mut conn = database.conn().await;
        let lines: Vec<u8> = conn
            .query("SELECT line FROM clinch_queue")
            .await
            .expect("reads");
        assert_eq!(lines, [1], "the successor is head of the lane");
    });
}

clinch_contract::tests! {
    core_11_a_refused_accept_leaves_no_key_and_no_lane,
    core_9_a_commit_changes_what_it_accepts,
}
