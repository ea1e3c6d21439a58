//! Writing what a transaction changed.

use clinch_core::protocol::LaneStand;
use clinch_core::{OpId, Result, Sealed};
use clinch_stored::codec;
use futures_util::future::join_all;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::error;
use crate::keys::Key;
use crate::link::Link;
use crate::query::Query;
use crate::row::{Place, Row, millis, phase_column, status_column, stored, to_json};
use crate::tx::{Dirty, Origin, Tx};

/// The values of one column, or one value for all rows.
type Column = Box<dyn ToSql + Sync + Send>;

/// A statement and its values.
pub(crate) struct Write {
    query: Query,
    columns: Vec<Column>,
}

impl Write {
    fn new(query: Query) -> Self {
        Self {
            query,
            columns: Vec::new(),
        }
    }

    fn with(mut self, column: impl ToSql + Sync + Send + 'static) -> Self {
        self.columns.push(Box::new(column));
        self
    }

    /// Runs it alone.
    pub(crate) async fn run(
        &self,
        link: &Link<'_>,
    ) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
        link.raw_query(self.query, &self.params()).await
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        fn param(column: &Column) -> &(dyn ToSql + Sync) {
            column.as_ref()
        }
        self.columns.iter().map(param).collect()
    }
}

/// One value of each row.
fn each<T>(rows: &[(&Row, Place)], value: impl Fn(&Row) -> T) -> Vec<T> {
    rows.iter().map(|(row, _)| value(row)).collect()
}

fn packed(rows: &[(&Row, Place)]) -> Result<Vec<Vec<u8>>> {
    let pack = |(row, _): &(&Row, Place)| codec::encode(&row.state, row.beside);
    rows.iter().map(pack).collect()
}

/// The statement that takes new rows in; `counts`: and moves the counters.
pub(crate) fn accept(
    rows: &[(&Row, Place)],
    keys: &[(Key, clinch_core::Fingerprint)],
    counts: bool,
) -> Result<Write> {
    let labels = |row: &Row| match row.labels.iter().next() {
        Some(_) => to_json(&row.labels).map(Some),
        None => Ok(None),
    };
    let labels: Result<Vec<_>> = rows.iter().map(|(row, _)| labels(row)).collect();
    let extras: Result<Vec<_>> = rows.iter().map(|(row, _)| row.extras.column()).collect();
    let keys_column: Vec<Vec<u8>> = keys.iter().map(|(key, _)| key.to_vec()).collect();
    let prints = keys.iter().map(|(_, print)| print.to_bytes().to_vec());
    let lane = |row: &Row| row.lane.map(|lane| lane.as_bytes().to_vec());
    let now = rows
        .first()
        .map_or(0, |(row, _)| row.accepted_at.as_millis());
    Ok(Write::new(Query::Accept)
        .with(keys_column)
        .with(each(rows, |row| row.op_id.0))
        .with(prints.collect::<Vec<_>>())
        .with(each(rows, |row| row.stream.id))
        .with(each(rows, |row| row.biz_key.as_str().to_owned()))
        .with(each(rows, |row| row.idem_key.as_str().to_owned()))
        .with(each(rows, |row| row.payload.as_bytes().to_vec()))
        .with(each(rows, |row| row.content_hash.to_bytes().to_vec()))
        .with(extras?)
        .with(labels?)
        .with(each(rows, lane))
        .with(each(rows, |row| row.batch_id.map(|id| id.0)))
        .with(each(rows, |row| status_column(row.state.status)))
        .with(each(rows, |row| row.state.phase.map(phase_column)))
        .with(each(rows, |row| stored(row.state.version)))
        .with(each(rows, |row| millis(row.state.next_attempt_at)))
        .with(each(rows, |row| millis(row.state.deadline)))
        .with(each(rows, |row| row.state.attempt_id.map(|id| id.0)))
        .with(packed(rows)?)
        .with(each(rows, |row| row.ledger.clone()))
        .with(each(rows, |row| millis(row.started_at)))
        .with(places(rows, |place| place.line))
        .with(places(rows, |place| place.need.map(|(need, _)| need)))
        .with(places(rows, |place| {
            place.need.map(|(_, at)| at.as_millis())
        }))
        .with(now)
        .with(counts))
}

