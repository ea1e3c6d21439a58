//! Claims of queue rows that are to be announced on the bus.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{Claim, Claimed, Hint, Outbox, Silence};
use clinch_core::{Domain, EventType, LaneKey, Result, Timestamp};
use rusqlite::params;

use crate::Sqlite;
use crate::column::{Column, millis, stored};
use crate::db::Db;
use crate::error;
use crate::query::Query;
use crate::streams::Stream;
use crate::tx::Tx;

/// Maximum doublings of the pause between two announcements of a silent row; the caller caps the
/// pause itself.
const ROUNDS_MAX: u32 = 16;

/// A row to claim: its seq, the time since which it needs the claim, its domain and its event type.
pub(crate) type Found = (u64, Timestamp, i64, i64);

impl Db<'_> {
    /// The streams of domains that are not paused, of the routes that `wanted` allows.
    pub(crate) fn open_streams(
        &mut self,
        wanted: impl Fn(&Domain, &EventType) -> bool,
    ) -> Result<Vec<Stream>> {
        let all = self.all(Query::Domains, [], |row| {
            Ok((row.int(0)?, row.int(1)? != 0))
        })?;
        let mut streams = Vec::new();
        for (id, _) in all.into_iter().filter(|(_, paused)| !paused) {
            let domain = self.domain(id)?;
            streams.extend(self.streams(id, |event_type| wanted(&domain, event_type))?);
        }
        Ok(streams)
    }
}

impl Tx<'_, '_> {
    /// Claims rows.
    pub(crate) fn claim(&mut self, found: &[Found], claim: &Claim) -> Result<Vec<Claimed>> {
        let mut claimed = Vec::with_capacity(found.len());
        for (seq, since, ..) in found {
            claimed.extend(self.claim_one(*seq, *since, claim)?);
        }
        Ok(claimed)
    }

    fn claim_one(&mut self, seq: u64, since: Timestamp, claim: &Claim) -> Result<Option<Claimed>> {
        let now = self.now;
        let until = millis(now + claim.lasting);
        let params = params![stored(seq), claim.by.as_str(), until, millis(now)];
        let stamped = self.db.write_first(Query::Claim, params, |row| {
            let domain = row.int(1)?;
            let counts = (row.count(3)?, row.count(4)?, row.count(5)?);
            Ok((row.op_id(0)?, domain, row.int(2)?, counts))
        })?;
        let Some((op_id, domain, event_type, (dispatch_no, version, fence))) = stamped else {
            return Ok(None);
        };
        let rest = self.db.first(Query::HintOf, [stored(seq)], |row| {
            let lane = row.maybe_bytes(0)?.map(LaneKey::from_bytes).transpose();
            Ok((lane.map_err(error::unreadable)?, row.maybe_text(1)?))
        })?;
        let (lane, trace) = rest.unwrap_or_default();
        Ok(Some(Claimed {
            hint: Hint {
                op_id,
                domain: self.db.domain(domain)?,
                event_type: self.db.event_type(event_type)?,
                lane,
                dispatch_no: dispatch_no + 1,
                trace,
            },
            version,
            fence,
            since,
            now,
        }))
    }

    /// Rows of `found` that the claim covers, up to its maximum.
    pub(crate) fn covered(&mut self, found: Vec<Found>, claim: &Claim) -> Result<Vec<Found>> {
        let mut covered = Vec::new();
        for row in found {
            if covered.len() == claim.max {
                break;
            }
            let (domain, event_type) = (self.db.domain(row.2)?, self.db.event_type(row.3)?);
            if claim.covers(&domain, &event_type) {
                covered.push(row);
            }
        }
        Ok(covered)
    }

    fn silent(&mut self, silence: &Silence) -> Result<Vec<Found>> {
        let now = self.now;
        let mut silent = Vec::new();
        self.db.each(Query::Silent, [millis(now)], |row| {
            let announced_at = row.moment(1)?;
            let rounds = row.small(2)?.saturating_sub(1).min(ROUNDS_MAX);
            let pause = silence.grace.saturating_mul(1 << rounds);
            if announced_at + pause.min(silence.pause_max) <= now {
                silent.push((row.count(0)?, announced_at, row.int(3)?, row.int(4)?));
            }
            Ok(true)
        })?;
        let mut awake = Vec::new();
        for row in silent {
            if !self.domain_row(row.2)?.paused {
                awake.push(row);
            }
        }
        Ok(awake)
    }
}

#[async_trait]
impl Outbox for Sqlite {
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>> {
        let claim = claim.clone();
        let work = move |tx: &mut Tx<'_, '_>| {
            let streams = tx
                .db
                .open_streams(|domain, event_type| claim.covers(domain, event_type))?;
            let line = tx.db.due_in(&streams, tx.now, claim.max)?;
            let found: Vec<_> = line.iter().map(|row| (row.seq, row.due, 0, 0)).collect();
            tx.claim(&found, &claim)
        };
        self.write(work).await
    }

    async fn claim_silent(&self, claim: &Claim, silence: &Silence) -> Result<Vec<Claimed>> {
        let (claim, silence) = (claim.clone(), silence.clone());
        let work = move |tx: &mut Tx<'_, '_>| {
            let silent = tx.silent(&silence)?;
            let silent = tx.covered(silent, &claim)?;
            tx.claim(&silent, &claim)
        };
        self.write(work).await
    }

    async fn published(&self, claimed: &[Claimed]) -> Result<()> {
        let claimed = claimed.to_vec();
        let work = move |tx: &mut Tx<'_, '_>| {
            for claim in &claimed {
                let id = claim.op_id();
                let params = params![
                    id.0.as_bytes(),
                    stored(claim.version),
                    millis(claim.now),
                    stored(claim.hint.dispatch_no),
                    millis(tx.now),
                ];
                tx.db.run(Query::Published, params)?;
            }
            Ok(())
        };
        self.write(work).await
    }

    async fn release(&self, claimed: &[Claimed]) -> Result<()> {
        let claimed = claimed.to_vec();
        let work = move |tx: &mut Tx<'_, '_>| {
            for claim in &claimed {
                let id = claim.op_id();
                let params = params![id.0.as_bytes(), stored(claim.version), millis(claim.now)];
                let freed = tx
                    .db
                    .write_first(Query::Release, params, |row| Ok((row.int(0)?, row.int(1)?)))?;
                if let Some((domain, 1)) = freed {
                    let domain = tx.db.domain(domain)?;
                    tx.news.due.insert(domain);
                }
            }
            Ok(())
        };
        self.write(work).await
    }

    async fn next_due(&self, routes: Option<&Routes>) -> Result<Option<Duration>> {
        let routes = routes.cloned();
        let now = self.clock().now();
        let read = move |db: &mut Db<'_>| {
            let streams = db.open_streams(|domain, event_type| {
                let asked = |routes: &Routes| routes.find(domain, event_type).is_some();
                routes.as_ref().is_none_or(asked)
            })?;
            Ok(db.first_due(&streams)?.map(|due| due.since(now)))
        };
        self.read(read).await
    }
}
