//! From the queue rows to the bus.

use std::cmp::Reverse;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{Claim, Claimed, Outbox, Silence};
use clinch_core::protocol::Due;
use clinch_core::{Domain, EventType, OpId, Result, Timestamp};
use clinch_stored::receipts::hint_of;

use crate::{Memory, Row, Slot, Tables, Tx};

/// Doublings of the sweeper's pause; the pause itself is capped by the caller.
const ROUNDS_MAX: u32 = 16;

const PRIORITIES: std::ops::RangeInclusive<i8> = -10..=10;

/// A row that is due for a begin: priority, due time, seq, and the operation.
pub(crate) type InLine = (Reverse<i8>, Timestamp, u64, OpId);

impl Tables {
    /// Rows of one domain and priority that wait for a begin and were not announced.
    fn line_at(
        &self,
        domain: &Domain,
        priority: i8,
        until: Timestamp,
    ) -> impl Iterator<Item = InLine> {
        let at = |due, seq| Slot::Fresh {
            domain: domain.clone(),
            priority: Reverse(priority),
            due,
            seq,
        };
        let from = at(Timestamp::from_millis(i64::MIN), 0);
        let slots = self.slots.range(from..=at(until, u64::MAX));
        slots.filter_map(|(slot, op_id)| match slot {
            Slot::Fresh {
                priority, due, seq, ..
            } => Some((*priority, *due, *seq, *op_id)),
            Slot::Announced { .. } | Slot::Need { .. } => None,
        })
    }

    fn line_of(&self, domain: &Domain, until: Timestamp) -> impl Iterator<Item = InLine> {
        let priorities = PRIORITIES.rev();
        priorities.flat_map(move |priority| self.line_at(domain, priority, until))
    }

    /// Rows of these domains that are due and free, in order of service. Paused domains are
    /// passed over, and rows past their deadline: the sweeper ends those.
    pub(crate) fn line<'a>(
        &'a self,
        domains: impl IntoIterator<Item = &'a Domain>,
        now: Timestamp,
    ) -> impl Iterator<Item = InLine> {
        let open = domains.into_iter().filter(|d| !self.domain(d).paused);
        let mut lines: Vec<_> = open.map(|d| self.line_of(d, now).peekable()).collect();
        let merged = std::iter::from_fn(move || {
            let heads = lines.iter_mut().enumerate();
            let heads = heads.filter_map(|(at, line)| Some((*line.peek()?, at)));
            let (_, first) = heads.min()?;
            lines[first].next()
        });
        merged.filter(move |(_, _, _, op_id)| {
            let row = self.rows.get(op_id);
            let overdue = row.is_some_and(|row| row.operation.state.is_overdue(now));
            !overdue && self.claim_ends(*op_id) <= now
        })
    }

    /// When the first row of these domains can be taken.
    pub(crate) fn first_due<'a>(
        &self,
        domains: impl IntoIterator<Item = &'a Domain>,
        routes: Option<&Routes>,
    ) -> Option<Timestamp> {
        let open = domains.into_iter().filter(|d| !self.domain(d).paused);
        let forever = Timestamp::from_millis(i64::MAX);
        let firsts = open.flat_map(|domain| {
            PRIORITIES.filter_map(move |priority| {
                let line = self.line_at(domain, priority, forever);
                let line = line.map(|(_, due, _, op_id)| (op_id, due));
                self.first_free(line.filter(|(op_id, _)| self.has_route(*op_id, routes)))
            })
        });
        firsts.min()
    }

    /// Some route of these covers the operation; `None` covers all.
    pub(crate) fn has_route(&self, op_id: OpId, routes: Option<&Routes>) -> bool {
        let Some(routes) = routes else {
            return true;
        };
        let row = self.rows.get(&op_id).map(|row| &row.operation.keys);
        row.is_some_and(|keys| routes.find(&keys.domain, &keys.event_type).is_some())
    }

    /// When the first of these rows can be taken; they come in order of their time.
    pub(crate) fn first_free(
        &self,
        line: impl Iterator<Item = (OpId, Timestamp)>,
    ) -> Option<Timestamp> {
        let mut first = None;
        for (op_id, from) in line {
            let free_at = self.claim_ends(op_id).max(from);
            first = Some(first.map_or(free_at, |first: Timestamp| first.min(free_at)));
            if free_at == from {
                break;
            }
        }
        first
    }

    /// How long rows of a domain have been due for a begin, announced or not: the oldest of each
    /// event type is among them.
    pub(crate) fn due_ages(&self, domain: &Domain, now: Timestamp) -> Vec<(EventType, Duration)> {
        let fresh = self.line_of(domain, now).map(|(_, _, _, op_id)| op_id);
        let age = |op_id: OpId| {
            let operation = &self.rows.get(&op_id)?.operation;
            let ours = operation.keys.domain == *domain;
            match operation.state.due() {
                Due::Begin(due) if ours => {
                    Some((operation.keys.event_type.clone(), now.since(due)))
                }
                _ => None,
            }
        };
        fresh.chain(self.announced()).filter_map(age).collect()
    }

    fn announced(&self) -> impl Iterator<Item = OpId> {
        let first = Slot::Announced {
            at: Timestamp::from_millis(i64::MIN),
            seq: 0,
        };
        let last = Slot::Announced {
            at: Timestamp::from_millis(i64::MAX),
            seq: u64::MAX,
        };
        self.slots.range(first..=last).map(|(_, op_id)| *op_id)
    }

    /// When the claim on a row ends; long ago if there is none.
    pub(crate) fn claim_ends(&self, op_id: OpId) -> Timestamp {
        let queue = self.rows.get(&op_id).and_then(|row| row.queue.as_ref());
        let claim = queue.and_then(|queue| queue.claim.as_ref());
        claim.map_or(Timestamp::from_millis(i64::MIN), |(_, until)| *until)
    }
}

