//! Domains with their queues, and destinations with their guards.

use std::collections::BTreeMap;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use clinch_core::Domain;
use clinch_core::policy::EventTypes;
use clinch_core::ports::{Counts, DomainView, Room};
use clinch_protect::DestinationStatus;
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json};
use super::body::{self, INVALID_REQUEST};
use super::caller::Caller;
use super::operations::ReasonDocument;
use super::problem::{Problem, ProblemDocument};
use super::time;

/// Every domain.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DomainsDocument {
    pub(super) domains: Vec<DomainDocument>,
}

/// One domain.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct DomainDocument {
    domain: String,
    /// While paused, no attempt begins.
    paused: bool,
    counts: CountsDocument,
    /// Operations that wait for an attempt: PENDING and waiting.
    depth: u64,
    /// Age of the oldest operation that is due; null: no operation is due.
    oldest_age_ms: Option<u64>,
}

/// Counters that the store maintains.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) struct CountsDocument {
    pending: u64,
    in_progress: u64,
    completed: u64,
    failed: u64,
    /// Parts of IN_PROGRESS, by phase.
    #[serde(rename = "live")]
    live: u64,
    #[serde(rename = "waiting")]
    waiting: u64,
    #[serde(rename = "held")]
    held: u64,
}

/// Every destination.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DestinationsDocument {
    destinations: Vec<DestinationDocument>,
}

/// One destination, as this process sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DestinationDocument {
    destination: String,
    /// closed, open or half_open.
    breaker: &'static str,
    rate: RoomDocument,
    concurrency: RoomDocument,
    /// The provider asked for a pause until this time.
    paused_until: Option<String>,
}

/// How many more calls can be made now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RoomDocument {
    /// Null: there is no limit.
    available: Option<u64>,
    /// When more calls may be possible.
    again_at: Option<String>,
}

impl DomainDocument {
    /// Whether the caller may see the domain. The counters include every event type.
    pub(super) fn is_for(&self, caller: &Caller) -> bool {
        caller.restriction().allows_domain(&self.domain)
    }
}

pub(super) fn document(view: &DomainView) -> DomainDocument {
    let Counts {
        pending,
        live,
        recorded,
        waiting,
        held,
        completed,
        failed,
    } = view.counts;
    DomainDocument {
        domain: view.domain.to_string(),
        paused: view.paused,
        counts: CountsDocument {
            pending,
            in_progress: live + recorded + waiting + held,
            completed,
            failed,
            live: live + recorded,
            waiting,
            held,
        },
        depth: pending + waiting,
        oldest_age_ms: view
            .oldest_due
            .and_then(|age| u64::try_from(age.as_millis()).ok()),
    }
}

impl App {
    /// Every domain that has operations, is paused or has a route.
    pub(super) async fn domain_documents(&self) -> Result<Vec<DomainDocument>, Problem> {
        let mut views = self.domains.domains().await?;
        for (domain, ..) in self.clinch.routes().iter() {
            if !views.iter().any(|view| view.domain == *domain) {
                views.push(nothing_of(domain));
            }
        }
        views.sort_by(|one, other| one.domain.cmp(&other.domain));
        Ok(views.iter().map(document).collect())
    }

    /// Whether the domain has a route here, has or had operations, or is paused.
    async fn is_domain(&self, domain: &Domain) -> Result<bool, Problem> {
        if self.clinch.routes().iter().any(|(of, ..)| of == domain) {
            return Ok(true);
        }
        let views = self.domains.domains().await?;
        Ok(views.iter().any(|view| view.domain == *domain))
    }

