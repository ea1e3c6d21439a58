//! `clinch github tap`: its messages, its state, and a real Singer target behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;

use clinch_github::fake::{Faults, Setup, Size};
use clinch_github::schema::STREAMS;
use clinch_testbed::readers_environment;
use serde_json::{Value, json};

use crate::hub::Hub;
use crate::readers::{Row, Rows, are_there, assert_equal, expected};
use crate::support::{Folder, clinch, document, ends, said};

fn collected(hub: &Hub) -> Folder {
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    ends(&folder.run(&["github", "run", "octocat"]), 0);
    folder
}

/// The messages of a tap.
struct Sent {
    schemas: BTreeMap<String, Value>,
    records: Rows,
    /// Of documents that are gone, when they were found to be.
    deleted: BTreeMap<(String, String), String>,
    states: Vec<Value>,
}

/// Runs a tap; checks the order of its messages.
fn tap(folder: &Folder, arguments: &[&str]) -> Sent {
    let output = folder.run(&[&["github", "tap", "--login", "octocat"], arguments].concat());
    let mut sent = Sent {
        schemas: BTreeMap::new(),
        records: Rows::new(),
        deleted: BTreeMap::new(),
        states: Vec::new(),
    };
    let mut since_state = 0;
    for line in ends(&output, 0).lines() {
        let message: Value = serde_json::from_str(line).expect("a JSON line");
        let stream = message["stream"].as_str().unwrap_or_default().to_owned();
        match message["type"].as_str().expect("a type") {
            "SCHEMA" => {
                let before = sent.schemas.insert(stream, message);
                assert!(before.is_none());
            }
            "RECORD" => {
                let properties = &sent.schemas[&stream]["schema"]["properties"];
                let record = message["record"].as_object().expect("a record");
                assert!(
                    record
                        .keys()
                        .eq(properties.as_object().expect("an object").keys())
                );
                let at = message["time_extracted"].as_str().expect("a time");
                assert!(
                    at.parse::<jiff::Timestamp>().is_ok() && at.ends_with('Z'),
                    "{at}"
                );
                let mut row: Row = record.clone().into_iter().collect();
                let id = row["_id"].as_str().expect("an id").to_owned();
                let is_new = match row.remove("_sdc_deleted_at").expect("the column") {
                    Value::Null => sent.records.insert((stream, id), row).is_none(),
                    at => {
                        let at = at.as_str().expect("a time").to_owned();
                        sent.deleted.insert((stream, id), at).is_none()
                    }
                };
                assert!(is_new);
                since_state += 1;
            }
            "STATE" => {
                sent.states.push(message["value"].clone());
                since_state = 0;
            }
            other => unreachable!("{other}"),
        }
        assert!(since_state <= 1_000);
    }
    assert_eq!(since_state, 0, "the last message is a state");
    sent
}

impl Sent {
    /// Keeps the last state in a file, as a target does.
    fn keep(&self, folder: &Folder) {
        let last = self.states.last().expect("a state").to_string();
        std::fs::write(folder.0.join("state.json"), last).expect("a file");
    }
}

fn truth(folder: &Folder) -> Rows {
    let lines = folder.run(&["github", "export", "--login", "octocat"]);
    expected(&ends(&lines, 0), false)
}

const STATE: [&str; 2] = ["--state", "state.json"];

#[test]
fn col_15_a_tap_sends_everything_then_only_what_changed() {
    let size = Size {
        users: 2,
        repositories: 6,
        documents: 6_000,
    };
    let hub = Hub::start(&size, Setup::default());
    let folder = collected(&hub);
    let first = tap(&folder, &[]);
    assert_eq!(first.schemas.len(), STREAMS.len());
    let before = truth(&folder);
    assert_equal(&first.records, &before);
    first.keep(&folder);
    let again = tap(&folder, &STATE);
    assert_eq!(again.records.len(), 0);
    assert_eq!(again.states.last(), first.states.last());

    hub.fake.with_world(|world| world.change(3, 6));
    ends(&folder.run(&["github", "run", "octocat"]), 0);
    let after = truth(&folder);
    let changed = tap(&folder, &STATE);
    let is_new = |name: &(String, String)| before.get(name) != after.get(name);
    let new: BTreeSet<_> = after.keys().filter(|name| is_new(name)).collect();
    let (sent, all) = (changed.records.len(), after.len());
    assert!(!new.is_empty() && sent < all, "{sent} of {all}");
    for name in new {
        assert_eq!(changed.records.get(name), after.get(name), "{name:?}");
    }
    for (name, record) in &changed.records {
        assert_eq!(Some(record), after.get(name));
    }
    // A state of one stream says nothing about the others; other columns are sent again.
    changed.keep(&folder);
    let wider = tap(
        &folder,
        &["--state", "state.json", "--kind", "issue", "--document"],
    );
    let issues = after.keys().filter(|(kind, _)| kind == "issue");
    assert_eq!(
        wider.records.keys().collect::<Vec<_>>(),
        issues.collect::<Vec<_>>()
    );
    let (kept, changed) = (wider.states.last(), changed.states.last());
    let commits = |state: Option<&Value>| state.expect("a state")["bookmarks"]["commit"].clone();
    assert_eq!(commits(kept), commits(changed));
}