impl Tx<'_> {
    /// Stamps free rows with the claim, in the order given, up to its maximum.
    pub(crate) fn claim(
        &mut self,
        found: impl IntoIterator<Item = (OpId, Timestamp)>,
        claim: &Claim,
    ) -> Vec<Claimed> {
        let mut claimed = Vec::new();
        for (op_id, since) in found {
            if claimed.len() == claim.max {
                break;
            }
            let free = self.tables.claim_ends(op_id) <= self.now;
            let row = self.tables.rows.get(&op_id).filter(|_| free);
            let row = row.filter(|row| {
                let keys = &row.operation.keys;
                claim.covers(&keys.domain, &keys.event_type)
            });
            let Some(mut row) = row.cloned() else {
                continue;
            };
            if let Some(queue) = row.queue.as_mut() {
                queue.claim = Some((claim.by.clone(), self.now + claim.lasting));
                queue.claimed_at = self.now;
            }
            claimed.push(Claimed {
                hint: hint_of(&row.operation),
                version: row.operation.state.version,
                fence: row.operation.state.fence,
                since,
                now: self.now,
            });
            self.tables.put(row);
        }
        claimed
    }

    /// Changes the queue row of a claim, unless the operation changed since, or the claim ran
    /// out and the row is another claimer's.
    fn of_claim(&mut self, claimed: &Claimed, edit: impl FnOnce(&mut Row)) {
        let row = self.tables.rows.get(&claimed.op_id());
        let same = |row: &&Row| {
            let queue = row.queue.as_ref();
            row.operation.state.version == claimed.version
                && queue.is_some_and(|queue| queue.claimed_at == claimed.now)
        };
        if let Some(mut row) = row.filter(same).cloned() {
            edit(&mut row);
            self.put(row);
        }
    }
}

#[async_trait]
impl Outbox for Memory {
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>> {
        self.write(|tx| {
            let all = tx.tables.domains.iter().map(|(domain, _)| domain);
            let line = tx.tables.line(all, tx.now);
            let found: Vec<_> = line.map(|(_, due, _, op_id)| (op_id, due)).collect();
            Ok(tx.claim(found, claim))
        })
    }

    async fn claim_silent(&self, claim: &Claim, silence: &Silence) -> Result<Vec<Claimed>> {
        self.write(|tx| {
            let last = Slot::Announced {
                at: tx.now,
                seq: u64::MAX,
            };
            let first = Slot::Announced {
                at: Timestamp::from_millis(i64::MIN),
                seq: 0,
            };
            let is_silent = |row: &Row| {
                let paused = tx.tables.domain(&row.operation.keys.domain).paused;
                let queue = row.queue.as_ref();
                let over = queue.and_then(|queue| {
                    let rounds = queue.rounds.saturating_sub(1).min(ROUNDS_MAX);
                    let pause = silence.grace.saturating_mul(1 << rounds);
                    Some(queue.announced_at? + pause.min(silence.pause_max))
                });
                !paused && over.is_some_and(|over| over <= tx.now)
            };
            let announced = tx.tables.slots.range(first..=last);
            let silent = announced.filter_map(|(slot, op_id)| {
                let row = tx.tables.rows.get(op_id).filter(|row| is_silent(row))?;
                match slot {
                    Slot::Announced { at, .. } => Some((row.operation.op_id, *at)),
                    Slot::Fresh { .. } | Slot::Need { .. } => None,
                }
            });
            let silent: Vec<_> = silent.collect();
            Ok(tx.claim(silent, claim))
        })
    }

    async fn published(&self, claimed: &[Claimed]) -> Result<()> {
        self.write(|tx| {
            for claimed in claimed {
                let now = tx.now;
                tx.of_claim(claimed, |row| {
                    row.operation.dispatch_no = claimed.hint.dispatch_no;
                    if let Some(queue) = row.queue.as_mut() {
                        queue.announced_at = Some(now);
                        queue.rounds += 1;
                        queue.claim = None;
                    }
                });
            }
            Ok(())
        })
    }

    async fn release(&self, claimed: &[Claimed]) -> Result<()> {
        self.write(|tx| {
            for claimed in claimed {
                tx.of_claim(claimed, |row| {
                    if let Some(queue) = row.queue.as_mut() {
                        queue.claim = None;
                    }
                });
            }
            Ok(())
        })
    }

    async fn next_due(&self, routes: Option<&Routes>) -> Result<Option<Duration>> {
        Ok(self.read(|tables, now| {
            let all = tables.domains.iter().map(|(domain, _)| domain);
            let due = tables.first_due(all, routes);
            due.map(|due| due.since(now))
        }))
    }
}
