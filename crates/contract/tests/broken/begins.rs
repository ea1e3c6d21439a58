//! Flaws in what may begin.

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{BeginRequest, Operation, Refused};
use clinch_core::{ContentHash, Effect, Result, Timestamp};

use crate::flaw::{Flaw, Real};
use clinch_contract::Calls;

/// Edits every row that is about to begin, and maybe puts something back.
async fn begin_after(
    real: &Real,
    begins: &[BeginRequest],
    routes: &Routes,
    edit: impl Fn(&mut Operation) + Send + Sync,
) -> Result<Vec<Result<Operation, Refused>>> {
    for begin in begins {
        real.edit(begin.op_id, |row| edit(&mut row.operation));
    }
    real.memory.begin(begins, routes).await
}

/// Begins whatever the pause says.
#[derive(Default)]
pub(crate) struct IgnoresPause;

#[async_trait]
impl Flaw for IgnoresPause {
    async fn begin(
        &self,
        real: &Real,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Result<Operation, Refused>>> {
        real.memory.edit(|tables| {
            let domains: Vec<_> = tables
                .domains
                .iter()
                .map(|(d, row)| (d.clone(), *row))
                .collect();
            for (domain, mut row) in domains {
                row.paused = false;
                tables.domains.insert(domain, row);
            }
        });
        real.memory.begin(begins, routes).await
    }
}

/// Begins followers.
#[derive(Default)]
pub(crate) struct IgnoresTheLane;

#[async_trait]
impl Flaw for IgnoresTheLane {
    async fn begin(
        &self,
        real: &Real,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Result<Operation, Refused>>> {
        begin_after(real, begins, routes, |row| row.lane = None).await
    }
}

/// Begins before run_at and during the backoff.
#[derive(Default)]
pub(crate) struct IgnoresRunAt;

#[async_trait]
impl Flaw for IgnoresRunAt {
    async fn begin(
        &self,
        real: &Real,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Result<Operation, Refused>>> {
        begin_after(real, begins, routes, |row| {
            let next = &mut row.state.next_attempt_at;
            *next = next.map(|_| Timestamp::from_millis(0));
        })
        .await
    }
}

/// Never looks at the content hash.
#[derive(Default)]
pub(crate) struct HandsOutCorruptedPayloads;

#[async_trait]
impl Flaw for HandsOutCorruptedPayloads {
    async fn begin(
        &self,
        real: &Real,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Result<Operation, Refused>>> {
        begin_after(real, begins, routes, |row| {
            let stored = row.payload.as_bytes();
            row.content_hash = ContentHash::of(&row.op_id, &row.keys.event_type, stored);
        })
        .await
    }
}

/// A new attempt starts with a clean slate.
#[derive(Default)]
pub(crate) struct ForgetsAnUnknownEffect;

#[async_trait]
impl Flaw for ForgetsAnUnknownEffect {
    async fn begin(
        &self,
        real: &Real,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Result<Operation, Refused>>> {
        begin_after(real, begins, routes, |row| {
            if row.state.awaits_begin() {
                row.state.effect = Effect::None;
            }
        })
        .await
    }
}
