//! What the clients send and read, against the description: each body that they send fits its schema,
//! together the bodies have every member, and the clients read the examples of the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::language::{Language, Project, succeed};
use crate::server::Server;
use crate::suites::ROUTES;

#[path = "../../../server/tests/server/described/schema.rs"]
mod schema;

const PYTHON: &str = include_str!("exchange/python.py");
const TYPESCRIPT: &str = include_str!("exchange/typescript.mjs");

/// Members that the clients do not send on purpose, by the schema.
const NOT_SENT: [(&str, &str); 1] = [
    // Not stored.
    ("ReleaseDocument", "reason"),
];

/// The answers with a list, and the list.
const LISTS: [(&str, &str, &str); 4] = [
    ("OperationPage", "operations", "op_id"),
    ("BatchListing", "batches", "batch_id"),
    ("BulkResults", "results", "status"),
    ("Deliveries", "deliveries", "op_id"),
];

fn exchange(language: Language, openapi: &Value) -> Value {
    let project = Project::new(language);
    project.folder.write("openapi.json", &openapi.to_string());
    let description = project.folder.0.join("openapi.json");
    let mut command = match language {
        Language::Python => {
            let python = clinch_testbed::python_tools_environment().join("bin/python");
            let mut command = Command::new(python);
            command.args(["-c", PYTHON]);
            command
        }
        Language::TypeScript => {
            let mut command = Command::new("node");
            command.args(["--input-type=module", "-e", TYPESCRIPT]);
            command.arg(language.sources());
            command
        }
    };
    project.prepare(&mut command);
    serde_json::from_str(&succeed(command.arg(description))).expect("JSON")
}

/// The name of the schema of a route's body.
fn body_of(openapi: &Value, route: &str) -> Option<String> {
    let (method, path) = route.split_once(' ').expect("a method and a path");
    let operation = &openapi["paths"][path][method.to_lowercase()];
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let kinds = schema["oneOf"].as_array().into_iter().flatten();
    let mut named = std::iter::once(schema)
        .chain(kinds)
        .filter_map(|one| one["$ref"].as_str());
    Some(named.next()?.rsplit('/').next()?.to_owned())
}

pub(crate) fn fits(language: Language) {
    let openapi = Server::start(ROUTES).get("/openapi.json");
    let exchanged = exchange(language, &openapi);
    let mut members: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (route, bodies) in exchanged["sent"].as_object().expect("sent") {
        let Some(name) = body_of(&openapi, route) else {
            continue;
        };
        let of = &openapi["components"]["schemas"][&name];
        for body in bodies.as_array().expect("bodies") {
            if let Err(wrong) = schema::fits(&openapi, of, body, &name) {
                panic!("{route}: {wrong}");
            }
            let sent = body.as_object().into_iter().flatten();
            let sent = sent.map(|(member, _)| member.clone());
            members.entry(name.clone()).or_default().extend(sent);
        }
    }
    for name in [
        "OutcomeDocument",
        "LeaseDocument",
        "HeartbeatDocument",
        "ReleaseDocument",
        "CheckpointDocument",
        "SubmitDocument",
    ] {
        assert!(members.contains_key(name), "no {name} was sent");
    }
    for (name, mut members) in members {
        let left_out = NOT_SENT.iter().filter(|(schema, _)| *schema == name);
        members.extend(left_out.map(|(_, member)| (*member).to_owned()));
        let schema = openapi["components"]["schemas"][&name]["properties"].as_object();
        let known: BTreeSet<_> = schema
            .into_iter()
            .flatten()
            .map(|(member, _)| member.clone())
            .collect();
        assert_eq!(members, known, "{name}: sent, then known");
    }
    for (schema, list, member) in LISTS {
        reads(&openapi, &exchanged, schema, list, member);
    }
}

/// The client read every item of the longest example of this answer.
fn reads(openapi: &Value, exchanged: &Value, schema: &str, list: &str, member: &str) {
    let examples = openapi["components"]["schemas"][schema]["examples"].as_array();
    let examples = examples.expect("examples").iter();
    let example = examples.max_by_key(|one| one.to_string().len());
    let example = example.expect("an example");
    let items = example[list].as_array().expect("a list");
    let wanted: Vec<_> = items.iter().map(|item| &item[member]).collect();
    let (read, next) = (&exchanged["read"][schema][0], &exchanged["read"][schema][1]);
    assert!(!wanted.is_empty(), "{schema}: the example is empty");
    assert_eq!(
        read.as_array().expect("items").iter().collect::<Vec<_>>(),
        wanted,
        "{schema}"
    );
    assert!(
        next.is_null() || *next == example["next_cursor"],
        "{schema}: {next}"
    );
}
