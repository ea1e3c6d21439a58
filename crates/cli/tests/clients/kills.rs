//! Workers and servers that are killed in the middle of payments.
//!
//! The workers are the examples of the clients. They ask for leases of 30 s, and the route allows
//! 2 s: the attempts of a killed worker are taken over soon.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Stdio};

use clinch_testbed::wait_until;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::language::{Language, Project};
use crate::provider::Provider;
use crate::server::{PATIENCE, Server};

/// The calls at whose arrival a worker is killed.
const KILLED_AT: [usize; 4] = [120, 340, 560, 780];
/// Attempts that a worker of the examples has at once.
const CONCURRENCY: usize = 8;

/// A worker that is killed with the test.
struct Worker(Child);

impl Worker {
    fn start(project: &Project, server: &Server, provider: &Provider) -> Self {
        let mut command = project.example("remote_worker");
        command
            .env("CLINCH_URL", server.url())
            .env("PROVIDER_URL", provider.url())
            .stderr(Stdio::null());
        Self(command.spawn().expect("it starts"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("it ends");
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        rustix::process::kill_process(pid.expect("a pid"), signal).expect("told");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with payments to charge.
fn server(safety: &str, payments: usize) -> Server {
    // More attempts may be lost in a row than a route allows by default: the kills are close.
    let config = format!(
        r#"
        [worker]
        deliveries_max = 10
        [[route]]
        name = "charge"
        domain = "payments"
        event_type = "charge"
        remote = true
        safety = "{safety}"
        timeout = "2s"
        retry = {{ base = "10ms", cap = "10ms", max_attempts = 20 }}
        "#
    );
    let server = Server::start(&config);
    let operation = |number: usize| {
        let key = format!("p-{number}");
        json!({"domain": "payments", "event_type": "charge", "biz_key": key, "idem_key": key,
               "payload": {"amount": number}})
    };
    let operations: Vec<Value> = (0..payments).map(operation).collect();
    let taken = server.post("/v1/operations/bulk", &json!({ "operations": operations }));
    assert_eq!(taken["results"].as_array().map(Vec::len), Some(payments));
    server
}

/// Charges payments by workers, each of which is killed but the last.
fn with_kills(language: Language, safety: &str, payments: usize) -> (Server, Provider) {
    let server = server(safety, payments);
    let (provider, stops) = Provider::with_stops(&KILLED_AT);
    let project = Project::new(language);
    let mut worker = Worker::start(&project, &server, &provider);
    for _ in KILLED_AT {
        stops.at_next(|| {
            worker.kill();
            worker = Worker::start(&project, &server, &provider);
        });
    }
    server.until_quiet(payments);
    (server, provider)
}

/// The number of calls for each payment, and the keys that they had.
fn charged(provider: &Provider) -> BTreeMap<String, (usize, BTreeSet<String>)> {
    let mut charged: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
    for charge in provider.charges() {
        let (calls, keys) = charged.entry(charge.biz_key).or_default();
        *calls += 1;
        keys.insert(charge.key);
    }
    charged
}

/// The provider remembers keys: it charged each payment once if no payment had two keys and no
/// two payments had one.
fn assert_completed_under_one_key(server: &Server, provider: &Provider, payments: usize) {
    for operation in server.operations() {
        assert_eq!(operation["state"], "COMPLETED", "{operation}");
    }
    let charged = charged(provider);
    assert_eq!(charged.len(), payments);
    let mut all = BTreeSet::new();
    for (payment, (_, keys)) in &charged {
        assert_eq!(keys.len(), 1, "{payment}: {keys:?}");
        all.extend(keys);
    }
    assert_eq!(all.len(), payments);
}

/// Every payment is called once, and completes.
fn assert_completed_at_once(server: &Server, provider: &Provider, payments: usize) {
    for operation in server.operations() {
        assert_eq!(operation["state"], "COMPLETED", "{operation}");
        assert_eq!(operation["attempts"], 1, "{operation}");
    }
    let charged = charged(provider);
    assert_eq!(charged.len(), payments);
    assert!(charged.values().all(|(calls, _)| *calls == 1));
}

pub(crate) fn keyed(language: Language) {
    let payments = 1_000;
    let (server, provider) = with_kills(language, "keyed", payments);
    assert_completed_under_one_key(&server, &provider, payments);
    // The call at which a worker was killed was applied, and made again under the same key.
    let calls = provider.charges().len();
    assert!(calls >= payments + KILLED_AT.len(), "{calls} calls");
}

/// No payment is called twice. What a killed worker may have charged is held, with the reason.
pub(crate) fn unsafe_ones(language: Language) {
    let payments = 1_000;
    let (server, provider) = with_kills(language, "unsafe", payments);
    let charged = charged(&provider);
    for (payment, (calls, _)) in &charged {
        assert_eq!(*calls, 1, "{payment} was called {calls} times");
    }
    let operations = server.operations().into_iter();
    let (held, done): (Vec<Value>, Vec<Value>) = operations.partition(|one| one["phase"] == "held");
    for operation in &held {
        assert_eq!(operation["hold"]["reason"], "effect_unknown", "{operation}");
        assert_eq!(
            operation["last_error"]["code"], "attempt_lost",
            "{operation}"
        );
    }
    for operation in &done {
        assert_eq!(operation["state"], "COMPLETED", "{operation}");
        let payment = operation["biz_key"].as_str().expect("a key");
        assert!(charged.contains_key(payment), "{operation}");
    }
    assert_eq!(held.len() + done.len(), payments);
    // Each kill lost the call at which it came, and nothing that was not leased.
    let expected = KILLED_AT.len()..=KILLED_AT.len() * CONCURRENCY;
    assert!(expected.contains(&held.len()), "{} held", held.len());
}

/// SIGTERM: running handlers end and report, and leases that were not begun are given back. On an
/// unsafe route a lost lease would show as a held payment.
pub(crate) fn told_to_stop(language: Language) {
    let payments = 200;
    let server = server("unsafe", payments);
    let (provider, stops) = Provider::with_stops(&[60]);
    let project = Project::new(language);
    let mut worker = Worker::start(&project, &server, &provider);
    stops.at_next(|| worker.signal(Signal::TERM));
    let status = worker.0.wait().expect("it ends");
    assert!(status.success(), "{status}");
    assert!(provider.charges().len() < payments);
    let _successor = Worker::start(&project, &server, &provider);
    server.until_quiet(payments);
    assert_completed_at_once(&server, &provider, payments);
}

/// SIGSTOP for longer than the lease: the payments of the worker are held. When the worker goes on,
/// its late answers complete what the provider charged, and nothing is called twice.
pub(crate) fn paused(language: Language) {
    let payments = 200;
    let server = server("unsafe", payments);
    let (provider, stops) = Provider::with_stops(&[60]);
    let project = Project::new(language);
    let worker = Worker::start(&project, &server, &provider);
    stops.at_next(|| {
        worker.signal(Signal::STOP);
        assert!(wait_until(PATIENCE, || server.count("held") > 0));
        worker.signal(Signal::CONT);
    });
    let all_that_was_charged = || {
        let charged = charged(&provider).len() as u64;
        server.count("COMPLETED") == charged && charged + server.count("held") == payments as u64
    };
    let is_so = wait_until(PATIENCE, all_that_was_charged);
    assert!(is_so, "{}", server.get("/v1/domains"));
    assert!(charged(&provider).values().all(|(calls, _)| *calls == 1));
    assert!(server.count("held") < CONCURRENCY as u64);
}

/// The worker keeps its outcomes until the server is back.
pub(crate) fn server_killed(language: Language) {
    let payments = 200;
    let mut server = server("keyed", payments);
    let (provider, stops) = Provider::with_stops(&[60, 130]);
    let project = Project::new(language);
    let mut worker = Worker::start(&project, &server, &provider);
    for _ in 0..2 {
        stops.at_next(|| server.kill_and_restart());
    }
    server.until_quiet(payments);
    assert_completed_under_one_key(&server, &provider, payments);
    assert!(worker.0.try_wait().expect("a state").is_none());
}

/// What the example makes of each answer of the provider.
pub(crate) fn answers(language: Language) {
    let server = server("unsafe", 4);
    let provider = Provider::start(|number, charge| match charge.biz_key.as_str() {
        "p-0" => 200,
        "p-1" => 402,
        // Busy at first.
        "p-2" if number <= 4 => 429,
        "p-2" => 200,
        _ => 500,
    });
    let project = Project::new(language);
    let _worker = Worker::start(&project, &server, &provider);
    server.until_quiet(4);
    let operations = server.operations();
    let of = |key: &str| {
        let found = operations.iter().find(|one| one["biz_key"] == key);
        found.expect("an operation")
    };
    let charged = &of("p-0")["result"];
    assert_eq!(charged["provider_txn_id"], charged["payload"]["id"]);
    assert_eq!(of("p-1")["failure"]["code"], "card_declined");
    assert_eq!(of("p-1")["failure"]["effect"], "none");
    assert_eq!(of("p-2")["state"], "COMPLETED");
    assert_eq!(of("p-2")["attempts"], 2);
    assert_eq!(of("p-3")["hold"]["reason"], "effect_unknown");
}