fn places<T>(rows: &[(&Row, Place)], value: impl Fn(Place) -> T) -> Vec<T> {
    rows.iter().map(|(_, place)| value(*place)).collect()
}

fn txn_id(row: &Row) -> Option<String> {
    row.result.as_ref()?.provider_txn_id.clone()
}

fn result(row: &Row) -> Option<Vec<u8>> {
    let payload = row.result.as_ref()?.payload.as_ref();
    payload.map(Sealed::as_bytes).map(<[u8]>::to_vec)
}

fn update(rows: &[(&Row, Place)]) -> Result<Write> {
    Ok(Write::new(Query::UpdateRows)
        .with(each(rows, |row| row.op_id.0))
        .with(each(rows, |row| status_column(row.state.status)))
        .with(each(rows, |row| row.state.phase.map(phase_column)))
        .with(each(rows, |row| stored(row.state.version)))
        .with(each(rows, |row| millis(row.state.next_attempt_at)))
        .with(each(rows, |row| millis(row.state.deadline)))
        .with(each(rows, |row| row.state.attempt_id.map(|id| id.0)))
        .with(packed(rows)?)
        .with(each(rows, |row| row.ledger.clone()))
        .with(each(rows, |row| millis(row.started_at)))
        .with(places(rows, |place| place.line))
        .with(places(rows, |place| place.need.map(|(need, _)| need)))
        .with(places(rows, |place| {
            place.need.map(|(_, at)| at.as_millis())
        }))
        .with(each(rows, txn_id))
        .with(each(rows, result)))
}

fn settle(rows: &[(&Row, Place)], now: i64) -> Result<Write> {
    Ok(Write::new(Query::Settle)
        .with(each(rows, |row| row.op_id.0))
        .with(each(rows, |row| status_column(row.state.status)))
        .with(each(rows, |row| stored(row.state.version)))
        .with(each(rows, |row| millis(row.state.deadline)))
        .with(each(rows, |row| row.state.attempt_id.map(|id| id.0)))
        .with(packed(rows)?)
        .with(each(rows, |row| row.ledger.clone()))
        .with(each(rows, |row| millis(row.started_at)))
        .with(each(rows, txn_id))
        .with(each(rows, result))
        .with(now))
}

