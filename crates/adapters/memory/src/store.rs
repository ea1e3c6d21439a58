//! The hot path.

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, Amendment, Answer, BeginRequest, Changed, Extension, NewOperation, Operation,
    Refused, Reschedule, Store,
};
use clinch_core::protocol::Event;
use clinch_core::{Error, ErrorKind, OpId, Result};
use clinch_stored::change::{Luggage, said};

use crate::accept::{Entry, id_is_taken};
use crate::{Memory, Tx};

type Outcomes = Result<Vec<Result<Changed, Refused>>>;

impl Tx<'_> {
    fn answer(&mut self, answer: &Answer, routes: &Routes) -> Result<Changed, Refused> {
        let (event, luggage) = said(answer)?;
        self.change(answer.op_id, &event, luggage, routes)
    }

    fn finalize(&mut self, op_id: OpId, routes: &Routes) -> Result<Changed, Refused> {
        self.change(op_id, &Event::Finalize, Luggage::default(), routes)
    }
}

#[async_trait]
impl Store for Memory {
    async fn accept(&self, new: &[NewOperation], routes: &Routes) -> Result<Vec<Accepted>> {
        self.write(|tx| {
            let mut accepted = Vec::with_capacity(new.len());
            for new in new {
                if new.fingerprints.is_empty() {
                    let message = "an operation needs a fingerprint";
                    return Err(Error::new(ErrorKind::Invalid, message).with("op_id", new.op_id));
                }
                let known = tx.tables.keys.contains(&new.keys.hash());
                if !known && id_is_taken(tx.tables, new.op_id) {
                    let message = "the op_id names another operation; draw a fresh one";
                    return Err(Error::new(ErrorKind::Invalid, message).with("op_id", new.op_id));
                }
                accepted.push(tx.accept(new, Entry::Outside, routes));
            }
            Ok(accepted)
        })
    }

    async fn begin(
        &self,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Result<Operation, Refused>>> {
        self.write(|tx| Ok(begins.iter().map(|begin| tx.begin(begin, routes)).collect()))
    }

    async fn extend(&self, extensions: &[Extension]) -> Outcomes {
        // No guard of an extension looks at the route.
        let routes = Routes::new();
        let event = |extension: &Extension| Event::Extend {
            fence: extension.fence,
            lease: extension.lease,
        };
        self.write(|tx| {
            let one = |e: &Extension| {
                let luggage = Luggage::from(e.attempt_id);
                tx.change(e.op_id, &event(e), luggage, &routes)
            };
            Ok(extensions.iter().map(one).collect())
        })
    }

    async fn write_ahead(&self, answers: &[Answer], routes: &Routes) -> Outcomes {
        self.write(|tx| Ok(answers.iter().map(|a| tx.answer(a, routes)).collect()))
    }

    async fn finalize(&self, ops: &[OpId], routes: &Routes) -> Outcomes {
        self.write(|tx| Ok(ops.iter().map(|op| tx.finalize(*op, routes)).collect()))
    }

    async fn settle(&self, answers: &[Answer], routes: &Routes) -> Outcomes {
        self.write(|tx| {
            let one = |answer: &Answer| {
                let changed = tx.answer(answer, routes)?;
                if changed.awaits_finalize() {
                    tx.finalize(answer.op_id, routes)
                } else {
                    Ok(changed)
                }
            };
            Ok(answers.iter().map(one).collect())
        })
    }

    async fn reschedule(&self, attempts: &[Reschedule], routes: &Routes) -> Outcomes {
        self.write(|tx| {
            let one = |attempt: &Reschedule| {
                let luggage = Luggage {
                    attempt_id: attempt.attempt_id,
                    ..Luggage::by(&attempt.worker)
                };
                tx.change(attempt.op_id, &attempt.event(), luggage, routes)
            };
            Ok(attempts.iter().map(one).collect())
        })
    }

    async fn amend(&self, amendments: &[Amendment], routes: &Routes) -> Outcomes {
        self.write(|tx| {
            let one = |amendment: &Amendment| {
                let luggage = Luggage::of(amendment)?;
                tx.change(amendment.op_id, &amendment.event, luggage, routes)
            };
            Ok(amendments.iter().map(one).collect())
        })
    }
}
