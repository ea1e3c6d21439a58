//! Deleting what is older than its retention. Rows that another process deletes at the same
//! moment are passed over.

use clinch_core::policy::SeenTime;
use clinch_core::ports::{Prune, Pruned};
use clinch_core::{Keys, Result, Timestamp};

use crate::column::Column;
use crate::query::Query;
use crate::request::plain_print;
use crate::row::status_column;
use crate::text::{self, Tuple};
use crate::tx::{Loaded, Tx};

impl Tx<'_> {
    pub(crate) async fn prune(&mut self, prune: &Prune) -> Result<Pruned> {
        let time = self.look_at_clock(prune).await?;
        let at = time.trusted();
        let before = |age| (at - age).as_millis().to_string();
        let limit = prune.max.to_string();
        let sql = Query::OldRows.of_rows(
            true,
            &[
                ("completed", &before(prune.completed)),
                ("failed", &before(prune.failed)),
                ("limit", &limit),
            ],
        );
        let mut old = Vec::new();
        for row in self.query(&sql).await? {
            old.push(Loaded::read(&row, true)?);
        }
        self.forget(&old);
        // What was forgotten just now may be old enough to lose its key as well.
        self.flush().await?;
        let values = [("before", before(prune.keys)), ("limit", limit)];
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
        Ok(Pruned {
            operations: old.len(),
            keys: hashes.len(),
            time,
        })
    }

    /// The latest time that was vouched for.
    pub(crate) async fn seen_at(&mut self, query: Query) -> Result<Option<Timestamp>> {
        let rows = self.query(query.text()).await?;
        let seen_at = rows.first().map(|row| row.maybe_moment(0));
        Ok(seen_at.transpose()?.flatten())
    }

    /// Moves the seen time on.
    async fn look_at_clock(&mut self, prune: &Prune) -> Result<SeenTime> {
        let stored = self.seen_at(Query::LockSeenAt).await?;
        let time = SeenTime::advanced(stored, self.now, prune.reckoned, prune.jump_max);
        self.put_seen_at(time.seen_at);
        Ok(time)
    }

    pub(crate) async fn confirm_clock(&mut self) -> Result<SeenTime> {
        let now = self.tell_time().await?;
        self.put_seen_at(now);
        Ok(SeenTime { now, seen_at: now })
    }

    fn put_seen_at(&mut self, seen_at: Timestamp) {
        let seen_at = seen_at.as_millis().to_string();
        self.later
            .add(&Query::PutSeenAt.with(&[("seen_at", &seen_at)]));
    }

    /// Deletes ended rows and what goes with them; their keys stay.
    fn forget(&mut self, old: &[Loaded]) {
        if old.is_empty() {
            return;
        }
        let mut kept = Vec::with_capacity(old.len());
        for loaded in old {
            let row = &loaded.row;
            self.count(&row.domain, Some(&row.state), None);
            let Some(request) = &loaded.request else {
                continue;
            };
            let keys = Keys {
                domain: row.domain.clone(),
                event_type: row.event_type.clone(),
                biz_key: request.biz_key.clone(),
                idem_key: request.idem_key.clone(),
            };
            let hash = keys.hash();
            if let Some(print) = plain_print(request.payload.as_bytes()).filter(|_| request.raw) {
                // Nobody can look at the payload any more.
                self.later.add(&Query::PutKey.with(&[
                    ("hash", &text::literal(hash.as_bytes())),
                    ("id", &text::literal(row.op_id.0.as_bytes())),
                    ("fingerprint", &text::literal(print.to_bytes())),
                ]));
            }
            let tuple = Tuple::new().bytes(hash.as_bytes());
            let tuple = tuple.int(status_column(row.state.status));
            kept.push(tuple.at(row.finished_at.unwrap_or_default()).end());
        }
        let (head, tail) = Query::InsertKept.around_rows();
        self.later.add_rows(head, &kept, tail);
        let seqs = text::numbers(old.iter().map(|loaded| loaded.row.seq));
        for query in [
            Query::DeleteHistory,
            Query::DeleteRequests,
            Query::DeleteLedgerPages,
            Query::DeleteCheckpoints,
        ] {
            self.later.add(&query.with(&[("seqs", &seqs)]));
        }
        let ids = text::list(old.iter().map(|loaded| loaded.row.op_id.0.into_bytes()));
        self.later
            .add(&Query::DeleteDeadLetters.with(&[("ids", &ids)]));
    }
}
