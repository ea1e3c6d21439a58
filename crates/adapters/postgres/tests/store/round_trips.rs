//! How often a call asks the server, by the server's own count, and that a commit planned without
//! a read answers as one that reads.

use std::sync::Arc;
use std::time::Duration;

use clinch_contract::Calls;
use clinch_core::ports::{
    Accepted, Amendment, Answer, AnswerBody, BeginRequest, Bus, Dequeue, Domains, Extension, Ids,
    Inspect, NewOperation, NewPause, Outbox, StoredOk, Topic,
};
use clinch_core::protocol::{Event, Phase};
use clinch_core::{Fail, OpId, Status, Timestamp};
use clinch_memory::ManualClock;
use clinch_postgres::{Postgres, Settings};
use clinch_system::SystemIds;
use tokio_postgres::Client;

use crate::common::{Database, advance, keys, on_a_runtime, operation, routes, worker};

const LEASE: Duration = Duration::from_secs(30);
const ROUNDS: usize = 20;

/// An operation that begins where it is accepted.
fn inline(number: usize) -> NewOperation {
    let new = operation("natural", number);
    NewOperation {
        begin: Some(BeginRequest {
            op_id: new.op_id,
            attempt_id: SystemIds.attempt_id(),
            worker: worker("inline"),
            lease: LEASE,
        }),
        ..new
    }
}

fn ok(op_id: OpId) -> Answer {
    Answer {
        op_id,
        fence: Some(1),
        worker: worker("inline"),
        body: AnswerBody::Ok(StoredOk::default()),
        attempt_id: None,
    }
}

async fn accept(store: &Postgres, new: &[NewOperation]) -> Vec<Accepted> {
    store.accept(new, &routes()).await.expect("accepted")
}

/// Accepts and settles one, so that names have numbers and the server's clock is known.
async fn warm_up(store: &Postgres) {
    let new = inline(0);
    accept(store, std::slice::from_ref(&new)).await;
    let settled = store.settle(&[ok(new.op_id)], &routes()).await;
    settled.expect("settled")[0].clone().expect("changed");
}

/// Two processes on one database; the first is warmed up.
async fn two_processes() -> (Postgres, Postgres, Arc<Database>) {
    let database = Database::new().await.expect("a database");
    let (store, other) = (database.store().await, database.store().await);
    warm_up(&store).await;
    (store, other, database)
}

