//! Each server starts, serves, dies by a kill and comes back on its folder and port.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::net::TcpStream;

use clinch_testbed::{Kind, Server};

fn lives_dies_and_comes_back(kind: Kind) {
    let mut server = Server::start(kind).expect("it is installed and starts");
    let port = server.port();
    let folder = server.folder().to_owned();
    let connects = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(connects());
    server.kill();
    assert!(!connects(), "nobody listens after a kill");
    server.restart().expect("it starts again");
    assert!(connects());
    drop(server);
    assert!(!connects(), "nobody listens after it is dropped");
    assert!(!folder.exists(), "its folder goes with it");
}

#[test]
fn postgres_lives_dies_and_comes_back() {
    lives_dies_and_comes_back(Kind::Postgres);
}

#[test]
fn mariadb_lives_dies_and_comes_back() {
    lives_dies_and_comes_back(Kind::MariaDb);
}

#[test]
fn redis_lives_dies_and_comes_back() {
    lives_dies_and_comes_back(Kind::Redis);
}

#[test]
fn nats_lives_dies_and_comes_back() {
    lives_dies_and_comes_back(Kind::Nats);
}
