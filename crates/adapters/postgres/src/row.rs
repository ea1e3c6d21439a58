//! An operation as it is read.

use std::sync::Arc;

use clinch_core::ports::{ResultRecord, Scan};
use clinch_core::protocol::{Inherited, Phase, State};
use clinch_core::{
    AttemptId, BatchId, BizKey, ContentHash, IdemKey, Keys, LaneKey, OpId, OutboundKey, Priority,
    Result, Sealed, Status, Timestamp,
};
use clinch_stored::codec;
use clinch_stored::commit::{Request, Row};
use clinch_stored::json::{read as read_json, to_text};
use clinch_stored::ledger::{self, phase_of, status_of};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error;
use crate::names::{Names, Stream};

/// The parts of a request that few requests have, as one column of JSON. No statement looks at
/// them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Extras {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redrive_of: Option<OpId>,
    /// If it is not the one that the keys give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbound_key: Option<OutboundKey>,
}

impl Extras {
    /// The column of a row.
    pub(crate) fn column(row: &Row) -> Result<Option<String>> {
        let request = row.request()?;
        let outbound_key = &request.outbound_key;
        let is_derived = row.keys()?.outbound_key() == *outbound_key;
        let extras = Self {
            run_at: request.run_at,
            deadline: request.deadline,
            trace: request.trace.clone(),
            redrive_of: request.redrive_of,
            outbound_key: (!is_derived).then(|| outbound_key.clone()),
        };
        match extras == Self::default() {
            true => Ok(None),
            false => to_text(&extras).map(Some),
        }
    }
}

/// Recovery that a row needs, as column `need` says it. Overdue rows are found by their deadline.
pub(crate) fn need_of(scan: Scan) -> Option<i16> {
    match scan {
        Scan::Unfinalized => Some(1),
        Scan::LeaseEnded => Some(2),
        Scan::ProbeDue => Some(3),
        Scan::Overdue => None,
    }
}

/// What a checkpoint counts on a page, which is read after the page is filled: the longest there
/// is unless configured otherwise.
const CHECKPOINT_BYTES: usize = 64 * 1024;

/// What a row of a statement that reads rows counts on its page.
pub(crate) fn bytes(row: &tokio_postgres::Row) -> usize {
    let length = |column: usize| row.get::<_, Option<&[u8]>>(column).map_or(0, <[u8]>::len);
    let mut state = State::accepted(Timestamp::default(), None, Inherited::default());
    let stored = codec::decode(row.get(18), &mut state);
    let has_checkpoint = stored.is_ok_and(|stored| stored.checkpoint);
    length(7) + length(24) + usize::from(has_checkpoint) * CHECKPOINT_BYTES
}

/// The column of the stream, in every statement that reads rows.
pub(crate) const STREAM: usize = 2;

/// Of a statement that reads the columns of view `clinch_operation`. Whether the payload is
/// intact is not looked at yet.
pub(crate) fn read(row: &tokio_postgres::Row, names: &Names) -> Result<Row> {
    let mut state = State {
        status: status_of(i64::from(row.get::<_, i16>(12)))?,
        phase: phase_of(row.get::<_, Option<i16>>(13).map(i64::from))?,
        version: count(row.get(14))?,
        next_attempt_at: moment(row.get(15)),
        attempt_id: row.get::<_, Option<Uuid>>(17).map(AttemptId),
        ..State::accepted(
            Timestamp::default(),
            moment(row.get(16)),
            Inherited::default(),
        )
    };
    let stored = codec::decode(row.get(18), &mut state)?;
    let result = stored.result.then(|| ResultRecord {
        provider_txn_id: row.get(23),
        payload: row.get::<_, Option<Vec<u8>>>(24).map(Sealed::new),
    });
    let lane = row.get::<_, Option<&[u8]>>(11).map(LaneKey::from_bytes);
    let lane = lane.transpose().map_err(error::unreadable)?;
    // 0: behind in its lane, or awaits no begin.
    let is_in_line = row.get::<_, i16>(26) != 0;
    let stream = names.stream(row.get(STREAM))?;
    let request = request(row, &stream)?;
    Ok(Row {
        op_id: OpId(row.get(0)),
        seq: count(row.get(1))?,
        domain: stream.domain,
        event_type: stream.event_type,
        // The table holds ranks of priorities only.
        priority: Priority::new(-stream.rank).unwrap_or_default(),
        accepted_at: Timestamp::from_millis(row.get(3)),
        batch_id: row.get::<_, Option<Uuid>>(4).map(BatchId),
        lane,
        is_head: (lane.is_some() && state.awaits_begin()).then_some(is_in_line),
        state,
        has_checkpoint: stored.checkpoint,
        has_spawn: stored.spawn,
        dispatch_no: count(row.get(20))?,
        started_at: moment(row.get(21)),
        finished_at: moment(row.get(22)),
        result,
        redriven_by: row.get::<_, Option<Uuid>>(25).map(OpId),
        ledger: row.get(19),
        request,
        is_intact: false,
        checkpoint: None,
    })
}

/// What was asked for, of a statement that reads payloads.
fn request(row: &tokio_postgres::Row, stream: &Stream) -> Result<Option<Arc<Request>>> {
    let Some(payload) = row.get::<_, Option<Vec<u8>>>(7) else {
        return Ok(None);
    };
    let keys = Keys {
        domain: stream.domain.clone(),
        event_type: stream.event_type.clone(),
        biz_key: BizKey::new(row.get::<_, String>(5)).map_err(error::unreadable)?,
        idem_key: IdemKey::new(row.get::<_, String>(6)).map_err(error::unreadable)?,
    };
    let extras: Extras = json(row.get(9))?.unwrap_or_default();
    let outbound_key = extras.outbound_key.unwrap_or_else(|| keys.outbound_key());
    Ok(Some(Arc::new(Request {
        biz_key: keys.biz_key,
        idem_key: keys.idem_key,
        payload: Sealed::new(payload),
        content_hash: ContentHash::from_bytes(row.get(8)).map_err(error::unreadable)?,
        outbound_key,
        run_at: extras.run_at,
        deadline: extras.deadline,
        labels: json(row.get(10))?.unwrap_or_default(),
        redrive_of: extras.redrive_of,
        trace: extras.trace,
    })))
}

pub(crate) fn count(stored: i64) -> Result<u64> {
    u64::try_from(stored).map_err(|_| error::corrupt("count"))
}

pub(crate) fn moment(stored: Option<i64>) -> Option<Timestamp> {
    stored.map(Timestamp::from_millis)
}

pub(crate) fn millis(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millis)
}

/// A count as it is stored. The server's integers have a sign; no counter gets that far.
pub(crate) fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn status_column(status: Status) -> i16 {
    i16::from(ledger::status_code(status))
}

pub(crate) fn phase_column(phase: Phase) -> i16 {
    match phase {
        Phase::Live => 0,
        Phase::Waiting => 1,
        Phase::Held => 2,
    }
}

/// A column of JSON.
pub(crate) fn json<T: DeserializeOwned>(text: Option<&str>) -> Result<Option<T>> {
    text.map(|text| read_json(text.as_bytes())).transpose()
}
