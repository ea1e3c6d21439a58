//! What was asked for: written once, read when an attempt begins.

use clinch_core::ports::NewOperation;
use clinch_core::{
    BizKey, ContentHash, Fingerprint, IdemKey, Labels, OpId, Options, OutboundKey,
    PAYLOAD_BYTES_MAX, Payload, Priority, Result, Sealed, Timestamp,
};

use crate::column::Column;
use crate::error;
use crate::row::{ROW_COLUMNS, Row};
use crate::text::Tuple;

/// The part of an operation that never changes.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub biz_key: BizKey,
    pub idem_key: IdemKey,
    pub payload: Sealed,
    pub content_hash: ContentHash,
    pub outbound_key: OutboundKey,
    pub run_at: Option<Timestamp>,
    pub asked_deadline: Option<Timestamp>,
    pub labels: Labels,
    pub redrive_of: Option<OpId>,
    pub trace: Option<String>,
    /// JSON as somebody's driver spelled it.
    pub raw: bool,
}

impl Request {
    pub(crate) fn of(new: &NewOperation) -> Self {
        Self {
            biz_key: new.keys.biz_key.clone(),
            idem_key: new.keys.idem_key.clone(),
            payload: new.payload.clone(),
            content_hash: new.content_hash,
            outbound_key: new.outbound_key.clone(),
            run_at: new.options.run_at,
            asked_deadline: new.options.deadline,
            labels: new.options.labels.clone(),
            redrive_of: new.redrive_of,
            trace: new.trace.clone(),
            raw: false,
        }
    }

    /// From the columns after those of the row.
    pub(crate) fn read(row: &mysql_async::Row) -> Result<Self> {
        let at = ROW_COLUMNS;
        let labels = row.maybe_bytes(at + 7)?.map(serde_json::from_slice);
        let labels = labels.transpose();
        let labels = labels.map_err(|error| error::corrupt("labels").caused_by(error))?;
        let outbound_key = OutboundKey::try_from(row.text(at + 4)?);
        let hash = ContentHash::from_bytes(row.bytes(at + 3)?);
        Ok(Self {
            biz_key: BizKey::new(row.text(at)?).map_err(error::unreadable)?,
            idem_key: IdemKey::new(row.text(at + 1)?).map_err(error::unreadable)?,
            payload: Sealed::new(row.bytes(at + 2)?.to_vec()),
            content_hash: hash.map_err(error::unreadable)?,
            outbound_key: outbound_key.map_err(error::unreadable)?,
            run_at: row.maybe_moment(at + 5)?,
            asked_deadline: row.maybe_moment(at + 6)?,
            labels: labels.unwrap_or_default(),
            redrive_of: row.maybe_op_id(at + 8)?,
            trace: row.maybe_text(at + 9)?,
            raw: row.int(at + 10)? != 0,
        })
    }

    pub(crate) fn options(&self, rank: i8) -> Options {
        Options {
            run_at: self.run_at,
            deadline: self.asked_deadline,
            // The table holds ranks of priorities only.
            priority: Priority::new(-rank).unwrap_or_default(),
            labels: self.labels.clone(),
            trace: None,
        }
    }

    /// The payload is what was stored, and can be read.
    pub(crate) fn is_intact(&self, row: &Row) -> bool {
        let stored = self.payload.as_bytes();
        let hash = &self.content_hash;
        let is_same = hash.verifies(&row.op_id, &row.event_type, stored);
        // The server knows less of JSON than we do: it takes members twice, and any number.
        is_same && (!self.raw || plain_print(stored).is_some())
    }

    /// Its values in `clinch_request`, all but the seq, which the table draws.
    pub(crate) fn values(&self, row: &Row) -> Result<String> {
        let labels = match self.labels.iter().next() {
            Some(_) => Some(to_json(&self.labels)?),
            None => None,
        };
        Ok(Tuple::new()
            .bytes(row.op_id.0.as_bytes())
            .at(row.accepted_at)
            .bytes(row.domain.as_str())
            .bytes(row.event_type.as_str())
            .bytes(self.biz_key.as_str())
            .bytes(self.idem_key.as_str())
            .bytes(self.payload.as_bytes())
            .bytes(self.content_hash.to_bytes())
            .bytes(self.outbound_key.as_str())
            .int(row.rank)
            .maybe_at(self.run_at)
            .maybe_at(self.asked_deadline)
            .maybe_bytes(labels)
            .maybe_bytes(row.lane.as_ref().map(|lane| lane.as_bytes()))
            .maybe_bytes(row.batch_id.map(|id| id.0.into_bytes()))
            .maybe_bytes(self.redrive_of.map(|id| id.0.into_bytes()))
            .maybe_bytes(self.trace.as_deref())
            .end())
    }
}

/// The fingerprint of JSON in any spelling; `None`: it is not JSON that we take.
pub(crate) fn plain_print(stored: &[u8]) -> Option<Fingerprint> {
    let text = std::str::from_utf8(stored).ok()?;
    let payload = Payload::parse(text, PAYLOAD_BYTES_MAX).ok()?;
    Some(Fingerprint::plain(&payload))
}

pub(crate) fn to_json(value: &(impl serde::Serialize + ?Sized)) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(value);
    text.map_err(|error| error::corrupt("json").caused_by(error))
}
