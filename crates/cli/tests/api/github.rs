//! The collector's routes, on a made-up GitHub.

use std::sync::Arc;

use clinch_github::fake::{Fake, Faults, Served, Setup, Size, World as Made, serve};
use clinch_system::SystemClock;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::http::Client;
use crate::world::{World, config};

/// A made-up GitHub with one repository that cannot be read.
pub(crate) struct Hub {
    served: Served,
    _runtime: Runtime,
    /// The owner of that repository.
    pub(crate) owner: String,
    /// Another user.
    pub(crate) other: String,
}

impl Hub {
    pub(crate) fn start() -> Self {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        let runtime = threads.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a thread");
        let size = Size {
            users: 2,
            repositories: 4,
            documents: 60,
        };
        let made = Made::generate(1, &size);
        let name = made.full_names().remove(0);
        let owner = name.split('/').next().expect("an owner").to_owned();
        let other = made.logins().into_iter().find(|login| *login != owner);
        let setup = Setup {
            faults: Faults::none().repository(&name, 400),
            ..Setup::default()
        };
        let fake = Fake::new(made, setup, Arc::new(SystemClock::new()));
        let served = runtime.block_on(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            serve(listener, fake).expect("served")
        });
        Self {
            served,
            _runtime: runtime,
            owner,
            other: other.expect("two users"),
        }
    }

    /// The configuration with the address of this fake.
    pub(crate) fn instead_of_none(&self, config: &str) -> String {
        let here = format!("{}\"\ntokens = [\"fake-ann-1\"]", self.served.base);
        config.replace("http://127.0.0.1:1\"\n", &format!("{here}\n"))
    }

    /// A run that has ended, and some of its jobs failed.
    pub(crate) fn run_with_failed_jobs(&self, client: &Client) -> String {
        let run = client.post("/v1/github/runs", &json!({"login": self.owner}));
        let run = run.is(202).body["run_id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let path = format!("/v1/github/runs/{run}");
        let ended = client.until(&path, |run| run["completed_at"].is_string());
        assert_eq!(ended["status"], "COMPLETED", "{ended:#}");
        assert!(ended["jobs"]["failed"].as_u64() > Some(0), "{ended:#}");
        // The run has ended; the operation that ended it is settled a moment later.
        let steps = format!(
            "/v1/operations?domain=github&biz_key=user%3A{}&phase=live",
            self.owner
        );
        client.until(&steps, |page| page["operations"] == json!([]));
        run
    }

    /// A run that does not begin.
    pub(crate) fn run_that_waits(&self, client: &Client) -> String {
        client.post("/v1/domains/github/pause", &json!({})).is(200);
        let run = client.post("/v1/github/runs", &json!({"login": self.other}));
        run.is(202).body["run_id"]
            .as_str()
            .expect("an id")
            .to_owned()
    }
}

/// A dry run, and parts of a collection that are refused.
fn parts(client: &Client, owner: &str) {
    let dry = json!({"login": owner, "dry_run": true});
    let cost = client.post("/v1/github/runs", &dry).is(200).body;
    assert!(cost["at_least"].as_u64() > Some(0), "{cost:#}");
    for (member, value) in [
        ("repositories", json!(["acme/api"])),
        ("search", json!("org:acme")),
        ("since", json!("soon")),
    ] {
        let wrong = json!({"login": owner, member: value});
        let wrong = client.post("/v1/github/runs", &wrong);
        wrong.refused(400, "invalid_request");
    }
}

/// The routes of shadows, and the overview.
fn shadows(client: &Client, owner: &str, ended: &str, shadow: &serde_json::Value) {
    let compared = format!("/v1/github/comparison?login={owner}");
    client.get(&compared).refused(404, "not_found");
    client.post("/v1/github/runs", shadow).is(202);
    let path = format!("/v1/github/runs/{owner}.shadow.1");
    client.until(&path, |run| run["completed_at"].is_string());
    let comparison = client.get(&compared).is(200).body;
    assert_eq!(
        comparison["runs"]["main"]["run_id"], ended,
        "{comparison:#}"
    );
    for wrong in ["max_time_ratio=0", "max_failed=many"] {
        let wrong = client.get(&format!("{compared}&{wrong}"));
        wrong.refused(400, "invalid_request");
    }
    client.get("/v1/github/switch").is(200);
    let switched = json!({"live": "shadow", "max_time_ratio": 3});
    let switched = client.post("/v1/github/switch", &switched).is(200).body;
    assert_eq!(switched["live"], "shadow", "{switched:#}");
    for wrong in [
        json!({"live": "both"}),
        json!({"live": "main", "max_failed_percent": 101}),
        json!({"live": "main", "max_time_ratio": 0}),
    ] {
        let refused = client.post("/v1/github/switch", &wrong);
        refused.refused(400, "invalid_request");
    }
    let back = json!({"live": "main"});
    client.post("/v1/github/switch", &back).is(200);
    let overview = client.get("/v1/github/overview").is(200).body;
    assert!(overview["kinds"]["repo_issues"]["failed"].as_u64() > Some(0));
}

