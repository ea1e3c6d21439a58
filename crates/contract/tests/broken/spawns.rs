//! Flaws in how what an answer spawns is accepted.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{Answer, AnswerBody, NewOperation};
use clinch_core::{OpId, Result};
use clinch_memory::Memory;

use crate::flaw::{Changes, Flaw, Real};
use clinch_contract::Calls;

/// What an answer spawns is remembered by the process, and accepted after the commit.
#[derive(Default)]
pub(crate) struct SpawnsOutsideTheCommit(Mutex<BTreeMap<OpId, Vec<NewOperation>>>);

impl SpawnsOutsideTheCommit {
    fn strip(&self, answers: &[Answer]) -> Vec<Answer> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answers = answers.to_vec();
        for answer in &mut answers {
            if let AnswerBody::Ok(ok) = &mut answer.body {
                kept.insert(answer.op_id, std::mem::take(&mut ok.spawn));
            }
        }
        answers
    }

    async fn spawn(&self, real: &Real, ops: &[OpId], routes: &Routes) -> Result<()> {
        for op in ops {
            let kept = self
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(op);
            real.memory
                .accept(&kept.unwrap_or_default(), routes)
                .await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Flaw for SpawnsOutsideTheCommit {
    async fn write_ahead(&self, real: &Real, answers: &[Answer], routes: &Routes) -> Changes {
        real.memory.write_ahead(&self.strip(answers), routes).await
    }
    async fn finalize(&self, real: &Real, ops: &[OpId], routes: &Routes) -> Changes {
        let results = real.memory.finalize(ops, routes).await?;
        self.spawn(real, ops, routes).await?;
        Ok(results)
    }
    async fn settle(&self, real: &Real, answers: &[Answer], routes: &Routes) -> Changes {
        let results = real.memory.settle(&self.strip(answers), routes).await?;
        let ops: Vec<_> = answers.iter().map(|answer| answer.op_id).collect();
        self.spawn(real, &ops, routes).await?;
        Ok(results)
    }
    fn crash(&self, real: &Real) -> Memory {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        real.memory.crash()
    }
}

/// What an answer spawns is there before the answer is final.
#[derive(Default)]
pub(crate) struct SpawnsBeforeTheCommit;

#[async_trait]
impl Flaw for SpawnsBeforeTheCommit {
    async fn write_ahead(&self, real: &Real, answers: &[Answer], routes: &Routes) -> Changes {
        for answer in answers {
            if let AnswerBody::Ok(ok) = &answer.body {
                real.memory.accept(&ok.spawn, routes).await?;
            }
        }
        real.memory.write_ahead(answers, routes).await
    }
}