impl Tx<'_> {
    fn placed<'r>(&self, row: &'r Row) -> (&'r Row, Place) {
        let stand = match row.state.awaits_begin() {
            true => self.stand(row),
            false => LaneStand::Unordered,
        };
        (row, row.place(stand, self.now))
    }

    /// Writes the new operations; from then on they are rows like any other.
    pub(crate) async fn flush_new(&mut self) -> Result<()> {
        let new = std::mem::take(&mut self.new);
        if new.is_empty() {
            return Ok(());
        }
        let entries = new.iter().filter_map(|op| self.rows.get(op));
        let (mut rows, mut keys) = (Vec::new(), Vec::new());
        for entry in entries {
            if let Origin::New { key, fingerprint } = &entry.origin {
                rows.push(self.placed(&entry.row));
                keys.push((*key, *fingerprint));
            }
        }
        let write = accept(&rows, &keys, false)?;
        let placed: Vec<(OpId, Place)> = rows.iter().map(|(row, at)| (row.op_id, *at)).collect();
        let written = self.query(write.query, &write.params()).await?;
        for row in written {
            let (op, seq) = (OpId(row.get(0)), crate::row::count(row.get(1))?);
            if let Some(entry) = self.rows.get_mut(&op) {
                let unplaced = entry.row.seq;
                entry.row.seq = seq;
                entry.origin = Origin::Queue;
                entry.dirty = Dirty::Clean;
                let members = entry.row.lane.and_then(|lane| self.lanes.get_mut(&lane));
                if let Some(members) = members {
                    members.remove(&(unplaced, op));
                    members.insert((seq, op));
                }
            }
        }
        for (op, place) in placed {
            if let Some(entry) = self.rows.get_mut(&op) {
                entry.row.line = place.line;
                let row = entry.row.clone();
                self.tell(&row, place);
            }
        }
        Ok(())
    }

    /// Every statement that is still owed.
    fn writes(&mut self) -> Result<Vec<Write>> {
        let (mut open, mut ended, mut lines, mut past) = (vec![], vec![], vec![], vec![]);
        let mut told = Vec::new();
        for entry in self.rows.values() {
            let row = &entry.row;
            match (entry.dirty, &entry.origin) {
                (Dirty::Clean, _) | (_, Origin::New { .. }) => {}
                (_, Origin::History) => past.push(row),
                (Dirty::Ledger, _) => lines.push(row),
                (Dirty::Whole, _) if row.state.is_terminal() => ended.push(self.placed(row)),
                (Dirty::Whole, _) => {
                    let placed = self.placed(row);
                    told.push((row.op_id, placed.1));
                    open.push(placed);
                }
            }
        }
        // One order for all: whoever locks rows does it by id.
        open.sort_by_key(|(row, _)| row.op_id);
        ended.sort_by_key(|(row, _)| row.op_id);
        let mut writes = Vec::new();
        if !open.is_empty() {
            writes.push(update(&open)?);
        }
        if !ended.is_empty() {
            writes.push(settle(&ended, self.now.as_millis())?);
        }
        let with_ledgers = |query, rows: &[&Row]| {
            let ids: Vec<Uuid> = rows.iter().map(|row| row.op_id.0).collect();
            let ledgers: Vec<_> = rows.iter().map(|row| row.ledger.clone()).collect();
            Write::new(query).with(ids).with(ledgers)
        };
        if !lines.is_empty() {
            writes.push(with_ledgers(Query::UpdateLedgers, &lines));
        }
        if !past.is_empty() {
            let past_rows: Vec<_> = past.iter().map(|row| self.placed(row)).collect();
            let write = with_ledgers(Query::UpdateHistory, &past);
            writes.push(write.with(packed(&past_rows)?));
        }
        for (op, place) in told {
            if let Some(row) = self.rows.get(&op).map(|entry| entry.row.clone()) {
                self.tell(&row, place);
            }
        }
        self.write_beside(&mut writes);
        Ok(writes)
    }

    fn write_beside(&mut self, writes: &mut Vec<Write>) {
        fn put<T: ToSql + Sync + Send + 'static>(
            writes: &mut Vec<Write>,
            query: Query,
            values: Vec<(OpId, T)>,
        ) {
            if !values.is_empty() {
                let (ids, values): (Vec<_>, Vec<_>) = values.into_iter().unzip();
                let ids: Vec<Uuid> = ids.into_iter().map(|op: OpId| op.0).collect();
                writes.push(Write::new(query).with(ids).with(values));
            }
        }
        let beside = std::mem::take(&mut self.beside);
        put(writes, Query::InsertLedgerPages, beside.pages);
        put(writes, Query::PutCheckpoints, beside.checkpoints);
        put(writes, Query::PutSpawns, beside.spawns);
        let redriven = beside.redriven.into_iter().map(|(op, by)| (op, by.0));
        put(writes, Query::SetRedriven, redriven.collect());
        let ids = |ops: Vec<OpId>| ops.into_iter().map(|op| op.0).collect::<Vec<Uuid>>();
        if !beside.spawned.is_empty() {
            writes.push(Write::new(Query::DeleteSpawns).with(ids(beside.spawned)));
        }
        if !beside.lined_up.is_empty() {
            let ops = beside.lined_up.into_iter().collect();
            writes.push(Write::new(Query::LineUp).with(ids(ops)));
        }
        if !beside.letters.is_empty() {
            let at = |(_, at, _): &(OpId, clinch_core::Timestamp, _)| at.as_millis();
            let write = Write::new(Query::InsertDeadLetters)
                .with(
                    beside
                        .letters
                        .iter()
                        .map(|(op, ..)| op.0)
                        .collect::<Vec<_>>(),
                )
                .with(beside.letters.iter().map(at).collect::<Vec<_>>())
                .with(
                    beside
                        .letters
                        .into_iter()
                        .map(|(.., letter)| letter)
                        .collect::<Vec<_>>(),
                );
            writes.push(write);
        }
        self.write_batches(writes);
        self.write_deltas(writes);
    }

    fn write_batches(&mut self, writes: &mut Vec<Write>) {
        let entries = self.batches.values().flatten().filter(|entry| entry.dirty);
        let mut batches: Vec<_> = entries.map(|entry| &entry.batch).collect();
        if batches.is_empty() {
            return;
        }
        batches.sort_by_key(|batch| batch.batch_id);
        let write = Write::new(Query::PutBatches)
            .with(batches.iter().map(|b| b.batch_id.0).collect::<Vec<_>>())
            .with(batches.iter().map(|b| b.sealed).collect::<Vec<_>>())
            .with(batches.iter().map(|b| stored(b.total)).collect::<Vec<_>>())
            .with(
                batches
                    .iter()
                    .map(|b| stored(b.completed))
                    .collect::<Vec<_>>(),
            )
            .with(batches.iter().map(|b| stored(b.failed)).collect::<Vec<_>>())
            .with(
                batches
                    .iter()
                    .map(|b| millis(b.completed_at))
                    .collect::<Vec<_>>(),
            );
        writes.push(write);
    }

    fn write_deltas(&mut self, writes: &mut Vec<Write>) {
        let deltas = std::mem::take(&mut self.deltas);
        let moved: Vec<_> = deltas.into_iter().filter(|(_, d)| *d != [0; 7]).collect();
        if moved.is_empty() {
            return;
        }
        let mut write = Write::new(Query::AddDeltas)
            .with(moved.iter().map(|(domain, _)| *domain).collect::<Vec<_>>());
        for at in 0..7 {
            write = write.with(moved.iter().map(|(_, d)| d[at]).collect::<Vec<i64>>());
        }
        writes.push(write);
    }

    /// Writes everything, and commits in the same breath if `commit`.
    pub(crate) async fn flush(&mut self, commit: bool) -> Result<()> {
        self.flush_new().await?;
        let writes = self.writes()?;
        // Prepared before the first is sent: nothing may come after the commit.
        let link = self.link;
        let mut statements = Vec::with_capacity(writes.len());
        for write in &writes {
            let ready = link.ready(write.query).await;
            statements.push(ready.map_err(|error| self.failed(error))?);
        }
        let params: Vec<_> = writes.iter().map(Write::params).collect();
        let mut sent = Vec::with_capacity(statements.len());
        for (statement, params) in statements.iter().zip(&params) {
            sent.push(link.run_ready(statement, params));
        }
        let sent = join_all(sent);
        let outcome = match link {
            Link::Pooled(client) if commit => {
                let end = client.batch_execute("COMMIT");
                let (sent, end) = futures_util::future::join(sent, end).await;
                first_error(sent).and(end)
            }
            _ => first_error(sent.await),
        };
        outcome.map_err(|failed| {
            self.again |= error::asks_again(&failed);
            match commit {
                true => error::commit(failed),
                false => error::sql(failed),
            }
        })
    }
}

fn first_error(sent: Vec<Result<u64, tokio_postgres::Error>>) -> Result<(), tokio_postgres::Error> {
    sent.into_iter().try_for_each(|one| one.map(drop))
}
