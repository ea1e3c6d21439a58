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

    /// Rows of a statement that the claim covers, in order, up to its maximum. The statement ends
    /// there.
    pub(crate) fn covered(
        &mut self,
        query: Query,
        params: impl rusqlite::Params,
        claim: &Claim,
    ) -> Result<Vec<Found>> {
        let mut covered = Vec::new();
        self.db.each_with(query, params, |row, db| {
            if covered.len() >= claim.max {
                return Ok(false);
            }
            let found = (row.count(0)?, row.moment(1)?, row.int(2)?, row.int(3)?);
            let (domain, event_type) = (db.domain(found.2)?, db.event_type(found.3)?);
            if claim.covers(&domain, &event_type) {
                covered.push(found);
            }
            Ok(true)
        })?;
        Ok(covered)
    }

    /// Silent rows that the claim covers, those that were announced first at the front.
    ///
    /// The pause of a row depends on how often it was announced. So for each event type and each
    /// number of announcements, the silent rows are the beginning of one range of the index.
    fn silent(&mut self, silence: &Silence, claim: &Claim) -> Result<Vec<Found>> {
        let domains = self.db.all(Query::Domains, [], |row| {
            Ok((row.int(0)?, row.int(1)? != 0))
        })?;
        let mut silent = Vec::new();
        for (domain, _) in domains.into_iter().filter(|(_, paused)| !paused) {
            let name = self.db.domain(domain)?;
            for event_type in self.db.announced_types(domain)? {
                if claim.covers(&name, &self.db.event_type(event_type)?) {
                    self.silent_of(domain, event_type, silence, claim.max, &mut silent)?;
                }
            }
        }
        silent.sort_unstable_by_key(|(seq, announced_at, ..)| (*announced_at, *seq));
        silent.truncate(claim.max);
        Ok(silent)
    }

    fn silent_of(
        &mut self,
        domain: i64,
        event_type: i64,
        silence: &Silence,
        max: usize,
        silent: &mut Vec<Found>,
    ) -> Result<()> {
        let (now, max) = (self.now, stored(max as u64));
        let mut last = i64::MIN;
        while let Some(rounds) =
            self.db
                .first(Query::NextRounds, [domain, event_type, last], |row| {
                    row.int(0)
                })?
        {
            last = rounds;
            let doublings = u32::try_from(rounds).unwrap_or(0).saturating_sub(1);
            let pause = silence.grace.saturating_mul(1 << doublings.min(ROUNDS_MAX));
            let by = now - pause.min(silence.pause_max);
            let params = params![domain, event_type, rounds, millis(by), millis(now), max];
            self.db.each(Query::Silent, params, |row| {
                silent.push((row.count(0)?, row.moment(1)?, domain, event_type));
                Ok(true)
            })?;
        }
        Ok(())
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
            let silent = tx.silent(&silence, &claim)?;
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
