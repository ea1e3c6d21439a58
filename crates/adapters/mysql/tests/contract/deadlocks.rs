//! Deadlocks provoked on purpose: the server rolls one of the two transactions back, the call is
//! run again, and nothing is lost or done twice (OUT-8, RUN-7).

use std::collections::BTreeSet;

use clinch_contract::Calls;
use clinch_core::ports::{Accepted, Amendment, Bus, Dequeue, Domains, Inspect, Topic};
use clinch_core::protocol::Event;
use clinch_core::{OpId, Status};
use clinch_testbed::{Kind, Server};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, TxOpts};

use crate::common::{self, Database, on_a_runtime, operation, routes, worker};

fn cancel(op: &OpId) -> Amendment {
    Amendment {
        op_id: *op,
        event: Event::Cancel,
        ok: None,
        checkpoint: None,
        by: worker("person"),
        reason: "enough".into(),
        attempt_id: None,
    }
}

/// Another client locks the operation that a call needs last, and then wants the one that the call
/// holds.
fn run_7_a_call_that_the_server_ends_is_run_again() {
    on_a_runtime(async {
        // A server of its own: no other test may wait in it.
        let server = Server::start(Kind::MariaDb).expect("a server");
        let database = Database::on(&server.url()).await;
        let store = database.open().await;
        let new = [operation("natural", 1), operation("natural", 2)];
        let accepted = store.accept(&new, &routes()).await.expect("accepted");
        assert!(
            accepted
                .iter()
                .all(|one| matches!(one, Accepted::New { .. }))
        );
        let mut ids: Vec<OpId> = new.iter().map(|new| new.op_id).collect();
        ids.sort();
        let mut watch = database.conn().await;
        // The locked rows make this transaction the more expensive one, so the server rolls back
        // the call.
        let weight = "CREATE TABLE weight (n INT PRIMARY KEY) ENGINE = InnoDB";
        watch.query_drop(weight).await.expect("a table");
        let mut conn = database.conn().await;
        let mut rounds = 0;
        while store.deadlock_retries() == 0 {
            let mut outsider = conn
                .start_transaction(TxOpts::default())
                .await
                .expect("begins");
            let rows: Vec<String> = (0..500)
                .map(|n| format!("({})", rounds * 500 + n))
                .collect();
            let heavy = format!("INSERT INTO weight VALUES {}", rows.join(","));
            outsider.query_drop(heavy).await.expect("some weight");
            let lock = "SELECT seq FROM clinch_request WHERE op_id = ? FOR UPDATE";
            let id = |op: &OpId| op.0.as_bytes().to_vec();
            outsider
                .exec_drop(lock, (id(&ids[1]),))
                .await
                .expect("the second");
            let (caller, both) = (store.clone(), ids.clone());
            let call = tokio::spawn(async move {
                let cancels: Vec<_> = both.iter().map(cancel).collect();
                caller.amend(&cancels, &routes()).await
            });
            common::until_somebody_waits(&mut watch).await;
            // The server detects the deadlock and rolls back the cheaper transaction.
            let _ = outsider.exec_drop(lock, (id(&ids[0]),)).await;
            let _ = outsider.rollback().await;
            let answers = call.await.expect("no panic").expect("the call got through");
            assert_eq!(answers.len(), 2);
            rounds += 1;
            assert!(rounds < 20, "no deadlock was provoked");
        }
        let rows = store.get(&ids).await.expect("reads");
        for row in rows.into_iter().flatten() {
            assert_eq!(row.state.status, Status::Failed);
            let ledger = store.ledger(row.op_id).await.expect("reads");
            let cancels = ledger
                .iter()
                .filter(|line| line.event == "Cancel" && line.refused.is_none());
            assert_eq!(cancels.count(), 1, "canceled once");
        }
    });
}

