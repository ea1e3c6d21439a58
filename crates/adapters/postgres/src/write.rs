//! Writing a plan: one statement a kind, all of them in one round trip. Every row is written by
//! compare-and-set: on its version, on its history, and a new one on its keys.

use std::collections::HashMap;

use clinch_core::ports::ResultRecord;
use clinch_core::{OpId, Result, Sealed, Timestamp};
use clinch_stored::codec::{self, SideRows};
use clinch_stored::commit::{Awaits, Extent, Plan, Request, Row, RowWrite, SpawnWrite};
use clinch_stored::json::to_text;
use clinch_stored::ledger::{self, By};
use clinch_stored::letters::Summary;
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::error;
use crate::keys::key_of;
use crate::letters;
use crate::link::Command;
use crate::live_rows::{Left, left};
use crate::names::Names;
use crate::own_rows::SOON;
use crate::query::Query;
use crate::row::{Extras, count, millis, need_of, phase_column, status_column, stored};
use crate::server_clock::ERROR_MAX;
use crate::tx::Tx;

/// A row to write, with its history as it is after the commit.
struct Grown<'p> {
    write: &'p RowWrite,
    ledger: Vec<u8>,
}

impl Grown<'_> {
    fn request(&self) -> Result<&Request> {
        self.write.row.request()
    }
}

impl Command {
    /// One value of each row.
    fn each<R, T>(self, rows: &[R], value: impl Fn(&R) -> T) -> Self
    where
        T: ToSql + Sync + Send + 'static,
    {
        self.with(rows.iter().map(value).collect::<Vec<T>>())
    }

    /// One value of each row, unless one of them cannot be stored.
    fn try_each<R, T>(self, rows: &[R], value: impl Fn(&R) -> Result<T>) -> Result<Self>
    where
        T: ToSql + Sync + Send + 'static,
    {
        let column = rows.iter().map(value).collect::<Result<Vec<T>>>()?;
        Ok(self.with(column))
    }