/// Tokens of a user: stored, listed, removed, and refused without a key that seals them.
fn user_tokens(world: &World, client: &Client, owner: &str, text: &str) {
    let tokens = format!("/v1/github/users/{owner}/tokens");
    let json = ("content-type", "application/json");
    let put = |client: &Client, body: &str| client.send("PUT", &tokens, &[json], body);
    let stored = put(client, r#"{"token":"fake-ann-2"}"#).is(200).body;
    let hash = stored["token"].as_str().expect("a hash");
    assert_eq!(client.get(&tokens).is(200).body["tokens"][0], stored);
    put(client, r#"{"token":"a b"}"#).refused(400, "invalid_request");
    client
        .send("DELETE", &format!("{tokens}/{hash}"), &[], "")
        .is(200);
    let plain = text.replace("token_keys", "schedule = []\n# token_keys");
    let keyless = World::with("keyless", &plain, world.provider.clone(), &world.seen);
    put(&keyless.client, r#"{"token":"fake-ann-2"}"#).refused(409, "no_token_key");
}

/// Every route, with what it refuses.
pub(crate) fn runs(world: &World) {
    let hub = Hub::start();
    let text = hub.instead_of_none(&config(&world.provider));
    let here = World::with("github", &text, world.provider.clone(), &world.seen);
    let client = &here.client;
    let ended = hub.run_with_failed_jobs(client);
    let owner = &hub.owner;
    let shadow = json!({"login": owner, "shadow": true});
    shadows(client, owner, &ended, &shadow);
    let active = hub.run_that_waits(client);
    let at = |run: &str, what: &str| format!("/v1/github/runs/{run}{what}");
    let again = client.post("/v1/github/runs", &json!({"login": hub.other}));
    again.refused(409, "active_run");
    client
        .post(&at(&active, "/retry"), &json!({}))
        .refused(409, "active_run");
    let cancel = client.send("POST", &at(&active, "/cancel"), &[], "");
    assert_eq!(cancel.is(200).body["status"], "CANCELED");
    client
        .post(&at(&active, "/cancel"), &json!({}))
        .refused(409, "terminal");
    client
        .post(&at(&active, "/retry"), &json!({}))
        .refused(409, "terminal");
    let retried = client
        .send("POST", &at(&ended, "/retry"), &[], "")
        .is(200)
        .body;
    assert!(retried["retried"].as_u64() > Some(0), "{retried:#}");

    client.get("/v1/github/runs").is(200);
    client
        .get("/v1/github/runs?status=LATE")
        .refused(400, "invalid_request");
    client.get(&at(&ended, "/jobs?state=FAILED")).is(200);
    client
        .get(&at(&ended, "/jobs?state=LATE"))
        .refused(400, "invalid_request");
    client.get("/v1/github/tokens").is(200);
    parts(client, owner);
    client.post("/v1/github/runs", &shadow).is(202);
    for (list, wrong) in [
        ("cursors", ""),
        ("comparison", ""),
        ("statistics", "?shadow=perhaps"),
        ("documents", "?limit=0"),
    ] {
        client
            .get(&format!("/v1/github/{list}?login={owner}"))
            .is(200);
        let wrong = client.get(&format!("/v1/github/{list}{wrong}"));
        wrong.refused(400, "invalid_request");
    }
    user_tokens(world, client, owner, &text);
    let forget = |login: &str| {
        let path = format!("/v1/github/users/{login}/forget");
        client.send("POST", &path, &[], "")
    };
    // The shadow run waits.
    forget(owner).refused(409, "active_run");
    forget(&hub.other).is(200);
    forget("nobody").refused(404, "not_found");
    forget("not%20a%20login").refused(400, "invalid_request");
}
