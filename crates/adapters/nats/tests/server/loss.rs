//! What a server loses, and what that costs.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::Status;
use clinch_core::ports::{Bus, Domains, Inspect, Notices};
use clinch_memory::Memory;
use clinch_system::SystemClock;
use clinch_testbed::{Kind, Server};

use crate::engine::{Provider, command, engine};
use crate::world::{Folder, LONG, ask, bus, once_it_is_back, publish, settings, take};

const OPERATIONS: usize = 5_000;

fn server() -> Server {
    Server::start(Kind::Nats).expect("a server")
}

/// SIGKILL, and its files with it; then it comes back.
fn kill_and_empty(server: &mut Server) {
    tokio::task::block_in_place(|| {
        server.kill();
        std::fs::remove_dir_all(server.folder().join("data")).expect("its files");
        server.restart().expect("it starts again");
    });
}

pub(crate) async fn killed_and_emptied_under_load() {
    let (mut server, folder) = (server(), Folder::new());
    let memory = Memory::new(Arc::new(SystemClock::new()));
    let provider = Provider::new();
    let wire = bus(&server.url(), &settings()).await;
    let runtime = engine(&memory, wire, provider.clone(), &folder.0).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.run().await }
    });
    let orchestrator = runtime.orchestrator();
    let submitting = tokio::spawn(async move {
        let mut ops = Vec::new();
        for first in (0..OPERATIONS).step_by(100) {
            let some = (first..first + 100).map(command).collect();
            let known = orchestrator.submit(some).await.expect("accepted");
            ops.extend(known.into_iter().map(|known| known.expect("new").op_id));
        }
        ops
    });
    // Twice, while hints are under way.
    for share in [4, 2] {
        provider.until_called(OPERATIONS / share).await;
        kill_and_empty(&mut server);
    }
    let ops = submitting.await.expect("every operation was accepted");
    until_all_settled(&memory).await;
    runtime.stop();
    let _ = running.await;
    let rows = memory.get(&ops).await.expect("rows");
    let calls = provider.calls.lock().expect("no caller panics");
    assert_eq!(rows.len(), OPERATIONS);
    for row in rows {
        let row = row.expect("no operation is lost");
        assert_eq!(row.state.status, Status::Completed);
        assert_eq!(calls.get(&row.op_id), Some(&1), "effects of one operation");
    }
}

async fn until_all_settled(memory: &Memory) {
    let mut seen = 0;
    loop {
        let domains = memory.domains().await.expect("reads");
        let open = |view: &clinch_core::ports::DomainView| {
            let counts = &view.counts;
            counts.pending + counts.live + counts.recorded + counts.waiting
        };
        if domains.iter().map(open).sum::<u64>() == 0 {
            return;
        }
        let news = memory.news(seen, Duration::from_secs(1)).await;
        (_, seen) = news.expect("news");
    }
}

pub(crate) async fn hints_outlive_a_killed_server() {
    let mut server = server();
    let bus = bus(&server.url(), &settings()).await;
    let mut hints = publish(&bus, 300).await;
    let first = take(&bus, 100).await;
    let receipts: Vec<_> = first.iter().map(|taken| taken.receipt.clone()).collect();
    bus.ack(&receipts).await.expect("acked");
    tokio::task::block_in_place(|| server.restart().expect("it starts again"));
    hints.retain(|hint| first.iter().all(|taken| taken.hint != *hint));
    let mut left = Vec::new();
    while left.len() < hints.len() {
        let room = hints.len() - left.len();
        let ask = ask(&["a"], room, LONG);
        let more = once_it_is_back(|| bus.dequeue(&ask)).await;
        left.extend(more.into_iter().map(|taken| taken.hint));
    }
    assert_eq!(left, hints, "what was not acked, in order");
}

pub(crate) async fn a_deleted_stream_is_made_again() {
    let url = clinch_testbed::shared(Kind::Nats).expect("a server");
    let settings = settings();
    let bus = bus(&url, &settings).await;
    publish(&bus, 3).await;
    assert_eq!(take(&bus, 3).await.len(), 3);
    let other = async_nats::connect(&url).await.expect("a connection");
    let delete = format!("$JS.API.STREAM.DELETE.{}", settings.prefix);
    let waiting = tokio::spawn({
        let bus = bus.clone();
        async move { bus.dequeue(&ask(&["a"], 9, LONG)).await }
    });
    let deleted = other.request(delete, "".into()).await.expect("an answer");
    assert!(deleted.payload.starts_with(b"{") && deleted.status.is_none());
    let hints = publish(&bus, 1).await;
    let got = match waiting.await.expect("no panic") {
        Ok(got) => got,
        Err(error) => {
            assert!(error.is_retryable(), "{error}");
            take(&bus, 1).await
        }
    };
    assert_eq!(got[0].hint, hints[0], "what was published after the loss");
}

pub(crate) async fn a_deleted_consumer_is_made_again() {
    let url = clinch_testbed::shared(Kind::Nats).expect("a server");
    let settings = settings();
    let bus = bus(&url, &settings).await;
    let none = bus.dequeue(&ask(&["a"], 9, Duration::ZERO)).await;
    assert_eq!(none.expect("a dequeue"), []);
    let other = async_nats::connect(&url).await.expect("a connection");
    let delete = format!("$JS.API.CONSUMER.DELETE.{}.a", settings.prefix);
    other.request(delete, "".into()).await.expect("an answer");
    let hints = publish(&bus, 2).await;
    let got = take(&bus, 2).await;
    assert_eq!(got[0].hint, hints[0]);
}

pub(crate) async fn a_server_that_hangs() {
    let server = server();
    let bus = bus(&server.url(), &settings()).await;
    publish(&bus, 1).await;
    server.pause();
    let got = bus.dequeue(&ask(&["a"], 9, Duration::ZERO)).await;
    let error = got.expect_err("nobody answers");
    assert_eq!(error.kind(), clinch_core::ErrorKind::Unavailable);
    server.resume();
    let ask = ask(&["a"], 9, LONG);
    let got = once_it_is_back(|| bus.dequeue(&ask)).await;
    assert_eq!(got.len(), 1);
}

pub(crate) async fn receipts_of_a_lost_stream_touch_nothing() {
    let mut server = server();
    let bus = bus(&server.url(), &settings()).await;
    publish(&bus, 1).await;
    let old = take(&bus, 1).await;
    kill_and_empty(&mut server);
    // The new stream counts from one again: this hint has the number of the old one.
    let hint = crate::world::hint("a");
    let again = [crate::world::publication(&hint, Duration::ZERO)];
    once_it_is_back(|| bus.publish(&again)).await;
    let receipts = [old[0].receipt.clone()];
    once_it_is_back(|| bus.ack(&receipts)).await;
    let pause = [(old[0].receipt.clone(), LONG)];
    once_it_is_back(|| bus.nack(&pause)).await;
    assert_eq!(take(&bus, 1).await[0].hint, hint);
}
