//! `CALL clinch_accept(…)` through other drivers: the `mariadb` client and Python (OUT-1, OUT-7).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use clinch_contract::Calls;
use clinch_core::Status;
use clinch_core::policy::{EventTypes, Order, Routes, Rules};
use clinch_core::ports::{
    Accepted, Answer, AnswerBody, Bus, Delivery, Dequeue, Domains, Ids, Inspect, NewOperation,
    Prune, Recovery, StoredOk, Topic,
};
use clinch_mysql::Mysql;
use clinch_system::SystemIds;
use mysql_async::Opts;

use crate::common::{self, Database, keys, on_a_runtime, operation_of, payload, routes, worker};

/// Runs SQL with the server's own client; `Err` holds its error message.
fn client(database: &Database, sql: &str) -> Result<String, String> {
    let opts = Opts::from_url(&database.url).expect("an address");
    let output = Command::new("mariadb")
        .args([
            "--no-defaults",
            "--batch",
            "--skip-column-names",
            "--user=root",
        ])
        .arg(format!("--host={}", opts.ip_or_hostname()))
        .arg(format!("--port={}", opts.tcp_port()))
        .arg(&database.name)
        .args(["--execute", sql])
        .output();
    said(&output.expect("the client runs"))
}

fn said(output: &Output) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

/// A call with these keys; it returns the op_id and whether it is new.
fn call(number: usize, payload: &str, options: &str) -> String {
    format!(
        "CALL clinch_accept('natural', 'call', 'order-{number}', 'key-{number}', '{payload}', \
         {options}, @op_id, @is_new); SELECT @op_id, @is_new"
    )
}

fn ask(store_routes: &Routes, domain: &str) -> Dequeue {
    Dequeue {
        topics: vec![Topic::of(&keys(domain, 0).domain)],
        max: 9,
        wait: std::time::Duration::ZERO,
        visibility: std::time::Duration::from_secs(30),
        worker: worker("worker"),
        attempts: (0..9).map(|_| SystemIds.attempt_id()).collect(),
        routes: Arc::new(store_routes.clone()),
        only: Arc::new(store_routes.clone()),
    }
}

async fn settle(store: &Mysql, delivery: &Delivery) {
    let answer = Answer {
        op_id: delivery.hint.op_id,
        fence: Some(1),
        worker: worker("worker"),
        body: AnswerBody::Ok(StoredOk::default()),
        attempt_id: None,
    };
    let settled = store.settle(&[answer], &routes()).await.expect("answers");
    assert!(settled[0].is_ok(), "{settled:?}");
}

/// Pruning removes the payload, but the key still recognizes the same request.
async fn what_is_left_still_answers(store: &Mysql, same: NewOperation) {
    let prune = Prune {
        completed: std::time::Duration::ZERO,
        failed: std::time::Duration::ZERO,
        keys: std::time::Duration::from_secs(3_600),
        max: 10,
        reckoned: None,
        jump_max: std::time::Duration::MAX,
    };
    assert_eq!(store.prune(&prune).await.expect("prunes").operations, 1);
    let replayed = store.accept(&[same], &routes()).await.expect("answers");
    assert!(matches!(&replayed[..], [Accepted::Known(known)] if known.pruned));
}

