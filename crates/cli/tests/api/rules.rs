//! The alert rules and dashboards in `deploy/`, against the metrics of a real server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::http::Seen;
use crate::process::Folder;
use crate::provider::Provider;
use crate::world::{World, command, config};

const RULES: [&str; 2] = ["alerts.yml", "alerts-github.yml"];
const DASHBOARDS: [&str; 2] = ["grafana.json", "grafana-github.json"];

/// Metrics that a server on SQLite with an API that does not answer cannot have, and their labels.
/// Those of the collector are seen on a live server by `github::served`, those of a bus by
/// `nodes::metrics`.
const ELSEWHERE: [(&str, &[&str]); 6] = [
    ("github_requests_count_total", &["job_type", "status"]),
    ("github_documents_count_total", &["kind"]),
    ("orchestrator_bus_recovered_count_total", &[]),
    ("orchestrator_scheduler_sleep_count_total", &[]),
    ("orchestrator_scheduler_slept_ms_count_total", &[]),
    // Of Prometheus itself.
    ("up", &["job", "instance"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Name and expression of every rule. The files write each on one line.
fn rules(file: &str) -> Vec<(String, String)> {
    let text = read(&format!("deploy/{file}"));
    let (mut all, mut name) = (Vec::new(), String::new());
    for line in text.lines().map(str::trim) {
        if let Some(alert) = line.strip_prefix("- alert: ") {
            name = alert.to_owned();
        } else if let Some(expr) = line.strip_prefix("expr: '") {
            let expr = expr.trim_end_matches('\'').replace("''", "'");
            all.push((name.clone(), expr));
        }
    }
    assert!(all.len() > 10, "{file} has rules");
    all
}

fn panels(file: &str) -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&read(&format!("deploy/{file}"))).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut all = Vec::new();
    for panel in panels {
        for target in panel["targets"].as_array().expect("targets") {
            let text = |value: &Value| value.as_str().expect("text").to_owned();
            all.push((text(&panel["title"]), text(&target["expr"])));
        }
    }
    all
}

/// The metrics of an expression with the labels that it selects or groups by.
fn uses(expr: &str) -> BTreeMap<String, BTreeSet<String>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut grouped = BTreeSet::new();
    for by in expr.split(" by (").skip(1) {
        let labels = by.split(')').next().expect("a list");
        grouped.extend(labels.split(',').map(|label| label.trim().to_owned()));
    }
    let mut used = BTreeMap::new();
    let mut rest = expr;
    while let Some(at) = rest.find(is_word) {
        rest = &rest[at..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        let is_metric =
            word.starts_with("orchestrator_") || word.starts_with("github_") || word == "up";
        if !is_metric {
            continue;
        }
        let labels: &mut BTreeSet<String> = used.entry(word.to_owned()).or_default();
        labels.extend(grouped.clone());
        if let Some(selected) = rest.strip_prefix('{') {
            let (selected, after) = selected.split_once('}').expect("closed");
            rest = after;
            for pair in selected.split(',') {
                let label = pair.split(['=', '!']).next().expect("a label");
                labels.insert(label.trim().to_owned());
            }
        }
    }
    used
}

/// The labels of every metric in the text of `/metrics`.
fn live(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (series, _) in samples(text) {
        let (name, labels) = series.split_once('{').unwrap_or((&series, ""));
        let known = all.entry(name.to_owned()).or_default();
        let pairs = labels.trim_end_matches('}').split("\",");
        known.extend(pairs.filter_map(|pair| Some(pair.split_once('=')?.0.to_owned())));
    }
    all
}

/// Every series with its value.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        Some((series.to_owned(), value.parse().ok()?))
    };
    lines.filter_map(sample).collect()
}

fn metrics(world: &World) -> String {
    world.client.get("/metrics").is(200).text
}

/// A server on which something of every kind has happened.
fn lively() -> World {
    let world = World::new("rules");
    let post = |event_type: &str, key: &str| {
        let asked = command("pay", event_type, key);
        world.client.post("/v1/operations?wait=60s", &asked).is(200);
    };
    post("ok", "a");
    post("fail", "b");
    world.held("c");
    world.submit("pay", "broken", "d");
    let run = json!({"login": "octocat"});
    world.client.post("/v1/github/runs", &run).is(202);
    while !metrics(&world).contains("github_job_duration_bucket") {
        std::thread::yield_now();
    }
    world
}

