//! An operation's row, as it is read and written.

use clinch_core::ports::{Operation, ResultRecord};
use clinch_core::protocol::{Due, Hold, LaneStand, Phase, Refund, State, Verdict, WriteAhead};
use clinch_core::{
    BatchId, Domain, Effect, EventType, Failure, OpId, Result, Sealed, Status, Timestamp,
};
use clinch_stored::ledger::{phase_of, status_code, status_of};
use rusqlite::params;

use crate::column::{Column, maybe_millis, millis, stored};
use crate::db::Db;
use crate::error;
use crate::query::Query;
use crate::request::Request;

const CANCEL_REQUESTED: i64 = 1;
const REPEAT_PERMIT: i64 = 2;
const HAS_CHECKPOINT: i64 = 4;
const HAS_SPAWN: i64 = 8;
const HAS_RESULT: i64 = 16;
const LATE_OK: i64 = 32;

/// Columns of `operation` in every statement that reads rows; those of `request` follow.
pub(crate) const ROW_COLUMNS: usize = 40;

/// What guards look at, and what moves with it.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub seq: u64,
    pub op_id: OpId,
    pub domain: i64,
    pub event_type: i64,
    pub accepted_at: Timestamp,
    pub batch_id: Option<BatchId>,
    /// The priority, turned around: lower is served first.
    pub rank: i8,
    pub laned: bool,
    pub state: State,
    pub has_checkpoint: bool,
    pub has_spawn: bool,
    pub dispatch_no: u64,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub result: Option<ResultRecord>,
    pub redriven_by: Option<OpId>,
    pub announced_at: Option<Timestamp>,
    pub ledger: Vec<u8>,
}

/// Where an open row stands in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// 0 not in line, 1 fresh, 2 announced.
    pub line: i64,
    /// Which recovery, and from when on.
    pub need: Option<(i64, Timestamp)>,
}

/// The Finalizer's, the Reaper's and the prober's, as column `need` says them.
pub(crate) const UNFINALIZED: i64 = 1;
pub(crate) const LEASE_ENDED: i64 = 2;
pub(crate) const PROBE_DUE: i64 = 3;

impl Row {
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> Result<Self> {
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
        Ok(Self {
            seq: row.count(0)?,
            op_id: row.op_id(1)?,
            domain: row.int(2)?,
            event_type: row.int(3)?,
            accepted_at: row.moment(4)?,
            batch_id: row.maybe_batch_id(5)?,
            rank: i8::try_from(row.int(6)?).map_err(|_| error::corrupt("rank"))?,
            laned: row.int(7)? != 0,
            state: state(row, flags)?,
            has_checkpoint: has(HAS_CHECKPOINT),
            has_spawn: has(HAS_SPAWN),
            dispatch_no: row.count(29)?,
            started_at: row.maybe_moment(30)?,
            finished_at: row.maybe_moment(31)?,
            result: result.transpose()?,
            redriven_by: row.maybe_op_id(34)?,
            announced_at: row.maybe_moment(35)?,
            ledger: row.bytes(39)?.to_vec(),
        })
    }

    /// What it waits for. A follower of a lane is not in line.
    pub(crate) fn place(&self, stand: LaneStand, now: Timestamp) -> Place {
        let need = |need, at| Place {
            line: 0,
            need: Some((need, at)),
        };
        match self.state.due() {
            Due::Finalize => need(UNFINALIZED, now),
            Due::Reap(at) => need(LEASE_ENDED, at),
            Due::Probe(Some(at)) => need(PROBE_DUE, at),
            Due::Begin(_) if stand != LaneStand::Behind => Place {
                line: if self.announced_at.is_some() { 2 } else { 1 },
                need: None,
            },
            Due::Begin(_) | Due::Probe(None) | Due::Never => Place {
                line: 0,
                need: None,
            },
        }
    }

    /// A change makes the row fresh: nobody has announced or claimed what it is now.
    pub(crate) fn requeue(&mut self) {
        self.announced_at = None;
    }

    pub(crate) fn flags(&self) -> i64 {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        flag(self.state.cancel_requested, CANCEL_REQUESTED)
            | flag(self.state.repeat_permit, REPEAT_PERMIT)
            | flag(self.has_checkpoint, HAS_CHECKPOINT)
            | flag(self.has_spawn, HAS_SPAWN)
            | flag(self.result.is_some(), HAS_RESULT)
            | flag(self.state.late_ok, LATE_OK)
    }

