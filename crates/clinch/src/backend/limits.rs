//! Rate limits and pauses that several nodes share.

use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::RateLimiter;
use clinch_protect::RateConfig;

/// Makes limiters that several nodes share. Without it each process has limiters of its own.
#[async_trait]
pub trait Limits: Send + Sync {
    /// The limiter of a destination. A limiter without a rate only knows pauses: a provider's
    /// `Retry-After` to one node holds for all nodes.
    async fn limiter(
        &self,
        destination: &str,
        rate: Option<&RateConfig>,
    ) -> Result<Arc<dyn RateLimiter>>;
}
