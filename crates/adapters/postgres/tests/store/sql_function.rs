//! Operations accepted by `SELECT clinch_accept(…)`, from any language (CORE-9, CORE-6).

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use clinch_contract::Calls;
use clinch_core::policy::SplitMix;
use clinch_core::ports::{Accepted, Bus, Dequeue, Inspect, Topic};
use clinch_core::{AttemptId, OpId, Payload, Status};

use crate::common::{Database, NEVER, keys, on_a_runtime, operation_of, routes, worker};

const ACCEPT: &str =
    "SELECT op_id, is_new FROM clinch_accept('natural', 'call', $1, $2, $3::text::json)";

fn asked(attempts: u128) -> Dequeue {
    Dequeue {
        topics: vec![Topic::of(&keys("natural", 0).domain)],
        max: 9,
        wait: NEVER,
        visibility: Duration::from_secs(30),
        worker: worker("waits"),
        attempts: vec![AttemptId(uuid::Uuid::from_u128(attempts))],
        routes: Arc::new(routes()),
        only: Arc::new(routes()),
    }
}

#[test]
fn core_9_what_sql_accepts_is_known_to_rust_and_begins() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let store = database.store().await;
        let client = database.client().await;
        let waits = tokio::spawn({
            let store = store.clone();
            async move { store.dequeue(&asked(1)).await }
        });
        let payload = r#"{"b": [1.50, 1e21, 0.0000001], "a": "é\n𝄞", "ﬀ": null, "𝄞": true}"#;
        let row = client
            .query_one(ACCEPT, &[&"order-1", &"key-1", &payload])
            .await;
        let row = row.expect("accepted");
        let (op, is_new): (uuid::Uuid, bool) = (row.get(0), row.get(1));
        assert!(is_new);
        // Woken by the commit; intact by its content hash.
        let taken = waits.await.expect("no panic").expect("deliveries");
        assert_eq!(taken[0].hint.op_id, OpId(op));
        let begun = taken[0].begun.as_ref().expect("begun");
        let canonical = Payload::parse(payload, 1_000).expect("valid");
        assert_eq!(begun.payload.as_bytes(), canonical.as_bytes());
        assert_eq!(begun.outbound_key, keys("natural", 1).outbound_key());
        // The same JSON in another order is the same request, from either side.
        let other = r#"{"𝄞":true,"a":"\u00e9\n\ud834\udd1e","b":[1.5,1000000000000000000000,1e-7],"ﬀ":null}"#;
        let other = other.replace("1000000000000000000000", "1e+21");
        let again = operation_of(keys("natural", 1), &other);
        let answer = store.accept(&[again], &routes()).await.expect("answers");
        assert!(matches!(&answer[..], [Accepted::Known(known)] if known.op_id == OpId(op)));
        let row = client
            .query_one(ACCEPT, &[&"order-1", &"key-1", &other.as_str()])
            .await
            .expect("answers");
        assert_eq!(
            (row.get::<_, uuid::Uuid>(0), row.get::<_, bool>(1)),
            (op, false)
        );
        let mismatch = client
            .query_one(ACCEPT, &[&"order-1", &"key-1", &"{}"])
            .await;
        let code = mismatch.expect_err("refused").code().cloned();
        assert_eq!(
            code,
            Some(tokio_postgres::error::SqlState::UNIQUE_VIOLATION)
        );
        // And what Rust accepted is known to SQL.
        let ours = operation_of(keys("natural", 2), r#"{"n":2}"#);
        let offered = std::slice::from_ref(&ours);
        store.accept(offered, &routes()).await.expect("in");
        let row = client
            .query_one(ACCEPT, &[&"order-2", &"key-2", &r#"{ "n" : 2.0 }"#])
            .await
            .expect("answers");
        assert_eq!(
            (row.get::<_, uuid::Uuid>(0), row.get::<_, bool>(1)),
            (ours.op_id.0, false)
        );
        assert_eq!(store.ledger(OpId(op)).await.expect("reads").len(), 2);
    });
}

#[test]
fn core_9_rolled_back_it_never_was() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let store = database.store().await;
        let mut client = database.client().await;
        let tx = client.transaction().await.expect("begins");
        tx.query_one(ACCEPT, &[&"order-1", &"key-1", &"{}"])
            .await
            .expect("accepted");
        tx.rollback().await.expect("rolls back");
        assert_eq!(
            store.find(&[keys("natural", 1)]).await.expect("reads"),
            [None]
        );
    });
}

