//! The levels of the key index: a key is found whatever was merged (CORE-9, CORE-12).

use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, Answer, AnswerBody, Bus, Dequeue, Filter, Ids, Inspect, NewOperation, Prune,
    Recovery, StoredOk, Topic,
};
use clinch_core::{BizKey, Domain, Fingerprint, Keys, Payload};
use clinch_memory::ManualClock;
use clinch_sqlite::{Fault, Settings, Sqlite};
use clinch_system::SystemIds;
use rusqlite::TransactionBehavior;

use crate::common::{
    Folder, integrity, keys, levels, on_a_runtime, open, operation, routes, shrink_levels, worker,
};
use clinch_contract::Calls;

/// Operations of one call.
const CHUNK: usize = 1_000;

fn chunk(first: usize) -> Vec<NewOperation> {
    let numbers = first..first + CHUNK;
    numbers.map(|n| operation("natural", n)).collect()
}

async fn accept(sqlite: &Sqlite, new: &[NewOperation], routes: &Routes) {
    let accepted = sqlite.accept(new, routes).await.expect("accepted");
    let is_new = |one: &Accepted| matches!(one, Accepted::New { .. });
    assert!(accepted.iter().all(is_new), "all are new");
}

/// Numbers of operations whose key is in a level.
fn numbers_in(sqlite: &Sqlite, level: &str, limit: usize) -> Vec<usize> {
    let conn = sqlite.connect().expect("a connection");
    let sql = format!(
        "SELECT substr(r.biz_key, 7) FROM {level} AS k JOIN clinch_request AS r ON r.seq = k.seq \
         ORDER BY k.hash LIMIT {limit}"
    );
    let mut statement = conn.prepare(&sql).expect("a statement");
    let texts = statement.query_map([], |row| row.get::<_, String>(0));
    let number = |text: rusqlite::Result<String>| text.expect("text").parse().expect("a number");
    texts.expect("rows").map(number).collect()
}

const LEVELS: [&str; 3] = ["clinch_key_new", "clinch_key_mid", "clinch_key"];

#[test]
fn core_9_every_key_of_every_level_is_known() {
    const COUNT: usize = 300_000;
    let folder = Folder::new("keys");
    on_a_runtime(async {
        let sqlite = open(&folder);
        // The last merge leaves a part in `new`.
        shrink_levels(&sqlite, 6_300, 40_000);
        let routes = routes();
        for first in (0..COUNT).step_by(CHUNK) {
            accept(&sqlite, &chunk(first), &routes).await;
            if first % (COUNT / 20) == 0 {
                let [new, mid, _] = levels(&sqlite);
                assert!(new <= 6_300, "{new} in new");
                assert!(mid <= 40_000 + 2 * 7_300, "{mid} in mid");
            }
        }
        let counted = levels(&sqlite);
        assert!(counted.iter().all(|count| *count > 0), "{counted:?}");
        assert_eq!(counted.iter().sum::<i64>(), COUNT as i64);
        for first in (0..COUNT).step_by(CHUNK) {
            let asked: Vec<Keys> = (first..first + CHUNK).map(|n| keys("natural", n)).collect();
            let found = sqlite.find(&asked).await.expect("reads");
            assert_eq!(found.iter().flatten().count(), CHUNK, "from {first}");
        }
        for level in LEVELS {
            replays_are_known(&sqlite, level, &routes).await;
        }
        assert_eq!(levels(&sqlite), counted, "a replay changes nothing");
        assert_eq!(integrity(&folder), "ok");
    });
}