fn out_7_what_the_client_accepts_is_an_operation_like_any_other() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        let json = "{\"b\": 1.0, \"a\": [true, \"\u{e9}\"]}";
        let first = client(&database, &call(1, json, "NULL")).expect("accepted");
        let (op_id, is_new) = first.split_once('\t').expect("two columns");
        assert_eq!(is_new, "1");
        // What the Rust adapter would have stored for the same keys.
        let same = operation_of(
            keys("natural", 1),
            &payload("{\"a\":[true,\"\u{e9}\"],\"b\":1}"),
        );
        let row = store
            .get(&[op_id.parse().expect("an id")])
            .await
            .expect("reads");
        let row = row[0].clone().expect("it is there");
        assert_eq!(row.keys, same.keys);
        assert_eq!(row.outbound_key, same.outbound_key);
        assert_eq!(row.state.status, Status::Pending);
        assert!(row.content_hash.verifies(
            &row.op_id,
            &row.keys.event_type,
            row.payload.as_bytes()
        ));
        assert_eq!(row.payload.as_bytes(), json.as_bytes());
        let ledger = store.ledger(row.op_id).await.expect("reads");
        assert_eq!(ledger.len(), 1);
        assert_eq!((ledger[0].event.as_str(), ledger[0].version), ("Accept", 1));
        assert_eq!(store.domains().await.expect("reads")[0].counts.pending, 1);
        // The same request again, through SQL or Rust and in any notation.
        for spelling in [
            json,
            "{\"a\":[true,\"\u{e9}\"],\"b\":1}",
            "{ \"b\":1, \"a\":[true,\"\u{e9}\"]}",
        ] {
            let again = client(&database, &call(1, spelling, "NULL")).expect("known");
            assert_eq!(again, format!("{op_id}\t0"), "{spelling}");
        }
        let replayed = store.accept(std::slice::from_ref(&same), &routes()).await;
        let replayed = replayed.expect("answers");
        assert!(matches!(&replayed[..], [Accepted::Known(known)] if known.op_id == row.op_id));
        // Both refuse another request with these keys, and name the operation.
        let other = client(&database, &call(1, "{\"b\":2}", "NULL")).expect_err("refused");
        assert!(
            other.contains("45000") && other.contains("idempotency_mismatch"),
            "{other}"
        );
        assert!(other.contains(op_id), "{other}");
        let other = operation_of(keys("natural", 1), &payload("{\"b\":2}"));
        let refused = store.accept(&[other], &routes()).await.expect("answers");
        assert!(matches!(&refused[..], [Accepted::Mismatch(known)] if known.op_id == row.op_id));
        // The operation runs.
        let taken = store
            .dequeue(&ask(&routes(), "natural"))
            .await
            .expect("deliveries");
        assert_eq!(taken.len(), 1);
        settle(&store, &taken[0]).await;
        what_is_left_still_answers(&store, same).await;
    });
}

fn core_6_a_replay_by_the_client_of_what_rust_accepted_is_known() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        let new = operation_of(keys("natural", 1), &payload("{\"a\":1,\"b\":2}"));
        let accepted = store.accept(std::slice::from_ref(&new), &routes()).await;
        accepted.expect("accepted");
        for spelling in ["{\"a\":1,\"b\":2}", "{\"b\": 2, \"a\": 1}"] {
            let known = client(&database, &call(1, spelling, "NULL")).expect("known");
            assert_eq!(known, format!("{}\t0", new.op_id), "{spelling}");
        }
        client(&database, &call(1, "{\"a\":1}", "NULL")).expect_err("another request");
    });
}

fn out_1_the_procedure_keeps_to_the_callers_transaction() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        let in_tx = |number, end| {
            let call = call(number, "{}", "NULL");
            format!("START TRANSACTION; {call}; {end}")
        };
        client(&database, &in_tx(1, "COMMIT")).expect("commits");
        client(&database, &in_tx(2, "ROLLBACK")).expect("rolls back");
        // Outside of a transaction it opens its own: everything commits, or nothing.
        client(&database, &call(3, "{}", "NULL")).expect("accepted");
        let all = [1, 2, 3].map(|number| keys("natural", number));
        let found = store.find(&all).await.expect("reads");
        let found: Vec<bool> = found.iter().map(Option::is_some).collect();
        assert_eq!(found, [true, false, true]);
        assert_eq!(store.domains().await.expect("reads")[0].counts.pending, 2);
    });
}

