//! Documents that the server sends, other than the calls of routes.

use std::sync::Arc;

use async_trait::async_trait;
use clinch::Result;

/// Posts JSON documents to one address.
#[async_trait]
pub trait Outbound: Send + Sync {
    /// Sends one document; an error if the receiver did not take it.
    async fn post(&self, body: Vec<u8>) -> Result<()>;
}

/// The receivers of alerts and telemetry; by default none.
#[derive(Clone, Default)]
pub struct Outlets {
    /// `dead_letter.alert_url`.
    pub alerts: Option<Arc<dyn Outbound>>,
    /// `telemetry.otlp`, the path for traces.
    pub traces: Option<Arc<dyn Outbound>>,
    /// `telemetry.otlp`, the path for metrics.
    pub metrics: Option<Arc<dyn Outbound>>,
}
