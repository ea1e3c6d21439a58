//! Per-key order: who of a lane may begin.

use std::collections::{BTreeMap, BTreeSet};

use clinch_core::protocol::{Lane, LaneStand};
use clinch_core::{Domain, LaneKey, Result};

use crate::column::Column;
use crate::flush::PROVISIONAL;
use crate::link::{Answer, Script};
use crate::query::Query;
use crate::row::Row;
use crate::text::{self, Tuple};
use crate::tx::Tx;

/// A lane under its lock: its first members, as many as a call can end and one more.
#[derive(Debug, Clone, Default)]
pub(crate) struct LaneRow {
    pub lane: Lane,
    pub holder: Option<u64>,
    pub holder_in_db: Option<u64>,
    pub head_in_db: Option<u64>,
    pub left: Vec<u64>,
    /// There are no members beyond those in hand.
    complete: bool,
    pub domain: Option<Domain>,
}

impl LaneRow {
    pub(crate) fn is_empty(&self) -> bool {
        self.complete && self.lane.is_empty()
    }

    fn read(holder: Option<u64>, members: &[u64], limit: usize) -> Self {
        let mut lane = Lane::default();
        if let Some(holder) = holder {
            lane.join(holder);
            lane.take(holder);
        }
        for seq in members {
            lane.join(*seq);
        }
        Self {
            head_in_db: lane.head(),
            lane,
            holder,
            holder_in_db: holder,
            left: Vec::new(),
            complete: members.len() < limit,
            domain: None,
        }
    }
}

impl Tx<'_> {
    /// Locks lanes that a new operation joins; made where they are not there.
    pub(crate) fn lock_lanes(&self, lanes: &BTreeSet<LaneKey>, script: &mut Script) {
        if lanes.is_empty() {
            return;
        }
        let rows: Vec<_> = lanes
            .iter()
            .map(|lane| Tuple::new().bytes(lane.as_bytes()).end())
            .collect();
        script.add(&Query::InsertLanes.with(&[("rows", &rows.join(","))]));
    }

    /// Reads lanes that are locked: as many members as `changes` can end, and more.
    pub(crate) async fn read_lanes(
        &mut self,
        lanes: &BTreeSet<LaneKey>,
        changes: usize,
    ) -> Result<()> {
        self.read_lanes_by(Query::LockLanes, lanes, changes).await
    }

    /// The same for whoever waits for nobody: what is locked is not read.
    pub(crate) async fn skip_lanes(
        &mut self,
        lanes: &BTreeSet<LaneKey>,
        changes: usize,
    ) -> Result<()> {
        self.read_lanes_by(Query::SkipLanes, lanes, changes).await
    }

    async fn read_lanes_by(
        &mut self,
        query: Query,
        lanes: &BTreeSet<LaneKey>,
        changes: usize,
    ) -> Result<()> {
        let is_unknown = |lane: &&LaneKey| !self.lanes.contains_key(*lane);
        let unknown: Vec<LaneKey> = lanes.iter().filter(is_unknown).copied().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let limit = changes + 2;
        let names = text::list(unknown.iter().map(|lane| lane.as_bytes()));
        let mut script = Script::default();
        script.add(&query.with(&[("lanes", &names)]));
        for lane in &unknown {
            let lane = text::literal(lane.as_bytes());
            let values = [("lane", lane.as_str()), ("limit", &limit.to_string())];
            script.add(&Query::LaneMembers.with(&values));
        }
        let answers = self.run(script).await?;
        self.note_lanes(&answers, limit)
    }

    fn note_lanes(&mut self, answers: &[Answer], limit: usize) -> Result<()> {
        let mut members: BTreeMap<LaneKey, Vec<u64>> = BTreeMap::new();
        for row in answers.iter().skip(1).flat_map(|answer| &answer.rows) {
            if let Some(lane) = row.maybe_lane(0)? {
                members.entry(lane).or_default().push(row.count(1)?);
            }
        }
        for row in answers.iter().take(1).flat_map(|answer| &answer.rows) {
            let Some(lane) = row.maybe_lane(0)? else {
                continue;
            };
            let holder = row.maybe_int(1)?.and_then(|seq| u64::try_from(seq).ok());
            let members = members.remove(&lane).unwrap_or_default();
            self.lanes
                .insert(lane, LaneRow::read(holder, &members, limit));
        }
        Ok(())
    }

    /// Where an operation stands; in a lane that is gone it is as one without.
    pub(crate) fn stand(&self, lane: &LaneKey, seq: u64) -> LaneStand {
        match self.lanes.get(lane) {
            Some(row) if row.lane.head().is_some() => row.lane.stand(seq),
            _ => LaneStand::Unordered,
        }
    }

    pub(crate) fn join_lane(&mut self, lane: LaneKey, seq: u64) {
        let row = self.lanes.entry(lane).or_default();
        row.lane.join(seq);
    }

    /// The head begins, or is held: it keeps the lane until it is terminal.
    pub(crate) fn take_lane(&mut self, row: &Row) {
        let Some(held) = row.lane.and_then(|lane| self.lanes.get_mut(&lane)) else {
            return;
        };
        if held.lane.stand(row.seq) == LaneStand::Ours {
            held.lane.take(row.seq);
            held.holder = Some(row.seq);
        }
    }

    /// The lane that a row without a seq holds, and the expression that gives it one.
    pub(crate) fn take_holder(&self, row: &Row, seq: &str) -> Option<(LaneKey, String)> {
        let lane = row.lane?;
        let held = self.lanes.get(&lane)?;
        (held.holder == Some(row.seq)).then(|| (lane, seq.to_owned()))
    }

    /// The row is terminal; whoever is head by this is in line from now on.
    pub(crate) fn leave_lane(&mut self, row: &Row) {
        let Some(held) = row.lane.and_then(|lane| self.lanes.get_mut(&lane)) else {
            return;
        };
        held.lane.leave(row.seq);
        if held.holder == Some(row.seq) {
            held.holder = None;
        }
        if row.seq < PROVISIONAL {
            held.left.push(row.seq);
        }
        held.domain = Some(row.domain.clone());
    }
}