    /// The columns that every statement writes, in the order in which all of them take them.
    fn with_rows(self, rows: &[Grown<'_>]) -> Result<Self> {
        let command = self
            .each(rows, |one| one.write.row.op_id.0)
            .each(rows, |one| status_column(one.write.row.state.status))
            .each(rows, |one| stored(one.write.row.state.version))
            .each(rows, |one| millis(one.write.row.state.deadline))
            .each(rows, |one| one.write.row.state.attempt_id.map(|id| id.0))
            .try_each(rows, packed)?
            .each(rows, |one| one.ledger.clone())
            .each(rows, |one| millis(one.write.row.started_at));
        Ok(command)
    }

    /// The columns of rows that are open, after those of every row.
    fn with_open(self, rows: &[Grown<'_>]) -> Self {
        let need = |one: &Grown<'_>| match one.write.awaits {
            Awaits::Recovery(scan, at) => need_of(scan).map(|need| (need, at.as_millis())),
            Awaits::Begin(_) | Awaits::Nothing => None,
        };
        self.each(rows, |one| one.write.row.state.phase.map(phase_column))
            .each(rows, |one| millis(one.write.row.state.next_attempt_at))
            .each(rows, |one| {
                i16::from(matches!(one.write.awaits, Awaits::Begin(_)))
            })
            .each(rows, |one| need(one).map(|(need, _)| need))
            .each(rows, |one| need(one).map(|(_, at)| at))
    }

    /// What rows must be before, and the counters that they leave and enter.
    fn with_before(self, rows: &[Grown<'_>]) -> Self {
        let version = |one: &Grown<'_>| one.write.before.as_ref().map(|state| state.version);
        self.each(rows, |one| version(one).map(stored))
            .each(rows, |one| one.write.row.ledger.clone())
            .each(rows, |one| one.write.counters().0.map(counter))
            .each(rows, |one| counter(one.write.counters().1))
    }

    /// When a plan is written, how far that may be from the server's clock, and whether all of
    /// its rows must be written: the last columns.
    fn with_guard(self, now: i64, guard: Guard) -> Self {
        let error_max = match guard {
            Guard::Whole => i64::MAX,
            Guard::EachRow => i64::try_from(ERROR_MAX.as_millis()).unwrap_or(0),
        };
        let command = self.with(now).with(error_max);
        command.with(guard == Guard::Whole)
    }

    /// The columns of a result, after all others.
    fn with_results(self, rows: &[Grown<'_>]) -> Self {
        fn bytes(payload: &Sealed) -> Vec<u8> {
            payload.as_bytes().to_vec()
        }
        fn result<'r>(one: &'r Grown<'_>) -> Option<&'r ResultRecord> {
            one.write.row.result.as_ref()
        }
        self.each(rows, |one| result(one)?.provider_txn_id.clone())
            .each(rows, |one| result(one)?.payload.as_ref().map(bytes))
    }
}

/// A counter's place as the statements have it.
fn counter(place: usize) -> i16 {
    i16::try_from(place).unwrap_or(0)
}

/// What becomes of a plan of which one row is not as it was taken to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Nothing is written: the call is tried again. Its rows are locked, and the time was asked
    /// for, so that only new keys can differ.
    Whole,
    /// All others are written: nothing was locked, and the time is an estimate.
    EachRow,
}

/// The part of the state that no statement looks at.
fn packed(one: &Grown<'_>) -> Result<Vec<u8>> {
    let row = &one.write.row;
    let stored = SideRows {
        checkpoint: row.has_checkpoint,
        spawn: row.has_spawn,
        result: row.result.is_some(),
    };
    codec::encode(&row.state, stored)
}

/// Takes new rows in.
fn accept(rows: &[Grown<'_>], names: &Names) -> Result<Command> {
    let stream = |one: &Grown<'_>| {
        let row = &one.write.row;
        let found = names.find_stream(&row.domain, &row.event_type, -row.priority.get());
        found.ok_or_else(|| error::corrupt("stream"))
    };
    let fingerprint = |one: &Grown<'_>| {
        let key = one.write.key.ok_or_else(|| error::corrupt("fingerprint"))?;
        Ok(key.fingerprint.to_bytes().to_vec())
    };
    let labels = |one: &Grown<'_>| {
        let labels = &one.request()?.labels;
        let is_any = labels.iter().next().is_some();
        is_any.then(|| to_text(labels)).transpose()
    };
    let command = Command::new(Query::Accept)
        .with_rows(rows)?
        .with_open(rows)
        .try_each(rows, |one| Ok(key_of(&one.write.row.keys()?).to_vec()))?
        .try_each(rows, fingerprint)?
        .try_each(rows, stream)?
        .try_each(rows, |one| Ok(one.request()?.biz_key.as_str().to_owned()))?
        .try_each(rows, |one| Ok(one.request()?.idem_key.as_str().to_owned()))?
        .try_each(rows, |one| Ok(one.request()?.payload.as_bytes().to_vec()))?
        .try_each(rows, |one| {
            Ok(one.request()?.content_hash.to_bytes().to_vec())
        })?
        .try_each(rows, |one| Extras::column(&one.write.row))?
        .try_each(rows, labels)?
        .each(rows, |one| Some(one.write.row.lane?.as_bytes().to_vec()))
        .each(rows, |one| one.write.row.batch_id.map(|id| id.0));
    Ok(command)
}

/// The rows of a plan by the statement that writes them.
#[derive(Default)]
struct Groups<'p> {
    new: Vec<Grown<'p>>,
    /// Open before and after.
    open: Vec<Grown<'p>>,
    /// Ended by this plan.
    ended: Vec<Grown<'p>>,
    /// Open, and only the history grows.
    noted: Vec<Grown<'p>>,
    /// Had ended before.
    past: Vec<Grown<'p>>,
    /// Parts of histories that are too long to stay beside their rows.
    pages: Vec<(OpId, Vec<u8>)>,
}

