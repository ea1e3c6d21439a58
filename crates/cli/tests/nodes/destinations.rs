//! Every node shows and obeys one state of a destination.

use clinch_testbed::{Kind, Server};
use serde_json::Value;

use crate::node::{Folder, Node};
use crate::provider::{Answer, Provider};

const ROLES: &str = "api,worker,recovery";
const OPERATIONS: usize = 8;

pub(crate) fn on_sqlite() {
    let folder = Folder::with("");
    an_operators_word_holds_on_every_node(&folder.store_url());
}

pub(crate) fn on_postgres() {
    let postgres = Server::start(Kind::Postgres).expect("a store");
    an_operators_word_holds_on_every_node(&postgres.url());
}

pub(crate) fn on_mariadb() {
    let mariadb = Server::start(Kind::MariaDb).expect("a store");
    an_operators_word_holds_on_every_node(&mariadb.url());
}

fn seen(node: &Node) -> Value {
    node.ask("GET", "/v1/destinations", "")["destinations"][0].clone()
}

fn an_operators_word_holds_on_every_node(store: &str) {
    let provider = Provider::start("127.0.0.1:0", |_, _| Answer::OK);
    let config = format!(
        r#"
[store]
url = "{store}"
[[route]]
name = "charge"
domain = "payments"
event_type = "charge"
url = "http://{}/charge"
safety = "natural"
destination = "psp"
"#,
        provider.address,
    );
    let one = Node::start(&config, ROLES, &[]);
    let other = Node::start(&config, ROLES, &[]);
    let said = r#"{"reason":"maintenance"}"#;
    let opened = one.ask("POST", "/v1/destinations/psp/open", said);
    assert_eq!(opened["shared"], true, "{opened}");
    // The other node has made no call yet: it asks before its first one.
    let submit = |number| other.submit("payments", "charge", &format!("order-{number}"));
    let ids: Vec<String> = (0..OPERATIONS).map(submit).collect();
    for node in [&one, &other] {
        let seen = seen(node);
        assert_eq!(seen["forced"], true, "{seen}");
        assert_eq!(seen["reason"], "maintenance", "{seen}");
        assert_eq!(seen["opened_by"], "local", "{seen}");
    }
    // The one that was told dies; a new one knows it.
    let folder = one.folder();
    drop(one);
    let next = Node::start_in(folder, ROLES, &[]);
    let found = seen(&next);
    assert_eq!(found["forced"], true, "{found}");
    assert_eq!(provider.calls().len(), 0, "no node called");
    let reset = next.ask("POST", "/v1/destinations/psp/reset", "{}");
    assert_eq!(
        (&reset["state"], &reset["shared"]),
        (&"ok".into(), &true.into())
    );
    for id in &ids {
        other.until(id, |one| one["state"] == "COMPLETED");
    }
    assert_eq!(provider.calls().len(), OPERATIONS);
    assert_eq!(seen(&other)["state"], "ok");
}
