//! Reads and writes the row of an operation.

use clinch_core::ports::{ResultRecord, Scan};
use clinch_core::protocol::{Inherited, Phase, State};
use clinch_core::{
    BizKey, ContentHash, Domain, EventType, Fingerprint, IdemKey, OutboundKey, PAYLOAD_BYTES_MAX,
    Payload, Priority, Result, Sealed, Timestamp,
};
use clinch_stored::codec::{self, SideRows};
use clinch_stored::commit::{Awaits, Request, Row, RowWrite};
use clinch_stored::json;
use clinch_stored::ledger::{phase_of, status_code, status_of};

use crate::column::Column;
use crate::error;
use crate::text::Tuple;

/// Columns of a row in every statement that reads one; those of the request follow.
pub(crate) const ROW_COLUMNS: usize = 23;

/// Columns of a row, of its request and of its checkpoint.
pub(crate) const WHOLE_COLUMNS: usize = ROW_COLUMNS + 12;

/// True: the payload is JSON as a caller's driver wrote it, not in canonical form.
pub(crate) const RAW_COLUMN: usize = ROW_COLUMNS + 10;

/// The columns of a row that may be long: result, payload, checkpoint.
pub(crate) const LONG_COLUMNS: [usize; 3] = [19, ROW_COLUMNS + 2, ROW_COLUMNS + 11];

/// Value of column `line` for rows that await a begin and are not announced. Announced rows have 2.
const UNANNOUNCED: u8 = 1;

/// The value of column `line` for rows that need a scan; overdue rows have no value of their own.
pub(crate) fn line_of(scan: Scan) -> Option<u8> {
    match scan {
        Scan::Unfinalized => Some(3),
        Scan::LeaseEnded => Some(4),
        Scan::ProbeDue => Some(5),
        Scan::Overdue => None,
    }
}

/// Reads the columns of a row.
pub(crate) fn read(row: &mysql_async::Row) -> Result<Row> {
    let mut state = State::accepted(Timestamp::default(), None, Inherited::default());
    state.status = status_of(row.int(8)?)?;
    state.phase = phase_of(row.maybe_int(9)?)?;
    state.version = row.count(10)?;
    state.attempt_id = row.maybe_attempt_id(11)?;
    state.next_attempt_at = row.maybe_moment(12)?;
    state.deadline = row.maybe_moment(13)?;
    let side_rows = codec::decode(row.bytes(14)?, &mut state)?;
    let result = match side_rows.result {
        true => Some(ResultRecord {
            provider_txn_id: row.maybe_text(18)?,
            payload: row.maybe_sealed(19)?,
        }),
        false => None,
    };
    let rank = i8::try_from(row.int(6)?).map_err(|_| error::corrupt("rank"))?;
    let line = row.maybe_int(21)?.filter(|_| state.awaits_begin());
    Ok(Row {
        seq: row.count(0)?,
        op_id: row.op_id(1)?,
        domain: row.domain(2)?,
        event_type: row.event_type(3)?,
        accepted_at: row.moment(4)?,
        batch_id: row.maybe_batch_id(5)?,
        // The column holds the ranks of valid priorities only.
        priority: Priority::new(-rank).unwrap_or_default(),
        lane: row.maybe_lane(7)?,
        // The other members of the lane are not in the queue.
        is_head: line.map(|line| line != 0),
        state,
        has_checkpoint: side_rows.checkpoint,
        has_spawn: side_rows.spawn,
        dispatch_no: row.count(15)?,
        started_at: row.maybe_moment(16)?,
        finished_at: row.maybe_moment(17)?,
        result,
        redriven_by: row.maybe_op_id(20)?,
        ledger: row.bytes(22)?.to_vec(),
        request: None,
        is_intact: false,
        checkpoint: None,
    })
}

/// Reads the columns of a row, of its request and of its checkpoint.
pub(crate) fn read_whole(row: &mysql_async::Row) -> Result<Row> {
    let at = ROW_COLUMNS;
    let labels = row.maybe_bytes(at + 7)?.map(json::read).transpose()?;
    let outbound_key = OutboundKey::try_from(row.text(at + 4)?);
    let request = Request {
        biz_key: BizKey::new(row.text(at)?).map_err(error::unreadable)?,
        idem_key: IdemKey::new(row.text(at + 1)?).map_err(error::unreadable)?,
        payload: Sealed::new(row.bytes(at + 2)?.to_vec()),
        content_hash: ContentHash::from_bytes(row.bytes(at + 3)?).map_err(error::unreadable)?,
        outbound_key: outbound_key.map_err(error::unreadable)?,
        run_at: row.maybe_moment(at + 5)?,
        deadline: row.maybe_moment(at + 6)?,
        labels: labels.unwrap_or_default(),
        redrive_of: row.maybe_op_id(at + 8)?,
        trace: row.maybe_text(at + 9)?,
    };
    let whole = read(row)?;
    // The server is less strict with JSON than Clinch: it accepts duplicate members and any number.
    let is_raw = row.int(RAW_COLUMN)? != 0;
    let is_readable = !is_raw || plain_fingerprint(request.payload.as_bytes()).is_some();
    Ok(Row {
        // Only a begin checks the content hash, and only rows that await one can begin.
        is_intact: whole.state.awaits_begin()
            && is_readable
            && request.is_intact(&whole.op_id, &whole.event_type),
        request: Some(request.into()),
        checkpoint: row.maybe_sealed(at + 11)?,
        ..whole
    })
}