fn core_11_options_of_the_procedure_are_honoured() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        let options =
            r#"'{"priority": 5, "run_at_ms": 1000, "deadline_ms": 4102444800000, "order": "key"}'"#;
        let lane = |idem: &str| {
            format!(
                "CALL clinch_accept('natural', 'call', 'order', '{idem}', '1', {options}, @op, @new); \
                 SELECT @op"
            )
        };
        let first = client(&database, &lane("a")).expect("accepted");
        let second = client(&database, &lane("b")).expect("accepted");
        let ordered = Rules {
            order: Order::Key,
            ..Rules::default()
        };
        let by = Routes::new().with(keys("natural", 0).domain, EventTypes::Any, ordered);
        let taken = store
            .dequeue(&ask(&by, "natural"))
            .await
            .expect("deliveries");
        assert_eq!(taken.len(), 1, "the lane is taken");
        assert_eq!(taken[0].hint.op_id.to_string(), first);
        let begun = taken[0].begun.as_ref().expect("it has begun");
        assert_eq!(begun.options.priority.get(), 5);
        assert_eq!(
            begun.state.deadline.map(|at| at.as_millis()),
            Some(4_102_444_800_000)
        );
        settle(&store, &taken[0]).await;
        let taken = store
            .dequeue(&ask(&by, "natural"))
            .await
            .expect("deliveries");
        assert_eq!(taken[0].hint.op_id.to_string(), second);
    });
}

fn core_1_what_rust_refuses_the_procedure_refuses() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        let with = |domain: &str,
                    event: &str,
                    biz: &str,
                    idem: &str,
                    payload: &str,
                    options: &str| {
            format!(
                "CALL clinch_accept({domain}, {event}, {biz}, {idem}, {payload}, {options}, @op, @new)"
            )
        };
        let options = |options: &str| with("'d'", "'e'", "'b'", "'i'", "'1'", options);
        let bad = [
            with("'a b'", "'e'", "'b'", "'i'", "'1'", "NULL"),
            with("NULL", "'e'", "'b'", "'i'", "'1'", "NULL"),
            with("REPEAT('d', 129)", "'e'", "'b'", "'i'", "'1'", "NULL"),
            with("'d'", "''", "'b'", "'i'", "'1'", "NULL"),
            with("'d'", "CONCAT('e', CHAR(10))", "'b'", "'i'", "'1'", "NULL"),
            with("'d'", "'e'", "' b'", "'i'", "'1'", "NULL"),
            with("'d'", "'e'", "'b '", "'i'", "'1'", "NULL"),
            with("'d'", "'e'", "_utf8mb4 X'62C2A0'", "'i'", "'1'", "NULL"),
            with("'d'", "'e'", "_utf8mb4 X'62C28563'", "'i'", "'1'", "NULL"),
            with(
                "'d'",
                "'e'",
                "'b'",
                "CONCAT('i', CHAR(9), 'i')",
                "'1'",
                "NULL",
            ),
            with("'d'", "'e'", "'b'", "REPEAT('i', 256)", "'1'", "NULL"),
            with("'d'", "'e'", "'b'", "'i'", "'{'", "NULL"),
            with("'d'", "'e'", "'b'", "'i'", "NULL", "NULL"),
            options("'[]'"),
            options("'{\"prority\": 1}'"),
            options("'{\"priority\": 11}'"),
            options("'{\"run_at_ms\": \"soon\"}'"),
            options("'{\"order\": \"size\"}'"),
            options("'{\"run_at_ms\": 4102444800000, \"deadline_ms\": 4102444800000}'"),
        ];
        for sql in &bad {
            let refused = client(&database, sql).expect_err(sql);
            assert!(refused.contains("(45000)"), "{sql}: {refused}");
        }
        assert!(
            store.domains().await.expect("reads").is_empty(),
            "nothing was written"
        );
        // Case and inner spaces are part of a key; these are four operations.
        for biz in ["'b  c'", "'b c'", "'B c'", "_utf8mb4 X'62C2A063'"] {
            client(&database, &with("'d'", "'e'", biz, "'i'", "'1'", "NULL")).expect("accepted");
        }
        assert_eq!(store.domains().await.expect("reads")[0].counts.pending, 4);
        store.set_sealed(true).await.expect("says so");
        let sealed = client(&database, &call(1, "{}", "NULL")).expect_err("refused");
        assert!(sealed.contains("sealed"), "{sealed}");
        store.set_sealed(false).await.expect("says so");
        client(&database, &call(1, "{}", "NULL")).expect("accepted");
    });
}

