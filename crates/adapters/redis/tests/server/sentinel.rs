//! Sentinel names another master; the bus follows.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clinch_core::ports::{Bus, Publication};
use clinch_redis::{RedisBus, Settings};
use clinch_testbed::{Kind, Server};

use crate::support::{ask, ask_raw, fresh, hint, raw, secs};

/// Ends with its test, by its id.
struct Sentinel(Child);

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

fn start(master: &Server) -> (Sentinel, u16) {
    let (port, folder) = (free_port(), master.folder());
    let file = folder.join("sentinel.conf");
    let lines = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {} 1\n\
         sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n",
        folder.display(),
        master.port()
    );
    std::fs::write(&file, lines).expect("a file");
    let program = Kind::Redis.program().expect("a program");
    let child = Command::new(program)
        .arg(file)
        .arg("--sentinel")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    (Sentinel(child.expect("a sentinel")), port)
}

async fn master_port(url: &str) -> Option<u16> {
    let client = redis::Client::open(url).ok()?;
    let mut connection = client.get_multiplexed_async_connection().await.ok()?;
    let mut ask = redis::cmd("SENTINEL");
    ask.arg("get-master-addr-by-name").arg("main");
    let address: (String, u16) = ask.query_async(&mut connection).await.ok()?;
    Some(address.1)
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let mut pause = tokio::time::interval(Duration::from_millis(50));
    while !is_so().await {
        pause.tick().await;
    }
}

async fn is_published(bus: &RedisBus, hint: &clinch_core::ports::Hint) -> bool {
    let publication = Publication::to_all(hint.clone(), Duration::ZERO);
    bus.publish(&[publication]).await.is_ok()
}

pub(crate) async fn col_5_the_bus_follows_a_fail_over() {
    let mut first = Server::start(Kind::Redis).expect("a server");
    let replica_of = ["--replicaof", "127.0.0.1", &first.port().to_string()];
    let second = Server::start_with(Kind::Redis, &replica_of).expect("a replica");
    let mut raw = raw(&first.url()).await;
    until(async || {
        let info: String = ask_raw(&mut raw, &["INFO", "replication"]).await;
        info.contains("state=online")
    })
    .await;
    let (_sentinel, port) = start(&first);
    let address = format!("redis://127.0.0.1:{port}");
    until(async || master_port(&address).await == Some(first.port())).await;
    let url = format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{port}/main");
    let settings = Settings {
        answer_within: secs(2),
        ..fresh()
    };
    let bus = RedisBus::connect(&url, settings).await.expect("a bus");
    assert!(is_published(&bus, &hint("a")).await);
    // The sentinel has to know the replica before the master goes.
    let mut sentinel = crate::support::raw(&address).await;
    until(async || {
        let replicas: Vec<redis::Value> =
            ask_raw(&mut sentinel, &["SENTINEL", "REPLICAS", "main"]).await;
        !replicas.is_empty()
    })
    .await;
    first.kill();
    until(async || master_port(&address).await == Some(second.port())).await;
    let after = hint("a");
    until(async || is_published(&bus, &after).await).await;
    let mut got = Vec::new();
    while !got.contains(&after.op_id) {
        let taken = bus.dequeue(&ask(&["a"], 9, secs(5))).await;
        got.extend(taken.into_iter().flatten().map(|one| one.hint.op_id));
    }
}
