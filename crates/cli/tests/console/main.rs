//! The console in a real Chromium: every page in light and dark, on a desk and on a phone, with axe's
//! rules, by keyboard alone, without scripts, live; and every action of an operator.
//!
//! Pictures of the pages are kept in `target/console`. Without a browser the tests show as ignored
//! with the reason; with `CI=true` they fail.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod acting;
mod desk;
mod looking;
mod night_shift;
mod provider;

use std::process::ExitCode;

use clinch_testbed::Browser;
use libtest_mimic::{Arguments, Trial};

type Test = (&'static str, fn());

const TESTS: [Test; 12] = [
    (
        "core_15_every_page_is_readable_light_and_dark_on_desk_and_phone",
        looking::every_page_is_readable_light_and_dark_on_desk_and_phone,
    ),
    (
        "core_15_pages_can_be_read_without_scripts",
        looking::pages_can_be_read_without_scripts,
    ),
    (
        "core_15_a_page_follows_what_happens",
        looking::a_page_follows_what_happens,
    ),
    (
        "core_16_a_person_signs_in_follows_a_link_and_signs_out",
        looking::a_person_signs_in_follows_a_link_and_signs_out,
    ),
    (
        "out_10_a_held_operation_is_settled_by_keyboard_alone",
        acting::a_held_operation_is_settled_by_keyboard_alone,
    ),
    (
        "out_10_operations_are_canceled_retried_and_revealed",
        acting::operations_are_canceled_retried_and_revealed,
    ),
    (
        "out_5_dead_letters_are_redriven_dismissed_and_opened_again",
        acting::dead_letters_are_redriven_dismissed_and_opened_again,
    ),
    (
        "core_15_domains_and_destinations_are_stopped_and_started",
        acting::domains_and_destinations_are_stopped_and_started,
    ),
    (
        "core_15_a_bad_night_is_worked_off_to_zero",
        night_shift::a_bad_night_is_worked_off_to_zero,
    ),
    (
        "core_15_a_bad_night_is_worked_off_by_the_console_alone",
        night_shift::a_bad_night_is_worked_off_by_the_console_alone,
    ),
    (
        "out_6_every_dead_letter_is_redriven_in_the_order_of_its_lane",
        night_shift::every_dead_letter_is_redriven_in_the_order_of_its_lane,
    ),
    (
        "col_15_runs_of_the_collector_are_shown",
        looking::runs_of_the_collector_are_shown,
    ),
];

fn main() -> ExitCode {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let trial = |(name, run): &Test| {
        let (why, run) = (Browser::missing(), *run);
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
    // Each test runs a browser and a server.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, TESTS.iter().map(trial).collect()).exit_code()
}
