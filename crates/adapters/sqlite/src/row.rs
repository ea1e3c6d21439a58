//! Reads and writes the row of an operation.

use clinch_core::ports::{ResultRecord, Scan};
use clinch_core::protocol::{Hold, LastError, Phase, Refund, State, Verdict, WriteAhead};
use clinch_core::{Effect, Failure, OpId, Priority, Result, Sealed, Status};
use clinch_stored::commit::{Awaits, Row, RowWrite};
use clinch_stored::json;
use clinch_stored::ledger::{phase_of, status_code, status_of};
use rusqlite::params;

use crate::column::{Column, maybe_millis, millis, stored};
use crate::db::Db;
use crate::error;
use crate::query::Query;
use crate::request::read_request;

const CANCEL_REQUESTED: i64 = 1;
const REPEAT_PERMIT: i64 = 2;
const HAS_CHECKPOINT: i64 = 4;
const HAS_SPAWN: i64 = 8;
const HAS_RESULT: i64 = 16;
const LATE_OK: i64 = 32;

/// Columns of `clinch_operation` in every statement that reads rows; those of `clinch_request`
/// follow.
const ROW_COLUMNS: usize = 39;

/// How much of an operation a statement reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// The row only.
    Row,
    /// The row and its request. [`Db::whole_row`] also reads the checkpoint.
    Whole,
}

/// Values of column `need`: work for the Finalizer, the Reaper and the prober.
const UNFINALIZED: i64 = 1;
const LEASE_ENDED: i64 = 2;
const PROBE_DUE: i64 = 3;

/// The value of column `need` for a scan; `None`: overdue rows are found by their deadline.
pub(crate) fn need_of(scan: Scan) -> Option<i64> {
    match scan {
        Scan::Unfinalized => Some(UNFINALIZED),
        Scan::LeaseEnded => Some(LEASE_ENDED),
        Scan::ProbeDue => Some(PROBE_DUE),
        Scan::Overdue => None,
    }
}

/// Columns `line`, `need` and `need_at`. `line` is 1 for a row that awaits a begin, else 0.
fn queue_columns(awaits: Awaits) -> (i64, Option<i64>, Option<i64>) {
    match awaits {
        Awaits::Nothing => (0, None, None),
        Awaits::Begin(_) => (1, None, None),
        Awaits::Recovery(scan, at) => (0, need_of(scan), Some(millis(at))),
    }
}

/// Reads the columns of a statement that reads rows.
pub(crate) fn read_row(row: &rusqlite::Row<'_>, width: Width, db: &mut Db<'_>) -> Result<Row> {
    let flags = row.int(24)?;
    let has = |flag| flags & flag != 0;
    let result = has(HAS_RESULT).then(|| -> Result<_> {
        Ok(ResultRecord {
            provider_txn_id: row.maybe_text(32)?,
            payload: row
                .maybe_bytes(33)?
                .map(|bytes| Sealed::new(bytes.to_vec())),
        })
    });
    let (op_id, seq) = (row.op_id(1)?, row.count(0)?);
    let event_type = db.event_type(row.int(3)?)?;
    let (request, lane) = match width {
        Width::Whole => {
            let (request, lane) = read_request(row, ROW_COLUMNS)?;
            (Some(request), lane)
        }
        Width::Row if row.int(7)? != 0 => (None, db.lane_of(seq)?),
        Width::Row => (None, None),
    };
    let is_intact = |request: &clinch_stored::commit::Request| {
        // Only a begin checks the content hash, and only rows with a due time can begin.
        row.maybe_int(20).is_ok_and(|due| due.is_some()) && request.is_intact(&op_id, &event_type)
    };
    let rank = i8::try_from(row.int(6)?).map_err(|_| error::corrupt("rank"))?;
    Ok(Row {
        op_id,
        seq,
        domain: db.domain(row.int(2)?)?,
        priority: Priority::new(-rank).unwrap_or_default(),
        accepted_at: row.moment(4)?,
        batch_id: row.maybe_batch_id(5)?,
        lane,
        is_head: Some(row.int(36)? != 0),
        state: state(row, flags)?,
        has_checkpoint: has(HAS_CHECKPOINT),
        has_spawn: has(HAS_SPAWN),
        dispatch_no: row.count(29)?,
        started_at: row.maybe_moment(30)?,
        finished_at: row.maybe_moment(31)?,
        result: result.transpose()?,
        redriven_by: row.maybe_op_id(34)?,
        ledger: row.bytes(37)?.to_vec(),
        is_intact: request.as_ref().is_some_and(is_intact),
        request: request.map(Into::into),
        checkpoint: None,
        event_type,
    })
}

fn flags(row: &Row) -> i64 {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    flag(row.state.cancel_requested, CANCEL_REQUESTED)
        | flag(row.state.repeat_permit, REPEAT_PERMIT)
        | flag(row.has_checkpoint, HAS_CHECKPOINT)
        | flag(row.has_spawn, HAS_SPAWN)
        | flag(row.result.is_some(), HAS_RESULT)
        | flag(row.state.late_ok, LATE_OK)
}

