//! `clinch ops ls` and `get`.

use crate::documents::{OP, OTHER, operation, page};
use crate::run::{command_at, ended, run};
use crate::server::{Answer, Seen, Server};

fn two() -> Server {
    let operations = [
        operation(OP, "FAILED"),
        operation(OTHER, "IN_PROGRESS/held"),
    ];
    Server::always(200, &page(&operations, None))
}

#[test]
fn a_table_of_operations() {
    let server = two();
    let ran = run(&server, &["ops", "ls"]);
    let expected = format!(
        "\
OP_ID                                 STATE                DOMAIN    EVENT_TYPE  BIZ_KEY    ATTEMPTS  ACCEPTED_AT               WHY
{OP}  FAILED               payments  charge      order-123  1         2026-11-15T08:00:00.123Z  http_402: card refused
{OTHER}  IN_PROGRESS/held     payments  charge      order-123  1         2026-11-15T08:00:00.123Z  effect_unknown
"
    );
    assert_eq!((ran.code, ran.out, ran.err), (0, expected, String::new()));
    assert_eq!(server.lines(), ["GET /v1/operations?limit=50"]);
}

#[test]
fn cells_are_cut_to_the_width_and_ids_last() {
    let server = two();
    for width in [100, 80, 40] {
        let mut command = command_at(&server, &["ops", "ls"]);
        let ran = ended(command.env("COLUMNS", width.to_string()).output().unwrap());
        for line in ran.out.lines() {
            assert!(line.chars().count() <= width, "{line}");
        }
        assert!(ran.out.contains(OP), "{}", ran.out);
        assert_eq!(ran.out.contains("http_402"), width > 40, "{}", ran.out);
        assert!(!ran.out.contains("ACCEPTED_AT"), "{}", ran.out);
    }
    let mut command = command_at(&server, &["ops", "ls"]);
    let ran = ended(command.env("COLUMNS", "20").output().unwrap());
    assert!(ran.out.contains("01917f5e-0000-7000-…"), "{}", ran.out);
}

#[test]
fn json_and_lines() {
    let server = two();
    let ran = run(&server, &["ops", "ls", "-o", "jsonl"]);
    let (one, other) = (
        operation(OP, "FAILED"),
        operation(OTHER, "IN_PROGRESS/held"),
    );
    assert_eq!(ran.out, format!("{one}\n{other}\n"));
    let ran = run(&server, &["ops", "ls", "-o", "json"]);
    let read: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let sent: serde_json::Value = serde_json::from_str(&page(&[one, other], None)).unwrap();
    assert_eq!(read, sent);
    let empty = Server::always(200, &page(&[], None));
    let ran = run(&empty, &["ops", "ls", "-o", "json"]);
    assert_eq!(
        ran.out,
        "{\n  \"operations\": [],\n  \"next_cursor\": null\n}\n"
    );
    let ran = run(&empty, &["ops", "ls"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "", "none found\n")
    );
}

#[test]
fn every_filter_is_a_parameter() {
    let server = two();
    let args = [
        "ops",
        "ls",
        "--domain",
        "pay ments",
        "--event-type",
        "charge",
        "--biz-key",
        "a/b&c",
        "--idem-key",
        "k",
        "--provider-txn-id",
        "tx_9",
        "--state",
        "in_progress",
        "--phase",
        "held",
        "--label",
        "team=shop",
        "--batch-id",
        OP,
        "--from",
        "2026-11-15T08:00:00Z",
        "--to",
        "2026-11-16T08:00:00Z",
        "--limit",
        "7",
        "--cursor",
        "c+1",
    ];
    assert_eq!(run(&server, &args).code, 0);
    let expected = format!(
        "GET /v1/operations?domain=pay%20ments&event_type=charge&biz_key=a%2Fb%26c&idem_key=k\
         &label=team%3Dshop&batch_id={OP}&from=2026-11-15T08%3A00%3A00Z\
         &to=2026-11-16T08%3A00%3A00Z&state=IN_PROGRESS&phase=held&provider_txn_id=tx_9\
         &limit=7&cursor=c%2B1"
    );
    assert_eq!(server.lines(), [expected]);
}

/// Pages of two, five operations in all.
fn paged() -> Server {
    Server::new(|seen: &Seen| {
        let cursor = seen.target.split("cursor=").nth(1);
        let start: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let ids = (start..5).take(2);
        let ids = ids.map(|i| format!("01917f5e-0000-7000-8000-00000000000{i}"));
        let operations: Vec<String> = ids.map(|id| operation(&id, "COMPLETED")).collect();
        let next = (start + 2 < 5).then(|| (start + 2).to_string());
        Answer::new(200, page(&operations, next.as_deref()))
    })
}

