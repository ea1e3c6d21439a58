//! The hot path.

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, Amendment, Answer, BeginRequest, Changed, Extension, NewOperation, Operation,
    Refused, Reschedule, Store,
};
use clinch_core::protocol::Event;
use clinch_core::{OpId, Result};
use clinch_stored::change::{Answered, Luggage, said};

use crate::Sqlite;
use crate::tx::Tx;

type Outcomes = Result<Vec<Answered<Changed>>>;

impl Tx<'_, '_> {
    /// Write-ahead, and finalize in the same write of the row where `finalize` says so.
    fn answer(
        &mut self,
        answer: &Answer,
        finalize: bool,
        routes: &Routes,
    ) -> Result<Answered<Changed>> {
        let (event, luggage) = match said(answer) {
            Ok(said) => said,
            Err(refused) => return Ok(Err(refused)),
        };
        let events = [&event, &Event::Finalize];
        let events = if finalize { &events[..] } else { &events[..1] };
        self.change(answer.op_id, events, luggage, routes)
    }

    fn begin_one(&mut self, begin: &BeginRequest, routes: &Routes) -> Result<Answered<Operation>> {
        match self.db.both(begin.op_id)? {
            Some((row, request)) => self.begin(begin, row, request, routes),
            None => Ok(Err(Refused::NotFound)),
        }
    }

    pub(crate) fn extend_all(&mut self, extensions: &[Extension]) -> Outcomes {
        // No guard of an extension looks at the route.
        let routes = Routes::new();
        let extend = |extension: &Extension| {
            let event = Event::Extend {
                fence: extension.fence,
                lease: extension.lease,
            };
            let luggage = Luggage::from(extension.attempt_id);
            self.change(extension.op_id, &[&event], luggage, &routes)
        };
        extensions.iter().map(extend).collect()
    }

    pub(crate) fn reschedule_all(&mut self, attempts: &[Reschedule], routes: &Routes) -> Outcomes {
        let reschedule = |attempt: &Reschedule| {
            let luggage = Luggage {
                attempt_id: attempt.attempt_id,
                ..Luggage::by(&attempt.worker)
            };
            self.change(attempt.op_id, &[&attempt.event()], luggage, routes)
        };
        attempts.iter().map(reschedule).collect()
    }

    fn amend_one(&mut self, amendment: &Amendment, routes: &Routes) -> Result<Answered<Changed>> {
        let luggage = match Luggage::of(amendment) {
            Ok(luggage) => luggage,
            Err(refused) => return Ok(Err(refused)),
        };
        self.change(amendment.op_id, &[&amendment.event], luggage, routes)
    }
}

#[async_trait]
impl Store for Sqlite {
    async fn accept(&self, new: &[NewOperation], routes: &Routes) -> Result<Vec<Accepted>> {
        let (new, routes) = (new.to_vec(), routes.clone());
        self.write(move |tx| tx.accept_all(&new, &routes)).await
    }

    async fn begin(
        &self,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Answered<Operation>>> {
        let (begins, routes) = (begins.to_vec(), routes.clone());
        let begin = move |tx: &mut Tx<'_, '_>| {
            let one = |begin: &BeginRequest| tx.begin_one(begin, &routes);
            begins.iter().map(one).collect()
        };
        self.write(begin).await
    }

    async fn extend(&self, extensions: &[Extension]) -> Outcomes {
        let extensions = extensions.to_vec();
        self.write(move |tx| tx.extend_all(&extensions)).await
    }

    async fn write_ahead(&self, answers: &[Answer], routes: &Routes) -> Outcomes {
        let (answers, routes) = (answers.to_vec(), routes.clone());
        let record = move |tx: &mut Tx<'_, '_>| {
            let one = |answer: &Answer| tx.answer(answer, false, &routes);
            answers.iter().map(one).collect()
        };
        self.write(record).await
    }

    async fn finalize(&self, ops: &[OpId], routes: &Routes) -> Outcomes {
        let (ops, routes) = (ops.to_vec(), routes.clone());
        let finalize = move |tx: &mut Tx<'_, '_>| {
            let luggage = Luggage::default();
            let one = |op: &OpId| tx.change(*op, &[&Event::Finalize], luggage, &routes);
            ops.iter().map(one).collect()
        };
        self.write(finalize).await
    }

    async fn settle(&self, answers: &[Answer], routes: &Routes) -> Outcomes {
        let (answers, routes) = (answers.to_vec(), routes.clone());
        let settle = move |tx: &mut Tx<'_, '_>| {
            let one = |answer: &Answer| tx.answer(answer, true, &routes);
            answers.iter().map(one).collect()
        };
        self.write(settle).await
    }

    async fn reschedule(&self, attempts: &[Reschedule], routes: &Routes) -> Outcomes {
        let (attempts, routes) = (attempts.to_vec(), routes.clone());
        self.write(move |tx| tx.reschedule_all(&attempts, &routes))
            .await
    }

    async fn amend(&self, amendments: &[Amendment], routes: &Routes) -> Outcomes {
        let (amendments, routes) = (amendments.to_vec(), routes.clone());
        let amend = move |tx: &mut Tx<'_, '_>| {
            let one = |amendment: &Amendment| tx.amend_one(amendment, &routes);
            amendments.iter().map(one).collect()
        };
        self.write(amend).await
    }
}