impl<'p> Groups<'p> {
    fn of(plan: &'p Plan, names: &Names) -> Result<Self> {
        let mut groups = Self::default();
        for write in &plan.rows {
            let row = &write.row;
            let mut ledger = row.ledger.clone();
            let pages = ledger::grow(&mut ledger, &write.lines, row.accepted_at, |worker| {
                let number = names.find_worker(worker);
                let number = number.ok_or_else(|| error::corrupt("worker"))?;
                Ok(By::Number(i64::from(number)))
            })?;
            let pages = pages.into_iter().map(|page| (row.op_id, page));
            groups.pages.extend(pages);
            let group = match write.extent {
                _ if write.before.is_none() => &mut groups.new,
                _ if write.had_ended() => &mut groups.past,
                Extent::Whole if row.state.is_terminal() => &mut groups.ended,
                Extent::Whole => &mut groups.open,
                Extent::Ledger | Extent::Nothing => &mut groups.noted,
            };
            group.push(Grown { write, ledger });
        }
        // Rows are changed in the order of their ids, as they are locked.
        for group in [&mut groups.open, &mut groups.ended, &mut groups.noted] {
            group.sort_by_key(|one| one.write.row.op_id);
        }
        Ok(groups)
    }

    /// The commands that write the rows.
    fn commands(&self, names: &Names, now: i64, guard: Guard) -> Result<Vec<Command>> {
        let Self {
            new, open, ended, ..
        } = self;
        let mut commands = Vec::new();
        if !new.is_empty() {
            commands.push(accept(new, names)?.with_guard(now, guard));
        }
        if !open.is_empty() {
            let command = Command::new(Query::UpdateRows).with_rows(open)?;
            let command = command.with_open(open).with_results(open);
            commands.push(command.with_before(open).with_guard(now, guard));
        }
        if !ended.is_empty() {
            let command = Command::new(Query::Settle).with_rows(ended)?;
            let command = command.with_results(ended).with_before(ended);
            commands.push(command.with_guard(now, guard));
        }
        let ledgers = |query, rows: &[Grown<'_>]| {
            let command = Command::new(query).each(rows, |one| one.write.row.op_id.0);
            command.each(rows, |one| one.ledger.clone())
        };
        if !self.noted.is_empty() {
            commands.push(ledgers(Query::UpdateLedgers, &self.noted));
        }
        if !self.past.is_empty() {
            let command = ledgers(Query::UpdateHistory, &self.past);
            commands.push(command.try_each(&self.past, packed)?);
        }
        Ok(commands)
    }

    /// What the process keeps of the rows that were written.
    fn left(&self, written: &HashMap<OpId, Option<u64>>) -> Vec<Left> {
        // A history that grew alone makes the row another one, too.
        let changed = [&self.new, &self.open, &self.ended, &self.noted];
        let changed = changed.into_iter().flatten();
        let left = changed.map(|one| {
            let row = &one.write.row;
            match written.get(&row.op_id) {
                Some(seq) => left(row, seq.unwrap_or(row.seq), &one.ledger),
                None => (row.op_id, None),
            }
        });
        left.collect()
    }
}

