//! Waiting for an operation to settle, through restarts of the server.

use std::time::Duration;

use serde_json::value::RawValue;

use super::operation::{self, Brief};
use crate::client::Request;
use crate::clock::{self, Budget};
use crate::context::Context;
use crate::error::{CliError, note};
use crate::exit::Exit;

/// Longest wait that a server takes at once.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);
/// Between two looks when the server does not wait as asked, and first pause when it is away.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause while it is away.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Where an operation stood when the wait ended.
#[derive(Debug)]
pub(crate) struct Followed {
    /// The last document seen.
    pub(crate) document: Box<RawValue>,
    /// What it comes to.
    pub(crate) exit: Exit,
}

/// What to follow, and for how long.
#[derive(Debug)]
pub(crate) struct Follow<'a> {
    /// The operation.
    pub(crate) op_id: &'a str,
    /// Where it stood, if that is known.
    pub(crate) known: Option<Box<RawValue>>,
    /// Until when.
    pub(crate) budget: Budget,
    /// Looked at again at least so often.
    pub(crate) slice: Duration,
}

impl Follow<'_> {
    /// Follows it until it is terminal or the budget has run out, and hands every new version
    /// to `seen`. Once it is known to be there, a server that goes away is waited for.
    pub(crate) async fn settle(
        self,
        context: &mut Context,
        mut seen: impl FnMut(&RawValue, &mut Context) -> Result<(), CliError>,
    ) -> Result<Followed, CliError> {
        let mut known = self.known;
        let mut away = Away::default();
        loop {
            let wait = self.budget.left(self.slice);
            let look = Budget::start(None);
            let request = Request::get(format!("/v1/operations/{}", self.op_id)).wait(wait);
            let pause = match (context.client.send(request).await, known.take()) {
                (Ok(answer), last) => {
                    away = Away::default();
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
                    // A server that does not wait as asked is not asked all the time.
                    PAUSE.saturating_sub(look.spent())
                }
                (Err(error), Some(last)) if error.is_passing() => {
                    known = Some(last);
                    away.pause(&error)
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

/// A server that does not answer just now.
#[derive(Debug, Default)]
pub(crate) struct Away {
    pauses: u32,
}

impl Away {
    /// How long to leave it alone; says so the first time.
    pub(crate) fn pause(&mut self, error: &CliError) -> Duration {
        if self.pauses == 0 {
            note(&format!("{error}; trying again"));
        }
        let pause = PAUSE.saturating_mul(1 << self.pauses.min(8));
        self.pauses += 1;
        pause.min(PAUSE_MAX)
    }
}
