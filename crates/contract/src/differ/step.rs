//! One call, and its answer as text that can be compared.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Bus, Claim, Claimed, Dequeue, Filter, LetterFilter, LetterOrder, LockManager, NewBatch,
    NewPause, Operation, Prune, Scan, Write,
};
use clinch_core::{AttemptId, BatchId, Domain, Keys, OpId};

use crate::Subject;
use crate::case::{Failure, Stage, Verdict};
use crate::fixtures::SILENCE;
use crate::world::World;

/// A call with everything that goes into it.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Commit(Vec<Write>),
    Claim(Claim),
    ClaimSilent(Claim),
    Published(Vec<Claimed>),
    Release(Vec<Claimed>),
    NextDue,
    Scan(Scan, Claim),
    NextNeed(Scan),
    Prune(Prune),
    Open(Vec<NewBatch>),
    Batches(Vec<BatchId>),
    Pause(Domain, bool),
    Domains,
    Get(Vec<OpId>),
    Begun(Vec<AttemptId>),
    Find(Vec<Keys>),
    List(Box<Filter>, usize),
    Ledger(OpId),
    DeadLetters(Box<LetterFilter>, LetterOrder),
    Letters(Vec<OpId>),
    Dequeue(Dequeue),
    Take(String, clinch_core::WorkerId, Duration),
    ReleaseLock(String, clinch_core::WorkerId),
    Advance(Duration),
}

/// One of the two subjects.
pub(super) struct Side {
    pub world: World,
    one_by_one: bool,
    queue: Arc<dyn Bus>,
    locks: Arc<dyn LockManager>,
}

impl Side {
    /// `one_by_one`: every write in a commit of its own.
    pub(super) fn of(subject: Subject, one_by_one: bool) -> Verdict<Self> {
        let missing = || Failure::new("a store, a queue and locks are needed");
        Ok(Self {
            queue: subject.queue.clone().ok_or_else(missing)?,
            locks: subject.locks.clone().ok_or_else(missing)?,
            world: World::open(subject)?,
            one_by_one,
        })
    }

    fn routes(&self) -> &Routes {
        &self.world.routes
    }

    /// The answer as text, without the parts that each adapter formats in its own way.
    pub(super) async fn perform(&self, step: &Step) -> String {
        let w = &self.world;
        match step {
            Step::Commit(writes) => self.commit(writes).await,
            Step::Dequeue(dequeue) => self.dequeue(dequeue).await,
            Step::Advance(by) => {
                w.advance(*by).await;
                text(w.inspect.now().await)
            }
            Step::Open(batches) => text(w.batches.open(batches).await),
            Step::Batches(batches) => text(w.batches.read(batches).await),
            Step::Pause(domain, true) => text(w.domains.pause(domain, &NewPause::default()).await),
            Step::Pause(domain, false) => text(w.domains.resume(domain).await),
            Step::Domains => text(w.domains.domains().await),
            Step::Take(name, owner, ttl) => text(self.locks.take(name, owner, *ttl).await),
            Step::ReleaseLock(name, owner) => text(self.locks.release(name, owner).await),
            claim_or_look => self.perform_claim(claim_or_look).await,
        }
    }

    /// The reference commits one write after the other: a call that mixes them must come to the
    /// same.
    async fn commit(&self, writes: &[Write]) -> String {
        let each = match self.one_by_one {
            true => 1,
            false => writes.len().max(1),
        };
        let mut written = Vec::with_capacity(writes.len());
        for writes in writes.chunks(each) {
            match self.world.store.commit(writes, self.routes()).await {
                Ok(answers) => written.extend(answers),
                Err(error) => return text(Err::<(), _>(error)),
            }
        }
        text(written)
    }

