//! Reading and locking what a plan needs.
//!
//! Every call locks in one order: rows by id, lanes, batches by id, dead letters by id. All that is wanted at once
//! is one round trip; operations that have ended, and checkpoints, are a second one.

use std::collections::{BTreeMap, HashMap, HashSet};

use clinch_core::{Domain, LaneKey, OpId, Result, Sealed, Timestamp};
use clinch_stored::commit::{BatchRow, Members, Request, Seen, Wanted};
use tokio_postgres::Row as SqlRow;
use uuid::Uuid;

use crate::batches::read_batch;
use crate::error;
use crate::keys::{Key, key_of, read_known};
use crate::link::{Command, Link};
use crate::query::Query;
use crate::row::{self, STREAM, count, stored};
use crate::tx::Tx;

impl Tx<'_> {
    /// Reads and locks what is wanted. What is not found is left out.
    pub(crate) async fn load(&mut self, wanted: &Wanted, seen: &mut Seen) -> Result<()> {
        let begins = wanted.rows.values().any(|whole| *whole);
        let mut commands = locking(wanted);
        let locks = !commands.is_empty();
        if !wanted.keys.is_empty() || !wanted.ids.is_empty() {
            let keys = wanted.keys.values().map(|key| key_of(&key.keys).to_vec());
            let ids: Vec<Uuid> = wanted.ids.iter().map(|op| op.0).collect();
            let known = Command::new(Query::Known).with(keys.collect::<Vec<_>>());
            commands.push(known.with(ids));
        }
        self.ask_surroundings(&mut commands, begins || !wanted.domains.is_empty());
        let answers = match locks {
            true => self.send(&commands).await?,
            false => self.look(&commands).await?,
        };
        let mut rows = Vec::new();
        for (command, answer) in commands.iter().zip(answers) {
            match command.query {
                Query::RowsForUpdate => rows = answer,
                Query::LaneMembers => keep_lanes(&answer, wanted, seen)?,
                Query::BatchesForUpdate => keep_batches(&answer, seen)?,
                Query::Spawns => keep_spawns(&answer, seen)?,
                Query::Known => keep_known(&answer, wanted, seen)?,
                other => self.keep_surroundings(other, &answer)?,
            }
        }
        self.keep_rows(&rows, seen).await?;
        self.load_ended(wanted, seen).await?;
        self.load_letters(wanted, seen).await?;
        if let Some(paused) = &self.paused {
            for domain in &wanted.domains {
                keep_pause(paused, domain, seen);
            }
        }
        Ok(())
    }

    /// Asks for the time and, if `pauses`, for the domains that are paused, where they are not
    /// known yet. The time is asked last: it is that of rows that are locked.
    pub(crate) fn ask_surroundings(&self, commands: &mut Vec<Command>, pauses: bool) {
        if pauses && self.paused.is_none() {
            commands.push(Command::new(Query::Paused));
        }
        if self.now == Timestamp::default() {
            commands.push(Command::new(Query::Now));
        }
    }

    /// Keeps the answer to one of [`Tx::ask_surroundings`].
    pub(crate) fn keep_surroundings(&mut self, query: Query, answer: &[SqlRow]) -> Result<()> {
        match query {
            Query::Now => self.keep_now(answer),
            Query::Paused => {
                let name = |row: &SqlRow| Domain::new(row.get::<_, String>(0));
                let paused: Result<_, _> = answer.iter().map(name).collect();
                self.paused = Some(paused.map_err(error::unreadable)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Operations that have ended are not in the queue.
    async fn load_ended(&mut self, wanted: &Wanted, seen: &mut Seen) -> Result<()> {
        let ended = wanted.rows.keys().filter(|op| !seen.has_row(**op));
        let ended: Vec<Uuid> = ended.map(|op| op.0).collect();
        if ended.is_empty() {
            return Ok(());
        }
        let rows = self.query(Query::HistoryForUpdate, &[&ended]).await?;
        self.keep_rows(&rows, seen).await.map(drop)
    }

    /// Keeps rows that a statement has read and locked.
    pub(crate) async fn keep_rows(
        &mut self,
        rows: &[SqlRow],
        seen: &mut Seen,
    ) -> Result<Vec<OpId>> {
        let names = &self.shared.names;
        if rows.iter().any(|row| !names.knows_stream(row.get(STREAM))) {
            match self.link {
                Link::Pooled(_) => names.load(&self.link).await?,
                // What the caller's transaction made may never be.
                Link::Caller(_) => self.shared.learn().await,
            }
        }
        let read = rows.iter().map(|row| row::read(row, names));
        let mut read: Vec<_> = read.collect::<Result<_>>()?;
        let begins = read
            .iter()
            .filter(|row| row.request.is_some() && row.state.awaits_begin());
        let kept = begins.filter(|row| row.has_checkpoint);
        let kept: Vec<Uuid> = kept.map(|row| row.op_id.0).collect();
        let mut checkpoints = HashMap::new();
        if !kept.is_empty() {
            for row in self.query(Query::Checkpoints, &[&kept]).await? {
                checkpoints.insert(OpId(row.get(0)), Sealed::new(row.get(1)));
            }
        }
        let mut ops = Vec::with_capacity(read.len());
        for mut row in read.drain(..) {
            let is_intact = |request: &Request| request.is_intact(&row.op_id, &row.event_type);
            row.is_intact = row.request.as_deref().is_some_and(is_intact);
            row.checkpoint = checkpoints.remove(&row.op_id);
            if let Some(paused) = &self.paused {
                keep_pause(paused, &row.domain, seen);
            }
            ops.push(row.op_id);
            seen.row(row);
        }
        Ok(ops)
    }
}

/// Commands that lock, in the order in which everybody locks, and those that go with them.
fn locking(wanted: &Wanted) -> Vec<Command> {
    let mut commands = Vec::new();
    let ids = |ops: &mut dyn Iterator<Item = &OpId>| ops.map(|op| op.0).collect::<Vec<Uuid>>();
    if !wanted.rows.is_empty() {
        let whole = wanted.rows.iter().filter(|(_, whole)| **whole);
        let rows = Command::new(Query::RowsForUpdate).with(ids(&mut wanted.rows.keys()));
        commands.push(rows.with(ids(&mut whole.map(|(op, _)| op))));
    }
    if !wanted.lanes.is_empty() {
        let locks: Vec<i64> = wanted.lanes.iter().map(lane_lock).collect();
        commands.push(Command::new(Query::LaneLocks).with(locks));
        let lanes = wanted.lanes.iter().map(|lane| lane.as_bytes().to_vec());
        let members = Command::new(Query::LaneMembers).with(lanes.collect::<Vec<_>>());
        commands.push(members.with(stored(wanted.lane_depth as u64 + 1)));
    }
    if !wanted.batches.is_empty() {
        let batches: Vec<Uuid> = wanted.batches.iter().map(|batch| batch.0).collect();
        commands.push(Command::new(Query::BatchesForUpdate).with(batches));
    }
    if !wanted.spawns.is_empty() {
        commands.push(Command::new(Query::Spawns).with(ids(&mut wanted.spawns.iter())));
    }
    commands
}

/// The advisory lock of a lane.
fn lane_lock(lane: &LaneKey) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = *lane.as_bytes();
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

fn keep_lanes(rows: &[SqlRow], wanted: &Wanted, seen: &mut Seen) -> Result<()> {
    let mut lanes: BTreeMap<LaneKey, Members> = BTreeMap::new();
    for row in rows {
        let lane = LaneKey::from_bytes(row.get(0)).map_err(error::unreadable)?;
        let members = lanes.entry(lane).or_default();
        match members.open.len() < wanted.lane_depth {
            true => {
                let op_id = Some(OpId(row.get(2)));
                members.open.insert(count(row.get(1))?, op_id);
            }
            false => members.has_more = true,
        }
    }
    for (lane, members) in lanes {
        seen.lane(lane, members);
    }
    Ok(())
}

fn keep_batches(rows: &[SqlRow], seen: &mut Seen) -> Result<()> {
    for row in rows {
        seen.batch(BatchRow {
            batch: read_batch(row)?,
            on_complete: row.get::<_, Option<String>>(8).map(String::into_bytes),
        });
    }
    Ok(())
}

fn keep_spawns(rows: &[SqlRow], seen: &mut Seen) -> Result<()> {
    for row in rows {
        seen.spawn(OpId(row.get(0)), row.get::<_, &str>(1).as_bytes())?;
    }
    Ok(())
}

fn keep_known(rows: &[SqlRow], wanted: &Wanted, seen: &mut Seen) -> Result<()> {
    let hashes = wanted.keys.iter();
    let hashes: HashMap<Key, _> = hashes
        .map(|(hash, key)| (key_of(&key.keys), *hash))
        .collect();
    for row in rows {
        let (key, known) = read_known(row)?;
        seen.taken(known.known.op_id);
        if let Some(hash) = hashes.get(&key) {
            seen.key(*hash, known);
        }
    }
    Ok(())
}

fn keep_pause(paused: &HashSet<Domain>, domain: &Domain, seen: &mut Seen) {
    match paused.contains(domain) {
        true => seen.paused(domain.clone()),
        false => seen.not_paused(domain.clone()),
    }
}