impl Tx<'_> {
    /// Keeps new rows for [`OwnRows`](crate::own_rows::OwnRows), with what the plan makes due.
    fn announce(&mut self, plan: &Plan, groups: &Groups<'_>, written: &HashMap<OpId, Option<u64>>) {
        let names = &self.shared.names;
        self.announcements.add(plan, names);
        let mut others = [&groups.open, &groups.ended].into_iter().flatten();
        let others_due = others.any(is_due) || !plan.lanes.is_empty();
        self.announcements.others_due |= others_due;
        let now = self.shared.clock.monotonic();
        for one in groups.new.iter().filter(|one| is_due(one)) {
            if self.announcements.others_due {
                return;
            }
            let row = &one.write.row;
            let Some(Some(seq)) = written.get(&row.op_id) else {
                continue;
            };
            let rank = -row.priority.get();
            let stream = names.find_stream(&row.domain, &row.event_type, rank);
            let is_due_soon = match one.write.awaits {
                Awaits::Begin(at) => at.since(plan.now) <= SOON,
                Awaits::Recovery(..) | Awaits::Nothing => false,
            };
            match stream {
                Some(id) if is_due_soon && self.shared.own_rows.wants(id, now) => {
                    let row = Row {
                        seq: *seq,
                        ledger: one.ledger.clone(),
                        ..row.clone()
                    };
                    self.announcements.accepted.push((id, row));
                }
                _ => self.announcements.others_due = true,
            }
        }
    }
}

/// The row waits for a begin.
fn is_due(one: &Grown<'_>) -> bool {
    matches!(one.write.awaits, Awaits::Begin(_))
}

/// Every command of a plan. Rows come first: what follows changes some of them again.
fn commands(groups: &Groups<'_>, plan: &Plan, names: &Names) -> Result<Vec<Command>> {
    let now = plan.now.as_millis();
    let mut commands = groups.commands(names, now, Guard::Whole)?;
    put(
        &mut commands,
        Query::InsertLedgerPages,
        groups.pages.clone(),
    );
    let rows = || plan.rows.iter();
    let checkpoint = |one: &RowWrite| {
        let bytes = one.checkpoint.as_ref()?.as_bytes();
        Some((one.row.op_id, bytes.to_vec()))
    };
    let checkpoints = rows().filter_map(checkpoint).collect();
    put(&mut commands, Query::PutCheckpoints, checkpoints);
    let spawn = |one: &RowWrite| match &one.spawn {
        SpawnWrite::Store(new) => Some(to_text(new).map(|text| (one.row.op_id, text))),
        SpawnWrite::Leave | SpawnWrite::Delete => None,
    };
    let spawns = rows().filter_map(spawn).collect::<Result<_>>()?;
    put(&mut commands, Query::PutSpawns, spawns);
    let redriven = plan.redriven.iter().map(|(op, by)| (*op, by.0));
    put(&mut commands, Query::SetRedriven, redriven.collect());
    let spawned = rows().filter(|one| one.spawn == SpawnWrite::Delete);
    let spawned: Vec<Uuid> = spawned.map(|one| one.row.op_id.0).collect();
    let heads = plan.lanes.iter().filter_map(|lane| lane.lined_up?.1);
    let mut heads: Vec<Uuid> = heads.map(|op| op.0).collect();
    heads.sort_unstable();
    for (query, ids) in [(Query::DeleteSpawns, spawned), (Query::LineUp, heads)] {
        if !ids.is_empty() {
            commands.push(Command::new(query).with(ids));
        }
    }
    let failed = rows().filter(|one| one.dead_letter);
    let failed: Vec<_> = failed
        .map(|one| (&one.row, Summary::of(&one.row)))
        .collect();
    if !failed.is_empty() {
        let fingerprint =
            |(row, summary): &(&Row, Summary)| summary.fingerprint(&row.domain, &row.event_type);
        let command = Command::new(Query::InsertDeadLetters)
            .each(&failed, |(row, _)| row.op_id.0)
            .try_each(&failed, |(_, summary)| to_text(summary))?
            .each(&failed, |(_, summary)| summary.failure.code.clone())
            .each(&failed, fingerprint);
        commands.push(command);
    }
    commands.extend(letters::write(plan)?);
    commands.extend(batches(plan));
    Ok(commands)
}

fn put<T>(commands: &mut Vec<Command>, query: Query, values: Vec<(OpId, T)>)
where
    T: ToSql + Sync + Send + 'static,
{
    if !values.is_empty() {
        let (ids, values): (Vec<_>, Vec<T>) = values.into_iter().map(|(op, v)| (op.0, v)).unzip();
        commands.push(Command::new(query).with(ids).with(values));
    }
}

