//! Connections that never finish their headers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit};

use crate::http::Seen;
use crate::provider::Provider;
use crate::world::{World, command, config};

const SLOW: usize = 2_000;
const CALLS: usize = 500;

/// Raises the limit for the test's own connections, and for those of the server, which inherits it.
fn raise_descriptors() {
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let wanted = (SLOW * 2) as u64;
    let limit = Rlimit {
        current: Some(maximum.map_or(wanted, |maximum| maximum.min(wanted))),
        maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, limit).expect("a limit");
}

fn slow(world: &World) -> TcpStream {
    let mut stream = TcpStream::connect(world.client.address).expect("it connects");
    let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc");
    stream
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// Prints how long calls take, without a judgement.
fn measure(world: &World, when: &str) {
    let mut took = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        let from = Instant::now();
        let key = format!("{when}-{number}");
        world.client.submit(&command("away", "x", &key)).is(202);
        took.push(from.elapsed());
    }
    took.sort();
    let (median, tail) = (percentile(&took, 50), percentile(&took, 99));
    println!("submissions {when}: p50 {median:?}, p99 {tail:?}");
}

#[test]
fn core_16_two_thousand_slow_connections_starve_nobody_and_are_dropped() {
    raise_descriptors();
    let provider = Provider::start();
    let text = config(&provider).replace(
        "[server]",
        "[server]\nheader_timeout = \"5s\"\nshed_queue_age = \"1h\"",
    );
    let world = World::with("slow-headers", &text, provider, &Seen::default());
    measure(&world, "alone");
    let mut slow: Vec<TcpStream> = (0..SLOW).map(|_| slow(&world)).collect();
    measure(&world, &format!("beside {SLOW} slow connections"));
    for stream in &mut slow {
        // Returns only because the server closes the connection.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    world.client.get("/healthz").is(200);
}

/// More connections than the server accepts: silent ones are closed to make room.
#[test]
fn core_16_silent_connections_beyond_the_limit_make_room() {
    let provider = Provider::start();
    let limits = "[server]\nheader_timeout = \"1h\"\nconnections_max = 64";
    let text = config(&provider).replace("[server]", limits);
    let world = World::with("silent", &text, provider, &Seen::default());
    let slow: Vec<TcpStream> = (0..256).map(|_| slow(&world)).collect();
    for _ in 0..64 {
        world.client.get("/healthz").is(200);
    }
    drop(slow);
}