#[test]
fn core_15_col_14_every_metric_and_label_of_a_rule_or_panel_is_one_that_the_server_has() {
    let world = lively();
    let mut known = live(&metrics(&world));
    for (name, labels) in ELSEWHERE {
        let labels = labels.iter().map(|label| (*label).to_owned());
        known.insert(name.to_owned(), labels.collect());
    }
    let mut wrong = Vec::new();
    let rules = RULES.into_iter().flat_map(rules);
    let panels = DASHBOARDS.into_iter().flat_map(panels);
    for (place, expr) in rules.chain(panels) {
        let used = uses(&expr);
        assert!(!used.is_empty(), "{place}: {expr}");
        for (metric, labels) in used {
            match known.get(&metric) {
                None => wrong.push(format!("{place}: there is no metric {metric}")),
                Some(has) => {
                    let missing = labels.difference(has);
                    let one = |label| format!("{place}: {metric} has no label {label}");
                    wrong.extend(missing.map(one));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Every metric name in the sources, as OpenTelemetry writes it.
fn in_sources() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> = ["core", "engine", "clinch", "server", "cli"]
        .map(|one| root().join("crates").join(one).join("src"))
        .to_vec();
    folders.push(root().join("apps/github/src"));
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).expect("text");
                names.extend(metric_names(&text, path.ends_with("metrics.rs")));
            }
        }
    }
    names
}

fn metric_names(text: &str, of_collector: bool) -> Vec<String> {
    let starts = |prefix: &'static str| text.split(prefix).skip(1).map(move |rest| (prefix, rest));
    let found = starts("\"orchestrator.").chain(starts("\"github.").filter(|_| of_collector));
    let name = |(prefix, rest): (&str, &str)| {
        let (name, _) = rest.split_once('"')?;
        let is_name = name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c == '.' || c == '_');
        (is_name && !name.is_empty()).then(|| format!("{}{name}", &prefix[1..]))
    };
    found.filter_map(name).collect()
}

/// Name and labels of each row of the guide's table of metrics.
fn in_guide() -> BTreeMap<String, BTreeSet<String>> {
    let guide = read("docs/guide/operating.md");
    let mut rows = BTreeMap::new();
    for line in guide.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, _, labels, ..] = cells.as_slice() else {
            continue;
        };
        let name = name.trim_matches('`');
        if name.starts_with("orchestrator.") || name.starts_with("github.") {
            let labels = labels
                .split(',')
                .map(|label| label.trim().trim_matches('`'));
            let labels = labels.filter(|label| !label.is_empty());
            rows.insert(name.to_owned(), labels.map(str::to_owned).collect());
        }
    }
    rows
}

#[test]
fn core_15_the_guide_lists_every_metric_with_its_labels() {
    let (guide, sources) = (in_guide(), in_sources());
    let listed: BTreeSet<String> = guide.keys().cloned().collect();
    let missing: Vec<_> = sources.difference(&listed).collect();
    let invented: Vec<_> = listed.difference(&sources).collect();
    assert!(
        missing.is_empty() && invented.is_empty(),
        "missing {missing:#?}, invented {invented:#?}"
    );
    let live = live(&metrics(&lively()));
    for (name, labels) in guide {
        let plain = name.replace('.', "_");
        let forms = [
            plain.clone(),
            format!("{plain}_total"),
            format!("{plain}_count"),
        ];
        // Metrics that this server does not have are compared by name only.
        let Some(has) = forms.iter().find_map(|form| live.get(form)) else {
            continue;
        };
        assert_eq!(&labels, has, "{name}");
    }
}

