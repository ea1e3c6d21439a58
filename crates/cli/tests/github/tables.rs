//! Exports with columns: CSV and Parquet equal the JSON lines, field by field.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use crate::hub::Hub;
use crate::readers::{Rows, are_there, assert_equal, csv, csv_rows, expected, parquet_rows};
use crate::support::{Folder, Server, ends, said};

/// A document with values that tables and their readers stumble over.
const AWKWARD: &str = r#"{"id": 99999999999999999999, "number": 1.5, "comments": "many",
    "title": "=1+1, \"quoted\"\r\nnext\tline \u0000\u001b[2J é 日本 🦀 ' ; |", "state": "",
    "locked": "no", "user": [], "labels": [ {"name": "a,\"b\""} ], "assignees": {},
    "created_at": "2026-01-02T03:04:05.678+02:00", "updated_at": "0000-00-00", "closed_at": 7,
    "body": "\r", "html_url": null, "extra": {"deep": [1.50]}}"#;

/// A folder with the documents of a made-up user, one of them awkward.
fn collected(hub: &Hub) -> Folder {
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    ends(&folder.run(&["github", "run", "octocat"]), 0);
    let database = rusqlite::Connection::open(folder.0.join("clinch.db")).expect("a database");
    let changed = database.execute(
        "UPDATE clinch_document SET body = ?1 WHERE id = (SELECT min(id) FROM clinch_document WHERE kind = 'issue')",
        [AWKWARD],
    );
    assert_eq!(changed, Ok(1));
    folder
}

/// What the JSON lines say; the awkward times are written in UTC, or are null.
fn truth(folder: &Folder, with_document: bool) -> Rows {
    let mut rows = expected(&ends(&folder.run(&["github", "export"]), 0), with_document);
    let awkward = |row: &&mut crate::readers::Row| row["updated_at"] == json!("0000-00-00");
    let row = rows
        .values_mut()
        .filter(|row| row.contains_key("updated_at"))
        .find(awkward)
        .expect("the awkward row");
    row.insert("updated_at".into(), json!(null));
    row.insert("created_at".into(), json!("2026-01-02T01:04:05.678Z"));
    rows
}

/// One file of each kind, and nothing else.
fn files(folder: &Path, extension: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("text"));
    let kind = |name: String| {
        let kind = name.strip_suffix(extension);
        kind.expect("no file but tables").to_owned()
    };
    names.map(kind).collect()
}

const KINDS: [&str; 6] = [
    "commit",
    "event",
    "issue",
    "pull_request",
    "repository",
    "user",
];

#[test]
fn col_15_csv_has_columns_that_equal_the_json_lines() {
    let hub = Hub::calm();
    let folder = collected(&hub);
    let export = ["github", "export", "--format", "csv"];
    let all = ["--out", "tables", "--document"];
    ends(&folder.run(&[&export[..], &all].concat()), 0);
    let tables = folder.0.join("tables");
    assert_eq!(files(&tables, ".csv"), KINDS.map(str::to_owned).into());
    let read: Rows = KINDS
        .iter()
        .flat_map(|kind| csv_rows(&tables.join(format!("{kind}.csv")), kind))
        .collect();
    let mut rows = truth(&folder, true);
    assert_equal(&read, &rows);
    let title = rows
        .values()
        .find(|row| row["_document"]["comments"] == "many");
    let title = title
        .and_then(|row| row["title"].as_str())
        .expect("a title");
    assert!(
        title.starts_with("=1+1") && title.contains("\r\n"),
        "{title}"
    );

    // One kind: to standard output, to a file, into a folder.
    let issues = ends(
        &folder.run(&[&export[..], &["--kind", "issue"]].concat()),
        0,
    );
    for out in ["issues.csv", "tables"] {
        let arguments = [&export[..], &["--kind", "issue", "--out", out]].concat();
        ends(&folder.run(&arguments), 0);
    }
    for path in ["issues.csv", "tables/issue.csv"] {
        let text = std::fs::read_to_string(folder.0.join(path)).expect("a file");
        assert_eq!(text, issues, "{path}");
    }
    rows = truth(&folder, false);
    rows.retain(|(kind, _), _| kind == "issue");
    assert_equal(&csv_rows(&folder.0.join("issues.csv"), "issue"), &rows);

    // A kind without documents is a table without rows.
    let none = ends(
        &folder.run(&[&export[..], &["--kind", "release"]].concat()),
        0,
    );
    let records = csv(&none);
    assert_eq!(records.len(), 1, "{none}");
    let first: Vec<&str> = records[0]
        .iter()
        .take(4)
        .flatten()
        .map(String::as_str)
        .collect();
    assert_eq!(first, ["_id", "_user", "_resource", "id"]);
}

