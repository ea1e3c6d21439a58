//! The HTTP API from outside: a real `clinch serve` on a real file, real sockets, and a provider
//! that is called. The API's description is compared with the answers that were seen.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops"
)]

mod collector;
mod concurrent;
mod described;
mod disk;
mod events;
mod github;
mod github_alerts;
mod holds;
mod http;
mod leases;
mod operations;
mod operator;
mod process;
mod provider;
mod refusals;
mod rules;
mod slow;
mod stop;
mod table;
mod telemetry;
mod tls;
mod world;

use world::World;

/// A name and its test.
type Case = (&'static str, fn(&World));

/// Every route gives every status and code that it describes, and no other.
#[test]
fn core_8_every_answer_that_the_api_describes_is_seen() {
    let world = World::new("api");
    let cases: [Case; 24] = [
        ("submit", operations::submit),
        ("budget", operations::budget),
        ("bulk", operations::bulk),
        ("look", operations::look),
        ("cancel", operations::cancel),
        ("resolve", operations::resolve),
        ("dead letters", operations::dead_letters),
        ("domains", operations::domains),
        ("batches", operations::batches),
        ("retry now", operator::retry_now),
        ("prefixes", operator::prefixes),
        ("list of batches", operator::listed_batches),
        ("leases", leases::leases),
        ("holds of the queue", holds::of_the_queue),
        ("holds of the key", holds::of_the_key),
        ("holds of the destination", holds::of_the_destination),
        ("the collector", github::runs),
        ("refused requests", refusals::of_requests),
        ("slow bodies", refusals::of_slow_bodies),
        ("strangers", refusals::of_strangers),
        ("lost routes", refusals::of_lost_routes),
        ("overload", refusals::of_overload),
        ("a store without room", refusals::of_a_store_without_room),
        ("a busy store", refusals::of_a_store_that_is_busy),
    ];
    for (name, case) in cases {
        println!("{name}");
        case(&world);
    }
    let differences = table::differences(&world.routes(), &world.seen);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
