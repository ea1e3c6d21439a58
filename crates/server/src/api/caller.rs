//! The caller of a request, and what it may touch.
//!
//! The guard puts a [`Caller`] into every request that needs a key, and every handler that touches
//! operations checks it. An operation that the caller may not touch is answered 404, never 403, so
//! that a caller cannot learn which ids exist. Where the caller itself names a domain (a command, a
//! lease), the refusal is 403, whether the domain exists or not.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use clinch_core::ports::{ApiKey, Batch, Filter, Restriction, SEARCH_MAX, Scope};
use clinch_core::{Actor, BatchId, Domain, EventType, OpId, OpIdPrefix};
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
    scopes: Vec<Scope>,
}

#[derive(Debug)]
struct Key {
    id: String,
    actor: Actor,
    hash: [u8; 32],
}

impl Caller {
    /// A program on this machine, while the server has no keys.
    pub(crate) fn of_this_machine() -> Self {
        Self(Arc::new(Inner {
            key: None,
            restriction: Restriction::default(),
            scopes: vec![Scope::Admin],
        }))
    }

    pub(super) fn of(key: &ApiKey) -> Self {
        Self(Arc::new(Inner {
            restriction: key.restriction(),
            scopes: key.scopes.clone(),
            key: Some(Key {
                id: key.id.clone(),
                actor: Actor::key(&key.id, &key.name),
                hash: key.hash,
            }),
        }))
    }

    /// Whether the caller may do what needs this scope.
    pub(crate) fn has(&self, wanted: Scope) -> bool {
        self.0.scopes.iter().any(|scope| scope.covers(wanted))
    }

    /// The hash of the caller's key, if it has one.
    pub(crate) fn key_hash(&self) -> Option<[u8; 32]> {
        self.0.key.as_ref().map(|key| key.hash)
    }

    /// The caller as ledger lines and pauses keep it.
    pub(crate) fn actor(&self) -> Actor {
        let key = self.0.key.as_ref();
        key.map_or_else(Actor::local, |key| key.actor.clone())
    }

    /// The name for log lines.
    pub(crate) fn name(&self) -> &str {
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
    pub(crate) async fn visible(&self, caller: &Caller, id: OpId) -> Result<Snapshot, Problem> {
        let snapshot = self.orchestrator().status(id).await?;
        let keys = &snapshot.operation.keys;
        match caller.allows(&keys.domain, &keys.event_type) {
            true => Ok(snapshot),
            false => Err(Problem::not_found("there is no such operation")),
        }
    }

    /// The operation of a path: by its id, or by the first digits of it. Only operations that the
    /// caller may touch count: those of others are as if they did not exist.
    pub(crate) async fn op_id(&self, caller: &Caller, text: &str) -> Result<OpId, Problem> {
        /// Candidates that the answer names.
        const NAMED_MAX: usize = 5;
        let unknown = || {
            let detail =
                "there is no such operation; an id is a UUID or its first 8 or more digits";
            Problem::not_found(detail)
        };
        if let Ok(id) = text.parse::<OpId>() {
            return Ok(id);
        }
        let prefix: OpIdPrefix = text.parse().map_err(|_| unknown())?;
        // Under a restriction, operations of others may stand between those of the caller.
        let read = match caller.restriction().is_none() {
            true => NAMED_MAX + 1,
            false => SEARCH_MAX + 1,
        };
        let found = self.inspect.by_prefix(&prefix, read).await?;
        let is_all = found.len() < read;
        let own = found
            .into_iter()
            .filter(|found| caller.allows(&found.domain, &found.event_type));
        let own: Vec<OpId> = own.map(|found| found.op_id).take(NAMED_MAX + 1).collect();
        match own.as_slice() {
            [id] if is_all => Ok(*id),
            // Too many ids begin so to look at all of them: more digits are needed.
            [] | [_] => Err(unknown()),
            several => {
                let named = several.iter().take(NAMED_MAX).map(ToString::to_string);
                let named = named.collect::<Vec<_>>().join(", ");
                let more = if several.len() > NAMED_MAX {
                    ", …"
                } else {
                    ""
                };
                let detail =
                    format!("several operations begin so; give more digits: {named}{more}");
                Err(Problem::conflict("ambiguous_id", detail))
            }
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
