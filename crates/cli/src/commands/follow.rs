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

/// Follows an operation until it is terminal or the budget has run out, looking again at
/// least every `slice`, and hands every new version to `seen`. Once it has answered, a server
/// that goes away is waited for.
pub(crate) async fn settle(
    op_id: &str,
    budget: Budget,
    slice: Duration,
    context: &mut Context,
    mut seen: impl FnMut(&RawValue, &mut Context) -> Result<(), CliError>,
) -> Result<Followed, CliError> {
    let mut last: Option<(Brief, Box<RawValue>)> = None;
    let mut away = Away::default();
    loop {
        let wait = budget.left(slice);
        let look = Budget::start(None);
        let request = Request::get(format!("/v1/operations/{op_id}")).wait(wait);
        match context.client.send(request).await {
            Ok(answer) => {
                away = Away::default();
                let brief = Brief::read(&answer.document)
                    .ok_or_else(|| operation::expected(&context.client))?;
                if last.as_ref().map(|(last, _)| last) != Some(&brief) {
                    seen(&answer.document, context)?;
                }
                let document = answer.document;
                if brief.exit() != Exit::Unsettled || budget.left(PAUSE).is_zero() {
                    let exit = brief.exit();
                    return Ok(Followed { document, exit });
                }
                last = Some((brief, document));
                if look.spent() < wait {
                    clock::pause(budget.left(PAUSE)).await;
                }
            }
            Err(error) if error.is_passing() && last.is_some() => {
                if budget.left(PAUSE).is_zero() {
                    return Err(error);
                }
                clock::pause(budget.left(away.pause(&error))).await;
            }
            Err(error) => return Err(error),
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
