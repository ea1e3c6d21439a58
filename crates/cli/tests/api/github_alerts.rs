//! What goes wrong in the collector, on a real server: the alert rules that fire, and the web hook.

use std::path::Path;
use std::process::Command;

use clinch_testbed::{promtool, wait_until};
use serde_json::{Value, json};

use crate::collector::Collector;
use crate::github::Hub;
use crate::http::Seen;
use crate::process::Folder;
use crate::provider::Provider;
use crate::rules;
use crate::world::{World, config};

const RULES: &str = "alerts-github.yml";
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

fn metrics(world: &World) -> String {
    world.client.get("/metrics").is(200).text
}

fn begin(world: &World, login: &str) -> String {
    let run = world
        .client
        .post("/v1/github/runs", &json!({"login": login}));
    let run = run.is(202).body;
    run["run_id"].as_str().expect("an id").to_owned()
}

/// Whether a counter of this name, with this label, is above zero.
fn has_counted(world: &World, name: &str, label: &str) -> bool {
    let text = metrics(world);
    let mut lines = text.lines().filter(|line| line.starts_with(name));
    lines.any(|line| line.contains(label) && !line.ends_with(" 0"))
}

/// Executes this on a database of the server.
fn execute(folder: &Path, file: &str, sql: &str) {
    let database = rusqlite::Connection::open(folder.join(file)).expect("it opens");
    database
        .busy_timeout(PATIENCE)
        .expect("it waits for the server");
    let changed = database.execute(sql, []).expect(sql);
    assert!(changed > 0 || sql.starts_with("DROP"), "{sql}");
}

/// Cancels the statistics of the user's runs as soon as they wait for another attempt.
fn give_up_statistics(world: &World, login: &str) {
    let path = format!(
        "/v1/operations?domain=github&event_type=statistics&biz_key=user:{login}&phase=waiting"
    );
    let mut waiting = None;
    let found = wait_until(PATIENCE, || {
        let listed = world.client.get(&path).is(200).body;
        waiting = listed["operations"][0]["op_id"].as_str().map(str::to_owned);
        waiting.is_some()
    });
    assert!(found, "the statistics do not fail");
    let cancel = format!("/v1/operations/{}/cancel", waiting.expect("an id"));
    let reason = json!({"reason": "they do not succeed"});
    let canceled = world.client.post(&cancel, &reason);
    assert!(matches!(canceled.status, 200 | 202), "{}", canceled.text);
}

/// The alerts fire on what the server showed, and not on what it showed at the beginning.
fn assert_fire(before: &str, after: &str, alerts: &[(&str, &str)]) {
    let folder = Folder::with("promtool-github", "");
    let test = rules::recorded(RULES, before, after, alerts);
    std::fs::write(folder.0.join("test.yml"), test).expect("written");
    rules::promtool(&folder.0, "test.yml");
    for alert in alerts {
        let quiet = rules::recorded(RULES, before, before, &[*alert]);
        std::fs::write(folder.0.join("quiet.yml"), quiet).expect("written");
        if let Some(promtool) = promtool() {
            let mut test = Command::new(promtool);
            test.args(["test", "rules", "quiet.yml"])
                .current_dir(&folder.0);
            let output = test.output().expect("promtool runs");
            assert!(!output.status.success(), "{alert:?} fires at once");
        }
    }
}

#[test]
fn col_11_col_14_what_fails_in_the_collector_fires_its_alerts_and_is_posted() {
    let (provider, hook, hub) = (Provider::start(), Collector::start(0), Hub::start());
    let text = hub
        .instead_of_none(&config(&provider))
        .replace("[github]\n", "[github]\nsink = \"sqlite://documents.db\"\n");
    let text = format!(
        "{text}\n[dead_letter]\nalert_url = \"{}/hook\"\n",
        hook.url()
    );
    let world = World::with("github-alerts", &text, provider, &Seen::default());
    let before = metrics(&world);
    // Two of its three jobs for one repository fail at once.
    hub.run_with_failed_jobs(&world.client);
    // The second run cannot read what the first one counted.
    let figures = format!("github/figures/user/{}", hub.owner);
    let broken = format!("UPDATE clinch_record SET body = '[]' WHERE key = '{figures}'");
    execute(&world.folder.0, "clinch.db", &broken);
    let run = begin(&world, &hub.owner);
    give_up_statistics(&world, &hub.owner);
    let is_it = |note: &&Value| note["code"] == "github_statistics_failed";
    let notes = hook.until("/hook", |all| all.iter().any(|note| is_it(&note)));
    let note = notes.iter().find(is_it).expect("it is there");
    let message = note["message"].as_str().unwrap_or_default();
    assert!(message.contains(&run), "{note:#}");
    let path = format!("/v1/github/runs/{run}");
    let ended = world
        .client
        .until(&path, |run| run["completed_at"].is_string());
    assert_eq!(ended["statistics"], "failed", "{ended:#}");
    // The documents of the next run have no place to go.
    execute(
        &world.folder.0,
        "documents.db",
        "DROP TABLE clinch_document",
    );
    begin(&world, &hub.other);
    let fails = || has_counted(&world, "github_sink_failed_count_total", "");
    assert!(wait_until(PATIENCE, fails), "{}", metrics(&world));
    let after = metrics(&world);
    let alerts = [
        ("GithubJobsFail", "22m"),
        ("GithubStatisticsGivenUp", "16m"),
        ("GithubSinkFails", "18m"),
    ];
    assert_fire(&before, &after, &alerts);
}

#[test]
fn col_14_runs_that_pile_up_behind_a_refused_token_fire_their_alerts() {
    let (provider, hub) = (Provider::start(), Hub::start());
    let text = hub
        .instead_of_none(&config(&provider))
        .replace("fake-ann-1", "ghp_refused");
    let world = World::with("github-refused", &text, provider, &Seen::default());
    for number in 0..101 {
        begin(&world, &format!("user{number}"));
    }
    // The gauge of the runs is read once a minute: the first time now.
    let blocked = "github_tokens_blocked 1";
    let is_blocked = || metrics(&world).lines().any(|line| line == blocked);
    assert!(wait_until(PATIENCE, is_blocked), "{}", metrics(&world));
    let after = metrics(&world);
    let quiet: String = after
        .lines()
        .map(|line| match line.rsplit_once(' ') {
            Some(("github_tokens_size", size)) => format!("github_tokens_size {size}\n"),
            Some((series, _)) if !line.starts_with('#') => format!("{series} 0\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let alerts = [("GithubTooManyRuns", "30m"), ("GithubTokensBlocked", "25m")];
    assert_fire(&quiet, &after, &alerts);
}