#[test]
fn pages_follow_one_another() {
    let server = paged();
    let ran = run(&server, &["ops", "ls", "--all"]);
    assert_eq!(
        (ran.code, ran.out.lines().count(), ran.err.as_str()),
        (0, 6, "")
    );
    let expected = [
        "GET /v1/operations?limit=100",
        "GET /v1/operations?limit=100&cursor=2",
        "GET /v1/operations?limit=100&cursor=4",
    ];
    assert_eq!(server.lines(), expected);
    // One connection serves them all.
    assert!(server.seen().iter().all(|seen| seen.connection == 0));

    let server = paged();
    let ran = run(&server, &["ops", "ls", "--limit", "4"]);
    assert_eq!(ran.out.lines().count(), 5);
    assert_eq!(ran.err, "there are more: use --all, or --cursor 4\n");
    assert_eq!(server.lines()[1], "GET /v1/operations?limit=2&cursor=2");
    let ran = run(&server, &["ops", "ls", "--limit", "2", "-o", "json"]);
    let read: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(read["next_cursor"], "2");
    assert_eq!(run(&server, &["ops", "ls", "--limit", "0"]).code, 2);
}

#[test]
fn a_list_that_starts_over_ends() {
    let server = Server::always(200, &page(&[operation(OP, "COMPLETED")], Some("same")));
    let ran = run(&server, &["ops", "ls", "--all"]);
    assert_eq!((ran.code, server.seen().len()), (1, 2));
    assert!(ran.err.contains("starts over"), "{}", ran.err);
}

#[test]
fn one_operation() {
    let server = Server::always(200, &operation(OP, "FAILED"));
    let ran = run(&server, &["ops", "get", &OP.to_uppercase()]);
    assert_eq!(ran.code, 0);
    let failure =
        "failure.code      http_402\nfailure.effect    none\nfailure.message   card refused\n";
    assert!(ran.out.contains(failure), "{}", ran.out);
    assert_eq!(server.lines(), [format!("GET /v1/operations/{OP}")]);
    assert_eq!(server.seen()[0].header("prefer"), None);
    let ran = run(&server, &["ops", "get", "../domains"]);
    assert_eq!((ran.code, server.seen().len()), (2, 1));
}

const LEDGER: &str = r#"{"op_id":"x","attempts":[{"number":1,"fence":1,"worker":"w1","started_at":"T1","ended_at":"T2","outcome":"retry","latency_ms":12,"error":"503"},{"number":2,"fence":2,"worker":"w2","started_at":"T3","ended_at":null,"outcome":null,"latency_ms":null,"error":null}],"late_answers":[{"at":"T4","outcome":"ok","worker":"w1","provider_txn_id":"tx_9","refused":null}],"ledger":[{"at":"T1","event":"Begin","state":"IN_PROGRESS","phase":"live","fence":1,"version":2,"by":"w1","refused":null,"note":""}]}"#;

fn with_ledger() -> Server {
    Server::new(|seen: &Seen| match seen.target.ends_with("/attempts") {
        true => Answer::new(200, LEDGER),
        false => Answer::new(200, operation(OP, "IN_PROGRESS/live")),
    })
}

#[test]
fn the_path_is_the_whole_ledger() {
    let server = with_ledger();
    let ran = run(&server, &["ops", "get", OP, "--path"]);
    let expected = "
NUMBER  STARTED_AT  ENDED_AT  OUTCOME  LATENCY  WORKER  ERROR
1       T1          T2        retry    12ms     w1      503
2       T3                                      w2

LATE_AT  OUTCOME  WORKER  PROVIDER_TXN_ID  REFUSED
T4       ok       w1      tx_9

AT  EVENT  STATE             FENCE  BY  NOTE  REFUSED
T1  Begin  IN_PROGRESS/live  1      w1
";
    assert_eq!(ran.code, 0);
    assert!(ran.out.ends_with(expected), "{}", ran.out);
    let get = format!("GET /v1/operations/{OP}");
    assert_eq!(server.lines(), [get.clone(), format!("{get}/attempts")]);
    let ran = run(&server, &["ops", "get", OP, "--path", "-o", "jsonl"]);
    let operation = operation(OP, "IN_PROGRESS/live");
    let rest = LEDGER.strip_prefix('{').unwrap();
    assert_eq!(ran.out, format!("{{\"operation\":{operation},{rest}\n"));
    let ran = run(&server, &["ops", "get", OP, "--path", "-o", "json"]);
    let read: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(read["ledger"][0]["event"], "Begin");
}
