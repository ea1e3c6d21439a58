//! An operation as it is read.

use clinch_core::ports::{NewOperation, Operation, ResultRecord};
use clinch_core::protocol::{Due, Inherited, LaneStand, Phase, State};
use clinch_core::{
    AttemptId, BatchId, BizKey, ContentHash, IdemKey, Keys, Labels, LaneKey, OpId, Options,
    OutboundKey, Priority, Result, Sealed, Status, Timestamp,
};
use clinch_stored::codec::{self, Beside};
use clinch_stored::ledger::{self, phase_of, status_of};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error;
use crate::names::{Names, Stream};

/// What was asked for and seldom is. Nothing of it is looked at by a statement.
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
    pub(crate) fn of(new: &NewOperation) -> Self {
        let derived = new.keys.outbound_key() == new.outbound_key;
        Self {
            run_at: new.options.run_at,
            deadline: new.options.deadline,
            trace: new.trace.clone(),
            redrive_of: new.redrive_of,
            outbound_key: (!derived).then(|| new.outbound_key.clone()),
        }
    }

    pub(crate) fn column(&self) -> Result<Option<String>> {
        match *self == Self::default() {
            true => Ok(None),
            false => to_json(self).map(Some),
        }
    }
}

/// One operation, open or ended.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub op_id: OpId,
    pub seq: u64,
    pub stream: Stream,
    pub accepted_at: Timestamp,
    pub batch_id: Option<BatchId>,
    pub biz_key: BizKey,
    pub idem_key: IdemKey,
    /// Empty where the statement did not ask for it.
    pub payload: Sealed,
    pub content_hash: ContentHash,
    pub extras: Extras,
    pub labels: Labels,
    pub lane: Option<LaneKey>,
    pub state: State,
    pub beside: Beside,
    pub ledger: Vec<u8>,
    pub dispatch_no: u64,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub result: Option<ResultRecord>,
    pub redriven_by: Option<OpId>,
    /// As it was read: 0 says that it is behind in its lane, or awaits no begin.
    pub line: i16,
}

/// Where an open row stands in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// 0 not in line, 1 fresh.
    pub line: i16,
    /// Which recovery, and from when on.
    pub need: Option<(i16, Timestamp)>,
}

/// The Finalizer's, the Reaper's and the prober's, as column `need` says them.
pub(crate) const UNFINALIZED: i16 = 1;
pub(crate) const LEASE_ENDED: i16 = 2;
pub(crate) const PROBE_DUE: i16 = 3;

/// What a checkpoint counts on a page, which is read after the page is filled: the longest there
/// is unless configured otherwise.
const CHECKPOINT_BYTES: usize = 64 * 1024;

/// What a row of a statement that reads rows counts on its page.
pub(crate) fn bytes(row: &tokio_postgres::Row) -> usize {
    let length = |column: usize| row.get::<_, Option<&[u8]>>(column).map_or(0, <[u8]>::len);
    let mut state = State::accepted(Timestamp::default(), None, Inherited::default());
    let beside = codec::decode(row.get(18), &mut state);
    let has_checkpoint = beside.is_ok_and(|beside| beside.checkpoint);
    length(7) + length(24) + usize::from(has_checkpoint) * CHECKPOINT_BYTES
}

/// The column of the stream, in every statement that reads rows.
pub(crate) const STREAM: usize = 2;

impl Row {
    /// Of a statement that reads the columns of view `clinch_operation`.
    pub(crate) fn read(row: &tokio_postgres::Row, names: &Names) -> Result<Self> {
        let status = status_of(i64::from(row.get::<_, i16>(12)))?;
        let phase = phase_of(row.get::<_, Option<i16>>(13).map(i64::from))?;
        let mut state = State {
            status,
            phase,
            version: count(row.get(14))?,
            next_attempt_at: moment(row.get(15)),
            attempt_id: row.get::<_, Option<Uuid>>(17).map(AttemptId),
            ..State::accepted(
                Timestamp::default(),
                moment(row.get(16)),
                Inherited::default(),
            )
        };
        let beside = codec::decode(row.get(18), &mut state)?;
        let result = beside.result.then(|| ResultRecord {
            provider_txn_id: row.get(23),
            payload: row.get::<_, Option<Vec<u8>>>(24).map(Sealed::new),
        });
        let hash = ContentHash::from_bytes(row.get(8)).map_err(error::unreadable)?;
        let lane = row.get::<_, Option<&[u8]>>(11).map(LaneKey::from_bytes);
        Ok(Self {
            op_id: OpId(row.get(0)),
            seq: count(row.get(1))?,
            stream: names.stream(row.get(STREAM))?,
            accepted_at: Timestamp::from_millis(row.get(3)),
            batch_id: row.get::<_, Option<Uuid>>(4).map(BatchId),
            biz_key: BizKey::new(row.get::<_, String>(5)).map_err(error::unreadable)?,
            idem_key: IdemKey::new(row.get::<_, String>(6)).map_err(error::unreadable)?,
            payload: Sealed::new(row.get::<_, Option<Vec<u8>>>(7).unwrap_or_default()),
            content_hash: hash,
            extras: json(row.get(9))?.unwrap_or_default(),
            labels: json(row.get(10))?.unwrap_or_default(),
            lane: lane.transpose().map_err(error::unreadable)?,
            state,
            beside,
            ledger: row.get(19),
            dispatch_no: count(row.get(20))?,
            started_at: moment(row.get(21)),
            finished_at: moment(row.get(22)),
            result,
            redriven_by: row.get::<_, Option<Uuid>>(25).map(OpId),
            line: row.get(26),
        })
    }

    pub(crate) fn keys(&self) -> Keys {
        Keys {
            domain: self.stream.domain.clone(),
            event_type: self.stream.event_type.clone(),
            biz_key: self.biz_key.clone(),
            idem_key: self.idem_key.clone(),
        }
    }

    /// What it waits for once it changed: nobody has announced or claimed what it is now. A
    /// follower of a lane is not in line.
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
                line: 1,
                need: None,
            },
            Due::Begin(_) | Due::Probe(None) | Due::Never => Place {
                line: 0,
                need: None,
            },
        }
    }

    /// The whole operation as others see it.
    pub(crate) fn operation(self, checkpoint: Option<Sealed>) -> Operation {
        let keys = self.keys();
        let Extras {
            run_at,
            deadline,
            trace,
            redrive_of,
            outbound_key,
        } = self.extras;
        Operation {
            op_id: self.op_id,
            outbound_key: outbound_key.unwrap_or_else(|| keys.outbound_key()),
            keys,
            payload: self.payload,
            content_hash: self.content_hash,
            options: Options {
                run_at,
                deadline,
                // The table holds ranks of priorities only.
                priority: Priority::new(-self.stream.rank).unwrap_or_default(),
                labels: self.labels,
                trace: None,
            },
            seq: self.seq,
            lane: self.lane,
            state: self.state,
            dispatch_no: self.dispatch_no,
            result: self.result,
            checkpoint,
            batch_id: self.batch_id,
            redrive_of,
            redriven_by: self.redriven_by,
            trace,
            accepted_at: self.accepted_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
        }
    }
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

fn json<T: for<'de> Deserialize<'de>>(text: Option<&str>) -> Result<Option<T>> {
    let parsed = text.map(serde_json::from_str).transpose();
    parsed.map_err(|error| error::corrupt("json").caused_by(error))
}

pub(crate) fn to_json(value: &(impl Serialize + ?Sized)) -> Result<String> {
    let text = serde_json::to_string(value);
    text.map_err(|error| error::corrupt("json").caused_by(error))
}
