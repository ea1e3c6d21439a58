//! Deletes data that is older than its retention. Rows that another process is deleting are
//! skipped.

use std::collections::BTreeMap;

use clinch_core::policy::SeenTime;
use clinch_core::ports::{Counts, Prune, Pruned};
use clinch_core::{Domain, Result, Status, Timestamp};
use clinch_stored::ledger::status_code;

use crate::column::Column;
use crate::keys::put_key;
use crate::link::Script;
use crate::query::Query;
use crate::row::{self, RAW_COLUMN, plain_fingerprint};
use crate::text::{self, Tuple};
use crate::tx::Tx;
use crate::write::add_counts;

impl Tx<'_> {
    pub(crate) async fn prune(&mut self, prune: &Prune) -> Result<Pruned> {
        let time = self.advance_seen_time(prune).await?;
        let at = time.trusted();
        let before = |age| (at - age).as_millis().to_string();
        let limit = prune.max.to_string();
        let mut old = Vec::new();
        for (status, age) in [
            (Status::Completed, prune.completed),
            (Status::Failed, prune.failed),
        ] {
            let left = prune.max - old.len();
            let values = [
                ("status", status_code(status).to_string()),
                ("before", before(age)),
                ("limit", left.to_string()),
            ];
            let values: Vec<_> = values.iter().map(|(name, v)| (*name, v.as_str())).collect();
            old.extend(self.query(&Query::OldRows.of_rows(true, &values)).await?);
        }
        self.uncount_letters(&old).await?;
        self.delete_operations(&old)?;
        // The keys of operations that were just deleted may be old enough to be deleted as well.
        self.flush().await?;
        let values = [("before", before(prune.keys)), ("limit", limit.clone())];
        let values: Vec<_> = values.iter().map(|(name, v)| (*name, v.as_str())).collect();
        let keys = self.query(&Query::OldKept.with(&values)).await?;
        let mut hashes = Vec::with_capacity(keys.len());
        for row in &keys {
            hashes.push(row.bytes(0)?.to_vec());
        }
        if !hashes.is_empty() {
            let list = text::list(&hashes);
            for query in [Query::DeleteKeys, Query::DeleteKept] {
                self.later.add(&query.with(&[("hashes", &list)]));
            }
        }
        let values = [("before", before(prune.batches())), ("limit", limit)];
        let values: Vec<_> = values.iter().map(|(name, v)| (*name, v.as_str())).collect();
        let mut script = Script::default();
        script.add(&Query::DeleteOldBatches.with(&values));
        let answers = self.run(script).await?;
        let batches = answers.first().map_or(0, |answer| answer.affected);
        Ok(Pruned {
            operations: old.len(),
            keys: hashes.len(),
            batches: usize::try_from(batches).unwrap_or(0),
            time,
        })
    }

    /// The seen time.
    pub(crate) async fn seen_at(&mut self, query: Query) -> Result<Option<Timestamp>> {
        let rows = self.query(query.text()).await?;
        let seen_at = rows.first().map(|row| row.maybe_moment(0));
        Ok(seen_at.transpose()?.flatten())
    }

    /// Advances the seen time.
    async fn advance_seen_time(&mut self, prune: &Prune) -> Result<SeenTime> {
        let stored = self.seen_at(Query::LockSeenAt).await?;
        let time = SeenTime::advanced(stored, self.now, prune.reckoned, prune.jump_max);
        self.put_seen_at(time.seen_at);
        Ok(time)
    }

    pub(crate) async fn confirm_clock(&mut self) -> Result<SeenTime> {
        let now = self.read_time().await?;
        self.put_seen_at(now);
        Ok(SeenTime { now, seen_at: now })
    }

    fn put_seen_at(&mut self, seen_at: Timestamp) {
        let seen_at = seen_at.as_millis().to_string();
        self.later
            .add(&Query::PutSeenAt.with(&[("seen_at", &seen_at)]));
    }

    /// Deletes terminal operations with their dependent rows; their keys stay.
    fn delete_operations(&mut self, old: &[mysql_async::Row]) -> Result<()> {
        if old.is_empty() {
            return Ok(());
        }
        let (mut seqs, mut ids, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let mut counts: BTreeMap<Domain, Counts> = BTreeMap::new();
        for columns in old {
            let row = row::read_whole(columns)?;
            *counts.entry(row.domain.clone()).or_default().of(&row.state) += 1;
            let hash = row.keys()?.hash();
            let payload = row.request()?.payload.as_bytes();
            let is_raw = columns.int(RAW_COLUMN)? != 0;
            if let Some(fingerprint) = plain_fingerprint(payload).filter(|_| is_raw) {
                // After this the payload is gone, and the fingerprint could no longer be computed.
                self.later.add(&put_key(hash, row.op_id, fingerprint));
            }
            let tuple = Tuple::new().bytes(hash.as_bytes());
            let tuple = tuple.int(status_code(row.state.status));
            kept.push(tuple.at(row.finished_at.unwrap_or_default()).end());
            seqs.push(row.seq);
            ids.push(row.op_id.0.into_bytes());
        }
        self.later.add_rows(Query::InsertKept, &kept);
        let seqs = text::numbers(seqs);
        for query in [
            Query::DeleteHistory,
            Query::DeleteRequests,
            Query::DeleteLedgerPages,
            Query::DeleteCheckpoints,
        ] {
            self.later.add(&query.with(&[("seqs", &seqs)]));
        }
        let ids = text::list(ids);
        self.later
            .add(&Query::DeleteDeadLetters.with(&[("ids", &ids)]));
        let fewer = |counts: &Counts| counts.in_order().map(|count| -(count as i64));
        let counts = counts.iter().map(|(domain, one)| (domain, fewer(one)));
        add_counts(counts, &mut self.later);
        Ok(())
    }
}
