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
    /// to `seen`. Once the server has been reached, a lost server is waited for; a server that was
    /// never reached is an error, because its address is probably wrong.
    pub(crate) async fn settle(
        mut self,
        context: &mut Context,
        mut seen: impl FnMut(&RawValue, &mut Context) -> Result<(), CliError>,
    ) -> Result<Followed, CliError> {
        let mut known = self.known.take();
        let mut outage = Outage::default();
        let mut lost: Option<CliError> = None;
        loop {
            let wait = self.budget.left(self.slice);
            let look = Budget::start(None);
            let request = Request::get(format!("/v1/operations/{}", self.op_id)).wait(wait);
            let pause = match (context.client.send(request).await, known.take()) {
                (Ok(answer), last) => {
                    outage = Outage::default();
                    lost = None;
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
                (Err(error), last)
                    if error.is_transient()
                        && (last.is_some() || lost.is_some() || error.is_lost()) =>
                {
                    known = last;
                    let pause = outage.pause(&error);
                    lost = Some(error);
                    pause
                }
                (Err(error), _) => return Err(error),
            };
            if self.budget.left(PAUSE).is_zero() {
                return self.out_of_time(known, lost, context);
            }
            clock::pause(self.budget.left(pause)).await;
        }
    }

    /// The end of a wait that was too short: the last document, if there is one, and how to go on
    /// if the server is away.
    fn out_of_time(
        &self,
        known: Option<Box<RawValue>>,
        lost: Option<CliError>,
        context: &Context,
    ) -> Result<Followed, CliError> {
        let lost = lost.map(|error| CliError::OutOfTime {
            source: Box::new(error),
            advice: format!(
                "wait again with `clinch ops watch {} --wait 10m`",
                self.op_id
            ),
        });
        match (known, lost) {
            (Some(document), lost) => {
                if let Some(lost) = lost {
                    note(&lost.to_string());
                }
                let exit = Exit::Unsettled;
                Ok(Followed { document, exit })
            }
            (None, Some(lost)) => Err(lost),
            (None, None) => Err(operation::expected(&context.client)),
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
        self.pause_as(&format!("{error}; trying again"))
    }

    /// The same with a message of the caller's own.
    pub(crate) fn pause_as(&mut self, message: &str) -> Duration {
        if self.pauses == 0 {
            note(message);
        }
        let pause = PAUSE.saturating_mul(1 << self.pauses.min(8));
        self.pauses += 1;
        pause.min(PAUSE_MAX)
    }
}
