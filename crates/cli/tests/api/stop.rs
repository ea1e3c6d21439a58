//! Stopping, in time and at the deadline.

use std::io::Read as _;

use crate::http::Seen;
use crate::process::Process;
use crate::provider::Provider;
use crate::world::{World, command, config};

#[test]
fn run_12_a_stop_ends_streams_and_polls_and_lets_calls_finish() {
    let mut world = World::new("stop");
    let (mut events, _) = world.events();
    let id = world.submit("pay", "gated", "p1");
    world.provider.arrival("p1");
    let path = format!("/v1/operations/{id}?wait=60s");
    let mut poll = world.client.open("GET", &path, &[], 0);
    // Another connection is answered: the poll has been read by then, or soon will be.
    world.client.get("/healthz").is(200);
    world.process.terminate();
    let mut rest = Vec::new();
    events.read_to_end(&mut rest).expect("the stream ends");
    let mut answer = String::new();
    poll.read_to_string(&mut answer).expect("the poll ends");
    assert!(
        answer.is_empty() || answer.contains("IN_PROGRESS"),
        "{answer}"
    );
    // The call is still running; its answer is not lost.
    world.provider.answer("p1", 200);
    assert!(world.process.ended().success(), "in time");
    world.process = Process::start(&world.folder);
    let client = crate::http::Client::new(world.process.address, &world.seen);
    assert_eq!(client.settled(&id)["state"], "COMPLETED");
    assert_eq!(world.provider.calls("gate"), 1);
}

#[test]
fn run_12_a_stop_has_a_hard_deadline_and_what_ran_is_taken_up_again() {
    let provider = Provider::start();
    let text = config(&provider).replace("[server]", "[server]\nshutdown_deadline = \"300ms\"")
        + "\n[worker]\nlease = \"1s\"\n";
    let mut world = World::with("deadline", &text, provider, &Seen::default());
    let (mut events, _) = world.events();
    let id = world.submit("pay", "gated", "p2");
    world.provider.arrival("p2");
    let queued = world
        .client
        .submit(&command("away", "x", "p3"))
        .is(202)
        .op_id();
    world.process.terminate();
    // The call never ends; the process does, and says so.
    assert_eq!(world.process.ended().code(), Some(1));
    let mut rest = Vec::new();
    let _ = events.read_to_end(&mut rest);
    world.provider.answer("p2", 200);
    world.process = Process::start(&world.folder);
    let client = crate::http::Client::new(world.process.address, &world.seen);
    let settled = client.settled(&id);
    assert_eq!(settled["state"], "COMPLETED", "{settled}");
    client.held(&queued, "no_executor");
}

#[test]
fn run_12_a_second_signal_ends_the_process_at_once_and_says_what_was_left() {
    let mut world = World::new("twice");
    let id = world.submit("pay", "gated", "p4");
    world.provider.arrival("p4");
    world.process.terminate();
    world.process.logged("stopping");
    // The call never ends, and the second signal does not wait for it.
    world.process.terminate();
    assert_eq!(world.process.ended().code(), Some(143));
    let last = world.process.logged("1 attempt was running");
    assert!(last.contains("second signal"), "{last}");
    world.process = Process::start(&world.folder);
    let client = crate::http::Client::new(world.process.address, &world.seen);
    let row = client.get(&format!("/v1/operations/{id}")).is(200);
    assert_eq!(row.body["state"], "IN_PROGRESS", "recovery takes it up");
}
