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

use crate::Mysql;
use crate::flush::Seqs;
use crate::run::spawned;
use crate::tx::Tx;

type Outcomes = Result<Vec<Answered<Changed>>>;

impl Tx<'_> {
    /// Write-ahead, and finalize in the same commit where `finalize` says so.
    async fn answer_all(
        &mut self,
        answers: &[Answer],
        finalize: bool,
        routes: &Routes,
    ) -> Outcomes {
        let ops: Vec<OpId> = answers.iter().map(|answer| answer.op_id).collect();
        self.load(&ops, false).await?;
        let mut changed = Vec::with_capacity(answers.len());
        for answer in answers {
            let (event, luggage) = match said(answer) {
                Ok(said) => said,
                Err(refused) => {
                    changed.push(Err(refused));
                    continue;
                }
            };
            let events = [&event, &Event::Finalize];
            let events = if finalize { &events[..] } else { &events[..1] };
            changed.push(self.change(answer.op_id, events, luggage, routes).await?);
        }
        Ok(changed)
    }

    async fn begin_all(
        &mut self,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Answered<Operation>>> {
        let ops: Vec<OpId> = begins.iter().map(|begin| begin.op_id).collect();
        self.load(&ops, true).await?;
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
        self.load(&ops, false).await?;
        let mut changed = Vec::with_capacity(extensions.len());
        for extension in extensions {
            let event = Event::Extend {
                fence: extension.fence,
                lease: extension.lease,
            };
            let luggage = Luggage::from(extension.attempt_id);
            let events = [&event];
            let answered = self.change(extension.op_id, &events, luggage, &routes);
            changed.push(answered.await?);
        }
        Ok(changed)
    }

    async fn finalize_all(&mut self, ops: &[OpId], routes: &Routes) -> Outcomes {
        self.load(ops, false).await?;
        let mut changed = Vec::with_capacity(ops.len());
        for op in ops {
            let luggage = Luggage::default();
            changed.push(
                self.change(*op, &[&Event::Finalize], luggage, routes)
                    .await?,
            );
        }
        Ok(changed)
    }

    pub(crate) async fn reschedule_all(
        &mut self,
        attempts: &[Reschedule],
        routes: &Routes,
    ) -> Outcomes {
        let ops: Vec<OpId> = attempts.iter().map(|attempt| attempt.op_id).collect();
        self.load(&ops, false).await?;
        let mut changed = Vec::with_capacity(attempts.len());
        for attempt in attempts {
            let luggage = Luggage {
                attempt_id: attempt.attempt_id,
                ..Luggage::by(&attempt.worker)
            };
            let event = attempt.event();
            changed.push(
                self.change(attempt.op_id, &[&event], luggage, routes)
                    .await?,
            );
        }
        Ok(changed)
    }

    async fn amend_all(&mut self, amendments: &[Amendment], routes: &Routes) -> Outcomes {
        let ops: Vec<OpId> = amendments.iter().map(|one| one.op_id).collect();
        self.load(&ops, false).await?;
        let mut changed = Vec::with_capacity(amendments.len());
        for amendment in amendments {
            let luggage = match Luggage::of(amendment) {
                Ok(luggage) => luggage,
                Err(refused) => {
                    changed.push(Err(refused));
                    continue;
                }
            };
            let events = [&amendment.event];
            let answered = self.change(amendment.op_id, &events, luggage, routes);
            changed.push(answered.await?);
        }
        Ok(changed)
    }
}

/// A call as work that can be run again: on copies that it shares.
macro_rules! work {
    ($store:expr, $items:expr, $routes:expr, |$tx:ident, $shared:ident, $by:ident| $call:expr) => {{
        let (items, routes) = (Arc::new($items.to_vec()), Arc::new($routes.clone()));
        $store
            .write(move |$tx| {
                let ($shared, $by) = (items.clone(), routes.clone());
                Box::pin(async move { $call.await })
            })
            .await
    }};
}

#[async_trait]
impl Store for Mysql {
    async fn accept(&self, new: &[NewOperation], routes: &Routes) -> Result<Vec<Accepted>> {
        let (shared, call) = (
            self.shared.clone(),
            Arc::new((new.to_vec(), routes.clone())),
        );
        spawned(async move {
            let accepted = shared.transact(move |tx| {
                let call = call.clone();
                Box::pin(async move { tx.accept_all(&call.0, &call.1).await })
            });
            let (mut accepted, seqs) = accepted.await?;
            give_seqs(&mut accepted, &seqs);
            Ok(accepted)
        })
        .await
    }

    async fn begin(
        &self,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Answered<Operation>>> {
        work!(self, begins, routes, |tx, begins, by| tx
            .begin_all(&begins, &by))
    }

    async fn extend(&self, extensions: &[Extension]) -> Outcomes {
        let none = Routes::new();
        work!(self, extensions, none, |tx, extensions, _by| tx
            .extend_all(&extensions))
    }

    async fn write_ahead(&self, answers: &[Answer], routes: &Routes) -> Outcomes {
        work!(self, answers, routes, |tx, answers, by| tx
            .answer_all(&answers, false, &by))
    }

    async fn finalize(&self, ops: &[OpId], routes: &Routes) -> Outcomes {
        work!(self, ops, routes, |tx, ops, by| tx.finalize_all(&ops, &by))
    }

    async fn settle(&self, answers: &[Answer], routes: &Routes) -> Outcomes {
        work!(self, answers, routes, |tx, answers, by| tx
            .answer_all(&answers, true, &by))
    }

    async fn reschedule(&self, attempts: &[Reschedule], routes: &Routes) -> Outcomes {
        work!(self, attempts, routes, |tx, attempts, by| tx
            .reschedule_all(&attempts, &by))
    }

    async fn amend(&self, amendments: &[Amendment], routes: &Routes) -> Outcomes {
        work!(self, amendments, routes, |tx, amendments, by| tx
            .amend_all(&amendments, &by))
    }
}

/// The seqs that the commit drew.
pub(crate) fn give_seqs(accepted: &mut [Accepted], seqs: &Seqs) {
    for accepted in accepted {
        if let Accepted::New { seq, .. } = accepted {
            *seq = seqs.get(seq).copied().unwrap_or(*seq);
        }
    }
}