fn batches(plan: &Plan) -> Option<Command> {
    let batches = &plan.batches;
    let command = Command::new(Query::PutBatches)
        .each(batches, |one| one.batch.batch_id.0)
        .each(batches, |one| one.batch.sealed)
        .each(batches, |one| stored(one.batch.total))
        .each(batches, |one| stored(one.batch.completed))
        .each(batches, |one| stored(one.batch.failed))
        .each(batches, |one| millis(one.batch.completed_at));
    (!batches.is_empty()).then_some(command)
}

impl Tx<'_> {
    /// Writes a plan whose rows are locked, and commits in the same round trip if it `is_last`.
    /// The seqs of its new rows, in the plan's order.
    pub(crate) async fn write(&mut self, plan: &Plan, is_last: bool) -> Result<Vec<u64>> {
        self.need_numbers(plan)?;
        let names = &self.shared.names;
        let groups = Groups::of(plan, names)?;
        let commands = commands(&groups, plan, names)?;
        let written = match is_last {
            true => self.send_last(&commands).await?,
            false => self.send(&commands).await?,
        };
        let written = self.keep_written(&groups, &commands, &written)?;
        self.left.extend(groups.left(&written));
        self.announce(plan, &groups, &written);
        let seq = |write: &RowWrite| written.get(&write.row.op_id).copied().flatten();
        let new = plan.new_rows().map(seq);
        new.map(|seq| seq.ok_or_else(|| error::corrupt("seq")))
            .collect()
    }

    /// Writes those rows of a plan that are as it takes them to be, and commits, in one round
    /// trip. The operations that were written, with the seqs of new ones. Of a plan that
    /// [touches nothing but its rows](clinch_stored::commit::Plan::is_rows_alone).
    pub(crate) async fn write_guess(&mut self, plan: &Plan) -> Result<HashMap<OpId, Option<u64>>> {
        self.need_numbers(plan)?;
        let names = &self.shared.names;
        let groups = Groups::of(plan, names)?;
        if !groups.pages.is_empty() {
            return Ok(HashMap::new());
        }
        let commands = groups.commands(names, plan.now.as_millis(), Guard::EachRow)?;
        let written = self.send_last(&commands).await?;
        let written = self.keep_written(&groups, &commands, &written)?;
        self.left.extend(groups.left(&written));
        self.announce(plan, &groups, &written);
        let settled = &mut self.announcements.settled;
        settled.retain(|op| written.contains_key(op));
        self.now = plan.now;
        Ok(written)
    }

    /// The operations that were written, with the seqs of new ones.
    fn keep_written(
        &self,
        groups: &Groups<'_>,
        commands: &[Command],
        answers: &[Vec<SqlRow>],
    ) -> Result<HashMap<OpId, Option<u64>>> {
        let mut written = HashMap::new();
        for (command, rows) in commands.iter().zip(answers) {
            let sent = match command.query {
                Query::Accept => &groups.new,
                Query::UpdateRows => &groups.open,
                Query::Settle => &groups.ended,
                _ => continue,
            };
            let Some(row) = rows.first() else {
                continue;
            };
            self.learn_now(Timestamp::from_millis(row.get(0)));
            let ids = row.get::<_, Option<Vec<Uuid>>>(1);
            if command.query == Query::Accept {
                let seqs = row.get::<_, Option<Vec<i64>>>(2).unwrap_or_default();
                for (id, seq) in ids.unwrap_or_default().into_iter().zip(seqs) {
                    written.insert(OpId(id), Some(count(seq)?));
                }
            } else if let Some(ids) = ids {
                written.extend(ids.into_iter().map(|id| (OpId(id), None)));
            } else if row.get(2) {
                written.extend(sent.iter().map(|one| (one.write.row.op_id, None)));
            }
        }
        Ok(written)
    }
}