#[test]
fn col_15_a_document_that_is_collected_late_is_sent_though_it_is_old() {
    let names = Hub::calm().fake.with_world(|world| world.full_names());
    let own = |name: &&String| name.starts_with("octocat/");
    let name = names.iter().find(own).expect("a repository");
    let hub = Hub::with(Faults::none().repository(name, 451));
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    ends(&folder.run(&["github", "run", "octocat"]), 0);
    let first = tap(&folder, &[]);
    first.keep(&folder);
    hub.fake.set_faults(Faults::none());
    ends(&folder.run(&["github", "run", "octocat"]), 0);
    let mut all = first.records;
    all.extend(tap(&folder, &STATE).records);
    assert_equal(&all, &truth(&folder));
}

#[test]
fn col_15_a_tap_tells_what_is_gone_once_and_what_came_back() {
    let hub = Hub::calm();
    let folder = collected(&hub);
    let first = tap(&folder, &[]);
    assert_eq!(first.deleted.len(), 0);
    first.keep(&folder);
    let names = hub.fake.with_world(|world| world.full_names());
    let own = names.iter().filter(|name| name.starts_with("octocat/"));
    let gone = own.filter(|name| hub.fake.with_world(|world| world.delete_issue(name, 1)));
    let gone = gone.count();
    ends(&folder.run(&["github", "run", "octocat", "--full"]), 0);
    let second = tap(&folder, &STATE);
    assert_eq!((second.deleted.len(), gone > 0), (gone, true));
    let rows = truth(&folder);
    for name in second.deleted.keys() {
        assert!(first.records.contains_key(name) && !rows.contains_key(name));
    }
    second.keep(&folder);
    let third = tap(&folder, &STATE);
    assert_eq!((third.deleted.len(), third.records.len()), (0, 0));
    // A token that does not see a repository any more, and then sees it again.
    let name = names
        .iter()
        .find(|name| name.starts_with("octocat/"))
        .expect("one");
    hub.fake.with_world(|world| world.make_private(name));
    ends(&folder.run(&["github", "run", "octocat", "--full"]), 0);
    let hidden = tap(&folder, &STATE);
    assert!(!hidden.deleted.is_empty());
    hidden.keep(&folder);
    hub.fake.with_world(|world| world.make_public(name));
    ends(&folder.run(&["github", "run", "octocat", "--full"]), 0);
    let back = tap(&folder, &STATE);
    let again = hidden
        .deleted
        .keys()
        .filter(|name| !second.deleted.contains_key(*name));
    assert!(again.clone().count() > 0);
    for name in again {
        assert!(back.records.contains_key(name), "{name:?} is back");
        assert!(!back.deleted.contains_key(name));
    }
}

#[test]
fn col_15_a_catalog_selects_streams_and_columns() {
    let hub = Hub::calm();
    let folder = collected(&hub);
    let mut catalog = document(&folder.run(&["github", "tap", "--discover"]), 0);
    let streams = catalog["streams"].as_array_mut().expect("streams");
    assert_eq!(streams.len(), STREAMS.len());
    for stream in streams {
        let is_wanted = stream["tap_stream_id"] == "issue";
        for metadata in stream["metadata"].as_array_mut().expect("metadata") {
            let name = metadata["breadcrumb"][1].as_str();
            let selected = name.map_or(is_wanted, |name| name == "title");
            metadata["metadata"]["selected"] = json!(selected);
        }
    }
    std::fs::write(folder.0.join("catalog.json"), catalog.to_string()).expect("a file");
    let sent = tap(&folder, &["--catalog", "catalog.json"]);
    let mut rows = truth(&folder);
    rows.retain(|(kind, _), _| kind == "issue");
    for row in rows.values_mut() {
        row.retain(|name, _| ["_id", "title"].contains(&name.as_str()));
    }
    assert_equal(&sent.records, &rows);

    // A configuration of Singer beside Clinch's own.
    let config = json!({"login": "octocat", "kinds": ["user"], "document": true, "more": 1});
    std::fs::write(folder.0.join("config.json"), config.to_string()).expect("a file");
    let output = folder.run(&["github", "tap", "--config", "config.json"]);
    let text = ends(&output, 0);
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .filter(|message: &Value| message["type"] == "RECORD")
        .collect();
    assert_eq!(records.len(), 1, "{text}");
    assert_eq!(records[0]["record"]["_document"]["login"], "octocat");
}