/// The server accepts JSON that Clinch does not; such an operation is dead-lettered and never sent.
fn out_3_json_that_rust_does_not_take_is_dead_lettered() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        client(&database, &call(1, "{\"a\":1,\"a\":2}", "NULL")).expect("accepted");
        let taken = store
            .dequeue(&ask(&routes(), "natural"))
            .await
            .expect("answers");
        assert!(taken.is_empty());
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
        assert_eq!(letters[0].failure.code, clinch_core::code::INTEGRITY);
    });
}

/// A Python with PyMySQL, installed once; other test processes may install it at the same time.
fn python() -> PathBuf {
    let target = option_env!("CARGO_TARGET_TMPDIR").map(Path::new);
    let tools = target
        .and_then(Path::parent)
        .expect("a target folder")
        .join("tools");
    let home = tools.join("pymysql");
    let program = home.join("bin/python");
    let is_there = || {
        Command::new(&program)
            .args(["-c", "import pymysql"])
            .output()
    };
    if is_there().is_ok_and(|output| output.status.success()) {
        return program;
    }
    std::fs::create_dir_all(&tools).expect("a folder of tools");
    let own = tools.join(format!("pymysql-{}", std::process::id()));
    let venv = Command::new("python3")
        .args(["-m", "venv"])
        .arg(&own)
        .output();
    said(&venv.expect("python3 runs")).expect("an environment");
    let pip = Command::new(own.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "pymysql"])
        .output();
    said(&pip.expect("pip runs")).expect("PyMySQL");
    // The second process finds it installed.
    if std::fs::rename(&own, &home).is_err() {
        let _ = std::fs::remove_dir_all(&own);
    }
    program
}

const SCRIPT: &str = r#"
import sys, pymysql
host, port, database = sys.argv[1:4]
conn = pymysql.connect(host=host, port=int(port), user="root", database=database, charset="utf8mb4")
cursor = conn.cursor()
cursor.execute("CREATE TABLE orders (number INT PRIMARY KEY) ENGINE = InnoDB")
def accept(number, payload):
    args = ("natural", "call", "order-%d" % number, "key-%d" % number, payload, None, None, None)
    cursor.callproc("clinch_accept", args)
    cursor.execute("SELECT @_clinch_accept_6, @_clinch_accept_7")
    return cursor.fetchone()
for number, ends in ((1, conn.commit), (2, conn.rollback)):
    conn.begin()
    cursor.execute("INSERT INTO orders VALUES (%s)", (number,))
    assert accept(number, '{"n": %d, "s": "\u00fc"}' % number)[1] == 1
    ends()
assert accept(1, '{"s": "\u00fc", "n": 1.0}')[1] == 0
conn.commit()
try:
    accept(1, '{"n": 9}')
    sys.exit("a mismatch was accepted")
except pymysql.err.MySQLError as error:
    assert "idempotency_mismatch" in error.args[1], error
cursor.execute("SELECT COUNT(*) FROM orders")
assert cursor.fetchone()[0] == 1
print("ok")
"#;

fn out_1_python_accepts_in_its_own_transaction() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        let opts = Opts::from_url(&database.url).expect("an address");
        let output = Command::new(python())
            .args(["-c", SCRIPT, opts.ip_or_hostname()])
            .args([&opts.tcp_port().to_string(), &database.name])
            .output();
        assert_eq!(said(&output.expect("python runs")), Ok("ok".to_owned()));
        let found = store
            .find(&[1, 2].map(|number| keys("natural", number)))
            .await;
        let found: Vec<bool> = found.expect("reads").iter().map(Option::is_some).collect();
        assert_eq!(found, [true, false]);
    });
}

clinch_contract::tests! {
    out_7_what_the_client_accepts_is_an_operation_like_any_other,
    core_6_a_replay_by_the_client_of_what_rust_accepted_is_known,
    out_1_the_procedure_keeps_to_the_callers_transaction,
    core_11_options_of_the_procedure_are_honoured,
    core_1_what_rust_refuses_the_procedure_refuses,
    out_3_json_that_rust_does_not_take_is_dead_lettered,
    out_1_python_accepts_in_its_own_transaction,
}
