//! Everything that an operator sees first: what is wrong, since when, and what to do next.
//!
//! The answer costs a bounded number of reads, whatever is stored, and it comes even if the store
//! does not answer: then the first warning says so, and the parts that only the store knows are
//! empty.

mod warnings;

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use clinch::backend::StoreUrl;
use clinch_core::ports::{DomainView, Scan};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json};
use super::caller::Caller;
use super::destinations::{DestinationDocument, millis};
use super::domains::{DomainDocument, document};
use super::time;
use crate::history::HistoryDocument;
pub(crate) use warnings::{Severity, Warning};

/// The longest wait for each part that the store knows.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// What an operator sees first.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct OverviewDocument {
    /// The time of this answer.
    pub(crate) now: String,
    /// The version of this process.
    pub(crate) version: &'static str,
    /// sqlite, postgres, mysql or memory.
    pub(crate) store: &'static str,
    /// How long this process has run.
    pub(crate) uptime_ms: u64,
    /// What needs an operator, the most urgent first; empty: all is well.
    pub(crate) warnings: Vec<Warning>,
    /// Operations of all domains, by state and phase.
    pub(crate) operations: TotalsDocument,
    /// Dead letters that nobody has dealt with.
    pub(crate) dead_letters_open: u64,
    /// Every domain, sorted by name.
    pub(crate) domains: Vec<DomainDocument>,
    /// Every destination, as this process sees it.
    pub(crate) destinations: Vec<DestinationDocument>,
    /// The last hour of this process.
    pub(crate) history: HistoryDocument,
    /// The server processes of this store; empty for a key with a restriction.
    pub(crate) nodes: Vec<NodeDocument>,
}

/// Operations of all domains, by the counters that the store maintains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct TotalsDocument {
    /// Operations that were accepted and never begun.
    pub(crate) pending: u64,
    /// Operations that began and have not ended.
    pub(crate) in_progress: u64,
    /// Operations that ended well.
    pub(crate) completed: u64,
    /// Operations that ended FAILED.
    pub(crate) failed: u64,
    /// Part of in_progress: an attempt is running.
    pub(crate) live: u64,
    /// Part of in_progress: an answer is recorded and not final yet.
    pub(crate) recorded: u64,
    /// Part of in_progress: waits for a time, a lane or a destination.
    pub(crate) waiting: u64,
    /// Part of in_progress: waits for a probe, a late answer or an operator.
    pub(crate) held: u64,
    /// Age of the oldest due operation; null: none is due.
    pub(crate) oldest_due_ms: Option<u64>,
    /// The domain of the oldest due operation.
    pub(crate) oldest_due_domain: Option<String>,
}

/// A server process of this store.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct NodeDocument {
    /// The name of the process, unique among those of the store.
    pub(crate) name: String,
    /// api, worker, recovery.
    pub(crate) roles: Vec<String>,
    /// The version of the program.
    pub(crate) version: String,
    /// When the process started.
    pub(crate) started_at: String,
    /// The last time that the process reported to the store.
    pub(crate) seen_at: String,
    /// False: the process has not reported for 45 s and did not say that it stops.
    pub(crate) alive: bool,
}

/// What the store says; the parts that it did not answer are empty.
struct StoreFacts {
    ready: Result<Duration, String>,
    views: Option<Vec<DomainView>>,
    nodes: Vec<NodeDocument>,
    /// A recorded answer waits for the finalizer.
    is_unfinalized: bool,
}

impl App {
    /// What an operator sees first, as far as the caller may see it.
    pub(crate) async fn overview(&self, caller: &Caller) -> OverviewDocument {
        let facts = self.store_facts(caller).await;
        let destinations = self
            .destination_documents(caller, facts.views.as_deref())
            .await;
        let mut views = facts.views.clone().unwrap_or_default();
        if facts.views.is_some() {
            self.orchestrator().note_load(&views);
        }
        views.retain(|view| caller.restriction().allows_domain(view.domain.as_str()));
        let shows = |domain: &str| caller.restriction().allows_domain(domain);
        let shows: &dyn Fn(&str) -> bool = &shows;
        let is_restricted = !caller.restriction().is_none();
        let mut overview = OverviewDocument {
            now: time::write(self.clock.now()),
            version: env!("CARGO_PKG_VERSION"),
            store: self.store_kind(),
            uptime_ms: millis(self.history.uptime()),
            warnings: Vec::new(),
            operations: totals(&views),
            dead_letters_open: dead_letters_open(&views),
            domains: views.iter().map(document).collect(),
            destinations,
            history: self.history.read(is_restricted.then_some(shows)),
            nodes: facts.nodes.clone(),
        };
        overview.warnings = self.warnings(caller, &facts, &overview, &views);
        overview
    }

