//! `docs/guide/configuration.md` against the reader: every key that is accepted has a row there,
//! with its type, its default and an example that the reader takes, and no other key has one.
//!
//! The default column is printed: `UPDATE_DOCS=1 cargo test -p clinch-cli --bin clinch reference`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clinch_core::policy::RetryRules;
use clinch_protect::{BulkheadConfig, CircuitConfig, RatioConfig};
use clinch_server::Config;
use clinch_server::config::{BreakerConfig, ProbeConfig, RouteConfig, Sources, Span};
use toml::{Table, Value};

use super::sections;

const UPDATE: &str = "UPDATE_DOCS=1 cargo test -p clinch-cli --bin clinch reference";

/// What an example needs beside itself to be a configuration.
const NEEDS: &[(&str, &str)] = &[
    (
        "github.app_id",
        "app_private_key = \"${file:/run/secrets/app.pem}\"",
    ),
    ("github.app_private_key", "app_id = \"123456\""),
    ("server.tls_cert", "tls_key = \"server.key\""),
    ("server.tls_key", "tls_cert = \"server.pem\""),
    (
        "server.tls_client_ca",
        "tls_cert = \"server.pem\"\ntls_key = \"server.key\"",
    ),
    ("route.hedge.after", "safety = \"natural\""),
    ("route.fallback", "safety = \"natural\""),
    ("route.key_ttl", "safety = \"keyed\""),
    ("route.remembers_refusals", "safety = \"keyed\""),
];

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/configuration.md")
}

fn read() -> String {
    std::fs::read_to_string(path()).expect("docs/guide/configuration.md")
}

/// One row of the page.
struct Row {
    /// With its section: `store.url`, `route.retry.base`.
    key: String,
    kind: String,
    default: String,
    meaning: String,
    /// Without its backticks.
    example: String,
}

/// The section that a heading such as ``### `[store]` `` opens; any other heading closes it.
fn section(line: &str) -> Option<String> {
    let name = line.strip_prefix("### `[")?.strip_suffix("]`")?;
    Some(name.trim_matches(['[', ']']).to_owned())
}

fn rows(page: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut inside = None;
    for line in page.lines() {
        if line.starts_with('#') {
            inside = section(line);
        }
        let Some(section) = &inside else { continue };
        if !line.starts_with("| `") {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [key, kind, default, meaning, example] = cells[..] else {
            panic!("five columns: {line}");
        };
        rows.push(Row {
            key: format!("{section}.{}", key.trim_matches('`')),
            kind: kind.to_owned(),
            default: default.to_owned(),
            meaning: meaning.to_owned(),
            example: example.trim_matches('`').to_owned(),
        });
    }
    rows
}

fn at<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let mut parts = key.split('.');
    let mut value = table.get(parts.next()?)?;
    for part in parts {
        value = value.as_table()?.get(part)?;
    }
    Some(value)
}

fn insert(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((head, rest)) => {
            let inner = table
                .entry(head)
                .or_insert_with(|| Value::Table(Table::new()));
            insert(inner.as_table_mut().expect("a table"), rest, value);
        }
    }
}

fn table_of(value: &impl serde::Serialize) -> Table {
    Table::try_from(value).expect("a configuration is TOML")
}

/// What holds where a key is left out, by the code.
fn defaults() -> Table {
    let mut defaults = table_of(&Config::default());
    let github = table_of(&clinch_github::Config::default());
    defaults.insert("github".to_owned(), Value::Table(github));
    let route = RouteConfig::default();
    let mut table = table_of(&route);
    table.insert(
        "probe".to_owned(),
        Value::Table(table_of(&ProbeConfig::default())),
    );
    table.insert(
        "breaker".to_owned(),
        Value::Table(table_of(&BreakerConfig::default())),
    );
    let span = |span| Value::from(Span(span).to_string());
    let RetryRules {
        max_attempts,
        backoff,
        retry_after_max,
    } = RetryRules::WORKER;
    let slots = BulkheadConfig::default().max_concurrent;
    for (key, value) in [
        ("timeout", span(route.call_timeout())),
        ("concurrency", Value::from(slots)),
        ("retry.max_attempts", Value::from(max_attempts)),
        ("retry.base", span(backoff.base)),
        ("retry.cap", span(backoff.cap)),
        ("retry.jitter", Value::from(backoff.jitter)),
        ("retry.retry_after_max", span(retry_after_max)),
        ("retry.budget", Value::from(RatioConfig::default().ratio)),
    ] {
        insert(&mut table, key, value);
    }
    defaults.insert("route".to_owned(), Value::Table(table));
    defaults
}

/// A default as the page shows it; keys of tables that are absent by default have none.
fn shown(defaults: &Table, key: &str) -> String {
    match at(defaults, key) {
        Some(value) => format!("`{value}`"),
        None => "none".to_owned(),
    }
}

