//! A real server that is killed, emptied, paused and shared (CORE-11, RUN-7, OUT-8, COL-13).
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod common;
mod contract;
mod engine;
mod findings;
mod loss;
mod sharing;
mod world;

use std::process::ExitCode;

use clinch_contract::{run_trials, unless};
use clinch_testbed::Kind;
use libtest_mimic::Trial;

fn trial<F: Future<Output = ()> + 'static>(name: &str, test: fn() -> F) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        runtime.map_err(|error| error.to_string())?.block_on(test());
        Ok(())
    })
}

fn main() -> ExitCode {
    let mut trials = vec![
        trial(
            "out_8_a_server_killed_and_emptied_under_load_loses_no_operation",
            loss::killed_and_emptied_under_load,
        ),
        trial(
            "core_11_hints_outlive_a_killed_server",
            loss::hints_outlive_a_killed_server,
        ),
        trial(
            "core_11_a_stream_that_was_deleted_is_made_again",
            loss::a_deleted_stream_is_made_again,
        ),
        trial(
            "core_11_a_consumer_that_was_deleted_is_made_again",
            loss::a_deleted_consumer_is_made_again,
        ),
        trial(
            "out_8_a_server_that_hangs_is_unavailable_until_it_is_back",
            loss::a_server_that_hangs,
        ),
        trial(
            "core_11_receipts_of_a_lost_stream_touch_nothing",
            loss::receipts_of_a_lost_stream_touch_nothing,
        ),
        trial(
            "run_7_what_a_dead_process_had_goes_to_another",
            sharing::what_a_dead_process_had_goes_to_another,
        ),
        trial(
            "run_7_a_loan_lasts_while_it_is_extended",
            sharing::a_loan_lasts_while_it_is_extended,
        ),
        trial(
            "run_3_a_delay_is_kept_by_the_server_when_its_holder_dies",
            sharing::a_delay_outlives_its_holder,
        ),
        trial(
            "core_11_each_hint_goes_to_one_of_two_processes",
            sharing::each_hint_goes_to_one_process,
        ),
        trial(
            "col_13_an_idle_bus_sends_nothing",
            sharing::idle_sends_nothing,
        ),
        trial(
            "out_9_what_a_stream_holds_is_counted",
            sharing::what_a_stream_holds,
        ),
        trial("what_is_no_hint_is_thrown_away", sharing::what_is_no_hint),
        trial("hints_nobody_took_go_to_another", sharing::what_nobody_took),
        trial("a_server_is_looked_over", findings::of_a_server),
        trial(
            "no_credential_in_an_error",
            findings::no_credential_in_an_error,
        ),
        trial("a_stream_of_others_is_left_alone", findings::another_stream),
    ];
    trials.extend(contract::trials());
    run_trials(unless(Kind::Nats.lack(), trials))
}
