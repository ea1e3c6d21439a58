//! What the tests on a real server share.
// tidy: allow(attributes) each test file uses another part, so that no expectation holds in all
#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clinch_core::ports::Clock;
use clinch_nats::{NatsBus, Settings};
use clinch_servers::{Kind, Trouble};
use libtest_mimic::Trial;

/// A prefix that nobody else uses.
pub(crate) fn prefix() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{number}", std::process::id())
}

/// A bus of its own on that server.
pub(crate) async fn connect(url: &str, clock: Arc<dyn Clock>) -> Result<NatsBus, String> {
    let settings = Settings::new(prefix());
    let bus = NatsBus::connect(url, settings, clock).await;
    bus.map_err(|error| error.to_string())
}

/// Without the server's program trials show as ignored, with the reason; on CI they run, and
/// fail.
pub(crate) fn unless_missing(trials: Vec<Trial>) -> Vec<Trial> {
    let missing = Kind::Nats.program().is_none() && std::env::var(Kind::Nats.variable()).is_err();
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    if !missing || is_ci {
        return trials;
    }
    let why = Trouble::Missing(Kind::Nats).to_string();
    let ignore = |trial: Trial| trial.with_kind(why.clone()).with_ignored_flag(true);
    trials.into_iter().map(ignore).collect()
}
