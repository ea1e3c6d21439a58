//! Asks the provider what became of a call.

use std::fmt;

use async_trait::async_trait;
use clinch_core::ports::{Probe, ProbeVerdict};
use clinch_core::{Envelope, Fail, Timestamp};
use hyper::header::HeaderMap;

use crate::body::{self, Body};
use crate::client::{SendError, Unsent};
use crate::executor::HttpExecutor;
use crate::plan::ProbePlan;
use crate::retry_after::retry_after;
use crate::template::Values;

/// Asks a route's provider what became of a call. Cheap to clone.
///
/// - `Succeeded` and `Failed` only if the answer names the call: the value at `match` is the
///   outbound key or the op_id.
/// - A status without a meaning in the route, an incomplete answer, an answer that is too long, or
///   any connection error: `Unknown`.
/// - 425, 429, and a 503 with `Retry-After`: `Later`, with the time that the provider names.
/// - The same addresses are forbidden as for calls, and redirects are not followed.
#[derive(Clone)]
pub struct HttpProbe {
    executor: HttpExecutor,
}

impl fmt::Debug for HttpProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = self.plan().map(|plan| plan.endpoint.target.authority());
        let mut shown = f.debug_struct("HttpProbe");
        shown.field("host", &endpoint.unwrap_or_default());
        shown.finish_non_exhaustive()
    }
}

impl HttpProbe {
    pub(crate) fn new(executor: HttpExecutor) -> Self {
        Self { executor }
    }

    fn plan(&self) -> Option<&ProbePlan> {
        self.executor.plan().probe.as_ref()
    }

    /// `None`: no verdict.
    async fn ask(&self, envelope: &Envelope) -> Option<ProbeVerdict> {
        let (executor, plan) = (&self.executor, self.plan()?);
        let client = executor.client();
        let values = Values::new(envelope);
        let route = executor.plan();
        let question = route.question(plan, envelope, &values, client.spans());
        let question = question.ok()?;
        let sent = client.send(&plan.endpoint, &question, executor.transport(), || None);
        let (response, connection) = match sent.await {
            Ok(answered) => answered,
            Err(SendError::Unsent(Unsent::Exhausted(_))) => return Some(ProbeVerdict::NotAsked),
            Err(_) => return None,
        };
        let (head, mut body) = response.into_parts();
        let code = head.status.as_u16();
        let read = body::read(&mut body, route.response_max).await.ok()?;
        connection.finish(!read.truncated, client.clock().monotonic());
        if let Some(later) = later(code, &head.headers, client.clock().now()) {
            return Some(later);
        }
        if plan.not_found.contains(&code) {
            return Some(ProbeVerdict::NotFound);
        }
        if read.truncated || !plan.names(envelope, &head.headers, &read) {
            return None;
        }
        match plan.verdict(code, &head.headers, &read)? {
            true => Some(ProbeVerdict::Succeeded(
                executor.success_of(&head.headers, &read),
            )),
            false => {
                let message =
                    format!("the provider says that it refused the call (probe answered {code})");
                Some(ProbeVerdict::Failed(Fail::new("probe_failed", message)))
            }
        }
    }
}

/// The provider answers the question later: it was asked too early or too often, or it says when it
/// is back.
fn later(code: u16, headers: &HeaderMap, now: Timestamp) -> Option<ProbeVerdict> {
    let after = retry_after(headers, now);
    let is_later = match code {
        425 | 429 => true,
        503 => after.is_some(),
        _ => false,
    };
    is_later.then_some(ProbeVerdict::Later(after))
}

impl ProbePlan {
    /// Whether the answer is about the call of this envelope.
    fn names(&self, envelope: &Envelope, headers: &HeaderMap, body: &Body) -> bool {
        let named = self.matches.pick(headers, body.json().as_ref());
        named.is_some_and(|named| {
            named == envelope.outbound_key.as_str() || named == envelope.op_id.to_string()
        })
    }

    /// Whether the call was applied. `None`: the answer does not say.
    fn verdict(&self, code: u16, headers: &HeaderMap, body: &Body) -> Option<bool> {
        if self.failed.contains(&code) {
            return Some(false);
        }
        if !self.succeeded.contains(&code) {
            return None;
        }
        let Some(selector) = &self.state else {
            return Some(true);
        };
        let state = selector.pick(headers, body.json().as_ref())?;
        if self.succeeded_states.contains(&state) {
            Some(true)
        } else {
            self.failed_states.contains(&state).then_some(false)
        }
    }
}

#[async_trait]
impl Probe for HttpProbe {
    async fn probe(&self, envelope: &Envelope) -> ProbeVerdict {
        self.ask(envelope).await.unwrap_or(ProbeVerdict::Unknown)
    }
}
