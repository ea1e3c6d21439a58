//! The hot path.

use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, Amendment, Answer, BeginRequest, Changed, Extension, NewOperation, Operation,
    Reschedule, Store,
};
use clinch_core::protocol::Event;
use clinch_core::{OpId, Result};
use clinch_stored::change::{Answered, Luggage, said};

use crate::Postgres;
use crate::fast;
use crate::query::Query;
use crate::run::spawned;
use crate::tx::Tx;

type Outcomes = Result<Vec<Answered<Changed>>>;

impl Tx<'_> {
    /// Reads and locks what is about to change: rows, then their lanes and batches.
    pub(crate) async fn gather(&mut self, ops: &[OpId], query: Query) -> Result<()> {
        self.load(ops, query).await?;
        let rows = || ops.iter().filter_map(|op| self.rows.get(op));
        let lanes: Vec<_> = rows().filter_map(|entry| entry.row.lane).collect();
        let batches = rows().filter_map(|entry| entry.row.batch_id).collect();
        if !lanes.is_empty() {
            self.load_lanes(&lanes, ops.len()).await?;
        }
        self.load_batches(&batches).await
    }

    /// Write-ahead, and finalize in the same write of the row where `finalize` says so.
    async fn answer_all(
        &mut self,
        answers: &[Answer],
        finalize: bool,
        routes: &Routes,
    ) -> Outcomes {
        let ops: Vec<OpId> = answers.iter().map(|answer| answer.op_id).collect();
        self.gather(&ops, Query::RowsForUpdate).await?;
        let mut outcomes = Vec::with_capacity(answers.len());
        for answer in answers {
            let (event, luggage) = match said(answer) {
                Ok(said) => said,
                Err(refused) => {
                    outcomes.push(Err(refused));
                    continue;
                }
            };
            let events = [&event, &Event::Finalize];
            let events = if finalize { &events[..] } else { &events[..1] };
            outcomes.push(self.change(answer.op_id, events, luggage, routes).await?);
        }
        Ok(outcomes)
    }

    async fn begin_all(
        &mut self,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Answered<Operation>>> {
        let ops: Vec<OpId> = begins.iter().map(|begin| begin.op_id).collect();
        self.load(&ops, Query::RowsForBegin).await?;
        let mut begun = Vec::with_capacity(begins.len());
        for begin in begins {
            begun.push(self.begin(begin, routes).await?);
        }
        Ok(begun)
    }

    pub(crate) async fn extend_all(&mut self, extensions: &[Extension]) -> Outcomes {
        // No guard of an extension looks at the route.
        let routes = Routes::new();
        let ops: Vec<OpId> = extensions.iter().map(|one| one.op_id).collect();
        self.load(&ops, Query::RowsForUpdate).await?;
        let mut outcomes = Vec::with_capacity(extensions.len());
        for Extension {
            op_id,
            fence,
            lease,
            attempt_id,
        } in extensions.iter().cloned()
        {
            let event = Event::Extend { fence, lease };
            let luggage = Luggage::from(attempt_id);
            outcomes.push(self.change(op_id, &[&event], luggage, &routes).await?);
        }
        Ok(outcomes)
    }

    pub(crate) async fn reschedule_all(
        &mut self,
        attempts: &[Reschedule],
        routes: &Routes,
    ) -> Outcomes {
        let ops: Vec<OpId> = attempts.iter().map(|attempt| attempt.op_id).collect();
        self.gather(&ops, Query::RowsForUpdate).await?;
        let mut outcomes = Vec::with_capacity(attempts.len());
        for attempt in attempts {
            let luggage = Luggage {
                attempt_id: attempt.attempt_id,
                ..Luggage::by(&attempt.worker)
            };
            let (op_id, event) = (attempt.op_id, attempt.event());
            outcomes.push(self.change(op_id, &[&event], luggage, routes).await?);
        }
        Ok(outcomes)
    }

    async fn finalize_all(&mut self, ops: &[OpId], routes: &Routes) -> Outcomes {
        self.gather(ops, Query::RowsForUpdate).await?;
        let mut outcomes = Vec::with_capacity(ops.len());
        for op in ops {
            let luggage = Luggage::default();
            let changed = self.change(*op, &[&Event::Finalize], luggage, routes);
            outcomes.push(changed.await?);
        }
        Ok(outcomes)
    }

    async fn amend_all(&mut self, amendments: &[Amendment], routes: &Routes) -> Outcomes {
        let ops: Vec<OpId> = amendments.iter().map(|one| one.op_id).collect();
        self.gather(&ops, Query::RowsForUpdate).await?;
        let mut outcomes = Vec::with_capacity(amendments.len());
        for amendment in amendments {
            let luggage = match Luggage::of(amendment) {
                Ok(luggage) => luggage,
                Err(refused) => {
                    outcomes.push(Err(refused));
                    continue;
                }
            };
            let (op_id, event) = (amendment.op_id, &amendment.event);
            outcomes.push(self.change(op_id, &[event], luggage, routes).await?);
        }
        Ok(outcomes)
    }
}

/// A call with its own copy of what it is about.
macro_rules! written {
    ($store:expr, $items:expr, $routes:expr, |$tx:ident, $of:ident, $by:ident| $call:expr) => {{
        let call = Arc::new(($items.to_vec(), $routes.clone()));
        $store
            .write(move |$tx| {
                let call = call.clone();
                Box::pin(async move {
                    let ($of, $by) = (&call.0, &call.1);
                    $call.await
                })
            })
            .await
    }};
}

#[async_trait]
impl Store for Postgres {
    async fn accept(&self, new: &[NewOperation], routes: &Routes) -> Result<Vec<Accepted>> {
        if fast::is_plain(new, routes) && !self.shared.faults.is_armed() {
            let (shared, new, routes) = (self.shared.clone(), new.to_vec(), routes.clone());
            return spawned(async move { shared.accept_plain(&new, &routes).await }).await;
        }
        written!(self, new, routes, |tx, new, by| tx.accept_all(new, by))
    }

    async fn begin(
        &self,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Answered<Operation>>> {
        written!(self, begins, routes, |tx, begins, by| tx
            .begin_all(begins, by))
    }

    async fn extend(&self, extensions: &[Extension]) -> Outcomes {
        written!(self, extensions, (), |tx, leases, _by| tx
            .extend_all(leases))
    }

    async fn write_ahead(&self, answers: &[Answer], routes: &Routes) -> Outcomes {
        written!(self, answers, routes, |tx, answers, by| tx
            .answer_all(answers, false, by))
    }

    async fn finalize(&self, ops: &[OpId], routes: &Routes) -> Outcomes {
        written!(self, ops, routes, |tx, ops, by| tx.finalize_all(ops, by))
    }

    async fn settle(&self, answers: &[Answer], routes: &Routes) -> Outcomes {
        written!(self, answers, routes, |tx, answers, by| tx
            .answer_all(answers, true, by))
    }

    async fn reschedule(&self, attempts: &[Reschedule], routes: &Routes) -> Outcomes {
        written!(self, attempts, routes, |tx, ends, by| tx
            .reschedule_all(ends, by))
    }

    async fn amend(&self, amendments: &[Amendment], routes: &Routes) -> Outcomes {
        written!(self, amendments, routes, |tx, changes, by| tx
            .amend_all(changes, by))
    }
}