#[test]
fn col_15_parquet_is_read_by_pyarrow_and_equals_the_json_lines() {
    if !are_there() {
        return;
    }
    let hub = Hub::calm();
    let folder = collected(&hub);
    let export = ["github", "export", "--format", "parquet"];
    let all = ["--out", "tables", "--document"];
    ends(&folder.run(&[&export[..], &all].concat()), 0);
    let tables = folder.0.join("tables");
    assert_eq!(files(&tables, ".parquet"), KINDS.map(str::to_owned).into());
    let read: Rows = KINDS
        .iter()
        .flat_map(|kind| parquet_rows(&tables.join(format!("{kind}.parquet")), kind))
        .collect();
    assert_equal(&read, &truth(&folder, true));

    for (kind, path) in [("issue", "issues.parquet"), ("release", "none.parquet")] {
        let arguments = [&export[..], &["--kind", kind, "--out", path]].concat();
        ends(&folder.run(&arguments), 0);
        let mut rows = truth(&folder, false);
        rows.retain(|(of, _), _| of == kind);
        let read = parquet_rows(&folder.0.join(path), kind);
        assert_equal(&read, &rows);
    }
}

#[test]
fn col_15_tables_are_exported_from_a_server() {
    let hub = Hub::calm();
    let folder = collected(&hub);
    let server = Server::start(&folder, "api,worker,recovery");
    let elsewhere = Folder::with("");
    let url = server.url();
    let export = ["github", "export", "--format", "csv", "--kind", "issue"];
    let served = ends(&elsewhere.run(&[&export[..], &["--url", &url]].concat()), 0);
    drop(server);
    assert_eq!(served, ends(&folder.run(&export), 0));
}

#[test]
fn col_15_exports_that_cannot_be_are_refused_in_one_line() {
    let hub = Hub::calm();
    let folder = collected(&hub);
    std::fs::write(folder.0.join("file"), "").expect("a file");
    let cases: [(&[&str], &str); 7] = [
        (&["--format", "csv"], "--out DIR"),
        (&["--format", "csv", "--out", "all.csv"], "not a folder"),
        (&["--format", "csv", "--out", "file"], "not a folder"),
        (&["--format", "parquet"], "--out"),
        (&["--format", "parquet", "--kind", "issue"], "--out"),
        (
            &["--format", "parquet", "--out", "all.parquet"],
            "not a folder",
        ),
        (&["--document"], "csv and parquet"),
    ];
    for (arguments, word) in cases {
        let output = folder.run(&[&["github", "export"], arguments].concat());
        ends(&output, 2);
        let said = said(&output);
        assert!(said.contains(word) && said.lines().count() == 1, "{said}");
    }
    // An unknown user leaves no file behind.
    let tables = ["--format", "csv", "--kind", "issue", "--out", "none.csv"];
    let unknown = ["github", "export", "--login", "nobody"];
    ends(&folder.run(&[&unknown[..], &tables].concat()), 3);
    for path in ["none.csv", "none.csv.part", "all.csv", "all.parquet"] {
        assert!(!folder.0.join(path).exists(), "{path}");
    }
}
