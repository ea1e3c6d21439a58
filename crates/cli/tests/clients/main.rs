//! The clients in Python and TypeScript on a real `clinch serve`: their own test suites, their
//! agreement with `/openapi.json`, their pages, and workers that are killed. And the quick start, in
//! every language, and the page that has Java.
//!
//! If Python, Node or a tool is missing, tests show as ignored with the reason; with `CI=true`
//! they fail.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod description;
mod exchange;
#[path = "../follower/mod.rs"]
mod follower;
mod java;
mod kills;
mod language;
mod pages;
mod provider;
mod pythons;
mod quick_start;
mod server;
mod suites;

use std::process::ExitCode;

use clinch_testbed::{python_tools_missing, typescript_missing};
use language::Language;
use libtest_mimic::{Arguments, Trial};

/// A case runs once with each client.
type Case = (&'static str, fn(Language));

const CASES: [Case; 15] = [
    ("the_test_suite_passes", suites::pass),
    ("types_and_style_are_checked", suites::are_checked),
    ("the_package_is_what_the_sources_say", suites::are_built),
    (
        "routes_and_codes_are_in_the_description",
        description::routes_and_codes,
    ),
    (
        "documents_have_the_members_of_the_description",
        description::members,
    ),
    (
        "lists_take_the_filters_of_the_description",
        description::filters,
    ),
    ("what_is_sent_and_read_fits_the_description", exchange::fits),
    (
        "a_first_durable_call_takes_at_most_25_lines",
        pages::first_call,
    ),
    ("pages_quote_programs_that_run", pages::quote),
    (
        "run_6_killed_workers_charge_1000_keyed_payments_once",
        kills::keyed,
    ),
    (
        "run_6_killed_workers_repeat_none_of_1000_unsafe_payments",
        kills::unsafe_ones,
    ),
    (
        "a_worker_that_is_told_to_stop_loses_nothing",
        kills::told_to_stop,
    ),
    (
        "a_worker_that_is_suspended_completes_what_it_charged",
        kills::paused,
    ),
    (
        "a_worker_survives_a_server_that_is_killed",
        kills::server_killed,
    ),
    ("answers_of_the_provider_become_outcomes", kills::answers),
];

fn missing(language: Language) -> Option<String> {
    match language {
        Language::Python => python_tools_missing(),
        Language::TypeScript => typescript_missing(),
    }
}

/// A trial that needs a tool. `missing` says why the tool cannot be used here.
fn trial(name: String, missing: Option<String>, run: impl FnOnce() + Send + 'static) -> Trial {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    if let Some(why) = missing.clone().filter(|_| !in_ci) {
        return Trial::test(name, || Ok(()))
            .with_kind(why)
            .with_ignored_flag(true);
    }
    Trial::test(name, move || {
        missing.map_or(Ok(()), Err)?;
        run();
        Ok(())
    })
}

fn main() -> ExitCode {
    let of_both = CASES.into_iter().flat_map(|(name, run)| {
        [Language::Python, Language::TypeScript].map(|language| {
            let name = format!("{}::{name}", language.name());
            trial(name, missing(language), move || run(language))
        })
    });
    let counted = trial(
        "comments_are_no_code".to_owned(),
        None,
        pages::comments_are_no_code,
    );
    let others = [counted, java::trial()];
    let trials = of_both.chain(others).chain(quick_start::trials());
    let trials = trials.collect();
    let mut arguments = Arguments::from_args();
    // Each test runs several processes.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials).exit_code()
}
