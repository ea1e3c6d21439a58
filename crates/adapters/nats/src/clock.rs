//! Real time. The server's timers run on it, whatever the injected clock says.

use std::time::{Duration, Instant};

pub(crate) fn real_now() -> Instant {
    Instant::now()
}

/// Returns at that moment. `None`: never returns.
pub(crate) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// The future's result. `None` if it takes longer than `limit`.
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, future).await.ok()
}