    async fn set_paused(
        &self,
        caller: &Caller,
        domain: String,
        paused: bool,
        request: Request,
    ) -> Answer {
        let domain = Domain::new(domain);
        let domain = domain.map_err(|invalid| Problem::invalid("invalid_request", &invalid))?;
        let allowed = caller.restriction();
        if !allowed.allows_domain(domain.as_str()) {
            return Err(Problem::not_found("there is no such domain"));
        }
        if !allowed.allows_all_of(domain.as_str()) {
            return Err(Problem::forbidden(
                "a pause stops every event type of the domain; this key may touch only some of them",
            ));
        }
        let (parts, body) = request.into_parts();
        let text = self.optional_body(&parts.headers, body).await?;
        let ReasonDocument { reason: _ } = body::read(&text, INVALID_REQUEST)?;
        if !self.is_domain(&domain).await? {
            let detail = format!("there is no domain \"{domain}\": no route and no operations");
            return Err(Problem::not_found(detail));
        }
        self.orchestrator().set_paused(&domain, paused).await?;
        let by = caller.name();
        tracing::info!(target: "clinch", %domain, paused, by, "domain paused or resumed");
        let views = self.domains.domains().await?;
        let view = views.into_iter().find(|view| view.domain == domain);
        let view = view.unwrap_or_else(|| nothing_of(&domain));
        json(StatusCode::OK, &document(&view))
    }
}

fn nothing_of(domain: &Domain) -> DomainView {
    DomainView {
        domain: domain.clone(),
        paused: false,
        counts: Counts::default(),
        oldest_due: None,
        oldest_due_by_type: BTreeMap::new(),
    }
}

#[utoipa::path(get, path = "/v1/domains", tag = "domains",
    responses(
        (status = 200, body = DomainsDocument, description = "Every domain, sorted by name"),
    ))]
pub(crate) async fn list(State(app): State<Shared>, caller: Caller) -> Answer {
    let mut domains = app.domain_documents().await?;
    domains.retain(|domain| domain.is_for(&caller));
    json(StatusCode::OK, &DomainsDocument { domains })
}

#[utoipa::path(post, path = "/v1/domains/{domain}/pause", tag = "domains",
    params(("domain" = String, Path)),
    request_body = Option<ReasonDocument>,
    responses(
        (status = 200, body = DomainDocument, description = "No attempt begins from now on"),
        (status = "4XX", body = ProblemDocument, description = "not_found, invalid_request"),
    ))]
pub(crate) async fn pause(
    State(app): State<Shared>,
    caller: Caller,
    Path(domain): Path<String>,
    request: Request,
) -> Answer {
    app.set_paused(&caller, domain, true, request).await
}

#[utoipa::path(post, path = "/v1/domains/{domain}/resume", tag = "domains",
    params(("domain" = String, Path)),
    request_body = Option<ReasonDocument>,
    responses(
        (status = 200, body = DomainDocument, description = "Attempts begin again"),
        (status = "4XX", body = ProblemDocument, description = "not_found, invalid_request"),
    ))]
pub(crate) async fn resume(
    State(app): State<Shared>,
    caller: Caller,
    Path(domain): Path<String>,
    request: Request,
) -> Answer {
    app.set_paused(&caller, domain, false, request).await
}

#[utoipa::path(get, path = "/v1/destinations", tag = "domains",
    responses(
        (status = 200, body = DestinationsDocument, description = "Every destination, as this process sees it"),
    ))]
pub(crate) async fn destinations(State(app): State<Shared>, caller: Caller) -> Answer {
    // A key without a restriction also sees destinations that no route calls.
    let of_callers = (!caller.restriction().is_none()).then(|| {
        app.orchestrator()
            .destinations(|domain, types| match types {
                EventTypes::One(one) => caller.allows(domain, one),
                EventTypes::Any => caller.restriction().allows_domain(domain.as_str()),
            })
    });
    let is_shown = |status: &DestinationStatus| {
        let names = of_callers.as_ref();
        names.is_none_or(|names| names.contains(&status.name))
    };
    let now = app.clock.now();
    let room = |room: Room| RoomDocument {
        available: u64::try_from(room.calls)
            .ok()
            .filter(|_| room.calls != usize::MAX),
        again_at: room.again_in.map(|again| time::write(now + again)),
    };
    let document = |status: DestinationStatus| DestinationDocument {
        breaker: status.breaker.as_str(),
        rate: room(status.rate),
        concurrency: room(status.concurrency),
        paused_until: status.paused.map(|left| time::write(now + left)),
        destination: status.name,
    };
    let destinations = app
        .clinch
        .destinations()
        .into_iter()
        .filter(is_shown)
        .map(document)
        .collect();
    json(StatusCode::OK, &DestinationsDocument { destinations })
}