#[test]
fn col_15_a_tap_refuses_wrong_files_in_one_line() {
    let hub = Hub::calm();
    let folder = collected(&hub);
    std::fs::write(
        folder.0.join("wrong.json"),
        "{\"streams\":7,\"kinds\":[\"star\"]",
    )
    .expect("a file");
    std::fs::write(folder.0.join("kinds.json"), "{\"kinds\":[\"star\"]}").expect("a file");
    let cases: [(&[&str], &str); 6] = [
        (&["--state", "wrong.json"], "wrong.json"),
        (&["--state", "none.json"], "none.json"),
        (&["--catalog", "wrong.json"], "wrong.json"),
        (&["--catalog", "none.json"], "none.json"),
        (&["--config", "wrong.json"], "wrong.json"),
        (&["--config", "kinds.json"], "star"),
    ];
    for (arguments, word) in cases {
        let output = folder.run(&[&["github", "tap"], arguments].concat());
        assert_eq!(ends(&output, 2), "", "standard output is for messages");
        let said = said(&output);
        assert!(said.contains(word) && said.lines().count() == 1, "{said}");
    }
    ends(&folder.run(&["github", "tap", "--login", "nobody"]), 3);
}

/// Pipes a tap into target-jsonl, which writes a file of each stream; returns the state that the
/// target printed last.
fn to_target(folder: &Folder, arguments: &[&str], out: &Path) -> String {
    std::fs::create_dir_all(out).expect("a folder");
    let config = folder.0.join("target.json");
    let settings = json!({"destination_path": out, "do_timestamp_file": false});
    std::fs::write(&config, settings.to_string()).expect("a file");
    let mut source = clinch(&folder.0)
        .args(["github", "tap", "--login", "octocat"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let messages = source.stdout.take().expect("piped");
    let target = std::process::Command::new(readers_environment().join("bin/target-jsonl"))
        .arg("--config")
        .arg(&config)
        .stdin(messages)
        .output()
        .expect("it runs");
    assert!(source.wait().expect("it ends").success());
    let state = ends(&target, 0);
    state.lines().last().expect("a state").to_owned()
}

/// The lines of the target's files.
fn of_target(out: &Path) -> Vec<(String, Row)> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(out).expect("a folder") {
        let path = entry.expect("an entry").path();
        let kind = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a name");
        let text = std::fs::read_to_string(&path).expect("a file");
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        rows.extend(lines.map(|row| (kind.to_owned(), row)));
    }
    rows
}

#[test]
fn col_15_a_real_singer_target_takes_everything_and_gives_the_state_back() {
    if !are_there() {
        return;
    }
    let hub = Hub::calm();
    let folder = collected(&hub);
    let first = folder.0.join("first");
    let state = to_target(&folder, &[], &first);
    let before = truth(&folder);
    let written = of_target(&first);
    assert_eq!(written.len(), before.len());
    let rows: Rows = written
        .into_iter()
        .map(|(kind, row)| ((kind, row["_id"].as_str().expect("an id").to_owned()), row))
        .collect();
    let mut rows: Rows = rows;
    for row in rows.values_mut() {
        assert_eq!(row.remove("_sdc_deleted_at"), Some(Value::Null));
    }
    assert_equal(&rows, &before);

    std::fs::write(folder.0.join("state.json"), state).expect("a file");
    hub.fake.with_world(|world| {
        world.change(3, 40);
        let names = world.full_names();
        let gone = names.iter().filter(|name| world.delete_issue(name, 1));
        assert!(gone.count() > 0);
    });
    ends(&folder.run(&["github", "run", "octocat", "--full"]), 0);
    let second = folder.0.join("second");
    to_target(&folder, &STATE, &second);
    // The later line of a key counts, as in a target that replaces rows, and one that is marked as
    // deleted removes its row, as in a target that deletes.
    let (mut all, mut deleted) = (rows, 0);
    for (kind, mut row) in of_target(&second) {
        let id = row["_id"].as_str().expect("an id").to_owned();
        match row.remove("_sdc_deleted_at") {
            Some(Value::String(_)) => {
                deleted += 1;
                assert!(all.remove(&(kind, id)).is_some(), "it was there");
            }
            _ => _ = all.insert((kind, id), row),
        }
    }
    assert!(deleted > 0);
    assert_equal(&all, &truth(&folder));
}
