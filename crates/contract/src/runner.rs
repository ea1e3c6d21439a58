//! Runs cases: each on a fresh subject, in a runtime of its own.

use std::any::Any;
use std::future::Future;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};

use crate::{BoxFuture, Capabilities, Case, Subject, cases, run_trials};

/// A case that takes this much real time hangs. Far above what any case needs; it is only a guard,
/// not a measurement.
pub const HANG_AFTER: Duration = Duration::from_secs(60);

/// Threads of a case's runtime: enough for concurrent callers to really overlap.
const WORKERS: usize = 4;

/// Makes fresh, empty subjects. `Err` says why it cannot, for example because a server is down.
pub type Factory = Arc<dyn Fn() -> BoxFuture<Result<Subject, String>> + Send + Sync>;

/// A factory from `open`.
pub fn factory<F, O>(open: F) -> Factory
where
    F: Fn() -> O + Send + Sync + 'static,
    O: Future<Output = Result<Subject, String>> + Send + 'static,
{
    Arc::new(move || Box::pin(open()))
}

/// The `main` of an adapter's contract test: lists and runs every case that the adapter's
/// capabilities require. Understands the arguments of `cargo test`.
pub fn run(adapter: &str, capabilities: Capabilities, factory: Factory) -> ExitCode {
    run_trials(contract_trials(adapter, cases(capabilities), &factory))
}

/// The cases as tests of one adapter.
pub fn contract_trials(
    adapter: &str,
    cases: impl IntoIterator<Item = Case>,
    factory: &Factory,
) -> Vec<Trial> {
    let trial = |case: Case| {
        let (name, factory) = (format!("{adapter}::{}", case.name), factory.clone());
        Trial::test(name, move || check(&case, &factory).map_err(Failed::from))
            .with_kind(case.proves.join(" "))
    };
    cases.into_iter().map(trial).collect()
}

/// Runs one case on a fresh subject. A panic and a hang are failures too.
pub fn check(case: &Case, factory: &Factory) -> Result<(), String> {
    check_within(case, factory, HANG_AFTER)
}

/// The same with another hang limit, for adapters that are known to hang.
pub fn check_within(case: &Case, factory: &Factory, hang_after: Duration) -> Result<(), String> {
    let (run, factory) = (case.run, factory.clone());
    let body = move || -> BoxFuture<Result<(), String>> {
        Box::pin(async move {
            let verdict = run(factory().await?).await;
            verdict.map_err(|failure| failure.to_string())
        })
    };
    guarded(case.name, hang_after, body)
}

/// Runs a body in a runtime of its own. A panic and a hang are failures too.
pub(crate) fn guarded(
    name: &str,
    hang_after: Duration,
    body: impl FnOnce() -> BoxFuture<Result<(), String>> + Send + 'static,
) -> Result<(), String> {
    let (verdict, verdicts) = mpsc::channel();
    // On a thread of its own, watched from outside: if an adapter keeps all threads of a runtime
    // busy, that runtime cannot notice its own hang.
    let body = move || {
        // There is no receiver any more if the case was given up.
        let _ = verdict.send(on_a_runtime(body));
    };
    let spawned = thread::Builder::new().name(name.into()).spawn(body);
    spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
    match verdicts.recv_timeout(hang_after) {
        Ok(verdict) => verdict,
        Err(_) => Err(format!("hung: no verdict after {hang_after:?}")),
    }
}

fn on_a_runtime(
    body: impl FnOnce() -> BoxFuture<Result<(), String>> + Send + 'static,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start a runtime: {error}"))?;
    let joined = runtime.block_on(async { tokio::spawn(async { body().await }).await });
    // Tasks that a failed case left running must not delay the next case.
    runtime.shutdown_background();
    joined.unwrap_or_else(|lost| Err(format!("panicked: {}", panic_text(lost))))
}

fn panic_text(lost: tokio::task::JoinError) -> String {
    let Ok(payload) = lost.try_into_panic() else {
        return "the task was canceled".into();
    };
    let text = |payload: &(dyn Any + Send)| {
        let text = payload.downcast_ref::<String>().cloned();
        text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).into()))
    };
    text(payload.as_ref()).unwrap_or_else(|| "no message".into())
}
