//! Many callers with one key.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;

use crate::world::{World, command};

#[test]
fn core_6_sixty_four_submissions_of_one_key_are_one_operation_and_one_call() {
    const CALLERS: usize = 64;
    let world = World::new("one-key");
    let start = Arc::new(Barrier::new(CALLERS));
    let caller = |_| {
        let (client, start) = (world.client.clone(), start.clone());
        thread::spawn(move || {
            start.wait();
            let reply = client.post("/v1/operations?wait=60s", &command("pay", "ok", "k1"));
            let reply = reply.is(200);
            let is_replay = reply.header("idempotency-replayed").is_some();
            (reply.op_id(), is_replay)
        })
    };
    let callers: Vec<_> = (0..CALLERS).map(caller).collect();
    let answers = callers
        .into_iter()
        .map(|caller| caller.join().expect("an answer"));
    let answers: Vec<(String, bool)> = answers.collect();
    let ids: BTreeSet<&String> = answers.iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(
        answers.iter().filter(|(_, is_replay)| !is_replay).count(),
        1
    );
    assert_eq!(world.provider.calls("200"), 1);
}
