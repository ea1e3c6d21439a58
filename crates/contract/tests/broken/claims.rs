//! Flaws in who gets what, and in what is kept.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, Amendment, Answer, Batches, Changed, Claim, Claimed, Clock, DeadLetter, Delivery,
    Dequeue, Filter, Inspect, NewOperation, Notice, Notices, Operation, Outbox, Page, Prune,
    Pruned, Recovery, Scan, Silence, Tenure,
};
use clinch_core::protocol::Event;
use clinch_core::{BatchId, OpId, Result, WorkerId};

use crate::flaw::{Changes, Flaw, Real};
use clinch_contract::Calls;

fn forget_claims(real: &Real, claimed: &[Claimed]) {
    for claimed in claimed {
        real.edit(claimed.op_id(), |row| {
            if let Some(queue) = row.queue.as_mut() {
                queue.claim = None;
            }
        });
    }
}

/// Reads what is due without stamping it.
#[derive(Default)]
pub(crate) struct HandsARowToTwoRelays;

#[async_trait]
impl Flaw for HandsARowToTwoRelays {
    async fn claim(&self, real: &Real, claim: &Claim) -> Result<Vec<Claimed>> {
        let claimed = real.memory.claim(claim).await?;
        forget_claims(real, &claimed);
        Ok(claimed)
    }
}

/// The same for the Finalizer and the Reaper.
#[derive(Default)]
pub(crate) struct HandsARowToTwoRecoverers;

#[async_trait]
impl Flaw for HandsARowToTwoRecoverers {
    async fn scan(&self, real: &Real, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        let claimed = real.memory.scan(scan, claim).await?;
        forget_claims(real, &claimed);
        Ok(claimed)
    }
}

/// A claim of a relay that died lasts for ever.
#[derive(Default)]
pub(crate) struct NeverEndsAClaim;

#[async_trait]
impl Flaw for NeverEndsAClaim {
    async fn claim(&self, real: &Real, claim: &Claim) -> Result<Vec<Claimed>> {
        let lasting = Duration::from_secs(1 << 40);
        real.memory
            .claim(&Claim {
                lasting,
                ..claim.clone()
            })
            .await
    }
}

/// `WHERE id > last`: what commits late is skipped in silence.
#[derive(Default)]
pub(crate) struct ClaimsByIdAfterTheLast(Mutex<Option<OpId>>);

#[async_trait]
impl Flaw for ClaimsByIdAfterTheLast {
    async fn claim(&self, real: &Real, claim: &Claim) -> Result<Vec<Claimed>> {
        let claimed = real.memory.claim(claim).await?;
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *last;
        *last = claimed.iter().map(Claimed::op_id).max().max(before);
        Ok(claimed
            .into_iter()
            .filter(|one| Some(one.op_id()) > before)
            .collect())
    }
}

/// Every round of the sweeper announces everything.
#[derive(Default)]
pub(crate) struct SweepsWithoutAPause;

#[async_trait]
impl Flaw for SweepsWithoutAPause {
    async fn claim_silent(
        &self,
        real: &Real,
        claim: &Claim,
        silence: &Silence,
    ) -> Result<Vec<Claimed>> {
        let flat = Silence {
            grace: silence.grace,
            pause_max: silence.grace,
        };
        real.memory.claim_silent(claim, &flat).await
    }
}

/// The announcement counts for whatever the row is now.
#[derive(Default)]
pub(crate) struct PublishesWhatChanged;

#[async_trait]
impl Flaw for PublishesWhatChanged {
    async fn published(&self, real: &Real, claimed: &[Claimed]) -> Result<()> {
        let mut claimed = claimed.to_vec();
        for one in &mut claimed {
            let Some(row) = real.row(one.op_id()) else {
                continue;
            };
            one.version = row.operation.state.version;
            one.now = row.queue.map_or(one.now, |queue| queue.claimed_at);
        }
        real.memory.published(&claimed).await
    }
}

/// When the history goes, the keys go.
#[derive(Default)]
pub(crate) struct PrunesKeysWithHistory;

