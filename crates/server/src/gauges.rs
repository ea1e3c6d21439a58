//! Numbers of an application that runs in the server's process.

use async_trait::async_trait;
use clinch::Result;

/// Reads its gauges anew when metrics are asked for: nothing polls.
#[async_trait]
pub trait Gauges: Send + Sync {
    /// Sets them. What cannot be read keeps its last value.
    async fn measure(&self) -> Result<()>;
}