async fn replays_are_known(sqlite: &Sqlite, level: &str, routes: &Routes) {
    let numbers = numbers_in(sqlite, level, 300);
    assert!(!numbers.is_empty(), "{level} has keys");
    let again: Vec<_> = numbers.iter().map(|n| operation("natural", *n)).collect();
    let replayed = sqlite.accept(&again, routes).await.expect("answered");
    let known = |one: &Accepted| matches!(one, Accepted::Known(_));
    assert!(replayed.iter().all(known), "{level}");
    let mut other = operation("natural", numbers[0]);
    let payload = Payload::parse("{\"other\":1}", 1_000).expect("valid");
    other.fingerprints = vec![Fingerprint::plain(&payload)];
    let mismatch = sqlite.accept(&[other], routes).await.expect("answered");
    assert!(matches!(mismatch[..], [Accepted::Mismatch(_)]), "{level}");
    let filter = Filter {
        biz_key: Some(keys("natural", numbers[0]).biz_key),
        ..Filter::default()
    };
    let page = sqlite.list(&filter, None, 10).await.expect("reads");
    assert_eq!(page.items.len(), 1, "{level} is listed");
}

/// Settles all due operations.
async fn settle_all(sqlite: &Sqlite, routes: &Arc<Routes>) {
    loop {
        let dequeue = Dequeue {
            topics: vec![Topic::of(&Domain::new("natural").expect("valid"))],
            max: CHUNK,
            wait: Duration::ZERO,
            visibility: Duration::from_secs(30),
            worker: worker("keys"),
            attempts: (0..CHUNK).map(|_| SystemIds.attempt_id()).collect(),
            routes: routes.clone(),
            only: routes.clone(),
        };
        let taken = sqlite.dequeue(&dequeue).await.expect("taken");
        if taken.is_empty() {
            return;
        }
        let answer = |delivery: clinch_core::ports::Delivery| Answer {
            op_id: delivery.hint.op_id,
            fence: Some(1),
            worker: worker("keys"),
            body: AnswerBody::Ok(StoredOk::default()),
            attempt_id: None,
        };
        let answers: Vec<_> = taken.into_iter().map(answer).collect();
        sqlite.settle(&answers, routes).await.expect("settled");
    }
}

#[test]
fn core_12_a_prune_takes_keys_out_of_every_level() {
    const COUNT: usize = 20_000;
    let (folder, clock) = (Folder::new("keys"), Arc::new(ManualClock::default()));
    on_a_runtime(async {
        let opened = Sqlite::open(folder.file(), Settings::default(), clock.clone());
        let sqlite = opened.expect("opens");
        shrink_levels(&sqlite, 6_300, 6_000);
        let routes = Arc::new(routes());
        for first in (0..COUNT).step_by(CHUNK) {
            accept(&sqlite, &chunk(first), &routes).await;
        }
        let before = levels(&sqlite);
        assert!(before.iter().all(|count| *count > 0), "{before:?}");
        settle_all(&sqlite, &routes).await;
        clock.advance(Duration::from_secs(60));
        let hour = Duration::from_secs(3_600);
        let mut prune = Prune {
            completed: Duration::from_secs(30),
            failed: hour,
            keys: hour,
            max: COUNT,
            reckoned: None,
            jump_max: Duration::MAX,
        };
        let pruned = sqlite.prune(&prune).await.expect("pruned");
        assert_eq!((pruned.operations, pruned.keys), (COUNT, 0));
        assert_eq!(levels(&sqlite), before, "keys outlive their rows");
        let all: Vec<Keys> = (0..COUNT).map(|n| keys("natural", n)).collect();
        let found = sqlite.find(&all).await.expect("reads");
        assert_eq!(
            found.iter().flatten().filter(|one| one.pruned).count(),
            COUNT
        );
        (prune.keys, prune.max) = (Duration::from_secs(30), COUNT / 2);
        let pruned = sqlite.prune(&prune).await.expect("pruned");
        assert_eq!(pruned.keys, COUNT / 2);
        assert_eq!(levels(&sqlite).iter().sum::<i64>(), COUNT as i64 / 2);
        let pruned = sqlite.prune(&prune).await.expect("pruned");
        assert_eq!(pruned.keys, COUNT / 2);
        assert_eq!(levels(&sqlite), [0, 0, 0]);
        let found = sqlite.find(&all).await.expect("reads");
        assert_eq!(found.iter().flatten().count(), 0);
        // After that the same keys are new again.
        accept(&sqlite, &chunk(0), &routes).await;
        assert_eq!(levels(&sqlite).iter().sum::<i64>(), CHUNK as i64);
    });
}