#[test]
fn core_6_what_two_readers_could_understand_differently_is_refused() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let client = database.client().await;
        for bad in [
            r#"{"a":1,"a":2}"#,
            r#"[{"a":1,"\u0061":2}]"#,
            "9007199254740993",
            "[1e19]",
            "1e999",
            "not json",
        ] {
            let refused = client.query_one(ACCEPT, &[&"o", &"k", &bad]).await;
            assert!(refused.is_err(), "{bad} was accepted");
        }
        for (biz, idem) in [("", "k"), (" o", "k"), ("o", "k\u{1}")] {
            let refused = client.query_one(ACCEPT, &[&biz, &idem, &"{}"]).await;
            assert!(refused.is_err(), "{biz:?}, {idem:?} were accepted");
        }
        let store = database.store().await;
        store.set_sealed(true).await.expect("sealed");
        let refused = client.query_one(ACCEPT, &[&"o", &"k", &"{}"]).await;
        let message = refused
            .expect_err("refused")
            .as_db_error()
            .map(|e| e.message().to_owned());
        assert!(message.is_some_and(|message| message.contains("sealed")));
    });
}

#[test]
fn core_9_a_payload_that_is_too_long_is_refused() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let (store, client) = (database.store().await, database.client().await);
        let offered = async |key: &str, bytes: usize| {
            let payload = format!("\"{}\"", "x".repeat(bytes - 2));
            let accepted = client.query_one(ACCEPT, &[&"o", &key, &payload]).await;
            accepted.map(|row| row.get::<_, bool>(1))
        };
        let max = 256 * 1024;
        assert!(offered("fits", max).await.expect("accepted"));
        let refused = offered("long", max + 1).await.expect_err("refused");
        let code = tokio_postgres::error::SqlState::PROGRAM_LIMIT_EXCEEDED;
        assert_eq!(refused.code(), Some(&code));
        let message = refused.as_db_error().map(|e| e.message().to_owned());
        assert!(message.is_some_and(|message| message.contains("262144")));
        store.set_payload_max(10).await.expect("set");
        offered("ten", 11).await.expect_err("refused");
        assert!(offered("ten", 10).await.expect("accepted"));
    });
}

#[test]
fn core_9_a_deadline_that_is_not_after_run_at_is_refused() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let client = database.client().await;
        let offered = async |deadline: &str| {
            let sql = format!(
                "SELECT clinch_accept('natural', 'call', 'o', 'k', 'null', \
                 run_at => '2030-01-02', deadline => '{deadline}')"
            );
            client.execute(sql.as_str(), &[]).await
        };
        let refused = offered("2030-01-02").await.expect_err("refused");
        let message = refused.as_db_error().map(|e| e.message().to_owned());
        assert!(message.is_some_and(|message| message.contains("later than run_at")));
        offered("2030-01-03").await.expect("accepted");
    });
}

/// A random JSON text.
fn draw(rng: &mut SplitMix, depth: u32) -> String {
    let mut below = |count: u64| rng.next_u64() % count;
    match below(if depth > 3 { 4 } else { 6 }) {
        0 => ["null", "true", "false"][below(3) as usize].into(),
        1 => format!("{}", below(1 << 53) as i64 - (1 << 52)),
        2 => {
            let double = f64::from_bits(rng.next_u64());
            let size = double.abs();
            match double.is_finite() && !(9e15..1e21).contains(&size) && size > 1e-300 {
                true => format!("{double:e}"),
                false => "0.5".into(),
            }
        }
        3 => {
            let texts = [
                "", "a\\n", "\\u00e9", "𝄞", "\\\"\\\\", "\\u0007", "\u{7f}", "ﬀ",
            ];
            format!(
                "\"{}{}\"",
                texts[below(8) as usize],
                texts[below(8) as usize]
            )
        }
        4 => {
            let count = below(4);
            let items: Vec<String> = (0..count).map(|_| draw(rng, depth + 1)).collect();
            format!("[{}]", items.join(" , "))
        }
        _ => {
            let mut names = vec!["z", "a", "é", "𝄞", "ﬀ", "A", ""];
            let count = below(5);
            let member = |_| {
                let name = names.remove((rng.next_u64() % names.len() as u64) as usize);
                format!("\"{name}\": {}", draw(rng, depth + 1))
            };
            let members: Vec<String> = (0..count).map(member).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

#[test]
fn core_6_the_canonical_form_is_the_one_of_rust() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let client = database.client().await;
        let mut rng = SplitMix::new(7);
        for _ in 0..2_000 {
            let text = draw(&mut rng, 0);
            let ours = Payload::parse(&text, 1_000_000).expect("valid");
            let row = client
                .query_one("SELECT clinch_canonical($1::text::json)", &[&text])
                .await;
            let theirs: String = row.expect("a canonical form").get(0);
            assert_eq!(theirs, ours.as_str(), "{text}");
        }
    });
}