fn state(row: &rusqlite::Row<'_>, flags: i64) -> Result<State> {
    let refund = row.maybe_int(25)?.map(|permit| -> Result<_> {
        Ok(Refund {
            repeat_permit: permit != 0,
            first_call_at: row.maybe_moment(26)?,
        })
    });
    Ok(State {
        status: status_of(row.int(8)?)?,
        phase: phase_of(row.maybe_int(9)?)?,
        version: row.count(10)?,
        fence: row.count(11)?,
        attempt_id: row.maybe_attempt_id(12)?,
        attempts: row.small(13)?,
        maybe_calls: row.small(14)?,
        deliveries: row.small(15)?,
        effect: effect_of(row.int(16)?)?,
        first_call_at: row.maybe_moment(17)?,
        call_deadline: row.maybe_moment(18)?,
        lease_until: row.maybe_moment(19)?,
        next_attempt_at: row.maybe_moment(20)?,
        deadline: row.maybe_moment(21)?,
        write_ahead: recorded_of(row.int(22)?, row.maybe_int(23)?)?,
        cancel_requested: flags & CANCEL_REQUESTED != 0,
        repeat_permit: flags & REPEAT_PERMIT != 0,
        refund: refund.transpose()?,
        hold: read_json::<Hold>(row.maybe_text(27)?)?,
        failure: read_json::<Failure>(row.maybe_text(28)?)?,
        late_ok: flags & LATE_OK != 0,
        last_error: read_json::<Box<LastError>>(row.maybe_text(38)?)?,
    })
}

fn read_json<T: serde::de::DeserializeOwned>(text: Option<String>) -> Result<Option<T>> {
    text.map(|text| json::read(text.as_bytes())).transpose()
}

fn maybe_json<T: serde::Serialize>(value: Option<&T>) -> Result<Option<String>> {
    value.map(json::to_text).transpose()
}

fn effect_of(code: i64) -> Result<Effect> {
    match code {
        0 => Ok(Effect::None),
        1 => Ok(Effect::Unknown),
        _ => Err(error::corrupt("effect")),
    }
}

fn effect_code(effect: Effect) -> i64 {
    match effect {
        Effect::None => 0,
        Effect::Unknown => 1,
    }
}

pub(crate) fn phase_code(phase: Phase) -> i64 {
    match phase {
        Phase::Live => 0,
        Phase::Waiting => 1,
        Phase::Held => 2,
    }
}

fn recorded_of(code: i64, fence: Option<i64>) -> Result<WriteAhead> {
    let pending = |verdict| {
        let fence = fence.and_then(|fence| u64::try_from(fence).ok());
        let fence = fence.ok_or_else(|| error::corrupt("recorded fence"))?;
        Ok(WriteAhead::Pending { verdict, fence })
    };
    match code {
        0 => Ok(WriteAhead::Empty),
        1 => pending(Verdict::Ok),
        2 => pending(Verdict::Fail),
        3 => Ok(WriteAhead::Done),
        _ => Err(error::corrupt("recorded")),
    }
}

fn recorded_code(write_ahead: &WriteAhead) -> (i64, Option<i64>) {
    match write_ahead {
        WriteAhead::Empty => (0, None),
        WriteAhead::Pending { verdict, fence } => {
            let code = if *verdict == Verdict::Ok { 1 } else { 2 };
            (code, Some(stored(*fence)))
        }
        WriteAhead::Done => (3, None),
    }
}

pub(crate) fn status_column(status: Status) -> i64 {
    i64::from(status_code(status))
}

/// The attempt of the row runs, and the row does not go back into the queue: neither its columns there
/// nor its deadline change.
fn stays_out_of_queue(write: &RowWrite) -> bool {
    let state = &write.row.state;
    let stays_out = |before: &State| {
        before.phase == Some(Phase::Live)
            && before.next_attempt_at == state.next_attempt_at
            && before.deadline == state.deadline
    };
    state.next_attempt_at.is_none() && write.before.as_ref().is_some_and(stays_out)
}

