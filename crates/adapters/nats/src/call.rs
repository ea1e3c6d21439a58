//! Requests to the server, with many in flight at once.

use clinch_core::Result;
use serde_json::Value;

use crate::error::{Refusal, unavailable};
use crate::shared::Shared;

/// Maximum messages in flight whose answer is awaited: enough to fill the connection, few enough
/// for the server's buffers.
pub(crate) const IN_FLIGHT_MAX: usize = 256;

const NO_RESPONDERS: u16 = 503;

impl Shared {
    /// Sends one message about each delivery and waits until the server has taken all of them.
    pub(crate) async fn tell(&self, words: Vec<(String, String)>) -> Result<()> {
        let mut failed = None;
        let mut words = words.into_iter().peekable();
        while words.peek().is_some() {
            let mut questions = Vec::new();
            for (ack, word) in words.by_ref().take(IN_FLIGHT_MAX) {
                questions.push(self.link.ask(ack, word).await?);
            }
            for question in questions {
                match question.answered().await {
                    Ok(message) if is_nobody(&message) => {
                        failed = Some(unavailable("the consumer of this delivery is gone"));
                    }
                    Ok(_) => {}
                    Err(error) => failed = Some(error),
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// One call of the JetStream API.
    pub(crate) async fn api(&self, call: &str, body: String) -> Result<Result<Value, Refusal>> {
        let question = self.link.ask(format!("$JS.API.{call}"), body).await?;
        let message = question.answered().await?;
        if is_nobody(&message) {
            let problem = "JetStream does not answer; start the NATS server with --jetstream";
            return Err(unavailable(problem));
        }
        read_answer(&message.payload)
    }
}

/// Runs in a task of its own, so that it continues even if the caller is not polled: other callers
/// that wait for its lock must not depend on this caller.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let ended = tokio::spawn(work).await;
    ended.unwrap_or_else(|_| Err(unavailable("the runtime is shutting down")))
}

/// Parses an answer of the API, or of the stream to a publication.
pub(crate) fn read_answer(bytes: &[u8]) -> Result<Result<Value, Refusal>> {
    let unreadable = || unavailable("the NATS server's answer cannot be read");
    let mut answer: Value = serde_json::from_slice(bytes).map_err(|_| unreadable())?;
    let Some(error) = answer.get_mut("error").map(Value::take) else {
        return Ok(Ok(answer));
    };
    let refusal = serde_json::from_value(error).map_err(|_| unreadable())?;
    Ok(Err(refusal))
}

/// The server says that the subject has no listener.
pub(crate) fn is_nobody(message: &async_nats::Message) -> bool {
    message
        .status
        .is_some_and(|status| status.as_u16() == NO_RESPONDERS)
}
