//! An operation's row, as it is read and written.

use clinch_core::ports::{Operation, ResultRecord};
use clinch_core::protocol::{Due, Inherited, LaneStand, Phase, State};
use clinch_core::{
    BatchId, Domain, EventType, Keys, LaneKey, OpId, Result, Sealed, Status, Timestamp,
};
use clinch_stored::codec::{self, Beside};
use clinch_stored::ledger::{phase_of, status_code, status_of};

use crate::column::Column;
use crate::error;
use crate::request::Request;
use crate::text::Tuple;

/// Columns of a row in every statement that reads one; those of the request follow.
pub(crate) const ROW_COLUMNS: usize = 23;

/// Lines of the queue, as column `line` says them.
pub(crate) const FRESH: u8 = 1;
pub(crate) const ANNOUNCED: u8 = 2;
pub(crate) const UNFINALIZED: u8 = 3;
pub(crate) const LEASE_ENDED: u8 = 4;
pub(crate) const PROBE_DUE: u8 = 5;
/// No line of its own: rows that await a begin are in it by their deadline.
pub(crate) const OVERDUE: u8 = 6;

/// What guards look at, and what moves with it.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub seq: u64,
    pub op_id: OpId,
    pub domain: Domain,
    pub event_type: EventType,
    pub accepted_at: Timestamp,
    pub batch_id: Option<BatchId>,
    /// The priority, turned around: lower is served first.
    pub rank: i8,
    pub lane: Option<LaneKey>,
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

/// Where an open row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub line: u8,
    pub due_at: Timestamp,
}

impl Row {
    pub(crate) fn read(row: &mysql_async::Row) -> Result<Self> {
        let mut state = State::accepted(Timestamp::default(), None, Inherited::default());
        state.status = status_of(row.int(8)?)?;
        state.phase = phase_of(row.maybe_int(9)?)?;
        state.version = row.count(10)?;
        state.attempt_id = row.maybe_attempt_id(11)?;
        state.next_attempt_at = row.maybe_moment(12)?;
        state.deadline = row.maybe_moment(13)?;
        let beside = codec::decode(row.bytes(14)?, &mut state)?;
        let result = match beside.result {
            true => Some(ResultRecord {
                provider_txn_id: row.maybe_text(18)?,
                payload: row
                    .maybe_bytes(19)?
                    .map(|bytes| Sealed::new(bytes.to_vec())),
            }),
            false => None,
        };
        Ok(Self {
            seq: row.count(0)?,
            op_id: row.op_id(1)?,
            domain: row.domain(2)?,
            event_type: row.event_type(3)?,
            accepted_at: row.moment(4)?,
            batch_id: row.maybe_batch_id(5)?,
            rank: i8::try_from(row.int(6)?).map_err(|_| error::corrupt("rank"))?,
            lane: row.maybe_lane(7)?,
            state,
            has_checkpoint: beside.checkpoint,
            has_spawn: beside.spawn,
            dispatch_no: row.count(15)?,
            started_at: row.maybe_moment(16)?,
            finished_at: row.maybe_moment(17)?,
            result,
            redriven_by: row.maybe_op_id(20)?,
            announced_at: row.maybe_moment(21)?,
            ledger: row.bytes(22)?.to_vec(),
        })
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state.is_terminal()
    }

    /// What it waits for. A follower of a lane is not in line.
    pub(crate) fn place(&self, stand: LaneStand, now: Timestamp) -> Place {
        let place = |line, due_at| Place { line, due_at };
        match self.state.due() {
            Due::Finalize => place(UNFINALIZED, now),
            Due::Reap(at) => place(LEASE_ENDED, at),
            Due::Probe(Some(at)) => place(PROBE_DUE, at),
            Due::Begin(at) if stand != LaneStand::Behind => match self.announced_at {
                Some(announced) => place(ANNOUNCED, announced),
                None => place(FRESH, at),
            },
            Due::Begin(_) | Due::Probe(None) | Due::Never => place(0, Timestamp::default()),
        }
    }

    pub(crate) fn packed(&self) -> Result<Vec<u8>> {
        let beside = Beside {
            checkpoint: self.has_checkpoint,
            spawn: self.has_spawn,
            result: self.result.is_some(),
        };
        codec::encode(&self.state, beside)
    }

    fn txn_id(&self) -> Option<&str> {
        self.result.as_ref()?.provider_txn_id.as_deref()
    }

    fn result_bytes(&self) -> Option<&[u8]> {
        let payload = self.result.as_ref()?.payload.as_ref();
        payload.map(Sealed::as_bytes)
    }

    /// Its values in `clinch_queue`. `seq` is an expression.
    pub(crate) fn queued(&self, seq: &str, place: Place) -> Result<String> {
        let state = &self.state;
        let (stream, rank) = match place.line {
            FRESH => (stream_of(&self.domain, &self.event_type), self.rank),
            _ => (String::new(), 0),
        };
        Ok(Tuple::new()
            .raw(seq)
            .int(status_code(state.status))
            .maybe_int(state.phase.map(phase_code))
            .int(state.version)
            .maybe_bytes(state.attempt_id.map(|id| id.0.into_bytes()))
            .maybe_at(state.next_attempt_at)
            .maybe_at(state.deadline)
            .bytes(self.packed()?)
            .int(self.dispatch_no)
            .maybe_at(self.started_at)
            .maybe_bytes(self.txn_id())
            .maybe_bytes(self.result_bytes())
            .maybe_bytes(self.redriven_by.map(|id| id.0.into_bytes()))
            .int(place.line)
            .bytes(stream)
            .int(rank)
            .at(place.due_at)
            .maybe_at(self.announced_at)
            .bytes(&self.ledger)
            .end())
    }

    /// Its values in `clinch_history`.
    pub(crate) fn ended(&self, seq: &str) -> Result<String> {
        let state = &self.state;
        Ok(Tuple::new()
            .raw(seq)
            .int(status_code(state.status))
            .at(self.finished_at.unwrap_or_default())
            .int(state.version)
            .maybe_bytes(state.attempt_id.map(|id| id.0.into_bytes()))
            .maybe_at(state.deadline)
            .bytes(self.packed()?)
            .int(self.dispatch_no)
            .maybe_at(self.started_at)
            .maybe_bytes(self.txn_id())
            .maybe_bytes(self.result_bytes())
            .maybe_bytes(self.redriven_by.map(|id| id.0.into_bytes()))
            .bytes(&self.ledger)
            .end())
    }

    /// The whole operation as others see it.
    pub(crate) fn operation(self, request: Request, checkpoint: Option<Sealed>) -> Operation {
        Operation {
            op_id: self.op_id,
            options: request.options(self.rank),
            keys: Keys {
                domain: self.domain,
                event_type: self.event_type,
                biz_key: request.biz_key,
                idem_key: request.idem_key,
            },
            payload: request.payload,
            content_hash: request.content_hash,
            outbound_key: request.outbound_key,
            seq: self.seq,
            lane: self.lane,
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

/// The line of one domain and event type. No name holds a NUL.
pub(crate) fn stream_of(domain: &Domain, event_type: &EventType) -> String {
    format!("{domain}\0{event_type}")
}

pub(crate) fn phase_code(phase: Phase) -> u8 {
    match phase {
        Phase::Live => 0,
        Phase::Waiting => 1,
        Phase::Held => 2,
    }
}

pub(crate) fn status_column(status: Status) -> u8 {
    status_code(status)
}