#[async_trait]
impl Flaw for PrunesKeysWithHistory {
    async fn prune(&self, real: &Real, prune: &Prune) -> Result<Pruned> {
        real.memory
            .prune(&Prune {
                keys: Duration::ZERO,
                ..prune.clone()
            })
            .await
    }
}

/// What the clock shows is the time.
#[derive(Default)]
pub(crate) struct BelievesAnyClock;

#[async_trait]
impl Flaw for BelievesAnyClock {
    async fn prune(&self, real: &Real, prune: &Prune) -> Result<Pruned> {
        real.memory
            .prune(&Prune {
                jump_max: Duration::MAX,
                ..prune.clone()
            })
            .await
    }
}

/// Old is old, open or not.
#[derive(Default)]
pub(crate) struct PrunesOpenOperations;

#[async_trait]
impl Flaw for PrunesOpenOperations {
    async fn prune(&self, real: &Real, prune: &Prune) -> Result<Pruned> {
        let now = real.memory.now().await?;
        let open = real.memory.edit(|tables| {
            let old: Vec<OpId> = tables
                .rows
                .iter()
                .filter(|(_, row)| !row.operation.state.is_terminal())
                .filter(|(_, row)| row.operation.accepted_at + prune.completed <= now)
                .map(|(op_id, _)| *op_id)
                .collect();
            for op_id in &old {
                tables.forget(*op_id);
            }
            old.len()
        });
        let mut pruned = real.memory.prune(prune).await?;
        pruned.operations += open;
        Ok(pruned)
    }
}

/// Takes every letter for a new one.
#[derive(Default)]
pub(crate) struct ImportsTwice;

#[async_trait]
impl Flaw for ImportsTwice {
    async fn import(&self, real: &Real, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        Ok(real
            .memory
            .import(letters)
            .await?
            .iter()
            .map(|_| true)
            .collect())
    }
}

/// Counters that forget what was canceled.
#[derive(Default)]
pub(crate) struct LetsCountersDrift;

#[async_trait]
impl Flaw for LetsCountersDrift {
    async fn amend(&self, real: &Real, amendments: &[Amendment], routes: &Routes) -> Changes {
        let before = real.memory.edit(|tables| tables.domains.clone());
        let results = real.memory.amend(amendments, routes).await?;
        if amendments
            .iter()
            .any(|amendment| amendment.event == Event::Cancel)
        {
            real.memory.edit(|tables| tables.domains = before);
        }
        Ok(results)
    }
}

/// Counts the members after the commit instead of in it.
#[derive(Default)]
pub(crate) struct CompletesABatchTwice;

#[async_trait]
impl Flaw for CompletesABatchTwice {
    async fn settle(&self, real: &Real, answers: &[Answer], routes: &Routes) -> Changes {
        let mut results = real.memory.settle(answers, routes).await?;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        for (answer, result) in answers.iter().zip(&mut results) {
            let batch = real
                .row(answer.op_id)
                .and_then(|row| row.operation.batch_id);
            if let (Ok(changed), Some(batch)) = (result, batch) {
                tell(real, changed, batch).await?;
            }
        }
        Ok(results)
    }
}

async fn tell(real: &Real, changed: &mut Changed, batch: BatchId) -> Result<()> {
    let read = Batches::read(&real.memory, &[batch]).await?;
    let complete = read[0].as_ref().is_some_and(|batch| batch.is_complete());
    changed.batch_completed = complete.then_some(batch);
    Ok(())
}

/// A member is whoever was offered.
#[derive(Default)]
pub(crate) struct CountsKnownKeysAsMembers;

#[async_trait]
impl Flaw for CountsKnownKeysAsMembers {
    async fn accept(
        &self,
        real: &Real,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        let accepted = real.memory.accept(new, routes).await?;
        for (new, answer) in new.iter().zip(&accepted) {
            if let (Some(batch), Accepted::Known(_)) = (new.batch_id, answer) {
                real.memory.edit(|tables| {
                    if let Some(mut row) = tables.batches.get(&batch).cloned() {
                        row.batch.total += 1;
                        tables.batches.insert(batch, row);
                    }
                });
            }
        }
        Ok(accepted)
    }
}

