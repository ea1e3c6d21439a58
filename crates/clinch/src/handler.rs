//! Adapts typed functions to the engine's ports.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{Attempt, Executor, Probe, ProbeVerdict};
use clinch_core::{Envelope, Fail, Outcome, Success};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::{decode, encode_result};
use crate::types::Classify;
use crate::{Call, Done, Refusal};

/// A handler function as an executor.
pub(crate) struct Typed<I, O, F> {
    function: F,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O, F> Typed<I, O, F> {
    pub(crate) fn new(function: F) -> Self {
        Self {
            function,
            types: PhantomData,
        }
    }
}

#[async_trait]
impl<I, O, F, Fut, R, E> Executor for Typed<I, O, F>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    F: Fn(Call<I>) -> Fut + Send + Sync,
    Fut: Future<Output = Result<R, E>> + Send,
    R: Into<Done<O>> + Send,
    E: Classify + Send,
{
    async fn execute(&self, envelope: &Envelope, attempt: &Arc<dyn Attempt>) -> Outcome {
        let input = match decode::<I>(&envelope.command.payload) {
            Ok(input) => input,
            Err(error) => return Outcome::Fail(Fail::new("invalid_input", error.to_string())),
        };
        let call = Call::new(input, envelope.clone(), attempt.clone());
        match (self.function)(call).await {
            Ok(done) => Outcome::Ok(success(envelope, done.into())),
            Err(error) => match error.classify() {
                Refusal::Retry(retry) => Outcome::Retry(retry),
                Refusal::Fail(fail) => Outcome::Fail(fail),
            },
        }
    }
}

/// An Ok is kept whatever else is wrong with it.
fn success<O: Serialize>(envelope: &Envelope, done: Done<O>) -> Success {
    let payload = encode_result(envelope.op_id, &done.value);
    let mut spawn = Vec::with_capacity(done.spawn.len());
    for command in done.spawn {
        match command {
            Ok(command) => spawn.push(command),
            Err(_) => tracing::event!(
                target: "clinch",
                tracing::Level::ERROR,
                op.id = envelope.op_id.to_string(),
                "a request that follows a call is not valid and was left out"
            ),
        }
    }
    Success {
        provider_txn_id: done.provider_txn_id,
        payload,
        spawn,
    }
}

/// What the provider says about an earlier call.
///
/// ```
/// use clinch::{Call, Done, Retry};
/// use clinch::types::Probed;
///
/// async fn ask(call: Call<u64>) -> Result<Probed<String>, Retry> {
///     // Look it up by call.key() at the provider …
///     let found = call.attempt() > 0;
///     Ok(if found { Probed::Succeeded(Done::new("tx_9".to_owned())) } else { Probed::NotFound })
/// }
/// # let _ = ask;
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Probed<O> {
    /// The call was applied.
    Succeeded(Done<O>),
    /// The call was refused.
    Failed(Fail),
    /// The provider does not know the call.
    NotFound,
    /// The provider gave no verdict.
    Unknown,
    /// The provider takes no questions now, which is not an `Unknown`. `Some`: it asked every
    /// caller to pause for this long.
    Later(Option<Duration>),
}

/// A probe function as a probe. An error counts as `Unknown`.
#[async_trait]
impl<I, O, F, Fut, E> Probe for Typed<I, O, F>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    F: Fn(Call<I>) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Probed<O>, E>> + Send,
    E: Send,
{
    async fn probe(&self, envelope: &Envelope) -> ProbeVerdict {
        let Ok(input) = decode::<I>(&envelope.command.payload) else {
            return ProbeVerdict::Unknown;
        };
        let call = Call::new(input, envelope.clone(), Arc::new(NoAttempt));
        match (self.function)(call).await {
            Ok(Probed::Succeeded(done)) => ProbeVerdict::Succeeded(success(envelope, done)),
            Ok(Probed::Failed(fail)) => ProbeVerdict::Failed(fail),
            Ok(Probed::NotFound) => ProbeVerdict::NotFound,
            Ok(Probed::Later(after)) => ProbeVerdict::Later(after),
            Ok(Probed::Unknown) | Err(_) => ProbeVerdict::Unknown,
        }
    }
}

/// A probe is not an attempt: it has no lease and keeps no checkpoint.
struct NoAttempt;

#[async_trait]
impl Attempt for NoAttempt {
    fn holds_lease(&self) -> bool {
        false
    }

    fn is_canceled(&self) -> bool {
        false
    }

    async fn checkpoint(&self, _bytes: &[u8]) -> clinch_core::Result<()> {
        let message = "a probe is not an attempt and keeps no checkpoint";
        Err(clinch_core::Error::new(
            clinch_core::ErrorKind::Unsupported,
            message,
        ))
    }
}
