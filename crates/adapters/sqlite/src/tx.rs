//! One transaction: cached rows, changes to write before the commit, and notices to send after it.

use std::collections::{BTreeMap, BTreeSet};

use clinch_core::ports::{COUNTERS, Counts, Notice, Scan};
use clinch_core::{Domain, OpId, Result, Timestamp};
use clinch_stored::commit::Plan;
use rusqlite::params;

use crate::column::{Column, stored};
use crate::db::Db;
use crate::error;
use crate::query::Query;

/// The transaction that all jobs of a commit share. The domain counters and the store row are read at
/// most once and written once, however many rows change.
pub(crate) struct Tx<'t, 'c> {
    pub db: &'t mut Db<'c>,
    pub now: Timestamp,
    pub news: PendingNotices,
}

/// Whether a domain is paused, and its counters.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DomainRow {
    pub paused: bool,
    pub counts: Counts,
    changed: bool,
}

/// The wake-ups to send after the commit.
#[derive(Debug, Default)]
pub(crate) struct PendingNotices {
    pub due: BTreeSet<Domain>,
    settled: Vec<OpId>,
    /// For each scan, the earliest time at which a new row needs it.
    needs: BTreeMap<Scan, Timestamp>,
}

impl<'t, 'c> Tx<'t, 'c> {
    pub(crate) fn new(db: &'t mut Db<'c>, now: Timestamp) -> Self {
        Self {
            db,
            now,
            news: PendingNotices::default(),
        }
    }

    /// The largest operation id in the file: no operation has a larger one.
    pub(crate) fn newest_op_id(&mut self) -> Result<Option<OpId>> {
        if let Some(newest) = self.db.kept.newest {
            return Ok(newest);
        }
        let newest = self
            .db
            .first(Query::LastOpId, [], |row| row.maybe_op_id(0))?;
        self.db.kept.newest = Some(newest.flatten());
        Ok(newest.flatten())
    }

    pub(crate) fn accepted(&mut self, op_id: OpId) {
        let newest = &mut self.db.kept.newest;
        *newest = newest.map(|newest| newest.max(Some(op_id)));
    }

    /// The domain's row; an empty one if it has none yet.
    pub(crate) fn domain_row(&mut self, domain: i64) -> Result<&mut DomainRow> {
        if !self.db.kept.domains.contains_key(&domain) {
            let row = self
                .db
                .first(Query::Domain, [domain], |row| DomainRow::read(row, 0))?;
            let row = row.unwrap_or_default();
            self.db.kept.domains.insert(domain, row);
        }
        Ok(self.db.kept.domains.entry(domain).or_default())
    }

    pub(crate) fn set_paused(&mut self, domain: i64, paused: bool) -> Result<()> {
        let row = self.domain_row(domain)?;
        row.paused = paused;
        row.changed = true;
        Ok(())
    }

    /// Marks a domain's counters as changed.
    pub(crate) fn touch(&mut self, domain: i64) -> Result<()> {
        self.domain_row(domain)?.changed = true;
        Ok(())
    }

    /// Adds to the counters of a domain.
    pub(crate) fn count(&mut self, domain: i64, by: &[i64; COUNTERS]) -> Result<()> {
        let row = self.domain_row(domain)?;
        let counters = row.counts.in_order_mut();
        for (counter, by) in counters.into_iter().zip(by) {
            let counted = counter.checked_add_signed(*by);
            *counter = counted.ok_or_else(|| error::corrupt("counter"))?;
        }
        row.changed = true;
        Ok(())
    }

    pub(crate) fn next_seq(&mut self) -> Result<u64> {
        let row = self.store_row()?;
        row.last_seq += 1;
        Ok(row.last_seq)
    }

    /// Records the wake-ups for what `plan` writes.
    pub(crate) fn tell(&mut self, plan: &Plan) {
        let news = &mut self.news;
        news.due.extend(plan.due_domains().into_iter().cloned());
        news.settled.extend(&plan.settled);
        for (scan, at) in &plan.needs {
            let earliest = news.needs.entry(*scan).or_insert(*at);
            *earliest = (*earliest).min(*at);
        }
    }

    /// Writes the cached counters right before the commit, and returns the notices to send after
    /// it.
    pub(crate) fn finish(&mut self) -> Result<Vec<Notice>> {
        let mut domains = std::mem::take(&mut self.db.kept.domains);
        for (id, row) in &mut domains {
            if std::mem::take(&mut row.changed) {
                let c = &row.counts;
                let params = params![
                    id,
                    row.paused,
                    stored(c.pending),
                    stored(c.live),
                    stored(c.recorded),
                    stored(c.waiting),
                    stored(c.held),
                    stored(c.completed),
                    stored(c.failed),
                    stored(c.dead_letters_open),
                ];
                self.db.run(Query::PutDomain, params)?;
            }
        }
        self.db.kept.domains = domains;
        self.finish_keys()?;
        Ok(self.notices())
    }

    fn notices(&mut self) -> Vec<Notice> {
        let news = std::mem::take(&mut self.news);
        let settled = news.settled.into_iter().map(Notice::Settled);
        let mut notices: Vec<_> = settled
            .chain(news.due.into_iter().map(Notice::Due))
            .collect();
        let recovery = self.db.needs.are_new(&news.needs, self.now);
        notices.extend(recovery.then_some(Notice::Recovery));
        notices
    }
}

impl DomainRow {
    /// Reads from column `at` on.
    pub(crate) fn read(row: &rusqlite::Row<'_>, at: usize) -> Result<Self> {
        Ok(Self {
            paused: row.int(at)? != 0,
            counts: Counts {
                pending: row.count(at + 1)?,
                live: row.count(at + 2)?,
                recorded: row.count(at + 3)?,
                waiting: row.count(at + 4)?,
                held: row.count(at + 5)?,
                completed: row.count(at + 6)?,
                failed: row.count(at + 7)?,
                dead_letters_open: row.count(at + 8)?,
            },
            changed: false,
        })
    }
}
