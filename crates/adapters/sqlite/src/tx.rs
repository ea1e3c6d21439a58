//! One transaction: what it has read, what it owes, and what it has to tell.

use std::collections::{BTreeMap, BTreeSet};

use clinch_core::ports::{Counts, Notice};
use clinch_core::protocol::State;
use clinch_core::{OpId, Result, Timestamp};
use rusqlite::params;

use crate::column::{Column, millis, stored};
use crate::db::Db;
use crate::error;
use crate::keys::StoreRow;
use crate::query::Query;
use crate::row::{LEASE_ENDED, PROBE_DUE, Place, Row, UNFINALIZED};

/// The view of every job that shares a commit. Counters and the row of the store are read once and
/// written once, however many rows change.
pub(crate) struct Tx<'t, 'c> {
    pub db: &'t mut Db<'c>,
    pub now: Timestamp,
    pub fresh: Fresh,
    domains: BTreeMap<i64, DomainRow>,
    pub store: Option<StoreRow>,
    /// The largest id in the file, once it was asked for.
    newest: Option<Option<OpId>>,
}

/// A domain's pause and counters.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DomainRow {
    pub paused: bool,
    pub counts: Counts,
    changed: bool,
}

/// What a commit has to tell.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    pub due: BTreeSet<i64>,
    pub settled: Vec<OpId>,
    /// The earliest new need of each recovery; the last is that of the sweeper.
    needs: [Option<Timestamp>; 4],
}

/// The place of deadlines in [`Fresh::needs`].
const OVERDUE: usize = 0;

impl<'t, 'c> Tx<'t, 'c> {
    pub(crate) fn new(db: &'t mut Db<'c>, now: Timestamp) -> Self {
        Self {
            db,
            now,
            fresh: Fresh::default(),
            domains: BTreeMap::new(),
            store: None,
            newest: None,
        }
    }

    /// The largest id in the file: a larger one is nobody's.
    pub(crate) fn newest_op_id(&mut self) -> Result<Option<OpId>> {
        if let Some(newest) = self.newest {
            return Ok(newest);
        }
        let newest = self
            .db
            .first(Query::LastOpId, [], |row| row.maybe_op_id(0))?;
        self.newest = Some(newest.flatten());
        Ok(newest.flatten())
    }

    pub(crate) fn accepted(&mut self, op_id: OpId) {
        self.newest = self.newest.map(|newest| newest.max(Some(op_id)));
    }

    /// The domain's row, or an empty one.
    pub(crate) fn domain_row(&mut self, domain: i64) -> Result<&mut DomainRow> {
        use std::collections::btree_map::Entry;
        match self.domains.entry(domain) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => {
                let row = self
                    .db
                    .first(Query::Domain, [domain], |row| DomainRow::read(row, 0))?;
                Ok(unknown.insert(row.unwrap_or_default()))
            }
        }
    }

    pub(crate) fn set_paused(&mut self, domain: i64, paused: bool) -> Result<()> {
        let row = self.domain_row(domain)?;
        row.paused = paused;
        row.changed = true;
        Ok(())
    }

    /// The counters were changed by hand.
    pub(crate) fn touch(&mut self, domain: i64) -> Result<()> {
        self.domain_row(domain)?.changed = true;
        Ok(())
    }

    /// Moves an operation from one counter to another.
    pub(crate) fn count(
        &mut self,
        domain: i64,
        left: Option<&State>,
        entered: Option<&State>,
    ) -> Result<()> {
        let row = self.domain_row(domain)?;
        if let Some(state) = left {
            let counter = row.counts.of(state);
            *counter = counter
                .checked_sub(1)
                .ok_or_else(|| error::corrupt("counter"))?;
        }
        if let Some(state) = entered {
            *row.counts.of(state) += 1;
        }
        row.changed = true;
        Ok(())
    }

    pub(crate) fn next_seq(&mut self) -> Result<u64> {
        let row = self.store_row()?;
        row.last_seq += 1;
        Ok(row.last_seq)
    }

    /// Remembers whom to wake for what a row became.
    pub(crate) fn tell(&mut self, row: &Row, place: Place) {
        if place.line == 1 {
            self.fresh.due.insert(row.domain);
        }
        let mut note = |which: usize, at: Timestamp| {
            let earliest = &mut self.fresh.needs[which];
            *earliest = Some(earliest.map_or(at, |known| known.min(at)));
        };
        if let Some((need, at)) = place.need {
            note(usize::try_from(need).unwrap_or(OVERDUE), at);
        }
        if let Some(deadline) = row.state.deadline.filter(|_| row.state.awaits_begin()) {
            note(OVERDUE, deadline);
        }
    }

    /// Writes what was kept back, right before the commit, and says whom to wake after it.
    pub(crate) fn finish(&mut self) -> Result<Vec<Notice>> {
        for (id, row) in &mut self.domains {
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
                ];
                self.db.run(Query::PutDomain, params)?;
            }
        }
        self.finish_keys()?;
        self.notices()
    }

    fn notices(&mut self) -> Result<Vec<Notice>> {
        let fresh = std::mem::take(&mut self.fresh);
        let mut notices: Vec<_> = fresh.settled.into_iter().map(Notice::Settled).collect();
        for domain in fresh.due {
            notices.push(Notice::Due(self.db.domain(domain)?));
        }
        let mut recovery = false;
        for (which, need) in [OVERDUE as i64, UNFINALIZED, LEASE_ENDED, PROBE_DUE]
            .into_iter()
            .zip(fresh.needs)
        {
            let Some(need) = need.filter(|_| !recovery) else {
                continue;
            };
            let first = match which {
                0 => self.db.first(Query::FirstOverdue, [], |row| row.int(0))?,
                which => self
                    .db
                    .first(Query::FirstNeeding, [which], |row| row.int(0))?,
            };
            // Something that was due before it is waited for already.
            recovery = first.is_some_and(|first| first >= millis(need));
        }
        notices.extend(recovery.then_some(Notice::Recovery));
        Ok(notices)
    }
}

impl DomainRow {
    /// From column `at` on.
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
            },
            changed: false,
        })
    }
}