#[test]
fn core_9_psql_accepts_as_well() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let store = database.store().await;
        let url = database.url();
        let sql = "SELECT op_id FROM clinch_accept('natural', 'call', 'order-1', 'key-1', '{}')";
        let psql = Command::new("psql").args([&url, "-qAtc", sql]).output();
        let text = String::from_utf8(psql.expect("psql runs").stdout).expect("text");
        let op: OpId = text.trim().parse().expect("an id");
        let found = store.find(&[keys("natural", 1)]).await.expect("reads");
        let known = found[0].as_ref().expect("it is there");
        assert_eq!((known.op_id, known.status), (op, Status::Pending));
    });
}

const SCRIPT: &str = r#"
import sys, psycopg
conn = psycopg.connect(sys.argv[1])
ACCEPT = "SELECT op_id, is_new FROM clinch_accept('natural', 'call', %s, %s, %s::json)"
def accept(number, payload):
    keys = ("order-%d" % number, "key-%d" % number, payload)
    return conn.execute(ACCEPT, keys).fetchone()
def insert(number):
    conn.execute("INSERT INTO orders VALUES (%s)", (number,))
conn.execute("CREATE TABLE orders (number INT PRIMARY KEY)")
conn.commit()
for number, ends in ((1, conn.commit), (2, conn.rollback)):
    insert(number)
    assert accept(number, '{"n": %d, "s": "\u00fc"}' % number)[1]
    ends()
first, is_new = accept(1, '{"s": "\u00fc", "n": 1.0}')
assert not is_new
assert accept(1, '{"n": 1, "s": "\u00fc"}') == (first, False)
conn.commit()
try:
    accept(1, '{"n": 9}')
    sys.exit("a mismatch was accepted")
except psycopg.errors.UniqueViolation:
    pass
conn.rollback()
for number in range(100, 300):
    insert(number)
    assert accept(number, '{"n": %d}' % number)[1]
    conn.commit() if number % 2 == 0 else conn.rollback()
print("\n".join(str(row[0]) for row in conn.execute("SELECT number FROM orders ORDER BY 1")))
"#;

#[test]
fn out_1_python_accepts_in_its_own_transaction() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let store = database.store().await;
        let target = option_env!("CARGO_TARGET_TMPDIR").map(std::path::Path::new);
        let target = target.and_then(std::path::Path::parent);
        let tools = target.expect("a target folder").join("tools");
        let python = clinch_testbed::python(&tools, "psycopg[binary]", "psycopg");
        let ran = Command::new(python.expect("a Python with psycopg"))
            .args(["-c", SCRIPT, &database.url()])
            .output()
            .expect("python runs");
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        let said = String::from_utf8(ran.stdout).expect("text");
        let orders: Vec<usize> = said.lines().map(|n| n.parse().expect("a number")).collect();
        assert_eq!(orders.len(), 101);
        let asked = [1, 2].into_iter().chain(100..300);
        let all: Vec<_> = asked
            .map(|number| (number, keys("natural", number)))
            .collect();
        let offered: Vec<_> = all.iter().map(|(_, keys)| keys.clone()).collect();
        let found = store.find(&offered).await.expect("reads");
        for ((number, _), known) in all.iter().zip(found) {
            assert_eq!(known.is_some(), orders.contains(number), "order {number}");
        }
        // A table of ours would be in the way of whoever has the database next.
        let drop = database
            .client()
            .await
            .batch_execute("DROP TABLE orders")
            .await;
        drop.expect("dropped");
    });
}
