//! Suites of single ports, for every implementation, store or not.

use std::sync::Arc;

use libtest_mimic::{Failed, Trial};

use crate::case::{Failure, Verdict};
use crate::runner::{HANG_AFTER, guarded};
use crate::{BoxFuture, Fault};

/// One behaviour that a port promises.
#[derive(Debug, Clone, Copy)]
pub struct PortCase<S> {
    /// `area::behaviour`.
    pub name: &'static str,
    /// Ids of the requirements that it proves.
    pub proves: &'static [&'static str],
    pub(crate) run: fn(S) -> BoxFuture<Result<(), Failure>>,
}

/// Makes fresh, empty subjects. `Err` says why it cannot, for example because a server is down.
pub type PortFactory<S> = Arc<dyn Fn() -> BoxFuture<Result<S, String>> + Send + Sync>;

/// Makes the next writing call of a subject fail.
pub type FailNext = Arc<dyn Fn(Fault) + Send + Sync>;

/// A factory from `open`.
pub fn port_factory<S, F, O>(open: F) -> PortFactory<S>
where
    F: Fn() -> O + Send + Sync + 'static,
    O: Future<Output = Result<S, String>> + Send + 'static,
{
    Arc::new(move || Box::pin(open()))
}

/// Runs one case on a fresh subject. A panic and a hang are failures too.
pub fn check_port<S: Send + 'static>(
    case: &PortCase<S>,
    factory: &PortFactory<S>,
) -> Result<(), String> {
    let (run, factory) = (case.run, factory.clone());
    let body = move || -> BoxFuture<Result<(), String>> {
        Box::pin(async move {
            let verdict: Verdict = run(factory().await?).await;
            verdict.map_err(|failure| failure.to_string())
        })
    };
    guarded(case.name, HANG_AFTER, body)
}

/// The cases as tests of one adapter; ignored where `ignored` says so.
pub fn port_trials<S: Send + 'static>(
    adapter: &str,
    cases: Vec<PortCase<S>>,
    factory: &PortFactory<S>,
    ignored: bool,
) -> Vec<Trial> {
    let trial = |case: PortCase<S>| {
        let (name, kind) = (format!("{adapter}::{}", case.name), case.proves.join(" "));
        let factory = factory.clone();
        let run = move || check_port(&case, &factory).map_err(Failed::from);
        Trial::test(name, run)
            .with_kind(kind)
            .with_ignored_flag(ignored)
    };
    cases.into_iter().map(trial).collect()
}

/// Lists the cases of one port: `area { function: [ids] … }`.
macro_rules! port_area {
    ($area:literal { $($run:ident: [$($id:literal),*],)+ }) => {
        &[$($crate::port::PortCase {
            name: concat!($area, "::", stringify!($run)),
            proves: &[$($id),*],
            run: |subject| Box::pin($run(subject)),
        }),+]
    };
}
