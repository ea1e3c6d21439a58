//! Makes the calls of a route.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::Safety;
use clinch_core::ports::{Attempt, Executor};
use clinch_core::{
    Applied, Envelope, Fail, Invalid, Outcome, Retry, Success, TXN_ID_BYTES_MAX, shorten,
};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Response, StatusCode};
use serde_json::Value;

use crate::answer::{Meaning, StatusRules};
use crate::body::{self, Body};
use crate::cause::{self, Sent};
use crate::client::{Connection, HttpClient, SendError, Transport, Unsent};
use crate::egress::Egress;
use crate::plan::Plan;
use crate::probe::HttpProbe;
use crate::request;
use crate::retry_after::retry_after;
use crate::route::HttpRoute;
use crate::secrets::Secrets;
use crate::template::Values;

/// Maximum bytes that are read of an answer that is no success: enough for an error code, and for
/// using the connection again.
const ERROR_BYTES_MAX: usize = 16 * 1024;
/// Timeout for reading that body. The status says enough; a slow body must not turn a refusal into
/// a timeout.
const ERROR_BODY_WAIT: Duration = Duration::from_millis(500);

/// Below the 3 s that a call has by default: a connection that cannot be opened ends as "not
/// applied", not as a timeout with an unknown effect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A call that may be repeated uses any pooled connection.
const IDLE_REPEATABLE: Duration = Duration::from_secs(30);
/// A call that may not be repeated uses only a connection that was in use a moment ago. If a server
/// closes an idle connection while a request is being sent, the effect is unknown, and on such a
/// route an operator has to resolve it.
const IDLE_UNSAFE: Duration = Duration::from_secs(1);

/// The delay of a call for which this machine had no file descriptor or port: meanwhile other calls
/// end and free theirs.
const EXHAUSTED_PAUSE: Duration = Duration::from_secs(2);

/// Makes the calls of one route. Cheap to clone.
///
/// | answer | outcome |
/// | --- | --- |
/// | 2xx, one of `duplicate_status` | Ok; the body is the result |
/// | name, connection or TLS fails; no permitted address | Retry, not applied |
/// | 425, 429; 503 with `unavailable_is_clean` | Retry, not applied |
/// | 408, other 5xx; 409 on a keyed route | Retry, unknown |
/// | reset, closed or garbled after sending; a body that ends early | Retry, unknown |
/// | 3xx | Retry, unknown, `redirect_refused`; never followed |
/// | other 4xx | Fail `http_<status>` |
/// | no descriptor, port or socket buffer is free on this machine | Retry, not called |
/// | the lease is lost or cancel was requested before the first byte | Retry, not called |
/// | the operation does not fit the route (a placeholder without value) | Fail `invalid_request` |
///
/// - `Retry-After` of 425, 429 and 503 pauses the destination.
/// - Dropping the future closes the connection, or resets the stream. Then it is unknown what the
///   provider did: the code that drops it must report that.
/// - A name whose addresses are all forbidden is a Retry and not a Fail: nothing was sent, the
///   resolver may be wrong for a minute, and a Fail would end every operation for good. Not "not
///   called" either, or it would be retried at no cost until the deadline.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let clock = std::sync::Arc::new(clinch_system::SystemClock::new());
/// use clinch_http::{Egress, HttpClient, HttpExecutor, HttpRoute, SystemSecrets};
///
/// let client = HttpClient::builder(clock).build()?;
/// let route = HttpRoute {
///     url: "https://psp.example/v1/charges".to_owned(),
///     headers: [("authorization".to_owned(), "Bearer ${env:PSP_KEY}".to_owned())].into(),
///     ..HttpRoute::default()
/// };
/// let executor = HttpExecutor::new(&client, route, Egress::default(), &SystemSecrets)?;
/// # let _ = executor;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HttpExecutor {
    client: HttpClient,
    plan: Arc<Plan>,
    reading: StatusRules,
    connect_timeout: Duration,
}

impl fmt::Debug for HttpExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = &self.plan.endpoint.target;
        f.debug_struct("HttpExecutor")
            .field("host", &target.authority())
            .field("reach", &self.plan.endpoint.reach)
            .finish_non_exhaustive()
    }
}

impl HttpExecutor {
    /// Checks the route, resolves its secrets and builds the executor. It treats calls as unsafe
    /// until [`HttpExecutor::safety`] says otherwise.
    pub fn new(
        client: &HttpClient,
        route: HttpRoute,
        egress: Egress,
        secrets: &dyn Secrets,
    ) -> Result<Self, Invalid> {
        Ok(Self {
            client: client.clone(),
            plan: Arc::new(Plan::new(&route, egress, secrets)?),
            reading: StatusRules {
                duplicate_status: route.duplicate_status,
                unavailable_is_clean: route.unavailable_is_clean,
                safety: Safety::Unsafe,
            },
            connect_timeout: CONNECT_TIMEOUT,
        })
    }

    /// Sets whether a call may be repeated, as the route's rules say. On a keyed route a 409 means
    /// "in progress"; calls of an unsafe route avoid idle connections.
    #[must_use]
    pub fn safety(mut self, safety: Safety) -> Self {
        self.reading.safety = safety;
        self
    }

    /// Timeout for opening a connection: name, TCP and TLS together. Keep it below the route's
    /// timeout, or an unreachable provider leaves effects unknown.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// The probe, if the route has one.
    pub fn probe(&self) -> Option<HttpProbe> {
        self.plan.probe.as_ref()?;
        Some(HttpProbe::new(self.clone()))
    }

    /// Host and port of the route's URL: the destination's name if the route names none.
    pub fn authority(&self) -> String {
        self.plan.endpoint.target.authority()
    }

