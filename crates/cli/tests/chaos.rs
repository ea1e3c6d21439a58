//! The demo on real database servers that fail (OUT-8, RUN-7). A test run uses small scenarios;
//! `cargo xtask proof` runs them in full size, in release mode.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use clinch_testbed::{Harm, Kind, Outcome, Scene, idle_on_redis, idle_statements};

/// The size of a scenario: small in a test run, full in a proof.
fn size<T>(small: T, whole: T) -> T {
    match std::env::var_os("CLINCH_PROOF") {
        Some(_) => whole,
        None => small,
    }
}

/// The database is down for this long.
fn gone() -> Harm {
    Harm::StoreGone(Duration::from_secs(size(5, 20)))
}

/// False: a server is not installed, and `CI` is not set.
fn are_there(needed: &[Kind]) -> bool {
    let missing = needed.iter().find(|kind| kind.program().is_none());
    if let Some(missing) = missing {
        assert!(std::env::var_os("CI").is_none(), "{missing} is missing");
        eprintln!("ignored: {missing} is not installed");
    }
    missing.is_none()
}

/// `None`: the server is not installed, and `CI` is not set.
fn play(store: Kind, bus: Option<Kind>, payments: u64, workers: u8, harm: Harm) -> Option<Outcome> {
    let needed: Vec<Kind> = [Some(store), bus].into_iter().flatten().collect();
    if !are_there(&needed) {
        return None;
    }
    let scene = Scene {
        program: Path::new(env!("CARGO_BIN_EXE_clinch")),
        store: Some(store),
        bus,
        payments,
        workers,
    };
    let outcome = scene.play(harm).expect("the scene can be played");
    assert!(outcome.ended.is_balanced, "{}", outcome.ended.said);
    assert!(outcome.strange.is_empty(), "{outcome:?}");
    Some(outcome)
}

#[test]
fn run_7_eight_workers_on_postgres_under_false_hints_settle_each_payment_once() {
    let payments = size(1_500, 20_000);
    play(Kind::Postgres, None, payments, 8, Harm::FalseHints);
}

#[test]
fn run_7_eight_workers_on_mariadb_settle_each_payment_once() {
    play(Kind::MariaDb, None, size(1_500, 20_000), 8, Harm::None);
}

#[test]
fn run_7_eight_workers_on_mariadb_under_provoked_deadlocks_settle_each_payment_once() {
    let payments = size(1_500, 20_000);
    if let Some(outcome) = play(Kind::MariaDb, None, payments, 8, Harm::Deadlocks) {
        println!("{} deadlocks; {}", outcome.deadlocks, outcome.ended.said);
        assert!(outcome.run_again().is_some_and(|count| count > 0));
        assert!(outcome.deadlocks > 0);
    }
}

#[test]
fn out_8_postgres_is_gone_for_a_while_and_nothing_is_lost_or_done_twice() {
    if let Some(outcome) = play(Kind::Postgres, None, size(800, 8_000), 2, gone()) {
        assert!(outcome.turned_away > 0, "{outcome:?}");
    }
}

#[test]
fn out_8_mariadb_is_gone_for_a_while_and_nothing_is_lost_or_done_twice() {
    if let Some(outcome) = play(Kind::MariaDb, None, size(800, 8_000), 2, gone()) {
        assert!(outcome.turned_away > 0, "{outcome:?}");
    }
}

#[test]
fn out_8_redis_loses_everything_and_nothing_is_lost_or_done_twice() {
    let payments = size(800, 5_000);
    play(Kind::MariaDb, Some(Kind::Redis), payments, 4, Harm::BusLoss);
}

#[test]
fn out_8_nats_loses_everything_and_nothing_is_lost_or_done_twice() {
    let payments = size(800, 5_000);
    play(Kind::Postgres, Some(Kind::Nats), payments, 4, Harm::BusLoss);
}

#[test]
fn out_8_the_provider_is_gone_for_a_while_and_nothing_is_lost_or_done_twice() {
    let gone = Harm::ProviderGone(Duration::from_secs(size(3, 10)));
    play(Kind::Postgres, None, size(600, 5_000), 2, gone);
}

#[test]
fn col_13_idle_processes_ask_postgres_nothing() {
    if !are_there(&[Kind::Postgres]) {
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_clinch"));
    let watched = Duration::from_secs(size(4, 60));
    let asked = idle_statements(program, watched).expect("they can be watched");
    assert!(asked.is_empty(), "{asked:#?}");
}

/// The scheduler's renewal is one script with these commands; another node uses the first few of
/// them to try for the lead.
const RENEWAL: [&str; 9] = [
    "evalsha",
    "time",
    "hmget",
    "hset",
    "pexpire",
    "zrangebyscore",
    "smembers",
    "xpending",
    "zrange",
];

#[test]
fn col_13_idle_processes_send_redis_reads_and_renewals_and_rest() {
    if !are_there(&[Kind::Postgres, Kind::Redis]) {
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_clinch"));
    let watched = Duration::from_secs(size(15, 60));
    let idle = idle_on_redis(program, watched).expect("they can be watched");
    println!("{idle:?}");
    let mut names = idle.commands.keys().map(String::as_str);
    let is_expected = |name| name == "xreadgroup" || RENEWAL.contains(&name);
    assert!(names.all(is_expected), "{idle:?}");
    assert!(idle.cpu_percent < 0.5, "{idle:?}");
}
