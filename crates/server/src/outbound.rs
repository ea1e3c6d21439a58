//! Documents that leave the server, other than calls of routes.

use std::sync::Arc;

use async_trait::async_trait;
use clinch::Result;

/// Posts JSON documents to one address.
#[async_trait]
pub trait Outbound: Send + Sync {
    /// Sends one; an error if it was not taken.
    async fn post(&self, body: Vec<u8>) -> Result<()>;
}

/// Where documents go; nowhere by default.
#[derive(Clone, Default)]
pub struct Outlets {
    /// `dead_letter.alert_url`.
    pub alerts: Option<Arc<dyn Outbound>>,
    /// `telemetry.otlp`, its path for traces.
    pub traces: Option<Arc<dyn Outbound>>,
    /// `telemetry.otlp`, its path for metrics.
    pub metrics: Option<Arc<dyn Outbound>>,
}