    pub(crate) fn client(&self) -> &HttpClient {
        &self.client
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn transport(&self) -> Transport {
        let idle_max = match self.reading.safety {
            Safety::Unsafe => IDLE_UNSAFE,
            Safety::Keyed { .. } | Safety::Natural => IDLE_REPEATABLE,
        };
        Transport {
            connect_timeout: self.connect_timeout,
            idle_max,
        }
    }

    async fn outcome(
        &self,
        response: Response<Incoming>,
        connection: Connection,
        sent: impl Fn() -> Sent,
    ) -> Outcome {
        let (head, mut body) = response.into_parts();
        let (status, headers) = (head.status, head.headers);
        let reason = format!("http_{}", status.as_u16());
        let applied = match self.reading.meaning(status) {
            Meaning::Done => return self.done(&headers, body, connection).await,
            Meaning::Refused => {
                let said = self.error_body(&mut body, connection).await;
                return refused(status, said.and_then(|body| body.json()), sent);
            }
            Meaning::Redirect => {
                self.error_body(&mut body, connection).await;
                return Outcome::Retry(Retry::unknown("redirect_refused"));
            }
            Meaning::Later(applied) => applied,
        };
        self.error_body(&mut body, connection).await;
        let retry = match applied {
            Applied::No => Retry::not_applied(reason),
            _ => Retry::unknown(reason),
        };
        let asks = matches!(status.as_u16(), 425 | 429 | 503);
        let wait = retry_after(&headers, self.client.clock().now()).filter(|_| asks);
        Outcome::Retry(match wait {
            Some(wait) => retry.retry_after(wait),
            None => retry,
        })
    }

    async fn done(
        &self,
        headers: &HeaderMap,
        mut body: Incoming,
        connection: Connection,
    ) -> Outcome {
        let Ok(read) = body::read(&mut body, self.plan.response_max).await else {
            return Outcome::Retry(Retry::unknown("short_read"));
        };
        connection.finish(!read.truncated, self.client.clock().monotonic());
        Outcome::Ok(self.success_of(headers, &read))
    }

    pub(crate) fn success_of(&self, headers: &HeaderMap, body: &Body) -> Success {
        let selector = self.plan.txn_id.as_ref();
        let picked = selector.and_then(|one| one.pick(headers, body.json().as_ref()));
        Success {
            provider_txn_id: picked.map(|id| shorten(id, TXN_ID_BYTES_MAX)),
            ..Success::new(body.payload(self.plan.response_max))
        }
    }

    /// The body of an error answer, if it arrives soon.
    async fn error_body(&self, body: &mut Incoming, connection: Connection) -> Option<Body> {
        let clock = self.client.clock();
        let read = tokio::select! {
            biased;
            read = body::read(body, ERROR_BYTES_MAX) => read.ok()?,
            () = clock.sleep(ERROR_BODY_WAIT) => return None,
        };
        connection.finish(!read.truncated, clock.monotonic());
        Some(read)
    }
}

/// A refusal in a fixed text, with the provider's code if that is safe to show.
fn refused(status: StatusCode, said: Option<Value>, sent: impl Fn() -> Sent) -> Outcome {
    let code = status.as_u16();
    let name = status
        .canonical_reason()
        .unwrap_or("a status without a name");
    let fail = Fail::new(
        format!("http_{code}"),
        format!("the provider answered {code} ({name})"),
    );
    let cause = said.and_then(|body| cause::code(&body, &sent()));
    Outcome::Fail(match cause {
        Some(cause) => fail.because(format!("the provider's code is {cause}")),
        None => fail,
    })
}

/// Nothing was sent.
fn unsent(unsent: Unsent) -> Outcome {
    let reason = match unsent {
        Unsent::Gate(reason) => return Outcome::Retry(Retry::not_called(reason)),
        Unsent::Exhausted(what) => {
            let retry = Retry::not_called(format!("exhausted: {what}"));
            return Outcome::Retry(retry.after(EXHAUSTED_PAUSE));
        }
        Unsent::Malformed => {
            return invalid_request("the request cannot be written as HTTP".to_owned());
        }
        Unsent::Dns => "dns_failed".to_owned(),
        Unsent::Timeout => "connect_timeout".to_owned(),
        Unsent::Egress(kind) => format!("egress_refused: a {kind} address"),
        Unsent::Connect(reason) => format!("connect_failed: {reason}"),
        Unsent::Tls(reason) => format!("tls_failed: {reason}"),
    };
    Outcome::Retry(Retry::not_applied(reason))
}

fn invalid_request(problem: String) -> Outcome {
    Outcome::Fail(Fail::new("invalid_request", problem))
}

#[async_trait]
impl Executor for HttpExecutor {
    async fn execute(&self, envelope: &Envelope, attempt: &Arc<dyn Attempt>) -> Outcome {
        let values = Values::new(envelope);
        let built = self.plan.request(envelope, &values, self.client.spans());
        let outgoing = match built {
            Ok(outgoing) => outgoing,
            Err(problem) => return invalid_request(problem),
        };
        let gate = || attempt.refusal();
        let endpoint = &self.plan.endpoint;
        let answered = self
            .client
            .send(endpoint, &outgoing, self.transport(), gate)
            .await;
        match answered {
            Ok((response, connection)) => {
                let sent = || request::sent(&outgoing, envelope, &values);
                self.outcome(response, connection, sent).await
            }
            Err(SendError::Unsent(why)) => unsent(why),
            Err(SendError::Lost(reason)) => {
                Outcome::Retry(Retry::unknown(format!("connection_lost: {reason}")))
            }
        }
    }
}
