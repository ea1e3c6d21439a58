//! The stream of events.

use crate::world::{World, read_until};

#[test]
fn core_8_events_tell_every_change_of_an_operation() {
    let world = World::new("events");
    let (mut stream, mut text) = world.events();
    // The operation right after each change of its row.
    let mut told = |id: &str, what: &str| {
        loop {
            let of_it = text.lines().filter(|line| line.contains(id));
            if of_it.into_iter().any(|line| line.contains(what)) {
                break;
            }
            let mut more = String::new();
            read_until(&mut stream, &mut more, "\n\n");
            text.push_str(&more);
        }
    };
    let accepted = world.submit("away", "x", "e1");
    told(&accepted, "\"state\":\"PENDING\"");
    let started = world.submit("pay", "gated", "e2");
    told(&started, "\"phase\":\"live\"");
    world.provider.answer("e2", 200);
    told(&started, "\"state\":\"COMPLETED\"");
    let waiting = world.submit("pay", "refused", "e3");
    told(&waiting, "\"phase\":\"waiting\"");
    let held = world.submit("pay", "unsure", "e4");
    told(&held, "\"phase\":\"held\"");
    let failed = world.submit("pay", "fail", "e5");
    told(&failed, "\"state\":\"FAILED\"");
    assert!(text.contains("event: counters"));
}