/// Statements since the count began, but for the settings of a new connection, and announcements:
/// many commits share one of those, and nobody waits for it.
async fn statements(client: &Client) -> Vec<(String, i64)> {
    let text = "SELECT query, calls FROM pg_stat_statements \
                WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                    AND query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE '%pg_notify%' \
                    AND query NOT LIKE 'SET %' \
                ORDER BY query";
    let rows = client.query(text, &[]).await.expect("statistics");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn count_from_now(client: &Client) {
    let reset = "SELECT pg_stat_statements_reset(0, \
                 (SELECT oid FROM pg_database WHERE datname = current_database()), 0)";
    client.query(reset, &[]).await.expect("reset");
}

/// A store whose clock stands still with the server's: its estimate is exact however busy the
/// machine is. And a client that reads the server's statistics.
async fn counted() -> (Postgres, Client, Arc<Database>) {
    counted_by(Arc::new(ManualClock::default())).await
}

async fn counted_by(clock: Arc<ManualClock>) -> (Postgres, Client, Arc<Database>) {
    let database = Database::with_still_clock().await.expect("a database");
    let client = database.client().await;
    let extension = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements";
    client.batch_execute(extension).await.expect("statistics");
    let store = Postgres::connect(&database.url(), Settings::default(), clock).await;
    (store.expect("the store opens"), client, database)
}

#[test]
fn an_inline_operation_is_two_round_trips() {
    on_a_runtime(async {
        let (store, client, _database) = counted().await;
        warm_up(&store).await;
        count_from_now(&client).await;
        for number in 1..=ROUNDS {
            let new = inline(number);
            let accepted = accept(&store, std::slice::from_ref(&new)).await;
            assert!(matches!(accepted[0], Accepted::New { .. }));
            let settled = store.settle(&[ok(new.op_id)], &routes()).await;
            let settled = settled.expect("settled")[0].clone().expect("changed");
            assert_eq!(settled.state.status, Status::Completed);
        }
        // One statement a commit, and no transaction around it.
        let counted = statements(&client).await;
        let total: i64 = counted.iter().map(|(_, calls)| calls).sum();
        assert_eq!(total, 2 * ROUNDS as i64, "{counted:#?}");
    });
}

#[test]
fn a_key_that_is_known_leaves_the_rest_of_its_group_new() {
    on_a_runtime(async {
        let (store, other, _database) = two_processes().await;
        let (first, second, third) = (inline(1), inline(2), inline(3));
        accept(&other, std::slice::from_ref(&second)).await;
        let again = NewOperation {
            op_id: SystemIds.op_id(),
            begin: None,
            ..second.clone()
        };
        let accepted = accept(&store, &[first.clone(), again, third.clone()]).await;
        let Accepted::Known(known) = &accepted[1] else {
            panic!("{:?}", accepted[1]);
        };
        assert_eq!(
            (known.op_id, known.status),
            (second.op_id, Status::InProgress)
        );
        let seqs = [&accepted[0], &accepted[2]].map(|one| match one {
            Accepted::New { seq, state, .. } => {
                assert_eq!(state.phase, Some(Phase::Live));
                *seq
            }
            other => panic!("{other:?}"),
        });
        assert!(seqs[0] < seqs[1], "{seqs:?}");
        let ops = [first.op_id, second.op_id, third.op_id];
        let settled = store
            .settle(&ops.map(ok), &routes())
            .await
            .expect("settled");
        for one in settled {
            assert_eq!(one.expect("changed").state.status, Status::Completed);
        }
        let overview = store.domains().await.expect("counters");
        let counts = &overview.iter().find(|one| one.domain == second.keys.domain);
        let counts = &counts.expect("the domain").counts;
        assert_eq!((counts.completed, counts.live, counts.pending), (4, 0, 0));
    });
}

#[test]
fn a_row_that_another_process_changed_is_read_again() {
    on_a_runtime(async {
        let (store, other, _database) = two_processes().await;
        let (kept, moved, noted) = (inline(1), inline(2), inline(3));
        accept(&store, &[kept.clone(), moved.clone(), noted.clone()]).await;
        // The version of one moves on.
        let extension = Extension {
            op_id: moved.op_id,
            fence: 1,
            lease: LEASE * 2,
            attempt_id: None,
        };
        let extended = Calls::extend(&other, &[extension]).await.expect("extended");
        extended[0].clone().expect("changed");
        // The history of another grows, and its version stays.
        let stale = Answer {
            fence: Some(0),
            body: AnswerBody::Fail(Fail::new("late", "said by nobody in charge")),
            ..ok(noted.op_id)
        };
        let refused = other.settle(&[stale], &routes()).await.expect("answered");
        refused[0].clone().expect_err("stale");
        let ops = [kept.op_id, moved.op_id, noted.op_id];
        let settled = store
            .settle(&ops.map(ok), &routes())
            .await
            .expect("settled");
        for one in settled {
            assert_eq!(one.expect("changed").state.status, Status::Completed);
        }
        let ledger = store.ledger(noted.op_id).await.expect("a ledger");
        let refusals = ledger.iter().filter(|line| line.refused.is_some());
        assert_eq!(refusals.count(), 1, "{ledger:#?}");
        // What has ended elsewhere is refused, not settled from memory.
        let last = inline(4);
        accept(&store, std::slice::from_ref(&last)).await;
        let cancel = Amendment {
            op_id: last.op_id,
            event: Event::Cancel,
            ok: None,
            checkpoint: None,
            by: worker("operator"),
            reason: "not wanted".to_owned(),
            attempt_id: None,
        };
        let canceled = other.amend(&[cancel], &routes()).await.expect("answered");
        canceled[0].clone().expect("asked for");
        let settled = store.settle(&[ok(last.op_id)], &routes()).await;
        let settled = settled.expect("settled")[0].clone().expect("changed");
        assert_eq!(settled.state.status, Status::Completed);
        let ledger = store.ledger(last.op_id).await.expect("a ledger");
        assert!(
            ledger.iter().any(|line| line.event == "Cancel"),
            "{ledger:#?}"
        );
    });
}

#[test]
fn nothing_begins_in_a_domain_that_was_paused_elsewhere() {
    on_a_runtime(async {
        let (store, other, _database) = two_processes().await;
        let domain = keys("natural", 0).domain;
        other
            .pause(&domain, &NewPause::default())
            .await
            .expect("paused");
        let new = inline(1);
        let accepted = accept(&store, std::slice::from_ref(&new)).await;
        let Accepted::New { state, .. } = &accepted[0] else {
            panic!("{:?}", accepted[0]);
        };
        assert_eq!((state.status, state.attempts), (Status::Pending, 0));
    });
}

fn dequeue(max: usize) -> Dequeue {
    Dequeue {
        topics: vec![Topic::of(&keys("natural", 0).domain)],
        max,
        wait: Duration::ZERO,
        visibility: LEASE,
        worker: worker("queued"),
        attempts: (0..max).map(|_| SystemIds.attempt_id()).collect(),
        routes: Arc::new(routes()),
        only: Arc::new(routes()),
    }
}

/// The same, and it waits: a process learns of a new stream by a notification.
fn waiting(max: usize) -> Dequeue {
    Dequeue {
        wait: LEASE,
        ..dequeue(max)
    }
}

async fn take(store: &Postgres, max: usize) -> Vec<OpId> {
    let taken = store.dequeue(&dequeue(max)).await.expect("deliveries");
    taken.into_iter().map(|one| one.hint.op_id).collect()
}

#[test]
fn a_queued_operation_is_three_round_trips_in_an_otherwise_empty_stream() {
    on_a_runtime(async {
        let (store, client, _database) = counted().await;
        warm_up(&store).await;
        let run = async |number| {
            let new = operation("natural", number);
            accept(&store, std::slice::from_ref(&new)).await;
            assert_eq!(take(&store, 1).await, [new.op_id]);
            let settled = store.settle(&[ok(new.op_id)], &routes()).await;
            settled.expect("settled")[0].clone().expect("changed");
        };
        run(1).await;
        assert_eq!(take(&store, 1).await, [], "a claim that finds nothing");
        count_from_now(&client).await;
        for number in 2..2 + ROUNDS {
            run(number).await;
            // Known without asking: nothing is left, and nothing becomes due by time.
            assert_eq!(take(&store, 1).await, []);
            let next = store.next_due(Some(&routes())).await.expect("answered");
            assert_eq!(next, None);
        }
        // Accept, begin and settle, each alone; no transaction around them.
        let counted = statements(&client).await;
        let total: i64 = counted.iter().map(|(_, calls)| calls).sum();
        assert_eq!(total, 3 * ROUNDS as i64, "{counted:#?}");
    });
}

/// As a worker does that takes the last row: it asks when the next one is due, and claims no more.
#[test]
fn so_is_one_that_is_due_in_a_moment_after_a_worker_took_the_last_row() {
    on_a_runtime(async {
        let clock = Arc::new(ManualClock::default());
        let (store, client, _database) = counted_by(clock.clone()).await;
        warm_up(&store).await;
        let soon = Duration::from_millis(3);
        let run = async |number| {
            let now = client.query_one("SELECT clinch_now()", &[]).await;
            let now = Timestamp::from_millis(now.expect("the time").get(0));
            let mut new = operation("natural", number);
            new.options.run_at = Some(now + soon);
            accept(&store, std::slice::from_ref(&new)).await;
            assert_eq!(take(&store, 1).await, [], "it is not due");
            advance(&client, soon).await;
            clock.advance(soon);
            assert_eq!(take(&store, 1).await, [new.op_id]);
            let settled = store.settle(&[ok(new.op_id)], &routes()).await;
            settled.expect("settled")[0].clone().expect("changed");
            let next = store.next_due(Some(&routes())).await.expect("answered");
            assert_eq!(next, None);
        };
        run(1).await;
        count_from_now(&client).await;
        for number in 2..2 + ROUNDS {
            run(number).await;
        }
        let mut counted = statements(&client).await;
        let is_ours = |query: &str| {
            query.contains("clinch_test_clock") || query.starts_with("SELECT clinch_now()")
        };
        counted.retain(|(query, _)| !is_ours(query));
        let total: i64 = counted.iter().map(|(_, calls)| calls).sum();
        assert_eq!(total, 3 * ROUNDS as i64, "{counted:#?}");
    });
}

#[test]
fn a_row_that_another_process_took_is_not_begun_again() {
    on_a_runtime(async {
        let (store, other, _database) = two_processes().await;
        assert_eq!(take(&store, 9).await, [], "a claim that finds nothing");
        let new = [1, 2, 3].map(|number| operation("natural", number));
        accept(&store, &new).await;
        let first = other.dequeue(&waiting(1)).await.expect("a delivery");
        assert_eq!(first[0].hint.op_id, new[0].op_id);
        assert_eq!(take(&store, 9).await, [new[1].op_id, new[2].op_id]);
        assert_eq!(take(&store, 9).await, []);
        for one in &new {
            let row = store.get(&[one.op_id]).await.expect("read");
            let state = &row[0].as_ref().expect("a row").state;
            assert_eq!((state.fence, state.attempts), (1, 1));
        }
    });
}

#[test]
fn a_row_of_another_process_is_found_after_its_notification() {
    on_a_runtime(async {
        let (store, other, _database) = two_processes().await;
        assert_eq!(take(&store, 1).await, [], "a claim that finds nothing");
        let new = operation("natural", 1);
        accept(&other, std::slice::from_ref(&new)).await;
        let taken = store.dequeue(&waiting(1)).await.expect("a delivery");
        assert_eq!(taken[0].hint.op_id, new.op_id);
    });
}

#[test]
fn a_kept_row_is_not_begun_in_a_domain_that_was_paused_elsewhere() {
    on_a_runtime(async {
        let (store, other, _database) = two_processes().await;
        assert_eq!(take(&store, 1).await, [], "a claim that finds nothing");
        let new = operation("natural", 1);
        accept(&store, std::slice::from_ref(&new)).await;
        other
            .pause(&new.keys.domain, &NewPause::default())
            .await
            .expect("paused");
        assert_eq!(take(&store, 1).await, []);
        other.resume(&new.keys.domain).await.expect("resumed");
        let taken = store.dequeue(&waiting(1)).await.expect("a delivery");
        assert_eq!(taken[0].hint.op_id, new.op_id);
    });
}
