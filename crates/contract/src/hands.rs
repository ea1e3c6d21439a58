//! A control of a subject that only moves its clock.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::OpId;

use crate::{BoxFuture, Control, Fault, Subject};

struct ClockControl<F>(F);

/// For subjects that are only compared: nothing is corrupted, nothing fails or crashes.
pub fn moved_by<F>(advance: F) -> Arc<dyn Control>
where
    F: Fn(Duration) -> BoxFuture<()> + Send + Sync + 'static,
{
    Arc::new(ClockControl(advance))
}

#[async_trait]
impl<F> Control for ClockControl<F>
where
    F: Fn(Duration) -> BoxFuture<()> + Send + Sync + 'static,
{
    async fn advance(&self, by: Duration) {
        (self.0)(by).await;
    }

    async fn corrupt(&self, _op: OpId) {
        unreachable!("a comparison corrupts nothing");
    }

    async fn arm(&self, _fault: Fault) {
        unreachable!("a comparison asks for no fault");
    }

    async fn crash(&self) -> Subject {
        unreachable!("a comparison crashes nothing");
    }
}
