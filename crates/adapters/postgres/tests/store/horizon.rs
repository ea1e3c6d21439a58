//! Claims beside a snapshot that keeps dead rows at the front of the line (OUT-2): whatever is
//! due is found, by news and without.

use std::sync::Arc;
use std::time::Duration;

use clinch_contract::Calls;
use clinch_core::OpId;
use clinch_core::ports::{Bus, Clock, Dequeue, Ids, NewOperation, Topic};
use clinch_postgres::{Postgres, Settings};
use clinch_system::{SystemClock, SystemIds};

use crate::common::{Database, NEVER, keys, on_a_runtime, operation, routes, worker};

/// Rows that came and went while somebody looked: no claim may skip them by itself.
const DEAD: &str = "
    INSERT INTO clinch_queue (op_id, seq, accepted_at, next_attempt_at, version, stream, status,
        line, biz_key, idem_key, content_hash, state, ledger, payload)
    SELECT gen_random_uuid(), 2000000 + n, 0, n, 1, s.id, 0, 1, 'gone-' || n, 'gone-' || n, '\\x01',
        '\\x010000000000', '', '{}'
    FROM generate_series(1, 100000) AS n, clinch_stream AS s;
    DELETE FROM clinch_queue WHERE biz_key LIKE 'gone-%'";

fn asked(wait: Duration) -> Dequeue {
    Dequeue {
        topics: vec![Topic::of(&keys("natural", 0).domain)],
        max: 9,
        wait,
        visibility: Duration::from_secs(30),
        worker: worker("waits"),
        attempts: (0..9).map(|_| SystemIds.attempt_id()).collect(),
        routes: Arc::new(routes()),
        only: Arc::new(routes()),
    }
}

async fn accept(store: &Postgres, new: &NewOperation) {
    let accepted = store.accept(std::slice::from_ref(new), &routes()).await;
    accepted.expect("accepted");
}

async fn taken(store: &Postgres, wait: Duration) -> Vec<OpId> {
    let deliveries = store.dequeue(&asked(wait)).await.expect("deliveries");
    deliveries.into_iter().map(|one| one.hint.op_id).collect()
}

#[test]
fn out_2_what_is_due_is_found_behind_rows_that_a_snapshot_keeps() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let settings = Settings {
            fallback_poll: Duration::from_millis(100),
            ..Settings::default()
        };
        let opened = Postgres::connect(&database.url(), settings, clock).await;
        let (waits, other) = (opened.expect("the store opens"), database.store().await);
        let first = operation("natural", 0);
        accept(&other, &first).await;
        assert_eq!(taken(&waits, NEVER).await, [first.op_id]);

        let snapshot = database.client().await;
        let open = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM clinch_queue";
        snapshot.batch_execute(open).await.expect("a snapshot");
        let client = database.client().await;
        client.batch_execute(DEAD).await.expect("dead rows");

        for number in 1..=50 {
            let told = operation("natural", number);
            accept(&other, &told).await;
            assert_eq!(taken(&waits, NEVER).await, [told.op_id], "number {number}");
        }
        // Due before everything that was seen, and nobody says so.
        let mut untold = operation("natural", 51);
        untold.options.run_at = Some(SystemClock::new().now() + NEVER);
        accept(&other, &untold).await;
        assert_eq!(taken(&waits, Duration::ZERO).await, []);
        let due = "UPDATE clinch_queue SET next_attempt_at = 1 WHERE op_id = $1";
        let moved = client.execute(due, &[&untold.op_id.0]).await;
        assert_eq!(moved.expect("moved"), 1);
        assert_eq!(taken(&waits, NEVER).await, [untold.op_id]);
    });
}
