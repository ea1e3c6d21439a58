//! All suites and tests of one adapter in one program, because every test program has to be linked.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// The end of a `main` without a harness: runs the tests that the arguments of `cargo test` select.
pub fn run_trials(trials: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The trials, shown as ignored if there is a reason, for example that a server is not installed.
pub fn unless(why: Option<String>, trials: Vec<Trial>) -> Vec<Trial> {
    let Some(why) = why else {
        return trials;
    };
    eprintln!("{why}");
    let ignore = |trial: Trial| trial.with_kind(why.clone()).with_ignored_flag(true);
    trials.into_iter().map(ignore).collect()
}

/// Plain functions as trials, named after their module like the built-in harness does.
pub fn plain_trials(module: &str, tests: &[(&'static str, fn())]) -> Vec<Trial> {
    let module = module.split_once("::").map_or(module, |(_, path)| path);
    let trial = |(name, run): &(&'static str, fn())| {
        let run = *run;
        Trial::test(format!("{module}::{name}"), move || {
            run();
            Ok(())
        })
    };
    tests.iter().map(trial).collect()
}

/// Lists the tests of a module as its function `trials`.
#[macro_export]
macro_rules! tests {
    ($($name:ident,)+) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            $crate::plain_trials(module_path!(), &[$((stringify!($name), $name),)+])
        }
    };
}
