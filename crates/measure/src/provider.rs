//! Providers that answer at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use clinch_core::ports::{Attempt, Executor};
use clinch_core::{Envelope, Outcome, Payload, Success};

/// Answers Ok at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct Provider;

#[async_trait]
impl Executor for Provider {
    async fn execute(&self, _envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        Outcome::Ok(Success::new(Payload::null()))
    }
}

/// Answers Ok at once, and records how long ago each operation was submitted, in microseconds. The
/// member `at` of the payload is the time of the submit.
#[derive(Debug, Default)]
pub struct LatencyProvider(Mutex<Vec<u64>>);

impl LatencyProvider {
    /// The recorded times.
    pub fn seen(&self) -> Vec<u64> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }
}

#[async_trait]
impl Executor for LatencyProvider {
    async fn execute(&self, envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        let at = envelope.command.payload.value()["at"].as_u64();
        if let Some(at) = at {
            let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(micros().saturating_sub(at));
        }
        Outcome::Ok(Success::new(Payload::null()))
    }
}

/// Microseconds since the Unix epoch, on the clock that all processes of a machine share.
pub fn micros() -> u64 {
    // tidy: allow(banned-calls) the times of two processes are compared
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}
