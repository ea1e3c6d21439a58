//! A database that becomes unreachable without an error, while unsafe calls are answered and the
//! process is stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clinch_testbed::{Kind, Proxy, let_pass, wait_until};
use serde_json::Value;

use crate::node::{Folder, Node};
use crate::provider::{Answer, Provider};

/// Calls of each kind, and their answers.
const CALLS: [(&str, u16, usize); 2] = [("ok", 200, 12), ("refuse", 402, 4)];
/// This many calls are answered when the outage begins; the others at its end, right before the
/// process is stopped.
const EARLY: usize = 8;
/// Maximum wait for something that must happen.
const LIMIT: Duration = Duration::from_secs(120);

/// The long variant is the proof; the short one has the same course with shorter timeouts.
struct Course {
    /// Further keys of `[store]`.
    store: &'static str,
    lease: &'static str,
    dark: Duration,
}

impl Course {
    fn of_this_run() -> Self {
        match std::env::var_os("CLINCH_PROOF") {
            Some(_) => Self {
                store: "",
                lease: "30s",
                dark: Duration::from_secs(60),
            },
            None => Self {
                store: "timeout = \"1s\"",
                lease: "1s",
                dark: Duration::ZERO,
            },
        }
    }

    fn config(&self, url: &str, provider: &str) -> String {
        let Self { store, lease, .. } = self;
        let mut config = format!(
            r#"
[store]
url = "{url}"
{store}
[worker]
lease = "{lease}"
[server]
shutdown_deadline = "2s"
"#
        );
        for (name, ..) in CALLS {
            config += &format!(
                r#"
[[route]]
name = "{name}"
domain = "{name}"
event_type = "call"
url = "http://{provider}/{name}/{{biz_key}}"
safety = "unsafe"
timeout = "300s"
"#
            );
        }
        config
    }
}

pub(crate) fn on_postgres() {
    play(Kind::Postgres);
}

pub(crate) fn on_mariadb() {
    play(Kind::MariaDb);
}

/// Answers as many calls as `answered` allows.
fn provider(answered: &Arc<AtomicUsize>) -> Provider {
    let allowed = answered.clone();
    Provider::start("127.0.0.1:0", move |own, number| {
        wait_until(Duration::from_secs(600), || {
            number < allowed.load(Ordering::SeqCst)
        });
        let path = &own.calls()[number].path;
        let of = |(name, ..): &&(&str, u16, usize)| path.starts_with(&format!("/{name}/"));
        Answer {
            status: CALLS.iter().find(of).map_or(500, |(_, status, _)| *status),
            headers: "",
        }
    })
}

fn spilled(folder: &Folder) -> u64 {
    let file = std::fs::metadata(folder.0.join("clinch-spill.log"));
    file.map_or(0, |file| file.len())
}

fn play(kind: Kind) {
    let course = Course::of_this_run();
    let database = clinch_testbed::database(kind).expect("a database of its own");
    let server = port(&database);
    let proxy = Proxy::to(server).expect("a proxy");
    let allowed = Arc::new(AtomicUsize::new(0));
    let provider = provider(&allowed);
    let url = proxy.address(&database, server);
    let config = course.config(&url, &provider.address.to_string());
    let mut node = Node::start(&config, "api,worker,recovery", &[]);
    let ids = submit(&node);
    provider.until(|calls| calls.len() == ids.len());
    proxy.set_dark(true);
    let dark = Instant::now();
    let empty = spilled(&node.folder());
    allowed.store(EARLY, Ordering::SeqCst);
    assert!(
        wait_until(LIMIT, || spilled(&node.folder()) > empty),
        "no answer is spilled while the store does not answer: {}",
        node.log()
    );
    let_pass(course.dark.saturating_sub(dark.elapsed()));
    let answers = node.folder();
    let told = Instant::now();
    allowed.store(ids.len(), Ordering::SeqCst);
    node.terminate();
    let (stop, dark) = (told.elapsed(), dark.elapsed());
    proxy.set_dark(false);
    println!("{kind}: dark for {dark:.1?}, stopped in {stop:.1?} of 2s");
    let again = Node::start_in(answers, "api,worker,recovery", &[]);
    for (id, name) in &ids {
        let ended = again.until(id, |one| {
            one["state"] == "COMPLETED" || one["state"] == "FAILED"
        });
        check(name, &ended);
    }
    let held = again.ask("GET", "/v1/operations?phase=held", "");
    assert_eq!(
        held["operations"].as_array().map(Vec::len),
        Some(0),
        "{held:#}"
    );
    assert_each_is_called_once(&provider, ids.len());
    println!(
        "{kind}: {} answered, 0 lost, 0 held, 0 called twice",
        ids.len()
    );
}

/// Ids of the operations, with the kind of each.
fn submit(node: &Node) -> BTreeMap<String, &'static str> {
    let mut ids = BTreeMap::new();
    for (name, _, count) in CALLS {
        for number in 0..count {
            let id = node.submit(name, "call", &format!("{name}-{number}"));
            ids.insert(id, name);
        }
    }
    ids
}

fn check(name: &str, ended: &Value) {
    match name {
        "ok" => assert_eq!(ended["state"], "COMPLETED", "{ended:#}"),
        _ => {
            assert_eq!(ended["state"], "FAILED", "{ended:#}");
            assert_eq!(ended["failure"]["effect"], "none", "{ended:#}");
        }
    }
    assert_eq!(ended["attempts"], 1, "{ended:#}");
}

fn assert_each_is_called_once(provider: &Provider, count: usize) {
    let calls = provider.calls();
    let mut paths: Vec<_> = calls.iter().map(|call| call.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!((calls.len(), paths.len()), (count, count));
}

/// The port of an address such as `postgres://postgres@127.0.0.1:5432/own`.
fn port(url: &str) -> u16 {
    let (_, rest) = url.rsplit_once(':').expect("a port");
    let digits = rest.split('/').next().expect("a port");
    digits.parse().expect("a number")
}
