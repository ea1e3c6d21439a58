//! Scans, dead letters and pruning.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::SeenTime;
use clinch_core::ports::{Claim, Claimed, DeadLetter, Page, Prune, Pruned, Recovery, Scan};
use clinch_core::protocol::{Inherited, State};
use clinch_core::{
    BizKey, ContentHash, Failure, IdemKey, Keys, OpId, ProcessId, Result, Sealed, Timestamp,
};
use clinch_stored::json::to_text;
use clinch_stored::letters::{check, cursor_of, parse_cursor};
use clinch_stored::{Filling, codec};
use uuid::Uuid;

use crate::link::{Link, Params};
use crate::names::Names;
use crate::outbox::{Found, found};
use crate::query::Query;
use crate::row::{json, moment, need_of, stored};
use crate::tx::Tx;
use crate::{Postgres, error};

impl Tx<'_> {
    /// Free rows that need `scan` now and that the claim covers, the oldest need first.
    async fn needing(&mut self, scan: Scan, claim: &Claim) -> Result<Found> {
        self.start().await?;
        let (streams, now) = (self.covered(claim), self.now.as_millis());
        let max = stored(claim.max as u64);
        let rows = match need_of(scan) {
            Some(need) => {
                self.query(Query::Needing, &[&need, &now, &streams, &max])
                    .await?
            }
            None => self.query(Query::Overdue, &[&now, &streams, &max]).await?,
        };
        Ok(found(&rows))
    }

    /// Free live rows of the process that the claim covers.
    async fn abandoned(&mut self, process: ProcessId, claim: &Claim) -> Result<Found> {
        self.start().await?;
        let (streams, now) = (self.covered(claim), self.now.as_millis());
        let [first, last] = process.attempts().map(|id| id.0);
        let max = stored(claim.max as u64);
        let params: Params<'_> = &[&first, &last, &now, &streams, &max];
        Ok(found(&self.query(Query::Abandoned, params).await?))
    }

    /// Keeps letters that came from outside; true where one was new.
    async fn import(&mut self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        let ids: Vec<Uuid> = letters.iter().map(|letter| letter.op_id.0).collect();
        let at: Vec<i64> = letters.iter().map(|l| l.failed_at.as_millis()).collect();
        let texts: Vec<String> = letters.iter().map(to_text).collect::<Result<_>>()?;
        let rows = self
            .query(Query::InsertDeadLetters, &[&ids, &at, &texts])
            .await?;
        let mut new: HashSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        Ok(ids.iter().map(|id| new.remove(id)).collect())
    }
}

fn read_letter(row: &tokio_postgres::Row, names: &Names) -> Result<DeadLetter> {
    if let Some(letter) = json(row.get(2))? {
        return Ok(letter);
    }
    let stream: Option<i32> = row.get(3);
    let stream = stream.ok_or_else(|| error::corrupt("dead letter without an operation"))?;
    let stream = names.stream(stream)?;
    let mut state = State::accepted(Timestamp::default(), None, Inherited::default());
    codec::decode(row.get(8), &mut state)?;
    let unknown = || Failure::own("unknown", "", state.effect);
    let hash = ContentHash::from_bytes(row.get(7));
    Ok(DeadLetter {
        op_id: OpId(row.get(0)),
        keys: Keys {
            domain: stream.domain,
            event_type: stream.event_type,
            biz_key: BizKey::new(row.get::<_, String>(4)).map_err(error::unreadable)?,
            idem_key: IdemKey::new(row.get::<_, String>(5)).map_err(error::unreadable)?,
        },
        failure: state.failure.clone().unwrap_or_else(unknown),
        attempts: state.attempts,
        payload: Sealed::new(row.get(6)),
        content_hash: hash.map_err(error::unreadable)?,
        failed_at: Timestamp::from_millis(row.get(1)),
        late_ok: state.late_ok,
    })
}

#[async_trait]
impl Recovery for Postgres {
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        self.write(claim.clone(), move |tx, claim| {
            Box::pin(async move {
                let found = tx.needing(scan, claim).await?;
                tx.claim(&found, claim).await
            })
        })
        .await
    }

    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>> {
        let row = match need_of(scan) {
            Some(need) => self.shared.first(Query::FirstNeeding, &[&need]).await?,
            None => self.shared.first(Query::FirstOverdue, &[]).await?,
        };
        Ok(row.and_then(|row| {
            let now = Timestamp::from_millis(row.get(1));
            moment(row.get(0)).map(|from| from.since(now))
        }))
    }

    async fn check_in(&self, process: ProcessId) -> Result<Vec<ProcessId>> {
        self.check_in_process(process).await
    }

    async fn abandoned(&self, process: ProcessId, claim: &Claim) -> Result<Vec<Claimed>> {
        self.write(claim.clone(), move |tx, claim| {
            Box::pin(async move {
                let found = tx.abandoned(process, claim).await?;
                tx.claim(&found, claim).await
            })
        })
        .await
    }

    async fn check_out(&self, process: ProcessId) -> Result<()> {
        self.forget_process(process).await
    }

    async fn dead_letters(&self, cursor: Option<&str>, limit: usize) -> Result<Page<DeadLetter>> {
        let (at, op_id) = cursor.map(parse_cursor).transpose()?.unzip();
        let (at, op_id) = (at.map(Timestamp::as_millis), op_id.map(|op: OpId| op.0));
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        let names = &self.shared.names;
        let mut filling = Filling::new(limit);
        let limit = stored(filling.rows() as u64);
        link.each(Query::DeadLetters, &[&at, &op_id, &limit], |row| {
            // Written out, or of its operation.
            let letter = row.get::<_, Option<&str>>(2).map_or(0, str::len);
            let payload = row.get::<_, Option<&[u8]>>(6).map_or(0, <[u8]>::len);
            filling.push(row, letter + payload)
        })
        .await?;
        let rows = filling.items();
        let streams = rows.iter().filter_map(|row| row.get(3));
        names.learn(&link, streams).await?;
        let letters = rows.iter().map(|row| read_letter(row, names));
        let letters = letters.collect::<Result<_>>()?;
        Ok(filling.with(letters).page(cursor_of))
    }

    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        check(letters)?;
        let letters = letters.to_vec();
        self.write(letters, |tx, letters| Box::pin(tx.import(letters)))
            .await
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        self.prune_old(prune.clone()).await
    }

    async fn seen_time(&self) -> Result<Option<SeenTime>> {
        self.look_at_seen_time().await
    }

    async fn confirm_time(&self) -> Result<SeenTime> {
        self.confirm_seen_time().await
    }
}