    async fn perform_claim(&self, step: &Step) -> String {
        let w = &self.world;
        match step {
            Step::Claim(claim) => text(w.outbox.claim(claim).await),
            Step::ClaimSilent(claim) => text(w.outbox.claim_silent(claim, &SILENCE).await),
            Step::Published(claimed) => text(w.outbox.published(claimed).await),
            Step::Release(claimed) => text(w.outbox.release(claimed).await),
            Step::NextDue => {
                let routed = w.outbox.next_due(Some(self.routes())).await;
                text((routed.ok(), w.outbox.next_due(None).await.ok()))
            }
            Step::Scan(scan, claim) => text(w.recovery.scan(*scan, claim).await),
            Step::NextNeed(scan) => text(w.recovery.next_due(*scan).await),
            Step::Prune(prune) => {
                let pruned = w.recovery.prune(prune).await;
                text(pruned.map(|pruned| (pruned.operations, pruned.keys)))
            }
            Step::Get(ops) => match w.inspect.get(ops).await {
                Ok(rows) => rows
                    .iter()
                    .map(|row| text((row, bytes(row.as_ref()))))
                    .collect(),
                Err(error) => text(error.kind()),
            },
            Step::Begun(attempts) => text(w.inspect.begun(attempts).await),
            Step::Find(keys) => text(w.inspect.find(keys).await),
            Step::Ledger(op) => text(w.inspect.ledger(*op).await),
            Step::List(filter, limit) => self.list(filter, *limit).await,
            Step::DeadLetters(filter, order) => self.dead_letters(filter, *order).await,
            Step::Letters(ops) => text(w.recovery.letters(ops).await),
            other => format!("{other:?} is not a claim"),
        }
    }

    async fn dequeue(&self, dequeue: &Dequeue) -> String {
        match self.queue.dequeue(dequeue).await {
            Ok(taken) => {
                let taken = taken.iter().map(|d| (&d.hint, d.redeliveries, &d.begun));
                text(taken.collect::<Vec<_>>())
            }
            Err(error) => text(error.kind()),
        }
    }

    /// Every page. Cursors are not compared: each adapter has its own.
    async fn list(&self, filter: &Filter, limit: usize) -> String {
        let (mut shown, mut cursor) = (String::new(), None::<String>);
        loop {
            let inspect = &self.world.inspect;
            match inspect.list(filter, cursor.as_deref(), limit).await {
                Ok(page) => {
                    shown.push_str(&text(&page.items));
                    cursor = page.next_cursor;
                }
                Err(error) => return text(error.kind()),
            }
            if cursor.is_none() {
                return shown;
            }
        }
    }

    /// Every page of a list of dead letters. Cursors are not compared.
    async fn dead_letters(&self, filter: &LetterFilter, order: LetterOrder) -> String {
        let (mut shown, mut cursor) = (String::new(), None::<String>);
        loop {
            let recovery = &self.world.recovery;
            let page = recovery.dead_letters(filter, order, cursor.as_deref(), 7);
            match page.await {
                Ok(page) => {
                    shown.push_str(&text(&page.items));
                    cursor = page.next_cursor;
                }
                Err(error) => return text(error.kind()),
            }
            if cursor.is_none() {
                return shown;
            }
        }
    }
}

/// An answer as text. Of an error only the kind is promised: messages are each adapter's own.
fn text(answer: impl Debug) -> String {
    let shown = format!("{answer:?}");
    match shown.strip_prefix("Err(Error { kind: ") {
        Some(rest) => rest.split(',').next().unwrap_or_default().to_owned(),
        None => shown,
    }
}

/// Stored bytes, which `Debug` does not show.
fn bytes(row: Option<&Operation>) -> Vec<Option<&[u8]>> {
    let result = row.and_then(|row| row.result.as_ref()?.payload.as_ref());
    let checkpoint = row.and_then(|row| row.checkpoint.as_ref());
    let payload = row.map(|row| &row.payload);
    let all = [payload, result, checkpoint];
    all.map(|sealed| sealed.map(|sealed| sealed.as_bytes()))
        .to_vec()
}