/// Pages by offset: what is added meanwhile shifts the rest.
#[derive(Default)]
pub(crate) struct PagesByOffset;

#[async_trait]
impl Flaw for PagesByOffset {
    async fn list(
        &self,
        real: &Real,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Operation>> {
        let skip: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let limit = limit.min(1_000);
        let mut all = Vec::new();
        let mut from = None;
        loop {
            let page = Inspect::list(&real.memory, filter, from.as_deref(), 1_000).await?;
            all.extend(page.items);
            from = page.next_cursor;
            if from.is_none() {
                break;
            }
        }
        let end = all.len().min(skip + limit);
        let next_cursor = (end < all.len()).then(|| end.to_string());
        let items = all.get(skip..end).unwrap_or_default().to_vec();
        Ok(Page { items, next_cursor })
    }
}

/// Looks once a second, by the clock: nobody is woken.
#[derive(Default)]
pub(crate) struct PollsForNews;

#[async_trait]
impl Flaw for PollsForNews {
    async fn news(&self, real: &Real, seen: u64, wait: Duration) -> Result<(Vec<Notice>, u64)> {
        let (first, mut seen) = real.memory.news(seen, Duration::ZERO).await?;
        if !first.is_empty() || wait.is_zero() {
            return Ok((first, seen));
        }
        let until = real.clock.monotonic() + wait;
        loop {
            real.clock.sleep(Duration::from_secs(1)).await;
            let (news, next) = real.memory.news(seen, Duration::ZERO).await?;
            seen = next;
            if !news.is_empty() || real.clock.monotonic() >= until {
                return Ok((news, seen));
            }
        }
    }
}

/// The store as a bus takes an ended lease for a redelivery.
#[derive(Default)]
pub(crate) struct RedeliversWithoutTheReaper;

#[async_trait]
impl Flaw for RedeliversWithoutTheReaper {
    async fn take_begun(&self, real: &Real, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let now = real.memory.now().await?;
        let ended: Vec<OpId> = real.memory.edit(|tables| {
            let rows = tables.rows.iter().map(|(_, row)| &row.operation);
            let ended = rows.filter(|row| row.state.lease_until.is_some_and(|at| at <= now));
            ended.map(|row| row.op_id).collect()
        });
        for op_id in ended {
            let amendment = Amendment {
                op_id,
                event: Event::AttemptLost,
                ok: None,
                checkpoint: None,
                by: dequeue.worker.clone(),
                reason: String::new(),
                attempt_id: None,
            };
            real.memory.amend(&[amendment], &dequeue.routes).await?;
            real.edit(op_id, |row| {
                let next = &mut row.operation.state.next_attempt_at;
                *next = next.map(|_| now);
            });
        }
        clinch_core::ports::Bus::dequeue(&real.memory, dequeue).await
    }
}

/// Whoever asks may release.
#[derive(Default)]
pub(crate) struct LetsAnyoneRelease;

#[async_trait]
impl Flaw for LetsAnyoneRelease {
    async fn unlock(&self, real: &Real, name: &str, _owner: &WorkerId) -> Result<bool> {
        let name = name.to_owned();
        let owner = real
            .memory
            .edit(|tables| tables.locks.get(&name).map(|l| l.owner.clone()));
        match owner {
            Some(owner) => {
                clinch_core::ports::LockManager::release(&real.memory, &name, &owner).await
            }
            None => Ok(false),
        }
    }
}

/// A lock is a lock: every owner has the same number.
#[derive(Default)]
pub(crate) struct NeverRaisesALocksFence;

#[async_trait]
impl Flaw for NeverRaisesALocksFence {
    async fn lock(
        &self,
        real: &Real,
        name: &str,
        owner: &WorkerId,
        ttl: Duration,
    ) -> Result<Option<Tenure>> {
        let tenure = clinch_core::ports::LockManager::take(&real.memory, name, owner, ttl).await?;
        Ok(tenure.map(|_| Tenure { fence: 1 }))
    }
}
