//! The server loses what it had, in the middle of the work.

use clinch_redis::RedisBus;
use clinch_testbed::{Kind, Server};

use crate::engine::Node;
use crate::support::{ask_raw, fresh, raw};

/// A few hundred in a test run, thousands where a proof is asked for.
fn operations() -> usize {
    match std::env::var_os("CLINCH_PROOF") {
        Some(_) => 5_000,
        None => 300,
    }
}

/// Cuts the end off the append-only file, in the middle of a command.
fn truncate(server: &Server) {
    let folder = server.folder().join("appendonlydir");
    let files = std::fs::read_dir(folder).expect("the folder");
    let is_log = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(".incr.aof");
    let mut files = files.filter_map(|entry| Some(entry.ok()?.path()));
    let log = files.find(is_log).expect("the file");
    let file = std::fs::File::options().write(true).open(log);
    let file = file.expect("the file opens");
    let length = file.metadata().expect("its length").len();
    assert!(length > 1_000, "there is something to lose");
    file.set_len(length / 2 + 3).expect("it is cut");
}

pub(crate) async fn out_8_flushall_and_a_truncated_file_lose_no_operation() {
    let mut server = Server::start(Kind::Redis).expect("a server");
    let bus = RedisBus::connect(&server.url(), fresh()).await;
    let node = Node::start(bus.expect("a bus")).await;
    let ops = node.submit(operations()).await;
    node.let_through(50).await;
    let mut raw = raw(&server.url()).await;
    let _: String = ask_raw(&mut raw, &["FLUSHALL"]).await;
    node.let_through(50).await;
    server.kill();
    truncate(&server);
    server.restart().expect("it starts on what is left");
    node.let_through(50).await;
    server.kill();
    server.restart().expect("it starts again");
    node.all_settled_once(&ops).await;
}

pub(crate) async fn out_8_operations_wait_for_a_server_that_is_down() {
    let mut server = Server::start(Kind::Redis).expect("a server");
    let bus = RedisBus::connect(&server.url(), fresh()).await;
    let node = Node::start(bus.expect("a bus")).await;
    server.kill();
    let ops = node.submit(operations()).await;
    server.restart().expect("it starts again");
    node.let_through(50).await;
    server.pause();
    server.resume();
    node.all_settled_once(&ops).await;
}