    /// The whole operation as others see it.
    pub(crate) fn operation(
        self,
        request: Request,
        domain: Domain,
        event_type: EventType,
        checkpoint: Option<Sealed>,
    ) -> Operation {
        Operation {
            op_id: self.op_id,
            options: request.options(self.rank),
            keys: clinch_core::Keys {
                domain,
                event_type,
                biz_key: request.biz_key,
                idem_key: request.idem_key,
            },
            payload: request.payload,
            content_hash: request.content_hash,
            outbound_key: request.outbound_key,
            seq: self.seq,
            lane: request.lane,
            state: self.state,
            dispatch_no: self.dispatch_no,
            result: self.result,
            checkpoint,
            batch_id: self.batch_id,
            redrive_of: request.redrive_of,
            redriven_by: self.redriven_by,
            trace: request.trace,
            accepted_at: self.accepted_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
        }
    }
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
        hold: json::<Hold>(row.maybe_text(27)?)?,
        failure: json::<Failure>(row.maybe_text(28)?)?,
        late_ok: flags & LATE_OK != 0,
    })
}

fn json<T: for<'de> serde::Deserialize<'de>>(text: Option<String>) -> Result<Option<T>> {
    let parsed = text.map(|text| serde_json::from_str(&text)).transpose();
    parsed.map_err(|error| error::corrupt("json").caused_by(error))
}

pub(crate) fn to_json(value: &(impl serde::Serialize + ?Sized)) -> Result<String> {
    let text = serde_json::to_string(value);
    text.map_err(|error| error::corrupt("json").caused_by(error))
}

fn maybe_json<T: serde::Serialize>(value: Option<&T>) -> Result<Option<String>> {
    value.map(to_json).transpose()
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

impl Db<'_> {
    pub(crate) fn insert_row(&mut self, row: &Row, place: Place) -> Result<()> {
        let state = &row.state;
        let (recorded, recorded_fence) = recorded_code(&state.write_ahead);
        let result = row.result.as_ref();
        let id = |uuid: Option<uuid::Uuid>| uuid.map(uuid::Uuid::into_bytes);
        let params = params![
            stored(row.seq),
            row.op_id.0.as_bytes().as_slice(),
            row.domain,
            row.event_type,
            millis(row.accepted_at),
            id(row.batch_id.map(|id| id.0)),
            row.rank,
            row.laned,
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
            row.flags(),
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
            place.line,
            place.need.map(|(need, _)| need),
            place.need.map(|(_, at)| millis(at)),
            state
                .failure
                .as_ref()
                .map(|failure| effect_code(failure.effect)),
            row.ledger.as_slice(),
        ];
        self.run(Query::InsertOperation, params).map(|_| ())
    }

    pub(crate) fn update_row(&mut self, row: &Row, place: Place) -> Result<()> {
        let state = &row.state;
        let (recorded, recorded_fence) = recorded_code(&state.write_ahead);
        let result = row.result.as_ref();
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
            row.flags(),
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
            place.line,
            place.need.map(|(need, _)| need),
            place.need.map(|(_, at)| millis(at)),
            state
                .failure
                .as_ref()
                .map(|failure| effect_code(failure.effect)),
            row.ledger.as_slice(),
        ];
        match self.run(Query::UpdateOperation, params)? {
            1 => Ok(()),
            _ => Err(error::corrupt("a row that vanished")),
        }
    }

    /// The row of an operation.
    pub(crate) fn row(&mut self, op_id: OpId) -> Result<Option<Row>> {
        self.first(Query::RowById, [op_id.0.as_bytes()], Row::read)
    }

    /// The row with this number.
    pub(crate) fn row_at(&mut self, seq: u64) -> Result<Option<Row>> {
        self.first(Query::RowBySeq, [stored(seq)], Row::read)
    }

    /// Row and request of an operation.
    pub(crate) fn both(&mut self, op_id: OpId) -> Result<Option<(Row, Request)>> {
        self.first(Query::OperationById, [op_id.0.as_bytes()], read_both)
    }

    /// Row and request with this number.
    pub(crate) fn both_at(&mut self, seq: u64) -> Result<Option<(Row, Request)>> {
        self.first(Query::OperationBySeq, [stored(seq)], read_both)
    }

    /// The whole operation as others see it.
    pub(crate) fn operation(&mut self, row: Row, request: Request) -> Result<Operation> {
        let (domain, event_type) = (self.domain(row.domain)?, self.event_type(row.event_type)?);
        let checkpoint = match row.has_checkpoint {
            true => self.first(Query::Checkpoint, [stored(row.seq)], |row| {
                Ok(Sealed::new(row.bytes(0)?.to_vec()))
            })?,
            false => None,
        };
        Ok(row.operation(request, domain, event_type, checkpoint))
    }
}

/// A statement's row that holds both.
pub(crate) fn read_both(row: &rusqlite::Row<'_>) -> Result<(Row, Request)> {
    Ok((Row::read(row)?, Request::read(row, ROW_COLUMNS)?))
}
