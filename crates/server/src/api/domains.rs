//! Domains with their queues.

use std::collections::BTreeMap;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use clinch_core::Domain;
use clinch_core::ports::{Counts, DomainView};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json};
use super::body::{self, INVALID_REQUEST};
use super::caller::Caller;
use super::operations::ReasonDocument;
use super::problem::{Problem, ProblemDocument};
use super::time;

/// Every domain, sorted by name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DomainsDocument {
    /// Sorted by name; a restricted key sees its own.
    pub(super) domains: Vec<DomainDocument>,
}

/// A domain: a group of operations with its own counters, which can be paused.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct DomainDocument {
    /// The domain: a group of operations, such as payments.
    pub(crate) domain: String,
    /// While paused, no attempt begins.
    pub(crate) paused: bool,
    /// Since when; null: not paused, or paused by an earlier release.
    pub(crate) paused_at: Option<String>,
    /// Who paused it: `key:` with the id and name of an API key, `local`, or a process.
    pub(crate) paused_by: Option<String>,
    /// Why, as whoever paused it said; null: no reason was given.
    pub(crate) paused_reason: Option<String>,
    /// Operations by state and phase.
    pub(crate) counts: CountsDocument,
    /// Dead letters that wait for a redrive or a dismissal.
    pub(crate) dead_letters_open: u64,
    /// Operations that wait for an attempt: PENDING and waiting.
    pub(crate) depth: u64,
    /// Age of the oldest operation that is due; null: no operation is due.
    pub(crate) oldest_age_ms: Option<u64>,
}

/// Counters that the store maintains.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) struct CountsDocument {
    /// Operations that were accepted and never begun.
    pub(crate) pending: u64,
    /// Operations that began and have not ended.
    pub(crate) in_progress: u64,
    /// Operations that ended well.
    pub(crate) completed: u64,
    /// Operations that ended FAILED.
    pub(crate) failed: u64,
    /// Parts of IN_PROGRESS, by phase.
    #[serde(rename = "live")]
    pub(crate) live: u64,
    /// Part of IN_PROGRESS: the next attempt is due later.
    #[serde(rename = "waiting")]
    pub(crate) waiting: u64,
    /// Part of IN_PROGRESS: waits for a probe, a late answer or an operator.
    #[serde(rename = "held")]
    pub(crate) held: u64,
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
        dead_letters_open,
    } = view.counts;
    let pause = view.pause.as_ref();
    let reason = pause.map(|pause| pause.reason.clone());
    DomainDocument {
        domain: view.domain.to_string(),
        paused: view.paused,
        paused_at: pause.map(|pause| time::write(pause.at)),
        paused_by: pause.map(|pause| pause.by.to_string()),
        paused_reason: reason.filter(|reason| !reason.is_empty()),
        counts: CountsDocument {
            pending,
            in_progress: live + recorded + waiting + held,
            completed,
            failed,
            live: live + recorded,
            waiting,
            held,
        },
        dead_letters_open,
        depth: pending + waiting,
        oldest_age_ms: view
            .oldest_due
            .and_then(|age| u64::try_from(age.as_millis()).ok()),
    }
}

impl App {
    /// Every domain that has operations, is paused or has a route.
    pub(super) async fn domain_documents(&self) -> Result<Vec<DomainDocument>, Problem> {
        Ok(self.domain_views().await?.iter().map(document).collect())
    }

    /// The same, with what the store says of each.
    pub(crate) async fn domain_views(&self) -> Result<Vec<DomainView>, Problem> {
        let mut views = self.domains.domains().await?;
        for (domain, ..) in self.clinch.routes().iter() {
            if !views.iter().any(|view| view.domain == *domain) {
                views.push(nothing_of(domain));
            }
        }
        views.sort_by(|one, other| one.domain.cmp(&other.domain));
        Ok(views)
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
        let ReasonDocument { reason } = body::read(&text, INVALID_REQUEST)?;
        if !self.is_domain(&domain).await? {
            let detail = format!("there is no domain \"{domain}\": no route and no operations");
            return Err(Problem::not_found(detail));
        }
        let orchestrator = self.orchestrator();
        let reason = reason.unwrap_or_default();
        match paused {
            true => {
                let by = caller.actor();
                orchestrator.pause(&domain, &by, &reason).await?;
            }
            false => orchestrator.resume(&domain).await?,
        }
        let by = caller.name();
        match paused {
            true => tracing::info!(target: "clinch", %domain, by, "domain paused"),
            false => tracing::info!(target: "clinch", %domain, by, "domain resumed"),
        }
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
        pause: None,
        counts: Counts::default(),
        oldest_due: None,
        oldest_due_by_type: BTreeMap::new(),
    }
}

/// List domains and their counters.
///
/// Every domain with its counters, its open dead letters, and whether it is paused.
#[utoipa::path(get, path = "/v1/domains", tag = "domains", operation_id = "list_domains",
    responses(
        (status = 200, body = DomainsDocument, description = "Every domain, sorted by name"),
    ))]
pub(crate) async fn list(State(app): State<Shared>, caller: Caller) -> Answer {
    let mut domains = app.domain_documents().await?;
    domains.retain(|domain| domain.is_for(&caller));
    json(StatusCode::OK, &DomainsDocument { domains })
}

/// Pause a domain.
///
/// No attempt of the domain begins until it is resumed. Running attempts end as usual, and
/// operations are still accepted.
#[utoipa::path(post, path = "/v1/domains/{domain}/pause", tag = "domains", operation_id = "pause_domain",
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

/// Resume a domain.
///
/// Attempts of the domain begin again. A domain that is not paused stays as it is.
#[utoipa::path(post, path = "/v1/domains/{domain}/resume", tag = "domains", operation_id = "resume_domain",
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
