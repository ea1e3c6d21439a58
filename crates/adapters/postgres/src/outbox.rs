//! From the queue rows to the bus.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{Claim, Claimed, Hint, Outbox, Silence};
use clinch_core::protocol::{Inherited, State};
use clinch_core::{LaneKey, OpId, Result, Timestamp};
use clinch_stored::codec;
use uuid::Uuid;

use crate::Postgres;
use crate::error;
use crate::link::Params;
use crate::query::Query;
use crate::row::{Extras, count, json, stored};
use crate::tx::Tx;

/// Rows to claim, and since when each needs what it is claimed for.
pub(crate) type Found = Vec<(OpId, Timestamp)>;

impl Tx<'_> {
    /// Streams of the claim's routes.
    pub(crate) fn covered(&self, claim: &Claim) -> Vec<i32> {
        let names = &self.shared.names;
        names.streams(|stream| claim.covers(&stream.domain, &stream.event_type))
    }

    async fn due(&mut self, claim: &Claim) -> Result<Found> {
        self.start().await?;
        let (streams, now) = (self.covered(claim), self.now.as_millis());
        let max = stored(claim.max as u64);
        let rows = self.query(Query::Due, &[&streams, &now, &max]).await?;
        Ok(found(&rows))
    }

    async fn silent(&mut self, claim: &Claim, silence: &Silence) -> Result<Found> {
        self.start().await?;
        let (streams, now) = (self.covered(claim), self.now.as_millis());
        let pause = |pause: Duration| i64::try_from(pause.as_millis()).unwrap_or(i64::MAX >> 20);
        let (grace, most) = (pause(silence.grace), pause(silence.pause_max));
        let max = stored(claim.max as u64);
        let params: Params<'_> = &[&now, &grace, &most, &streams, &max];
        Ok(found(&self.query(Query::Silent, params).await?))
    }

    /// Stamps rows that are locked with the claim.
    pub(crate) async fn claim(&mut self, found: &Found, claim: &Claim) -> Result<Vec<Claimed>> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = found.iter().map(|(op, _)| op.0).collect();
        let (now, by) = (self.now, claim.by.as_str());
        let until = (now + claim.lasting).as_millis();
        let params: Params<'_> = &[&ids, &by, &until, &now.as_millis()];
        let rows = self.query(Query::Claim, params).await?;
        let names = &self.shared.names;
        let streams = rows.iter().map(|row| row.get(1));
        names.learn(&self.link, streams).await?;
        let mut stamped = HashMap::with_capacity(rows.len());
        for row in &rows {
            stamped.insert(OpId(row.get(0)), row);
        }
        let mut claimed = Vec::with_capacity(found.len());
        for (op_id, since) in found {
            let Some(row) = stamped.get(op_id) else {
                continue;
            };
            let stream = names.stream(row.get(1))?;
            let mut state = State::accepted(now, None, Inherited::default());
            codec::decode(row.get(4), &mut state)?;
            let lane = row.get::<_, Option<&[u8]>>(5).map(LaneKey::from_bytes);
            let extras: Option<Extras> = json(row.get(6))?;
            claimed.push(Claimed {
                hint: Hint {
                    op_id: *op_id,
                    domain: stream.domain,
                    event_type: stream.event_type,
                    lane: lane.transpose().map_err(error::unreadable)?,
                    dispatch_no: count(row.get(2))? + 1,
                    trace: extras.and_then(|extras| extras.trace),
                },
                version: count(row.get(3))?,
                fence: state.fence,
                since: *since,
                now,
            });
        }
        Ok(claimed)
    }

    async fn published(&mut self, claimed: &[Claimed]) -> Result<()> {
        self.start().await?;
        let (ids, versions, stamps) = columns(claimed);
        let numbers = claimed.iter().map(|claim| stored(claim.hint.dispatch_no));
        let (numbers, now) = (numbers.collect::<Vec<_>>(), self.now.as_millis());
        let params: Params<'_> = &[&ids, &versions, &stamps, &numbers, &now];
        self.query(Query::Published, params).await.map(|_| ())
    }

    async fn release(&mut self, claimed: &[Claimed]) -> Result<()> {
        let (ids, versions, stamps) = columns(claimed);
        let params: Params<'_> = &[&ids, &versions, &stamps];
        let freed = self.query(Query::Release, params).await?;
        for row in freed {
            if row.get::<_, i16>(1) == 1 {
                self.announcements.is_due(row.get(0), i64::MIN);
            }
        }
        Ok(())
    }
}

/// Rows of a statement that finds rows to claim.
pub(crate) fn found(rows: &[tokio_postgres::Row]) -> Found {
    let read = |row: &tokio_postgres::Row| {
        let since = Timestamp::from_millis(row.get(1));
        (OpId(row.get(0)), since)
    };
    rows.iter().map(read).collect()
}

fn columns(claimed: &[Claimed]) -> (Vec<Uuid>, Vec<i64>, Vec<i64>) {
    (
        claimed.iter().map(|claim| claim.op_id().0).collect(),
        claimed.iter().map(|claim| stored(claim.version)).collect(),
        claimed.iter().map(|claim| claim.now.as_millis()).collect(),
    )
}

#[async_trait]
impl Outbox for Postgres {
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>> {
        self.write(claim.clone(), |tx, claim| {
            Box::pin(async move {
                let found = tx.due(claim).await?;
                tx.claim(&found, claim).await
            })
        })
        .await
    }

    async fn claim_silent(&self, claim: &Claim, silence: &Silence) -> Result<Vec<Claimed>> {
        let call = (claim.clone(), silence.clone());
        self.write(call, |tx, (claim, silence)| {
            Box::pin(async move {
                let found = tx.silent(claim, silence).await?;
                tx.claim(&found, claim).await
            })
        })
        .await
    }

    async fn published(&self, claimed: &[Claimed]) -> Result<()> {
        self.write(claimed.to_vec(), |tx, claimed| {
            Box::pin(tx.published(claimed))
        })
        .await
    }

    async fn release(&self, claimed: &[Claimed]) -> Result<()> {
        let claimed = claimed.to_vec();
        self.write(claimed, |tx, claimed| Box::pin(tx.release(claimed)))
            .await
    }

    async fn next_due(&self, routes: Option<&Routes>) -> Result<Option<Duration>> {
        let streams = self.shared.names.streams(|stream| {
            let asked = |routes: &Routes| routes.find(&stream.domain, &stream.event_type).is_some();
            routes.is_none_or(asked)
        });
        self.shared.first_due(&streams).await
    }
}
