//! Metrics of an application that runs in the server's process.

use async_trait::async_trait;
use clinch::Result;

/// Measures gauges when `/metrics` is requested, without polling.
#[async_trait]
pub trait Gauges: Send + Sync {
    /// Sets the gauges. A gauge that cannot be measured keeps its last value.
    async fn measure(&self) -> Result<()>;
}