    async fn store_facts(&self, caller: &Caller) -> StoreFacts {
        let ready = self.readiness.check(&*self.clock, &*self.inspect).await;
        if ready.is_err() {
            return StoreFacts {
                ready,
                views: None,
                nodes: Vec::new(),
                is_unfinalized: false,
            };
        }
        let views = async {
            let views = within(self.domain_views()).await?;
            let recorded = views.iter().any(|view| view.counts.recorded > 0);
            let is_unfinalized = match recorded {
                true => {
                    let due = async { Ok(self.recovery.next_due(Scan::Unfinalized).await?) };
                    within(due).await.flatten() == Some(Duration::ZERO)
                }
                false => false,
            };
            Some((views, is_unfinalized))
        };
        let (views, nodes) = tokio::join!(views, self.node_documents(caller));
        let (views, is_unfinalized) = match views {
            Some((views, is_unfinalized)) => (Some(views), is_unfinalized),
            None => (None, false),
        };
        let ready = match views {
            Some(_) => ready,
            None => Err("the counters cannot be read: no answer in time".to_owned()),
        };
        StoreFacts {
            ready,
            views,
            nodes,
            is_unfinalized,
        }
    }

    async fn node_documents(&self, caller: &Caller) -> Vec<NodeDocument> {
        let Some(nodes) = self
            .nodes
            .as_ref()
            .filter(|_| caller.restriction().is_none())
        else {
            return Vec::new();
        };
        let listed = async { Ok(nodes.list().await?) };
        let listed = within(listed).await.unwrap_or_default().into_iter();
        listed
            .map(|(node, alive)| NodeDocument {
                name: node.name,
                roles: node.roles,
                version: node.version,
                started_at: time::write(node.started_at),
                seen_at: time::write(node.seen_at),
                alive,
            })
            .collect()
    }

    fn store_kind(&self) -> &'static str {
        let url = self.config.store.url.parse::<StoreUrl>();
        url.map_or("unknown", |url| url.kind())
    }
}

/// `None`: the store failed, or did not answer in time.
async fn within<T>(read: impl Future<Output = Result<T, super::problem::Problem>>) -> Option<T> {
    tokio::time::timeout(STORE_TIMEOUT, read).await.ok()?.ok()
}

/// Dead letters that are open, by the counters that the store maintains.
fn dead_letters_open(views: &[DomainView]) -> u64 {
    views.iter().map(|view| view.counts.dead_letters_open).sum()
}

fn totals(views: &[DomainView]) -> TotalsDocument {
    let mut totals = TotalsDocument::default();
    let mut oldest = None;
    for view in views {
        let counts = view.counts;
        totals.pending += counts.pending;
        totals.in_progress += counts.live + counts.recorded + counts.waiting + counts.held;
        totals.completed += counts.completed;
        totals.failed += counts.failed;
        totals.live += counts.live;
        totals.recorded += counts.recorded;
        totals.waiting += counts.waiting;
        totals.held += counts.held;
        oldest = oldest.max(view.oldest_due.map(|age| (age, &view.domain)));
    }
    totals.oldest_due_ms = oldest.map(|(age, _)| millis(age));
    totals.oldest_due_domain = oldest.map(|(_, domain)| domain.to_string());
    totals
}

/// Read what needs an operator.
///
/// Warnings with the next command, counters, destinations, processes, and the last hour. The answer
/// comes even if the store does not answer.
#[utoipa::path(get, path = "/v1/overview", tag = "system", operation_id = "get_overview",
    responses(
        (status = 200, body = OverviewDocument, description = "What needs an operator, and the counters, destinations and processes behind it"),
    ))]
pub(crate) async fn overview(State(app): State<Shared>, caller: Caller) -> Answer {
    json(StatusCode::OK, &app.overview(&caller).await)
}