impl Db<'_> {
    pub(crate) fn insert_row(&mut self, write: &RowWrite, seq: u64, ledger: &[u8]) -> Result<()> {
        let row = &write.row;
        let (domain, event_type) = (
            self.name(row.domain.as_str())?,
            self.name(row.event_type.as_str())?,
        );
        let state = &row.state;
        let (recorded, recorded_fence) = recorded_code(&state.write_ahead);
        let result = row.result.as_ref();
        let (line, need, need_at) = queue_columns(write.awaits);
        let id = |uuid: Option<uuid::Uuid>| uuid.map(uuid::Uuid::into_bytes);
        let params = params![
            stored(seq),
            row.op_id.0.as_bytes().as_slice(),
            domain,
            event_type,
            millis(row.accepted_at),
            id(row.batch_id.map(|id| id.0)),
            -row.priority.get(),
            row.lane.is_some(),
            status_column(state.status),
            state.phase.map(phase_code),
            stored(state.version),
            stored(state.fence),
            id(state.attempt_id.map(|id| id.0)),
            state.attempts,
            state.maybe_calls,
            state.deliveries,
            effect_code(state.effect),
            maybe_millis(state.first_call_at),
            maybe_millis(state.call_deadline),
            maybe_millis(state.lease_until),
            maybe_millis(state.next_attempt_at),
            maybe_millis(state.deadline),
            recorded,
            recorded_fence,
            flags(row),
            state.refund.map(|refund| refund.repeat_permit),
            state
                .refund
                .and_then(|refund| maybe_millis(refund.first_call_at)),
            maybe_json(state.hold.as_ref())?,
            maybe_json(state.failure.as_ref())?,
            stored(row.dispatch_no),
            maybe_millis(row.started_at),
            maybe_millis(row.finished_at),
            result.and_then(|result| result.provider_txn_id.as_deref()),
            result
                .and_then(|result| result.payload.as_ref())
                .map(Sealed::as_bytes),
            id(row.redriven_by.map(|id| id.0)),
            line,
            need,
            need_at,
            state
                .failure
                .as_ref()
                .map(|failure| effect_code(failure.effect)),
            ledger,
        ];
        self.run(Query::InsertOperation, params).map(|_| ())
    }

    /// Updates a row if its version is still the one that was read.
    pub(crate) fn update_row(&mut self, write: &RowWrite, ledger: &[u8]) -> Result<()> {
        let row = &write.row;
        let state = &row.state;
        let (recorded, recorded_fence) = recorded_code(&state.write_ahead);
        let result = row.result.as_ref();
        let (line, need, need_at) = queue_columns(write.awaits);
        let before = write.before.as_ref().map_or(0, |before| before.version);
        let params = params![
            stored(row.seq),
            status_column(state.status),
            state.phase.map(phase_code),
            stored(state.version),
            stored(state.fence),
            state.attempt_id.map(|id| id.0.into_bytes()),
            state.attempts,
            state.maybe_calls,
            state.deliveries,
            effect_code(state.effect),
            maybe_millis(state.first_call_at),
            maybe_millis(state.call_deadline),
            maybe_millis(state.lease_until),
            maybe_millis(state.next_attempt_at),
            maybe_millis(state.deadline),
            recorded,
            recorded_fence,
            flags(row),
            state.refund.map(|refund| refund.repeat_permit),
            state
                .refund
                .and_then(|refund| maybe_millis(refund.first_call_at)),
            maybe_json(state.hold.as_ref())?,
            maybe_json(state.failure.as_ref())?,
            stored(row.dispatch_no),
            maybe_millis(row.started_at),
            maybe_millis(row.finished_at),
            result.and_then(|result| result.provider_txn_id.as_deref()),
            result
                .and_then(|result| result.payload.as_ref())
                .map(Sealed::as_bytes),
            line,
            need,
            need_at,
            state
                .failure
                .as_ref()
                .map(|failure| effect_code(failure.effect)),
            ledger,
            stored(before),
            maybe_json(state.last_error.as_ref())?,
        ];
        let query = match stays_out_of_queue(write) {
            true => Query::UpdateRunning,
            false => Query::UpdateOperation,
        };
        match self.run(query, params)? {
            1 => Ok(()),
            _ => Err(error::corrupt("a row that vanished")),
        }
    }

    /// Updates only the ledger and the flags of a row.
    pub(crate) fn update_ledger(&mut self, row: &Row, ledger: &[u8]) -> Result<()> {
        let params = params![stored(row.seq), ledger, flags(row)];
        self.run(Query::UpdateLedger, params).map(|_| ())
    }

    /// The row of an operation.
    pub(crate) fn row(&mut self, op_id: OpId) -> Result<Option<Row>> {
        self.first_with(Query::RowById, [op_id.0.as_bytes()], |row, db| {
            read_row(row, Width::Row, db)
        })
    }

    /// The row of an operation with its request and its checkpoint.
    pub(crate) fn whole_row(&mut self, op_id: OpId) -> Result<Option<Row>> {
        self.first_with(Query::OperationById, [op_id.0.as_bytes()], read_whole)
    }

    /// The same by its seq.
    pub(crate) fn whole_row_at(&mut self, seq: u64) -> Result<Option<Row>> {
        self.first_with(Query::OperationBySeq, [stored(seq)], read_whole)
    }

    /// Adds the checkpoint to a row.
    pub(crate) fn with_checkpoint(&mut self, mut row: Row) -> Result<Row> {
        if row.has_checkpoint {
            let seq = [stored(row.seq)];
            row.checkpoint = self.first(Query::Checkpoint, seq, |row| {
                Ok(Sealed::new(row.bytes(0)?.to_vec()))
            })?;
        }
        Ok(row)
    }
}

fn read_whole(row: &rusqlite::Row<'_>, db: &mut Db<'_>) -> Result<Row> {
    let row = read_row(row, Width::Whole, db)?;
    db.with_checkpoint(row)
}