/// A configuration with `text` in the section of `key`, and what else it needs.
fn configuration(key: &str, text: &str) -> String {
    let needs = NEEDS.iter().find(|(needing, _)| *needing == key);
    let needs = needs.map_or("", |(_, needs)| needs);
    match key.split('.').next() {
        Some("route") => {
            let base = [
                ("name", "r"),
                ("domain", "payments"),
                ("url", "https://psp.example/v1"),
            ];
            let is_set = |name: &str| text.starts_with(&format!("{name} ="));
            let is_remote = |name: &str| name == "url" && is_set("remote");
            let base = base
                .iter()
                .filter(|(name, _)| !is_set(name) && !is_remote(name));
            let base: String = base
                .map(|(name, value)| format!("{name} = \"{value}\"\n"))
                .collect();
            format!("[[route]]\n{base}{needs}\n{text}\n")
        }
        section => format!("[{}]\n{needs}\n{text}\n", section.unwrap_or_default()),
    }
}

fn parse(text: &str) -> Result<Table, String> {
    let sections = sections().expect("sections");
    let config = Config::parse(text, &Sources::default(), &sections);
    let config = config.map_err(|error| error.to_string())?;
    let mut table = table_of(&config);
    let github: Option<Table> = config.section("github").expect("read before");
    table.extend(github.map(|github| ("github".to_owned(), Value::Table(github))));
    if let Some(Value::Array(routes)) = table.remove("route") {
        let first = routes.into_iter().next();
        table.insert(
            "route".to_owned(),
            first.unwrap_or(Value::Table(Table::new())),
        );
    }
    Ok(table)
}

/// The page with the defaults of the code.
fn printed(page: &str) -> String {
    let defaults = defaults();
    let mut inside = None;
    let mut text = String::new();
    for line in page.lines() {
        if line.starts_with('#') {
            inside = section(line);
        }
        let cells: Vec<&str> = line.split(" | ").collect();
        match (&inside, &cells[..]) {
            (Some(section), [key, kind, _, meaning, example]) if key.starts_with("| `") => {
                let name = key.trim_start_matches("| `").trim_end_matches('`');
                let default = shown(&defaults, &format!("{section}.{name}"));
                text.push_str(&[key, kind, &*default, meaning, example].join(" | "));
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[test]
fn core_19_every_key_has_a_row_and_every_row_is_a_key() {
    let page: Vec<String> = rows(&read()).into_iter().map(|row| row.key).collect();
    let keys = Config::keys(&sections().expect("sections"));
    let missing: Vec<_> = keys.iter().filter(|key| !page.contains(key)).collect();
    let unknown: Vec<_> = page.iter().filter(|key| !keys.contains(key)).collect();
    assert!(
        missing.is_empty() && unknown.is_empty() && page.len() == keys.len(),
        "docs/guide/configuration.md: no row for {missing:?}; no such key {unknown:?}; {} rows, {} keys",
        page.len(),
        keys.len()
    );
}

#[test]
fn core_19_the_defaults_on_the_page_are_those_of_the_code() {
    let page = read();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path(), printed(&page)).expect("docs/guide/configuration.md");
        return;
    }
    let defaults = defaults();
    for row in rows(&page) {
        let default = shown(&defaults, &row.key);
        let key = &row.key;
        assert_eq!(
            row.default, default,
            "{key} on the page, then by the code; {UPDATE}"
        );
        assert!(!row.meaning.is_empty(), "{key}: say what it means");
    }
    let breaker = BreakerConfig::default();
    let guard = CircuitConfig::default();
    assert_eq!(
        (breaker.failure_rate, breaker.open.0, breaker.half_open),
        (guard.failure_rate, guard.open, guard.half_open),
        "a route without a breaker has the same one"
    );
}

#[test]
fn core_19_every_example_is_read_and_changes_its_key() {
    let defaults = defaults();
    for row in rows(&read()) {
        let text = configuration(&row.key, &row.example);
        let set = parse(&text).unwrap_or_else(|error| panic!("{}: {error}\n{text}", row.key));
        let value = at(&set, &row.key);
        assert!(value.is_some(), "{}: the example does not set it", row.key);
        assert_ne!(
            value,
            at(&defaults, &row.key),
            "{}: shows the default",
            row.key
        );
    }
}

#[test]
fn core_19_values_of_another_type_are_refused() {
    let wrong: BTreeMap<&str, &str> = [
        ("text", "5"),
        ("choice", "\"no such choice\""),
        ("duration", "\"5 parsecs\""),
        ("size", "\"5 potatoes\""),
        ("integer", "\"five\""),
        ("number", "\"half\""),
        ("boolean", "1"),
        ("list", "true"),
        ("table", "5"),
    ]
    .into();
    for row in rows(&read()) {
        let value = wrong
            .get(row.kind.as_str())
            .unwrap_or_else(|| panic!("{}: {} is no type of the page", row.key, row.kind));
        let (_, key) = row.key.split_once('.').expect("a section");
        let refused = parse(&configuration(&row.key, &format!("{key} = {value}")));
        assert!(refused.is_err(), "{} = {value} was accepted", row.key);
        let unknown = parse(&configuration(&row.key, &format!("{key}_x = 1")));
        let refused = unknown.expect_err("an unknown key");
        assert!(refused.contains("unknown key"), "{}: {refused}", row.key);
    }
}
