//! Waits for an operation to settle, through restarts of the server.

use std::time::Duration;

use serde_json::value::RawValue;

use super::operation::{self, Brief};
use crate::client::Request;
use crate::clock::{self, Budget};
use crate::context::Context;
use crate::error::{CliError, note};
use crate::exit::Exit;

/// Longest wait of one request.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);
/// Pause between two requests if the server does not wait as requested, and first pause while it is
/// unreachable.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause while the server is unreachable.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// The state of an operation when the wait ended.
#[derive(Debug)]
pub(crate) struct Followed {
    /// The last document of the operation.
    pub(crate) document: Box<RawValue>,
    /// The exit code.
    pub(crate) exit: Exit,
}

/// Which operation to follow, and for how long.
#[derive(Debug)]
pub(crate) struct Follow<'a> {
    /// The operation.
    pub(crate) op_id: &'a str,
    /// The last known document, if there is one.
    pub(crate) known: Option<Box<RawValue>>,
    /// The time limit.
    pub(crate) budget: Budget,
    /// Maximum time between two reads of the operation.
    pub(crate) slice: Duration,
}

impl Follow<'_> {
    /// Follows the operation until it is terminal or the time is up, and passes every new version
    /// to `seen`. Once the operation is known to exist, an unreachable server is waited for.
    pub(crate) async fn settle(
        self,
        context: &mut Context,
        mut seen: impl FnMut(&RawValue, &mut Context) -> Result<(), CliError>,
    ) -> Result<Followed, CliError> {
        let mut known = self.known;
        let mut outage = Outage::default();
        loop {
            let wait = self.budget.left(self.slice);
            let look = Budget::start(None);
            let request = Request::get(format!("/v1/operations/{}", self.op_id)).wait(wait);
            let pause = match (context.client.send(request).await, known.take()) {
                (Ok(answer), last) => {
                    outage = Outage::default();
                    let brief = Brief::read(&answer.document)
                        .ok_or_else(|| operation::expected(&context.client))?;
                    if last.and_then(|last| Brief::read(&last)).as_ref() != Some(&brief) {
                        seen(&answer.document, context)?;
                    }
                    if brief.exit() != Exit::Unsettled {
                        return Ok(Followed {
                            document: answer.document,
                            exit: brief.exit(),
                        });
                    }
                    known = Some(answer.document);
                    // A server that does not wait as requested must not be polled without a pause.
                    PAUSE.saturating_sub(look.spent())
                }
                (Err(error), Some(last)) if error.is_transient() => {
                    known = Some(last);
                    outage.pause(&error)
                }
                (Err(error), _) => return Err(error),
            };
            if self.budget.left(PAUSE).is_zero() {
                let exit = Exit::Unsettled;
                return known
                    .map(|document| Followed { document, exit })
                    .ok_or_else(|| operation::expected(&context.client));
            }
            clock::pause(self.budget.left(pause)).await;
        }
    }
}

/// Tracks that the server is unreachable.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    pauses: u32,
}

impl Outage {
    /// The pause before the next try; prints a message the first time.
    pub(crate) fn pause(&mut self, error: &CliError) -> Duration {
        if self.pauses == 0 {
            note(&format!("{error}; trying again"));
        }
        let pause = PAUSE.saturating_mul(1 << self.pauses.min(8));
        self.pauses += 1;
        pause.min(PAUSE_MAX)
    }
}