#[test]
fn core_12_what_is_rolled_back_is_not_counted() {
    let folder = Folder::new("keys");
    on_a_runtime(async {
        let sqlite = open(&folder);
        shrink_levels(&sqlite, 5, 20);
        let routes = routes();
        for number in 0..400 {
            let (good, mut twin) = (operation("natural", number), operation("unsafe", number));
            match number % 4 {
                // Makes the shared commit fail, so that each job runs alone.
                0 => {
                    twin.op_id = good.op_id;
                    let bad = [operation("unsafe", number + 1_000), good.clone(), twin];
                    let bad = sqlite.accept(&bad, &routes);
                    let others = operation("natural", number + 10_000);
                    let others = [others];
                    let other = sqlite.accept(&others, &routes);
                    let (bad, other) = tokio::join!(bad, other);
                    assert!(bad.is_err() && other.is_ok());
                }
                1 => {
                    sqlite.fail_next(Fault::MidCommit);
                    let failed = sqlite.accept(std::slice::from_ref(&good), &routes).await;
                    assert!(failed.is_err() || !cfg!(debug_assertions));
                }
                2 => {
                    let mut conn = sqlite.connect().expect("connects");
                    let _turn = sqlite.turn().expect("a turn");
                    let immediate = TransactionBehavior::Immediate;
                    let mut tx = conn.transaction_with_behavior(immediate).expect("begins");
                    let accepted = sqlite.accept_in(&mut tx, &[twin], &routes);
                    drop(accepted.expect("accepted"));
                    drop(tx);
                }
                _ => {}
            }
            let accepted = sqlite.accept(&[good], &routes).await;
            assert!(accepted.is_ok(), "{accepted:?}");
            let counted = levels(&sqlite);
            assert!(counted[0] <= 6 && counted[1] <= 40, "{counted:?}");
        }
        assert_eq!(levels(&sqlite).iter().sum::<i64>(), 500);
    });
}

#[test]
fn core_12_two_writers_of_one_file_share_the_levels() {
    let folder = Folder::new("keys");
    on_a_runtime(async {
        let (one, other) = (open(&folder), open(&folder));
        shrink_levels(&one, 50, 400);
        let write = |sqlite: Sqlite, domain: &'static str| async move {
            let routes = routes();
            for number in 0..3_000 {
                let new = [operation(domain, number), operation(domain, number + 5_000)];
                accept(&sqlite, &new, &routes).await;
                if number % 100 == 0 {
                    let asked: Vec<_> = (0..=number).map(|n| keys(domain, n)).collect();
                    let found = sqlite.find(&asked).await.expect("reads");
                    assert_eq!(found.iter().flatten().count(), number + 1);
                }
            }
        };
        let both = (
            tokio::spawn(write(one.clone(), "natural")),
            tokio::spawn(write(other, "unsafe")),
        );
        both.0.await.expect("no panic");
        both.1.await.expect("no panic");
        let counted = levels(&one);
        assert_eq!(counted.iter().sum::<i64>(), 12_000);
        assert!(counted[2] > 10_000, "{counted:?}");
    });
}

#[test]
fn core_12_keys_of_one_business_object_are_moved_in_slices_too() {
    let folder = Folder::new("keys");
    on_a_runtime(async {
        let sqlite = open(&folder);
        shrink_levels(&sqlite, 500, 6_400);
        let routes = routes();
        let biz_key = BizKey::new("the only order").expect("valid");
        let mut last = 0;
        for first in (0..20_000).step_by(100) {
            let mut new: Vec<_> = chunk(first).drain(..100).collect();
            for one in &mut new {
                one.keys.biz_key = biz_key.clone();
                one.outbound_key = one.keys.outbound_key();
            }
            accept(&sqlite, &new, &routes).await;
            let [_, mid, rest] = levels(&sqlite);
            assert!(rest - last <= 310, "{} in one commit", rest - last);
            assert!(mid <= 6_400 + 2 * 600, "{mid} in mid");
            last = rest;
        }
        assert!(last > 10_000, "{last}");
    });
}
