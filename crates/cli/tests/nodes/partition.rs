//! Four workers on four machines; one loses its connection to the servers during its calls.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use clinch_testbed::{Kind, Server};
use serde_json::Value;

use crate::network::Network;
use crate::node::{Folder, Node};
use crate::provider::{Answer, Call, Provider};

const WORKERS: usize = 4;
/// The answers to the calls of the disconnected worker.
const LATE: [(&str, u16); 3] = [("ok", 200), ("refuse", 402), ("retry", 503)];
/// Operations that run in the meantime.
const OTHERS: usize = 40;

/// Opened once.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_open {
            let woken = self.opened.wait(is_open);
            is_open = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The answer, if this is a first call of one of [`LATE`].
fn late(calls: &[Call], number: usize) -> Option<u16> {
    let call = &calls[number];
    let is_first = calls[..number].iter().all(|one| one.path != call.path);
    let (_, status) = LATE
        .iter()
        .find(|(name, _)| call.path == format!("/{name}"))?;
    is_first.then_some(*status)
}

fn config(postgres: &str, redis: &str, provider: &str) -> String {
    let mut config = format!(
        r#"
[store]
url = "{postgres}"
[bus]
url = "{redis}"
[worker]
concurrency = 8
lease = "3s"
[reaper]
interval = "1s"
[sweeper]
grace = "2s"
stalled = "5s"
"#
    );
    // Operations that may not be repeated are held for an operator when their worker is lost; the
    // others go on.
    for (name, safety) in [
        ("ok", "unsafe"),
        ("refuse", "natural"),
        ("retry", "natural"),
        ("other", "natural"),
    ] {
        config += &format!(
            r#"
[[route]]
name = "{name}"
domain = "{name}"
event_type = "call"
url = "http://{provider}/{name}"
safety = "{safety}"
timeout = "120s"
allow_private = true
retry = {{ base = "100ms", cap = "100ms" }}
"#
        );
    }
    config
}

fn postgres(network: &Network, rules: &Folder) -> Server {
    let file = rules.0.join("pg_hba.conf");
    std::fs::write(&file, "host all all 0.0.0.0/0 trust\n").expect("a file");
    for (path, mode) in [(&rules.0, 0o755), (&file, 0o644)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("readable");
    }
    let listen = format!("listen_addresses=127.0.0.1,{}", network.servers());
    let rules = format!("hba_file={}", file.display());
    Server::start_with(Kind::Postgres, &["-c", &listen, "-c", &rules]).expect("a store")
}

fn redis(network: &Network) -> Server {
    let servers = network.servers();
    let listen = ["--bind", "127.0.0.1", &servers, "--protected-mode", "no"];
    Server::start_with(Kind::Redis, &listen).expect("a bus")
}

/// Answers that arrived after another worker had taken over.
fn late_answers(node: &Node, id: &str) -> Vec<Value> {
    let said = node.attempts(id);
    said["late_answers"].as_array().expect("a list").clone()
}

pub(crate) fn a_worker_that_is_cut_off_and_healed_changes_nothing_but_by_a_late_ok() {
    let network = Network::new(WORKERS);
    let rules = Folder::with("");
    let (postgres, redis) = (postgres(&network, &rules), redis(&network));
    let gate = Arc::new(Gate::default());
    let held = gate.clone();
    let listen = format!("{}:0", network.provider());
    let provider = Provider::start(&listen, move |own, number| {
        match late(&own.calls(), number) {
            Some(status) => {
                held.pass();
                Answer {
                    status,
                    headers: "",
                }
            }
            None => Answer::OK,
        }
    });
    let address = provider.address.to_string();
    let local = config(&postgres.url(), &redis.url(), &address);
    let remote = local.replace("@127.0.0.1:", &format!("@{}:", network.servers()));
    let remote = remote.replace(
        "redis://127.0.0.1:",
        &format!("redis://{}:", network.servers()),
    );
    let api = Node::start(&local, "api,recovery", &[]);
    let start = |machine: usize| {
        let inside = network.exec(machine);
        let inside: Vec<&str> = inside.iter().map(String::as_str).collect();
        Node::start(&remote, "worker", &inside)
    };
    // The first worker runs alone until it calls, so these calls are its own.
    let mut workers = vec![start(0)];
    let ids: BTreeMap<&str, String> = LATE
        .iter()
        .map(|(name, _)| (*name, api.submit(name, "call", "in-question")))
        .collect();
    provider.until(|calls| calls.len() == LATE.len());
    workers.extend((1..WORKERS).map(start));
    network.cut(0);
    let others: Vec<String> = (0..OTHERS)
        .map(|number| api.submit("other", "call", &format!("order-{number}")))
        .collect();
    for id in &others {
        api.until(id, |one| one["state"] == "COMPLETED");
    }
    for name in ["refuse", "retry"] {
        api.until(&ids[name], |one| one["state"] == "COMPLETED");
    }
    // The effect is unknown, and no worker may call again.
    let lost = api.until(&ids["ok"], |one| one["phase"] == "held");
    assert_eq!(lost["effect"], "unknown");
    let before: Vec<Value> = ["refuse", "retry"]
        .map(|name| api.operation(&ids[name]))
        .into();
    gate.open();
    network.heal(0);
    let after = api.until(&ids["ok"], |one| one["state"] == "COMPLETED");
    assert_eq!(after["attempts"], 1, "its own late yes ended it");
    no_late_answer_counts(&api, &ids, &before);
    each_was_called_by_whom_it_should(&network, &provider);
    // The reconnected worker works again, alone.
    workers.truncate(1);
    let again = api.submit("other", "call", "after");
    api.until(&again, |one| one["state"] == "COMPLETED");
    let last = provider.calls().pop().expect("a call");
    assert_eq!(network.machine_at(&last.from.to_string()), 0);
}

/// The late answers are in the ledger as refused, and the operations are unchanged.
fn no_late_answer_counts(api: &Node, ids: &BTreeMap<&str, String>, before: &[Value]) {
    for (name, before) in ["refuse", "retry"].iter().zip(before) {
        let id = &ids[name];
        let told = clinch_testbed::wait_until(std::time::Duration::from_secs(60), || {
            !late_answers(api, id).is_empty()
        });
        assert!(told, "{:#}\n{}", api.attempts(id), api.log());
        let answers = late_answers(api, id);
        assert!(answers[0]["refused"].is_string(), "{answers:#?}");
        let now = api.operation(id);
        for field in ["state", "attempts", "result", "failure", "finished_at"] {
            assert_eq!(now[field], before[field], "{name}: {field}");
        }
    }
}

fn each_was_called_by_whom_it_should(network: &Network, provider: &Provider) {
    let calls = provider.calls();
    let of = |name: &str| {
        let path = format!("/{name}");
        let of = calls.iter().filter(|call| call.path == path);
        of.map(|call| network.machine_at(&call.from.to_string()))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("ok"), [0], "one call, of the worker that was cut off");
    for name in ["refuse", "retry"] {
        let machines = of(name);
        assert_eq!(machines.len(), 2, "{name}: {machines:?}");
        assert_eq!(machines[0], 0);
        assert_ne!(machines[1], 0, "another worker took over");
    }
    let mut bodies: Vec<_> = calls.iter().filter(|call| call.path == "/other").collect();
    bodies.sort_by(|one, other| one.body.cmp(&other.body));
    bodies.dedup_by(|one, other| one.body == other.body);
    assert_eq!(bodies.len(), OTHERS, "every operation was called");
}
