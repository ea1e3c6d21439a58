//! The contract suite on a real server: bus, locks, rates and budgets (CORE-11, COL-6, COL-7,
//! COL-8, RUN-7), and every scenario of the engine on SQLite with hints over Redis.
//!
//! Without a server the cases show as ignored; with `CI=true` they fail.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod hands;

use std::process::ExitCode;
use std::sync::Arc;

use clinch_contract::{
    BoxFuture, Capabilities, LimiterSubject, Need, QuotaSubject, Subject, cases, check,
    check_limiter, check_quota, factory, limiter_cases, quota_cases,
};
use clinch_testbed::{Kind, Trouble, shared};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::hands::{limiters, on_redis, quota, with_sqlite};

const BUS_AND_LOCKS: Capabilities = Capabilities {
    store: false,
    bus: true,
    queue: false,
    locks: true,
    faults: false,
};

const ENGINE: Capabilities = Capabilities {
    store: true,
    bus: true,
    queue: false,
    locks: false,
    faults: false,
};

fn url() -> Result<String, String> {
    shared(Kind::Redis).map_err(|trouble| trouble.to_string())
}

/// A server that is not installed is no failure, but on a machine that should have it.
fn is_missing() -> bool {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    !in_ci && matches!(shared(Kind::Redis), Err(Trouble::Missing(_)))
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // Listing starts no server.
    let is_missing = !arguments.list && is_missing();
    let alone = factory(|| async { on_redis(&url()?).await });
    let beside = factory(|| async { with_sqlite(&url()?).await });
    let mut trials = Vec::new();
    for case in cases(BUS_AND_LOCKS) {
        let factory = alone.clone();
        let run = move || check(&case, &factory).map_err(Failed::from);
        let trial = Trial::test(format!("redis::{}", case.name), run);
        trials.push(trial.with_kind(case.proves.join(" ")));
    }
    let over_hints = cases(ENGINE);
    let over_hints = over_hints.into_iter();
    for case in over_hints.filter(|case| case.needs == Need::StoreAndBus) {
        let factory = beside.clone();
        let run = move || check(&case, &factory).map_err(Failed::from);
        let trial = Trial::test(format!("sqlite_and_redis::{}", case.name), run);
        trials.push(trial.with_kind(case.proves.join(" ")));
    }
    for case in quota_cases() {
        let fresh: clinch_contract::QuotaFactory =
            Arc::new(|| -> BoxFuture<Result<QuotaSubject, String>> {
                Box::pin(async { quota(&url()?).await })
            });
        let run = move || check_quota(&case, &fresh).map_err(Failed::from);
        let trial = Trial::test(format!("redis::{}", case.name), run);
        trials.push(trial.with_kind(case.proves.join(" ")));
    }
    for case in limiter_cases() {
        let fresh: clinch_contract::LimiterFactory =
            Arc::new(|| -> BoxFuture<Result<LimiterSubject, String>> {
                Box::pin(async { limiters(&url()?).await })
            });
        let run = move || check_limiter(&case, &fresh).map_err(Failed::from);
        let trial = Trial::test(format!("redis::{}", case.name), run);
        trials.push(trial.with_kind(case.proves.join(" ")));
    }
    let trials = trials.into_iter();
    let trials = trials.map(|trial| trial.with_ignored_flag(is_missing));
    if is_missing {
        eprintln!("ignored: {}", Trouble::Missing(Kind::Redis));
    }
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// What a factory makes.
type Opened<T = Subject> = Result<T, String>;