/// Many callers with keys in every order, and workers at the same time.
fn out_8_callers_that_meet_in_every_order_lose_nothing() {
    const CALLERS: usize = 8;
    const ROUNDS: usize = 25;
    const KEYS: usize = 12;
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        let url = database.url.clone();
        let mut callers = Vec::new();
        for caller in 0..CALLERS {
            let (store, url) = (store.clone(), url.clone());
            callers.push(tokio::spawn(async move {
                let mut conn = Conn::from_url(&url).await.expect("a connection");
                let mut ended_by_server = 0;
                for round in 0..ROUNDS {
                    // One transaction of several calls, in an order of its own: the server must
                    // roll some of them back.
                    loop {
                        let opts = TxOpts::default();
                        let mut tx = conn.start_transaction(opts).await.expect("begins");
                        let mut failed = false;
                        for at in 0..4 {
                            let key = (caller * 7 + at * (caller + 1) + round) % KEYS;
                            let new = [operation("natural", round * KEYS + key)];
                            if store.accept_in(&mut tx, &new, &routes()).await.is_err() {
                                failed = true;
                                break;
                            }
                        }
                        let is_done = match failed {
                            true => tx.rollback().await.is_err(),
                            false => tx.commit().await.is_ok(),
                        };
                        if is_done && !failed {
                            break;
                        }
                        ended_by_server += 1;
                        // A rolled back transaction must be repeated from its first statement.
                        conn = Conn::from_url(&url).await.expect("a connection");
                    }
                }
                ended_by_server
            }));
        }
        let mut ended = 0;
        for caller in callers {
            ended += caller.await.expect("no panic");
        }
        println!("transactions that the server ended: {ended}");
        let expected: BTreeSet<usize> = (0..CALLERS)
            .flat_map(|caller| (0..ROUNDS).map(move |round| (caller, round)))
            .flat_map(|(caller, round)| {
                (0..4).map(move |at| round * KEYS + (caller * 7 + at * (caller + 1) + round) % KEYS)
            })
            .collect();
        let views = store.domains().await.expect("reads");
        assert_eq!(views[0].counts.pending, expected.len() as u64, "each once");
        let mut seen = BTreeSet::new();
        loop {
            let taken = store.dequeue(&ask(50)).await.expect("deliveries");
            if taken.is_empty() {
                break;
            }
            for delivery in taken {
                assert!(seen.insert(delivery.hint.op_id), "handed out twice");
            }
        }
        assert_eq!(seen.len(), expected.len());
    });
}

fn ask(max: usize) -> Dequeue {
    use clinch_core::ports::Ids;
    Dequeue {
        topics: vec![Topic::of(&operation("natural", 0).keys.domain)],
        max,
        wait: std::time::Duration::ZERO,
        visibility: std::time::Duration::from_secs(30),
        worker: worker("worker"),
        attempts: (0..max)
            .map(|_| clinch_system::SystemIds.attempt_id())
            .collect(),
        routes: std::sync::Arc::new(routes()),
        only: std::sync::Arc::new(routes()),
    }
}

/// A payload changed by hand is never sent: its begin dead-letters it.
fn out_3_a_payload_changed_by_hand_is_dead_lettered() {
    use clinch_core::ports::Recovery;
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        let new = operation("natural", 1);
        let accepted = store.accept(std::slice::from_ref(&new), &routes()).await;
        accepted.expect("accepted");
        let mut conn = database.conn().await;
        let edit = "UPDATE clinch_request SET payload = '{\"n\":1000000}'";
        conn.query_drop(edit).await.expect("an edit");
        let taken = store.dequeue(&ask(5)).await.expect("answers");
        assert!(taken.is_empty(), "{taken:?}");
        let letters = store
            .dead_letters(
                &clinch_core::ports::LetterFilter::all(),
                clinch_core::ports::LetterOrder::NewestFirst,
                None,
                9,
            )
            .await
            .expect("reads")
            .items;
        assert_eq!(letters.len(), 1);
        assert_eq!(letters[0].op_id, new.op_id);
        assert_eq!(letters[0].failure.code, clinch_core::code::INTEGRITY);
    });
}

clinch_contract::tests! {
    run_7_a_call_that_the_server_ends_is_run_again,
    out_8_callers_that_meet_in_every_order_lose_nothing,
    out_3_a_payload_changed_by_hand_is_dead_lettered,
}
