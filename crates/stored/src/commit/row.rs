//! An operation's row, as every store reads and writes it.

use std::sync::Arc;

use clinch_core::ports::{LedgerLine, NewOperation, Operation, ResultRecord};
use clinch_core::protocol::{Phase, State};
use clinch_core::{
    BatchId, BizKey, ContentHash, Domain, EventType, IdemKey, Keys, Labels, LaneKey,
    MESSAGE_BYTES_MAX, OpId, Options, OutboundKey, Priority, Result, Sealed, Status, Timestamp,
    WorkerId, shorten,
};

use crate::error;

/// Seqs from here on stand for rows that are not written yet, in the order of acceptance. The
/// store draws the real ones.
pub(super) const PROVISIONAL: u64 = 1 << 62;

/// The row has no seq of its own yet.
pub fn is_provisional(seq: u64) -> bool {
    seq >= PROVISIONAL
}

/// What changes of an operation, and what decides about it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The operation.
    pub op_id: OpId,
    /// Grows within (domain, biz_key).
    pub seq: u64,
    /// Of its keys.
    pub domain: Domain,
    /// Of its keys.
    pub event_type: EventType,
    /// Who is served first.
    pub priority: Priority,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// Its batch.
    pub batch_id: Option<BatchId>,
    /// Its lane, if it was accepted under `order = "key"`.
    pub lane: Option<LaneKey>,
    /// Of a row with a lane that awaits a begin: no earlier operation of the lane is open.
    /// `None`: the store cannot tell from the row.
    pub is_head: Option<bool>,
    /// What guards look at.
    pub state: State,
    /// A checkpoint is stored.
    pub has_checkpoint: bool,
    /// Operations that the recorded answer spawns are stored.
    pub has_spawn: bool,
    /// Publications so far.
    pub dispatch_no: u64,
    /// When its first attempt began.
    pub started_at: Option<Timestamp>,
    /// When it became terminal.
    pub finished_at: Option<Timestamp>,
    /// The recorded or final result.
    pub result: Option<ResultRecord>,
    /// The operation that redrives it.
    pub redriven_by: Option<OpId>,
    /// The history beside the row, as the store keeps it.
    pub ledger: Vec<u8>,
    /// What was asked for; `None` where it was not read.
    pub request: Option<Arc<Request>>,
    /// The stored payload matches its content hash. Of a row whose request was read.
    pub is_intact: bool,
    /// The bytes of the checkpoint. Of a row whose request was read.
    pub checkpoint: Option<Sealed>,
}

/// The part of an operation that never changes and that no guard looks at.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Of its keys.
    pub biz_key: BizKey,
    /// Of its keys.
    pub idem_key: IdemKey,
    /// The payload as it is stored.
    pub payload: Sealed,
    /// Of the stored payload.
    pub content_hash: ContentHash,
    /// What the provider sees.
    pub outbound_key: OutboundKey,
    /// Not before, as the command asked.
    pub run_at: Option<Timestamp>,
    /// The command's own deadline.
    pub deadline: Option<Timestamp>,
    /// The command's labels.
    pub labels: Labels,
    /// The operation it redrives.
    pub redrive_of: Option<OpId>,
    /// W3C `traceparent`.
    pub trace: Option<String>,
}

impl Request {
    /// Of a new operation.
    pub fn of(new: &NewOperation) -> Self {
        Self {
            biz_key: new.keys.biz_key.clone(),
            idem_key: new.keys.idem_key.clone(),
            payload: new.payload.clone(),
            content_hash: new.content_hash,
            outbound_key: new.outbound_key.clone(),
            run_at: new.options.run_at,
            deadline: new.options.deadline,
            labels: new.options.labels.clone(),
            redrive_of: new.redrive_of,
            trace: new.trace.clone(),
        }
    }

    /// The stored payload matches its content hash.
    pub fn is_intact(&self, op_id: &OpId, event_type: &EventType) -> bool {
        let stored = self.payload.as_bytes();
        self.content_hash.verifies(op_id, event_type, stored)
    }
}

impl Row {
    /// What was asked for.
    pub fn request(&self) -> Result<&Request> {
        let request = self.request.as_deref();
        request.ok_or_else(|| error::corrupt("request"))
    }

    /// The four keys, of a row whose request was read.
    pub fn keys(&self) -> Result<Keys> {
        let request = self.request()?;
        Ok(Keys {
            domain: self.domain.clone(),
            event_type: self.event_type.clone(),
            biz_key: request.biz_key.clone(),
            idem_key: request.idem_key.clone(),
        })
    }

    /// The whole operation as others see it, of a row whose request was read.
    pub fn operation(&self) -> Result<Operation> {
        let request = self.request()?;
        Ok(Operation {
            op_id: self.op_id,
            keys: self.keys()?,
            payload: request.payload.clone(),
            content_hash: request.content_hash,
            outbound_key: request.outbound_key.clone(),
            options: Options {
                run_at: request.run_at,
                deadline: request.deadline,
                priority: self.priority,
                labels: request.labels.clone(),
                trace: None,
            },
            seq: self.seq,
            lane: self.lane,
            state: self.state.clone(),
            dispatch_no: self.dispatch_no,
            result: self.result.clone(),
            checkpoint: self.checkpoint.clone().filter(|_| self.has_checkpoint),
            batch_id: self.batch_id,
            redrive_of: request.redrive_of,
            redriven_by: self.redriven_by,
            trace: request.trace.clone(),
            accepted_at: self.accepted_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
        })
    }
}

/// A line of the ledger before it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// When, on the store's clock.
    pub at: Timestamp,
    /// The event's name.
    pub event: &'static str,
    /// The row's fence after it.
    pub fence: u64,
    /// The row's version after it.
    pub version: u64,
    /// The status after it.
    pub status: Status,
    /// The phase after it.
    pub phase: Option<Phase>,
    /// Who said so.
    pub by: Option<WorkerId>,
    /// The event changed nothing: why.
    pub refused: Option<String>,
    /// The reason that came with the event.
    pub note: String,
    /// The result of an answer that came too late to count.
    pub late: Option<ResultRecord>,
}

impl From<Line> for LedgerLine {
    fn from(line: Line) -> Self {
        Self {
            at: line.at,
            event: line.event.to_owned(),
            fence: line.fence,
            version: line.version,
            status: line.status,
            phase: line.phase,
            by: line.by,
            refused: line.refused,
            note: shorten(line.note, MESSAGE_BYTES_MAX),
            late: line.late,
        }
    }
}
