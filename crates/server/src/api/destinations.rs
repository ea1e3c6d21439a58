//! Destinations with their guards, and what an operator does to them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use clinch::types::Told;
use clinch_core::Timestamp;
use clinch_core::policy::EventTypes;
use clinch_core::ports::{CircuitState, DomainView, Room};
use clinch_protect::{CallFailure, DestinationStatus, Opener, RECENT};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json};
use super::body::{self, INVALID_REQUEST};
use super::caller::Caller;
use super::operations::ReasonDocument;
use super::problem::{Problem, ProblemDocument};
use super::time;
use super::values::DurationValue;

/// The engine's own name for the guards of a route with a fallback.
const WITH_FALLBACK: &str = " with fallback";

/// The longest wait for the store, which only counts the backlog.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// Every destination that this process calls.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DestinationsDocument {
    /// Sorted by name; a restricted key sees those that its routes call.
    destinations: Vec<DestinationDocument>,
}

/// One destination. Breaker and pause are the same in every process of the store; calls, failures
/// and room are those of the process that answers.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct DestinationDocument {
    /// The name of the destination: as configured, otherwise host and port of the URL.
    pub(crate) destination: String,
    /// ok, down (no call passes), probing (a few calls test it), throttled (the provider asked for
    /// a pause) or full (a limit is used up).
    pub(crate) state: &'static str,
    /// closed, open or half_open.
    pub(crate) breaker: &'static str,
    /// When the breaker left the state closed; null while closed.
    pub(crate) breaker_since: Option<String>,
    /// When the next call is tried; null: not open, or open until an operator resets it.
    pub(crate) open_until: Option<String>,
    /// An operator opened the breaker.
    pub(crate) forced: bool,
    /// The operator or key that opened the breaker.
    pub(crate) opened_by: Option<String>,
    /// Why it is open, if this was said from outside: the operator's reason, or the last error of
    /// the process whose calls failed.
    pub(crate) reason: Option<String>,
    /// Breaker and pause are shared with the other processes of the store. False: the store does
    /// not answer, and each process decides for itself.
    pub(crate) shared: bool,
    /// How many more calls the rate allows now.
    pub(crate) rate: RoomDocument,
    /// How many more calls may run at the same time.
    pub(crate) concurrency: RoomDocument,
    /// The provider asked for a pause until this time.
    pub(crate) paused_until: Option<String>,
    /// When the process that answers learned of the pause.
    pub(crate) paused_since: Option<String>,
    /// The last call that counted against the destination.
    pub(crate) last_error: Option<CallErrorDocument>,
    /// Calls of the last five minutes.
    pub(crate) recent: RecentDocument,
    /// PENDING and waiting operations of the domains with a route to it. A domain with routes to
    /// several destinations counts for each of them. Null: the store does not answer.
    pub(crate) backlog: Option<u64>,
    /// Age of the oldest due operation that waits for it; null: none is due.
    pub(crate) oldest_due_ms: Option<u64>,
    /// The configured limits.
    pub(crate) limits: LimitsDocument,
    /// The domains with a route to it.
    pub(crate) domains: Vec<String>,
}

/// How many more calls can be made now.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct RoomDocument {
    /// Null: there is no limit.
    pub(crate) available: Option<u64>,
    /// When more calls may be possible.
    pub(crate) again_at: Option<String>,
}

/// A call that counted against its destination. Never a payload.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct CallErrorDocument {
    /// timeout, effect_unknown, not_applied or reported (by a remote worker or a probe).
    pub(crate) code: &'static str,
    /// What went wrong, in one line.
    pub(crate) message: String,
    /// When the call failed.
    pub(crate) at: String,
}

/// Calls of this process in the last minutes.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) struct RecentDocument {
    /// How far back the numbers reach, in milliseconds.
    pub(crate) window_ms: u64,
    /// Calls that ended.
    pub(crate) calls: u64,
    /// Calls that count against the destination.
    pub(crate) failed: u64,
}

