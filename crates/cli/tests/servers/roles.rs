//! Separate workers, recovery, and a process that only accepts, on a database without
//! notifications. With hints over Redis no process waits for the fallback poll.

use std::time::Duration;

use clinch_testbed::{Kind, wait_until};

use crate::world::World;

/// Longer than any step takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn out_2_each_process_announces_what_it_committed() {
    if Kind::MariaDb.program().is_none() || Kind::Redis.program().is_none() {
        assert!(std::env::var_os("CI").is_none(), "a server is missing");
        eprintln!("ignored: MariaDB or Redis is not installed");
        return;
    }
    let redis = clinch_testbed::Server::start(Kind::Redis).expect("a server");
    let world = World::new(Kind::MariaDb, "roles");
    let bus = redis.url();
    // The fallback poll is longer than the test.
    world.configure(&format!("fallback_poll = \"1h\"\n[bus]\nurl = \"{bus}\""));
    let recovery = world.serve_beside("api,recovery", 1);
    let worker = world.serve_beside("api,worker", 2);
    let api = world.serve_beside("api", 3);
    // The process that accepted an operation announces its first attempt; the process that gave an
    // attempt up announces the next.
    for (domain, attempts) in [("sent", 1), ("broken", 2)] {
        let op_id = world.submit(&api, domain, "order-1");
        let made = || world.path(&api, &op_id)["operation"]["attempts"].clone();
        assert!(
            wait_until(PATIENCE, || made() == attempts),
            "{domain}: {}",
            world.path(&api, &op_id)
        );
    }
    drop((recovery, worker));
}