/// The fingerprint of JSON in any notation; `None`: it is not JSON that Clinch accepts.
pub(crate) fn plain_fingerprint(stored: &[u8]) -> Option<Fingerprint> {
    let text = std::str::from_utf8(stored).ok()?;
    let payload = Payload::parse(text, PAYLOAD_BYTES_MAX).ok()?;
    Some(Fingerprint::plain(&payload))
}

/// The part of the state that no SQL statement reads.
pub(crate) fn packed(row: &Row) -> Result<Vec<u8>> {
    let side_rows = SideRows {
        checkpoint: row.has_checkpoint,
        spawn: row.has_spawn,
        result: row.result.is_some(),
    };
    codec::encode(&row.state, side_rows)
}

/// A row's values in `clinch_queue`. `seq` is an expression.
pub(crate) fn queue_values(write: &RowWrite, seq: &str, ledger: &[u8]) -> Result<String> {
    let (row, state) = (&write.row, &write.row.state);
    let (line, stream, rank, due_at) = match write.awaits {
        Awaits::Nothing => (0, String::new(), 0, Timestamp::default()),
        Awaits::Begin(at) => {
            let stream = stream_of(&row.domain, &row.event_type);
            (UNANNOUNCED, stream, rank_of(row.priority), at)
        }
        Awaits::Recovery(scan, at) => (line_of(scan).unwrap_or(0), String::new(), 0, at),
    };
    let tuple = Tuple::new()
        .raw(seq)
        .int(status_code(state.status))
        .maybe_int(state.phase.map(phase_code))
        .int(state.version)
        .maybe_bytes(state.attempt_id.map(|id| id.0.into_bytes()))
        .maybe_at(state.next_attempt_at)
        .maybe_at(state.deadline);
    let tuple = shared_values(tuple, row)?;
    let tuple = tuple.int(line).bytes(stream).int(rank).at(due_at);
    Ok(tuple.bytes(ledger).end())
}

/// A row's values in `clinch_history`.
pub(crate) fn history_values(row: &Row, ledger: &[u8]) -> Result<String> {
    let state = &row.state;
    let tuple = Tuple::new()
        .int(row.seq)
        .int(status_code(state.status))
        .at(row.finished_at.unwrap_or_default())
        .int(state.version)
        .maybe_bytes(state.attempt_id.map(|id| id.0.into_bytes()))
        .maybe_at(state.deadline);
    Ok(shared_values(tuple, row)?.bytes(ledger).end())
}

/// The values that both tables have in the same order.
fn shared_values(tuple: Tuple, row: &Row) -> Result<Tuple> {
    let result = row.result.as_ref();
    let txn_id = result.and_then(|result| result.provider_txn_id.as_deref());
    let payload = result.and_then(|result| result.payload.as_ref());
    Ok(tuple
        .bytes(packed(row)?)
        .int(row.dispatch_no)
        .maybe_at(row.started_at)
        .maybe_bytes(txn_id)
        .maybe_bytes(payload.map(Sealed::as_bytes))
        .maybe_bytes(row.redriven_by.map(|id| id.0.into_bytes())))
}

/// A row's values in `clinch_request`, without the seq, which the table draws.
pub(crate) fn request_values(row: &Row) -> Result<String> {
    let request = row.request()?;
    let has_labels = request.labels.iter().next().is_some();
    let labels = has_labels.then(|| json::to_bytes(&request.labels));
    Ok(Tuple::new()
        .bytes(row.op_id.0.as_bytes())
        .at(row.accepted_at)
        .bytes(row.domain.as_str())
        .bytes(row.event_type.as_str())
        .bytes(request.biz_key.as_str())
        .bytes(request.idem_key.as_str())
        .bytes(request.payload.as_bytes())
        .bytes(request.content_hash.to_bytes())
        .bytes(request.outbound_key.as_str())
        .int(rank_of(row.priority))
        .maybe_at(request.run_at)
        .maybe_at(request.deadline)
        .maybe_bytes(labels.transpose()?)
        .maybe_bytes(row.lane.as_ref().map(|lane| lane.as_bytes()))
        .maybe_bytes(row.batch_id.map(|id| id.0.into_bytes()))
        .maybe_bytes(request.redrive_of.map(|id| id.0.into_bytes()))
        .maybe_bytes(request.trace.as_deref())
        .end())
}

/// The stream name of a domain and event type. Neither name contains a NUL.
pub(crate) fn stream_of(domain: &Domain, event_type: &EventType) -> String {
    format!("{domain}\0{event_type}")
}

/// The negated priority: lower is served first.
pub(crate) fn rank_of(priority: Priority) -> i8 {
    -priority.get()
}

pub(crate) fn phase_code(phase: Phase) -> u8 {
    match phase {
        Phase::Live => 0,
        Phase::Waiting => 1,
        Phase::Held => 2,
    }
}
