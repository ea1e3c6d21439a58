//! Several `clinch serve` processes on real servers: what they share, and what happens when one is
//! disconnected.
//!
//! If a server or the tools for networks are missing, tests show as ignored with the reason; with
//! `CI=true` they fail.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod black_hole;
mod deaths;
mod destinations;
mod doctor;
mod metrics;
mod network;
mod node;
mod partition;
mod pauses;
mod probes;
mod provider;

use std::process::ExitCode;

use clinch_testbed::{Kind, Trouble};
use libtest_mimic::{Arguments, Trial};

/// What a test requires.
enum Needs {
    Servers(&'static [Kind]),
    ServersAndNetworks(&'static [Kind]),
}

impl Needs {
    /// Why it cannot run here.
    fn missing(&self) -> Option<String> {
        let (kinds, networks) = match self {
            Self::Servers(kinds) => (kinds, false),
            Self::ServersAndNetworks(kinds) => (kinds, true),
        };
        let server = kinds.iter().find(|kind| kind.program().is_none());
        server
            .map(|kind| Trouble::Missing(*kind).to_string())
            .or_else(|| network::missing().filter(|_| networks))
    }
}

type Test = (&'static str, Needs, fn());

const TESTS: [Test; 24] = [
    (
        "held_operations_are_asked_about_at_the_rate_and_never_over_it",
        Needs::Servers(&[]),
        probes::held_operations_are_asked_about_at_the_rate_and_never_over_it,
    ),
    (
        "col_8_one_429_stops_the_destination_on_every_node",
        Needs::Servers(&[Kind::Postgres, Kind::Redis]),
        pauses::one_429_stops_the_destination_on_every_node,
    ),
    (
        "col_8_one_429_stops_the_destination_on_every_node_without_redis",
        Needs::Servers(&[Kind::Postgres]),
        pauses::one_429_stops_the_destination_on_every_node_without_redis,
    ),
    (
        "col_8_one_429_stops_the_destination_on_every_node_over_nats",
        Needs::Servers(&[Kind::Postgres, Kind::Nats]),
        pauses::one_429_stops_the_destination_on_every_node_over_nats,
    ),
    (
        "col_8_one_429_stops_the_destination_on_every_node_on_mariadb",
        Needs::Servers(&[Kind::MariaDb]),
        pauses::one_429_stops_the_destination_on_every_node_on_mariadb,
    ),
    (
        "col_8_one_429_stops_the_destination_on_every_node_on_one_file",
        Needs::Servers(&[]),
        pauses::one_429_stops_the_destination_on_every_node_on_one_file,
    ),
    (
        "core_15_an_operators_word_about_a_destination_holds_on_every_node_on_one_file",
        Needs::Servers(&[]),
        destinations::on_sqlite,
    ),
    (
        "core_15_an_operators_word_about_a_destination_holds_on_every_node_on_postgres",
        Needs::Servers(&[Kind::Postgres]),
        destinations::on_postgres,
    ),
    (
        "core_15_an_operators_word_about_a_destination_holds_on_every_node_on_mariadb",
        Needs::Servers(&[Kind::MariaDb]),
        destinations::on_mariadb,
    ),
    (
        "run_7_a_worker_that_is_cut_off_and_healed_changes_nothing_but_by_a_late_ok",
        Needs::ServersAndNetworks(&[Kind::Postgres, Kind::Redis]),
        partition::a_worker_that_is_cut_off_and_healed_changes_nothing_but_by_a_late_ok,
    ),
    (
        "out_8_no_answer_is_lost_while_postgres_is_a_black_hole",
        Needs::Servers(&[Kind::Postgres]),
        black_hole::on_postgres,
    ),
    (
        "out_8_no_answer_is_lost_while_mariadb_is_a_black_hole",
        Needs::Servers(&[Kind::MariaDb]),
        black_hole::on_mariadb,
    ),
    (
        "run_6_calls_of_a_killed_process_are_continued_at_once_after_a_restart",
        Needs::Servers(&[]),
        deaths::embedded_after_a_restart,
    ),
    (
        "run_6_calls_of_a_killed_process_are_continued_at_once_beside_another_process",
        Needs::Servers(&[]),
        deaths::embedded_beside_another_process,
    ),
    (
        "run_6_calls_of_a_killed_process_are_continued_at_once_on_postgres",
        Needs::Servers(&[Kind::Postgres]),
        deaths::on_postgres,
    ),
    (
        "run_6_calls_of_a_killed_process_are_continued_at_once_on_mariadb",
        Needs::Servers(&[Kind::MariaDb]),
        deaths::on_mariadb,
    ),
    (
        "run_6_calls_of_a_killed_process_are_continued_at_once_on_postgres_and_redis",
        Needs::Servers(&[Kind::Postgres, Kind::Redis]),
        deaths::on_postgres_and_redis,
    ),
    (
        "run_6_calls_of_a_killed_process_are_continued_at_once_on_postgres_and_nats",
        Needs::Servers(&[Kind::Postgres, Kind::Nats]),
        deaths::on_postgres_and_nats,
    ),
    (
        "core_14_a_node_with_redis_has_every_metric_of_the_bus",
        Needs::Servers(&[Kind::Redis]),
        metrics::a_node_with_redis_has_every_metric_of_the_bus,
    ),
    (
        "core_19_doctor_sees_how_redis_keeps_what_it_has",
        Needs::Servers(&[Kind::Redis]),
        doctor::sees_how_redis_keeps_what_it_has,
    ),
    (
        "core_19_doctor_fails_a_redis_that_may_evict",
        Needs::Servers(&[Kind::Redis]),
        doctor::fails_a_redis_that_may_evict,
    ),
    (
        "core_16_redis_over_tls_and_no_strange_certificates",
        Needs::Servers(&[Kind::Redis]),
        doctor::reaches_redis_over_tls_and_refuses_strange_certificates,
    ),
    (
        "core_19_doctor_sees_how_nats_keeps_what_it_has",
        Needs::Servers(&[Kind::Nats]),
        doctor::sees_how_nats_keeps_what_it_has,
    ),
    (
        "core_19_doctor_fails_a_bus_that_does_not_answer",
        Needs::Servers(&[Kind::Redis]),
        doctor::fails_a_bus_that_does_not_answer,
    ),
];

fn main() -> ExitCode {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let trial = |(name, needs, run): &Test| {
        let (why, run) = (needs.missing(), *run);
        if let Some(why) = why.clone().filter(|_| !in_ci) {
            return Trial::test(*name, || Ok(()))
                .with_kind(why)
                .with_ignored_flag(true);
        }
        Trial::test(*name, move || {
            why.map_or(Ok(()), Err)?;
            run();
            Ok(())
        })
    };
    let mut arguments = Arguments::from_args();
    // Each test runs several processes.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, TESTS.iter().map(trial).collect()).exit_code()
}