/// Configured limits; null: no limit.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct LimitsDocument {
    /// Calls in each period.
    pub(crate) rate: Option<RateLimitDocument>,
    /// Calls at the same time.
    pub(crate) concurrency: Option<u32>,
}

/// A number of calls in each period.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct RateLimitDocument {
    /// Calls that one period allows.
    pub(crate) permits: u32,
    /// The length of a period, in milliseconds.
    pub(crate) per_ms: u64,
}

/// Opens a destination's breaker.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenBreakerDocument {
    /// For the log.
    reason: Option<String>,
    /// A duration such as "30m", or a number of seconds. Absent: until the destination is reset.
    #[schema(value_type = Option<String>)]
    #[serde(rename = "for")]
    lasting: Option<DurationValue>,
}

/// The domains of one destination, and the age of its oldest due operation.
#[derive(Default)]
struct Waiting {
    domains: BTreeSet<String>,
    oldest: Option<Duration>,
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl App {
    /// The destinations that the caller may see. `views`: the domains as they are now, if the store
    /// answers.
    pub(crate) async fn destination_documents(
        &self,
        caller: &Caller,
        views: Option<&[DomainView]>,
    ) -> Vec<DestinationDocument> {
        let is_shared = self.clinch.catch_up_destinations().await;
        let now = self.clock.now();
        let mut waiting = self.waiting(caller, views.unwrap_or_default());
        let seen = self.seen_destinations(caller);
        let all = self.clinch.destinations().into_iter();
        // Guards that no route of this process uses were not configured by anybody.
        let shown = all.filter(|status| {
            waiting.contains_key(&status.name)
                && seen.as_ref().is_none_or(|seen| seen.contains(&status.name))
        });
        let shown: Vec<DestinationStatus> = shown.collect();
        let document = |status: DestinationStatus| {
            let waiting = waiting.remove(&status.name).unwrap_or_default();
            let backlog = views.map(|views| {
                let of_it = |view: &&DomainView| waiting.domains.contains(view.domain.as_str());
                let of_it = views.iter().filter(of_it);
                of_it
                    .map(|view| view.counts.pending + view.counts.waiting)
                    .sum()
            });
            let domains = waiting.domains.into_iter().collect();
            DestinationDocument {
                shared: is_shared,
                ..document(status, now, backlog, waiting.oldest, domains)
            }
        };
        shown.into_iter().map(document).collect()
    }

    /// The same, with what the store says now, if it answers: guards can be operated without it.
    async fn destinations_now(&self, caller: &Caller) -> Vec<DestinationDocument> {
        let views = tokio::time::timeout(STORE_TIMEOUT, self.domains.domains()).await;
        let views = views.ok().and_then(Result::ok);
        self.destination_documents(caller, views.as_deref()).await
    }

    /// The destinations of the caller's routes. `None`: the caller sees every destination.
    fn seen_destinations(&self, caller: &Caller) -> Option<BTreeSet<String>> {
        (!caller.restriction().is_none()).then(|| {
            let names = self
                .orchestrator()
                .destinations(|domain, types| match types {
                    EventTypes::One(one) => caller.allows(domain, one),
                    EventTypes::Any => caller.restriction().allows_domain(domain.as_str()),
                });
            names.iter().map(|name| plain(name).to_owned()).collect()
        })
    }

    /// What waits for each destination, of the domains that the caller may see.
    fn waiting(&self, caller: &Caller, views: &[DomainView]) -> BTreeMap<String, Waiting> {
        let mut all: BTreeMap<String, Waiting> = BTreeMap::new();
        let mut routes = self.orchestrator().route_destinations();
        routes.retain(|(domain, ..)| caller.restriction().allows_domain(domain.as_str()));
        for (domain, types, name) in &routes {
            let waiting = all.entry(plain(name).to_owned()).or_default();
            waiting.domains.insert(domain.to_string());
            let Some(view) = views.iter().find(|view| view.domain == *domain) else {
                continue;
            };
            for (event_type, age) in &view.oldest_due_by_type {
                let is_named = |(of, types, _): &(_, EventTypes, String)| {
                    of == domain && *types == EventTypes::One(event_type.clone())
                };
                let is_its = match types {
                    EventTypes::One(one) => one == event_type,
                    EventTypes::Any => !routes.iter().any(is_named),
                };
                if is_its {
                    waiting.oldest = waiting.oldest.max(Some(*age));
                }
            }
        }
        all
    }

    /// The destination, if the caller may operate it: its key must cover all routes to it.
    fn operable(&self, caller: &Caller, name: &str) -> Result<(), Problem> {
        let routes = self.orchestrator().route_destinations();
        let its = routes.iter().filter(|(_, _, of)| plain(of) == name);
        let allowed = caller.restriction();
        let mut is_seen = allowed.is_none();
        let mut covers = true;
        for (domain, types, _) in its {
            let is_covered = match types {
                EventTypes::One(one) => caller.allows(domain, one),
                EventTypes::Any => allowed.allows_all_of(domain.as_str()),
            };
            is_seen |= is_covered || allowed.allows_domain(domain.as_str());
            covers &= is_covered;
        }
        let mut known = self.clinch.destinations().into_iter();
        if !is_seen || !known.any(|status| status.name == name) {
            let detail = "there is no such destination in this process; see GET /v1/destinations";
            return Err(Problem::not_found(detail));
        }
        match covers || allowed.is_none() {
            true => Ok(()),
            false => Err(Problem::forbidden(
                "other domains call this destination too; use a key that may touch all of them",
            )),
        }
    }

    async fn one_destination(&self, caller: &Caller, name: &str) -> Answer {
        let mut all = self.destinations_now(caller).await.into_iter();
        match all.find(|document| document.destination == name) {
            Some(document) => json(StatusCode::OK, &document),
            None => Err(Problem::not_found("there is no such destination")),
        }
    }
}

fn plain(name: &str) -> &str {
    name.strip_suffix(WITH_FALLBACK).unwrap_or(name)
}

fn document(
    status: DestinationStatus,
    now: Timestamp,
    backlog: Option<u64>,
    oldest: Option<Duration>,
    domains: Vec<String>,
) -> DestinationDocument {
    let room = |room: Room| RoomDocument {
        available: u64::try_from(room.calls)
            .ok()
            .filter(|_| room.calls != usize::MAX),
        again_at: room.again_in.map(|again| time::write(now + again)),
    };
    let error = |failure: CallFailure| CallErrorDocument {
        code: failure.code,
        at: time::write(now - failure.ago),
        message: failure.message,
    };
    let rate = status.limits.rate.as_ref().map(|rate| RateLimitDocument {
        permits: rate.permits,
        per_ms: millis(rate.per),
    });
    let circuit = status.circuit;
    DestinationDocument {
        state: state(&status),
        breaker: status.breaker.as_str(),
        breaker_since: circuit.since.map(|ago| time::write(now - ago)),
        open_until: circuit.open_for.map(|left| time::write(now + left)),
        forced: circuit.is_forced,
        opened_by: status.opener.as_ref().and_then(|one| one.by.clone()),
        reason: status
            .opener
            .map(|opener| opener.reason)
            .filter(|reason| !reason.is_empty()),
        shared: false,
        rate: room(status.rate),
        concurrency: room(status.concurrency),
        paused_until: status.paused.map(|left| time::write(now + left)),
        paused_since: status.paused_since.map(|ago| time::write(now - ago)),
        last_error: status.last_failure.map(error),
        recent: RecentDocument {
            window_ms: millis(RECENT),
            calls: status.recent.calls,
            failed: status.recent.failed,
        },
        backlog,
        oldest_due_ms: oldest.map(millis),
        limits: LimitsDocument {
            rate,
            concurrency: status.limits.max_concurrent,
        },
        domains,
        destination: status.name,
    }
}

/// The state in one word.
fn state(status: &DestinationStatus) -> &'static str {
    match status.breaker {
        CircuitState::Open => "down",
        CircuitState::HalfOpen => "probing",
        CircuitState::Closed if status.paused.is_some() => "throttled",
        CircuitState::Closed if status.room.is_closed() => "full",
        CircuitState::Closed => "ok",
    }
}

