//! Per-key order: who of a lane may begin.

use clinch_core::protocol::LaneStand;
use clinch_core::{LaneKey, Result};
use rusqlite::params;

use crate::column::{Column, stored};
use crate::query::Query;
use crate::row::Row;
use crate::tx::Tx;

impl Tx<'_, '_> {
    /// The lane of a row that has one.
    pub(crate) fn lane_of(&mut self, row: &Row) -> Result<Option<LaneKey>> {
        if !row.laned {
            return Ok(None);
        }
        let request = self.db.request(row.seq)?;
        Ok(request.and_then(|request| request.lane))
    }

    fn head(&mut self, lane: &LaneKey) -> Result<Option<u64>> {
        let lane = lane.as_bytes().as_slice();
        self.db.first(Query::LaneHead, [lane], |row| row.count(0))
    }

    /// Where a row stands; an operation that has left its lane is as one without.
    pub(crate) fn stand(&mut self, row: &Row) -> Result<LaneStand> {
        let Some(lane) = self.lane_of(row)? else {
            return Ok(LaneStand::Unordered);
        };
        self.stand_in(&lane, row.seq)
    }

    pub(crate) fn stand_in(&mut self, lane: &LaneKey, seq: u64) -> Result<LaneStand> {
        Ok(match self.head(lane)? {
            None => LaneStand::Unordered,
            Some(head) if head == seq => LaneStand::Ours,
            Some(_) => LaneStand::Behind,
        })
    }

    pub(crate) fn join_lane(&mut self, lane: &LaneKey, seq: u64) -> Result<()> {
        let params = params![lane.as_bytes().as_slice(), stored(seq)];
        self.db.run(Query::JoinLane, params).map(|_| ())
    }

    /// The head begins, or is held: it keeps the lane until it is terminal.
    pub(crate) fn take_lane(&mut self, row: &Row) -> Result<()> {
        let Some(lane) = self.lane_of(row)? else {
            return Ok(());
        };
        if self.head(&lane)? == Some(row.seq) {
            let params = params![lane.as_bytes().as_slice(), stored(row.seq)];
            self.db.run(Query::TakeLane, params)?;
        }
        Ok(())
    }

    /// The row is terminal; whoever is head by this is in line from now on.
    pub(crate) fn leave_lane(&mut self, row: &Row) -> Result<()> {
        let Some(lane) = self.lane_of(row)? else {
            return Ok(());
        };
        let before = self.head(&lane)?;
        let params = params![lane.as_bytes().as_slice(), stored(row.seq)];
        self.db.run(Query::LeaveLane, params)?;
        let head = self.head(&lane)?;
        let Some(next) = head.filter(|_| head != before) else {
            return Ok(());
        };
        self.db.run(Query::LineUp, [stored(next)])?;
        if let Some(row) = self.db.row_at(next)? {
            let place = row.place(LaneStand::Ours, self.now);
            self.tell(&row, place);
        }
        Ok(())
    }
}