#[test]
fn core_15_the_guide_explains_every_alert_and_each_rule_says_what_to_run() {
    let guide = read("docs/guide/operating.md");
    for file in RULES {
        let text = read(&format!("deploy/{file}"));
        let rules = rules(file);
        let descriptions = text
            .lines()
            .filter(|line| line.trim().starts_with("description: "));
        let commands = descriptions.filter(|line| line.contains('`')).count();
        assert_eq!(commands, rules.len(), "each names a command or metric");
        assert_eq!(text.matches("severity: ").count(), rules.len());
        assert_eq!(text.matches("summary: ").count(), rules.len());
        for (name, _) in rules {
            assert!(guide.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}

/// Runs `promtool test rules`; `None`: it is not installed, which CI refuses.
pub(crate) fn promtool(folder: &Path, file: &str) -> Option<String> {
    let Some(promtool) = clinch_testbed::promtool() else {
        assert!(
            std::env::var_os("CI").is_none(),
            "promtool is not installed"
        );
        println!("ignored: promtool is not installed; `cargo xtask servers install` installs it");
        return None;
    };
    let mut test = Command::new(promtool);
    test.args(["test", "rules", file]).current_dir(folder);
    let output = test.output().expect("promtool runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    Some(said)
}

#[test]
fn core_15_col_14_every_rule_fires_in_one_case_and_not_in_another() {
    for file in RULES {
        let cases = read(&format!("deploy/tests/{file}"));
        for (name, _) in rules(file) {
            for case in ["fires", "does not fire"] {
                let line = format!("  - name: {name} {case}\n");
                assert_eq!(cases.matches(&line).count(), 1, "{name} {case}");
            }
        }
        promtool(&root().join("deploy/tests"), file);
    }
}

/// A test for promtool: ten minutes with the values before, then those after; the alerts of this
/// file fire.
pub(crate) fn recorded(file: &str, before: &str, after: &str, alerts: &[(&str, &str)]) -> String {
    let (before, after) = (samples(before), samples(after));
    let rules = root().join("deploy").join(file);
    let rules = rules.canonicalize().expect("a path");
    let mut test = format!(
        "rule_files: [\"{}\"]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n",
        rules.display()
    );
    for (series, value) in &after {
        let old = before.get(series).copied().unwrap_or(0.0);
        let growth = (value - old) / 5.0;
        let is_counter = series.contains("_total");
        // What happened is spread over five minutes, as it is when it lasts.
        let rise = if is_counter {
            format!("{old}+{growth}x5")
        } else {
            format!("{value}x5")
        };
        test +=
            &format!("      - series: '{series}'\n        values: '{old}x10 {rise} {value}x60'\n");
    }
    test += "    promql_expr_test:\n";
    for (alert, at) in alerts {
        test += &format!(
            "      - expr: 'count(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}}) > bool 0'\n        eval_time: {at}\n        exp_samples: [{{labels: '{{}}', value: 1}}]\n"
        );
    }
    test
}

#[test]
fn core_15_what_goes_wrong_on_a_real_server_fires_its_alert() {
    let provider = Provider::start();
    let text = config(&provider).replace("[server]", "[server]\nshed_queue_age = \"1ms\"");
    let world = World::with("provoked", &text, provider, &Seen::default());
    let before = metrics(&world);
    for number in 0..5 {
        let failing = command("pay", "fail", &format!("f{number}"));
        world
            .client
            .post("/v1/operations?wait=60s", &failing)
            .is(200);
    }
    world.held("h1");
    world.submit("pay", "broken", "b1");
    while !metrics(&world).contains("orchestrator_breaker_state{destination=\"broken\"} 1") {
        std::thread::yield_now();
    }
    world.submit("pay", "narrow", "n1");
    world.provider.arrival("n1");
    let mut number = 0;
    while world
        .client
        .submit(&command("pay", "narrow", &format!("s{number}")))
        .status
        == 202
    {
        number += 1;
    }
    let after = metrics(&world);
    let alerts = [
        ("ClinchDeadLettersGrow", "16m"),
        ("ClinchFailureSurge", "19m"),
        ("ClinchBreakerOpen", "16m"),
        ("ClinchHeldForOperator", "30m"),
        ("ClinchShedding", "16m"),
    ];
    let folder = Folder::with("promtool", "");
    let test = recorded(RULES[0], &before, &after, &alerts);
    std::fs::write(folder.0.join("test.yml"), &test).expect("written");
    promtool(&folder.0, "test.yml");
    // The same rules are quiet on the metrics of the beginning: the check can fail.
    let quiet = recorded(RULES[0], &before, &before, &alerts);
    std::fs::write(folder.0.join("quiet.yml"), &quiet).expect("written");
    if let Some(promtool) = clinch_testbed::promtool() {
        let mut test = Command::new(promtool);
        test.args(["test", "rules", "quiet.yml"])
            .current_dir(&folder.0);
        assert!(!test.output().expect("promtool runs").status.success());
    }
}
