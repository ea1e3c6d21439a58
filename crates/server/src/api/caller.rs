//! The caller of a request, and what it may touch.
//!
//! The guard puts a [`Caller`] into every request that needs a key, and every handler that touches
//! operations checks it. An operation that the caller may not touch is answered 404, never 403, so
//! that a caller cannot learn which ids exist. Where the caller itself names a domain (a command, a
//! lease), the refusal is 403, whether the domain exists or not.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use clinch_core::ports::{ApiKey, Batch, Filter, Restriction};
use clinch_core::{BatchId, Domain, EventType, OpId};
use clinch_engine::Snapshot;

use super::app::App;
use super::problem::Problem;

/// The caller of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None`: a program on this machine, while the server has no keys.
    key: Option<Key>,
    restriction: Restriction,
}

#[derive(Debug)]
struct Key {
    id: String,
    hash: [u8; 32],
}

impl Caller {
    /// A program on this machine, while the server has no keys.
    pub(super) fn of_this_machine() -> Self {
        Self(Arc::new(Inner {
            key: None,
            restriction: Restriction::default(),
        }))
    }

    pub(super) fn of(key: &ApiKey) -> Self {
        Self(Arc::new(Inner {
            restriction: key.restriction(),
            key: Some(Key {
                id: key.id.clone(),
                hash: key.hash,
            }),
        }))
    }

    /// The hash of the caller's key, if it has one.
    pub(super) fn key_hash(&self) -> Option<[u8; 32]> {
        self.0.key.as_ref().map(|key| key.hash)
    }

    /// The name for log lines.
    pub(super) fn name(&self) -> &str {
        let key = self.0.key.as_ref();
        key.map_or("this machine", |key| key.id.as_str())
    }

    /// The domains and event types that the caller may touch.
    pub(crate) fn restriction(&self) -> &Restriction {
        &self.0.restriction
    }

    /// Refuses callers that may not touch every operation.
    pub(super) fn everything(&self) -> Result<(), Problem> {
        if self.restriction().is_none() {
            return Ok(());
        }
        Err(Problem::forbidden(
            "this route shows every domain; use a key without a restriction",
        ))
    }

    /// Refuses a domain and event type that the caller named and may not touch.
    pub(super) fn may_touch(&self, domain: &Domain, event_type: &EventType) -> Result<(), Problem> {
        if self.allows(domain, event_type) {
            return Ok(());
        }
        Err(Problem::forbidden(format!(
            "this key may not touch operations of {domain}/{event_type}"
        )))
    }

    pub(super) fn allows(&self, domain: &Domain, event_type: &EventType) -> bool {
        self.restriction()
            .allows(domain.as_str(), event_type.as_str())
    }

    /// Narrows a filter to what the caller may touch; `None`: no operation can match.
    pub(super) fn narrow(&self, mut filter: Filter) -> Option<Filter> {
        fn narrow<T: Clone + PartialEq>(asked: &mut Vec<T>, allowed: &[T]) -> bool {
            if asked.is_empty() {
                *asked = allowed.to_vec();
                return true;
            }
            asked.retain(|one| allowed.is_empty() || allowed.contains(one));
            !asked.is_empty()
        }
        let allowed = self.restriction();
        let some = narrow(&mut filter.domains, &allowed.domains)
            && narrow(&mut filter.event_types, &allowed.event_types);
        some.then_some(filter)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    /// Fails closed: if the guard put no caller into the request, a handler that takes a caller
    /// does not run.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(Problem::internal)
    }
}

impl App {
    /// The operation, if the caller may touch it.
    pub(super) async fn visible(&self, caller: &Caller, id: OpId) -> Result<Snapshot, Problem> {
        let snapshot = self.orchestrator().status(id).await?;
        let keys = &snapshot.operation.keys;
        match caller.allows(&keys.domain, &keys.event_type) {
            true => Ok(snapshot),
            false => Err(Problem::not_found("there is no such operation")),
        }
    }

    /// Allows a remote worker's report on the operation, if the caller may touch the operation and
    /// the operation is not internal to an application.
    pub(super) async fn reportable(&self, caller: &Caller, id: OpId) -> Result<(), Problem> {
        let keys = self.visible(caller, id).await?.operation.keys;
        match self
            .orchestrator()
            .is_internal(&keys.domain, &keys.event_type)
        {
            true => Err(Problem::not_found("there is no such operation")),
            false => Ok(()),
        }
    }

    /// The batch, if the caller may touch every operation that the owner of the batch may add.
    pub(super) async fn own_batch(&self, caller: &Caller, id: BatchId) -> Result<Batch, Problem> {
        let batch = self.orchestrator().batch(id).await?;
        match caller.restriction().covers(&batch.owner) {
            true => Ok(batch),
            false => Err(Problem::not_found("there is no such batch")),
        }
    }

    /// The event types that the caller may lease: those that it names, or else all that it may
    /// touch and that remote workers execute.
    pub(super) fn leasable(
        &self,
        caller: &Caller,
        domain: &Domain,
        asked: Vec<EventType>,
    ) -> Result<Vec<EventType>, Problem> {
        if !caller.restriction().allows_domain(domain.as_str()) {
            let detail = format!("this key may not touch operations of {domain}");
            return Err(Problem::forbidden(detail));
        }
        for event_type in &asked {
            caller.may_touch(domain, event_type)?;
            self.refuse_internal(domain, event_type)?;
        }
        if !asked.is_empty() {
            return Ok(asked);
        }
        let allowed = caller.restriction().event_types.clone();
        let is_some = !allowed.is_empty();
        let is_remote = |one: &EventType| self.orchestrator().is_remote(domain, one);
        let remote: Vec<EventType> = allowed.into_iter().filter(is_remote).collect();
        // The engine reads an empty list as every event type.
        if is_some && remote.is_empty() {
            let detail =
                format!("remote workers execute no event type of {domain} that this key may touch");
            return Err(Problem::forbidden(detail));
        }
        Ok(remote)
    }

    /// Refuses a command that only the application of its domain may submit.
    pub(super) fn refuse_internal(
        &self,
        domain: &Domain,
        event_type: &EventType,
    ) -> Result<(), Problem> {
        match self.orchestrator().is_internal(domain, event_type) {
            true => Err(Problem::forbidden(format!(
                "operations of {domain}/{event_type} are internal to their application"
            ))),
            false => Ok(()),
        }
    }
}