/// List destinations and how they are.
///
/// Every provider that this process calls: its breaker, a pause that it asked for, its last error,
/// and how much room its limits leave.
#[utoipa::path(get, path = "/v1/destinations", tag = "domains", operation_id = "list_destinations",
    responses(
        (status = 200, body = DestinationsDocument, description = "Every destination"),
    ))]
pub(crate) async fn list(State(app): State<Shared>, caller: Caller) -> Answer {
    let destinations = app.destinations_now(&caller).await;
    json(StatusCode::OK, &DestinationsDocument { destinations })
}

/// Call a destination again.
///
/// Closes its breaker and ends a pause, in every process of the store. Waiting work is called at
/// once.
#[utoipa::path(post, path = "/v1/destinations/{name}/reset", tag = "domains", operation_id = "reset_destination",
    params(("name" = String, Path)),
    request_body = Option<ReasonDocument>,
    responses(
        (status = 200, body = DestinationDocument, description = "The destination is called again: its breaker is closed and a pause has ended, in every process of the store (`shared`)"),
        (status = "4XX", body = ProblemDocument, description = "not_found, invalid_request"),
    ))]
pub(crate) async fn reset(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Answer {
    let (parts, body) = request.into_parts();
    let text = app.optional_body(&parts.headers, body).await?;
    let ReasonDocument { reason } = body::read(&text, INVALID_REQUEST)?;
    app.operable(&caller, &name)?;
    let told = app.clinch.reset_destination(&name).await?;
    let (by, reason) = (caller.actor().to_string(), reason.unwrap_or_default());
    let everywhere = told == Told::EveryProcess;
    tracing::info!(target: "clinch", destination = %name, by, reason, everywhere, "destination reset");
    app.one_destination(&caller, &name).await
}

/// Stop the calls to a destination.
///
/// Opens its breaker, for example for maintenance at the provider. Operations are still accepted
/// and wait.
#[utoipa::path(post, path = "/v1/destinations/{name}/open", tag = "domains", operation_id = "open_destination",
    params(("name" = String, Path)),
    request_body = Option<OpenBreakerDocument>,
    responses(
        (status = 200, body = DestinationDocument, description = "No process of the store calls the destination until the time has passed or the destination is reset (`shared`)"),
        (status = "4XX", body = ProblemDocument, description = "not_found, invalid_request"),
    ))]
pub(crate) async fn open(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Answer {
    let (parts, body) = request.into_parts();
    let text = app.optional_body(&parts.headers, body).await?;
    let OpenBreakerDocument { reason, lasting } = body::read(&text, INVALID_REQUEST)?;
    app.operable(&caller, &name)?;
    let lasting = lasting.map(|DurationValue(lasting)| lasting);
    if lasting.is_some_and(|lasting| lasting.is_zero()) {
        return Err(body::refuse(
            INVALID_REQUEST,
            "for",
            "must be longer than 0",
        ));
    }
    let (by, reason) = (caller.actor().to_string(), reason.unwrap_or_default());
    let opener = Opener {
        by: Some(by.clone()),
        reason: reason.clone(),
    };
    let told = app.clinch.open_destination(&name, lasting, opener).await?;
    let everywhere = told == Told::EveryProcess;
    let secs = lasting.map(|lasting| lasting.as_secs());
    tracing::info!(target: "clinch", destination = %name, by, reason, secs, everywhere, "destination opened by hand");
    app.one_destination(&caller, &name).await
}
