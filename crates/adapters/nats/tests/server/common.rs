//! What the tests on a real server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clinch_core::ports::Clock;
use clinch_nats::{NatsBus, Settings};

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
