//! What `clinch serve` says of itself: the whole description, the collector's part included, has a
//! sentence and a fitting example for everything, and the guide names every route and code of it. What
//! the guide sends with curl is in it.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::world::World;

#[path = "../../../server/tests/server/described/check.rs"]
mod check;
mod curl;
#[path = "../../src/guide/page.rs"]
mod page;
#[path = "../../../server/tests/server/described/schema.rs"]
mod schema;
#[path = "../../src/guide/shell.rs"]
mod shell;

/// Codes of the server that no route describes: the path has no such method, and a bug.
const OF_NO_ROUTE: [&str; 2] = ["method_not_allowed", "internal"];

fn guide() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let files = std::fs::read_dir(folder).expect("docs/guide");
    let files = files.map(|entry| entry.expect("a file").path());
    let pages = files.filter(|file| file.extension().is_some_and(|kind| kind == "md"));
    pages
        .map(|page| std::fs::read_to_string(page).expect("a page"))
        .collect()
}

/// Whether the guide has the route in full: a longer path is another route.
fn names(guide: &str, route: &str) -> bool {
    let goes_on = |next: char| next.is_alphanumeric() || "/-_{".contains(next);
    let mut places = guide.match_indices(route);
    places.any(|(at, _)| !guide[at + route.len()..].starts_with(goes_on))
}

fn routes(openapi: &Value) -> Vec<(String, Value)> {
    let paths = openapi["paths"].as_object().expect("paths").iter();
    let routes = paths.flat_map(|(path, item)| {
        let methods = item.as_object().expect("methods").iter();
        methods.map(move |(method, one)| (format!("{} {path}", method.to_uppercase()), one.clone()))
    });
    routes.collect()
}

/// The codes of an operation's refusals.
fn codes(operation: &Value) -> Vec<String> {
    let responses = operation["responses"].as_object().expect("responses");
    let refusals = responses.values().filter(|response| {
        let kinds = response["content"].as_object().into_iter().flatten();
        kinds
            .into_iter()
            .any(|(kind, _)| kind == "application/problem+json")
    });
    let named = refusals.filter_map(|response| response["description"].as_str());
    named
        .flat_map(|codes| codes.split(", ").map(str::to_owned))
        .collect()
}

#[test]
fn core_18_the_whole_description_is_told_with_examples_and_the_guide_names_it() {
    let world = World::new("described");
    let openapi = world.client.get("/openapi.json").is(200).body;
    let problems = check::problems(&openapi);
    assert!(problems.is_empty(), "{}", problems.join("\n"));

    let (guide, routes) = (guide(), routes(&openapi));
    assert!(routes.len() >= 54, "{} routes", routes.len());
    let unnamed = routes.iter().map(|(route, _)| route);
    let unnamed: Vec<_> = unnamed.filter(|route| !names(&guide, route)).collect();
    assert!(unnamed.is_empty(), "docs/guide does not name {unnamed:#?}");

    let mut every: BTreeSet<_> = routes.iter().flat_map(|(_, one)| codes(one)).collect();
    every.extend(OF_NO_ROUTE.map(str::to_owned));
    assert!(every.contains("active_run"), "{every:?}");
    let unnamed = every
        .iter()
        .filter(|code| !guide.contains(&format!("`{code}`")));
    let unnamed: Vec<_> = unnamed.collect();
    assert!(unnamed.is_empty(), "docs/guide does not name {unnamed:?}");

    for (route, operation) in &routes {
        reads_its_examples(&world, route, operation);
    }
}

/// The server reads every example of a body of the collector.
fn reads_its_examples(world: &World, route: &str, operation: &Value) {
    let Some(path) = route
        .strip_prefix("POST ")
        .filter(|path| path.contains("/github/"))
    else {
        return;
    };
    let path = path
        .replace("{run_id}", "nobody.1")
        .replace("{login}", "nobody");
    let body = &operation["requestBody"]["content"]["application/json"];
    for (name, example) in body["examples"].as_object().expect("examples") {
        let reply = world.client.post(&path, &example["value"]);
        let is_refused = reply.body["code"] == "invalid_request";
        assert!(!is_refused, "{route} {name}: {}", reply.text);
    }
}
