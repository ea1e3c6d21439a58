//! A history of settled operations, made through the ports.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{Answer, AnswerBody, Dequeue, Ids as _, StoredOk, Topic, Write};
use clinch_core::{AttemptId, Domain, Error, ErrorKind, Fail, Invalid, Result, WorkerId};
use clinch_engine::Orchestrator;
use clinch_system::SystemIds;

use crate::{DOMAIN, FullStore, Load, routes};

/// How many operations a history holds.
#[derive(Debug, Clone, Copy)]
pub struct History {
    /// Settled operations, rounded down to whole chunks of [`Load::CHUNK`].
    pub settled: usize,
    /// One operation of this many FAILED, with a dead letter. Zero: none did.
    pub failed_every: usize,
}

/// Inserts settled operations, directly through the ports.
pub async fn fill<S: FullStore>(
    store: &S,
    orchestrator: &Orchestrator,
    load: &Load,
    history: History,
) -> Result<()> {
    let worker = WorkerId::new("bench").map_err(wrong)?;
    let routes = Arc::new(routes().map_err(wrong)?);
    let chunks = history.settled / Load::CHUNK;
    for chunk in 0..chunks {
        orchestrator.submit(load.chunk()?).await?;
        let dequeue = Dequeue {
            topics: vec![Topic::of(&Domain::new(DOMAIN).map_err(wrong)?)],
            max: Load::CHUNK,
            wait: Duration::ZERO,
            visibility: Duration::from_secs(30),
            worker: worker.clone(),
            attempts: (0..Load::CHUNK)
                .map(|_| SystemIds.attempt_id())
                .collect::<Vec<AttemptId>>(),
            routes: routes.clone(),
            only: routes.clone(),
        };
        let taken = store.dequeue(&dequeue).await?;
        let answers = taken.into_iter().enumerate().map(|(number, delivery)| {
            let is_failed = history.failed_every > 0 && number % history.failed_every == 0;
            let body = match is_failed {
                true => AnswerBody::Fail(Fail::new(CODES[chunk % CODES.len()], "refused")),
                false => AnswerBody::Ok(StoredOk::default()),
            };
            Write::Settle(Answer {
                op_id: delivery.hint.op_id,
                fence: Some(1),
                worker: worker.clone(),
                body,
                attempt_id: None,
            })
        });
        let answers: Vec<Write> = answers.collect();
        store.commit(&answers, &routes).await?;
        if (chunk + 1) % 500 == 0 {
            eprintln!("filled {} of {} thousand", chunk + 1, chunks);
        }
    }
    Ok(())
}

/// Codes of the failures, so that dead letters have several groups.
const CODES: [&str; 4] = ["http_402", "http_409", "http_410", "http_422"];

fn wrong(invalid: Invalid) -> Error {
    Error::new(ErrorKind::Invalid, invalid.to_string())
}
