//! Every kind of documents in every format: CSV, Parquet and Singer equal the JSON lines.

use std::collections::BTreeSet;

use clinch_github::fake::Setup;
use clinch_github::schema::STREAMS;
use serde_json::Value;

use crate::hub::Hub;
use crate::readers::{Row, Rows, are_there, assert_equal, csv_rows, expected, parquet_rows};
use crate::support::{Folder, ends};

/// The last user of a made-up world is an organization.
const USERS: [&str; 3] = ["octocat", "hubot", "monalisa"];

/// A folder with documents of every kind.
fn collected(hub: &Hub) -> Folder {
    let section = format!("{}streams = [\"all\"]\n", hub.section(&["fake-ann-1"]));
    let folder = Folder::with(&section);
    for user in USERS {
        ends(&folder.run(&["github", "run", user]), 0);
    }
    folder
}

fn kinds(rows: &Rows) -> BTreeSet<&str> {
    rows.keys().map(|(kind, _)| kind.as_str()).collect()
}

#[test]
fn col_15_every_kind_has_rows_in_every_format_that_equal_the_json_lines() {
    let hub = Hub::with_streams(Setup::default());
    let folder = collected(&hub);
    let rows = expected(&ends(&folder.run(&["github", "export"]), 0), false);
    let all: BTreeSet<&str> = STREAMS.iter().map(|stream| stream.kind).collect();
    assert_eq!(kinds(&rows), all);

    let csv = ["github", "export", "--format", "csv", "--out", "csv"];
    ends(&folder.run(&csv), 0);
    let path = |kind: &str| folder.0.join(format!("csv/{kind}.csv"));
    let read: Rows = all
        .iter()
        .flat_map(|kind| csv_rows(&path(kind), kind))
        .collect();
    assert_equal(&read, &rows);

    let mut sent = Rows::new();
    for line in ends(&folder.run(&["github", "tap"]), 0).lines() {
        let message: Value = serde_json::from_str(line).expect("a JSON line");
        if message["type"] != "RECORD" {
            continue;
        }
        let kind = message["stream"].as_str().expect("a stream").to_owned();
        let record = message["record"].as_object().expect("a record");
        let mut row: Row = record.clone().into_iter().collect();
        assert_eq!(row.remove("_sdc_deleted_at"), Some(Value::Null));
        let id = row["_id"].as_str().expect("an id").to_owned();
        assert!(sent.insert((kind, id), row).is_none());
    }
    assert_equal(&sent, &rows);

    if !are_there() {
        return;
    }
    let parquet = [
        "github", "export", "--format", "parquet", "--out", "parquet",
    ];
    ends(&folder.run(&parquet), 0);
    let path = |kind: &str| folder.0.join(format!("parquet/{kind}.parquet"));
    let read: Rows = all
        .iter()
        .flat_map(|kind| parquet_rows(&path(kind), kind))
        .collect();
    assert_equal(&read, &rows);
}
