//! What was asked for: written once, read when an attempt begins.

use clinch_core::ports::NewOperation;
use clinch_core::{
    BizKey, ContentHash, Fingerprint, IdemKey, KeyHash, Keys, Labels, LaneKey, OpId, Options,
    OutboundKey, Priority, Result, Sealed, Timestamp,
};
use rusqlite::params;

use crate::column::{Column, maybe_millis, stored};
use crate::db::Db;
use crate::error;
use crate::query::Query;
use crate::row::to_json;

/// The part of an operation that never changes.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub biz_key: BizKey,
    pub idem_key: IdemKey,
    pub payload: Sealed,
    pub content_hash: ContentHash,
    pub fingerprint: Fingerprint,
    pub outbound_key: OutboundKey,
    pub run_at: Option<Timestamp>,
    pub asked_deadline: Option<Timestamp>,
    pub labels: Labels,
    pub lane: Option<LaneKey>,
    pub redrive_of: Option<OpId>,
    pub trace: Option<String>,
}

impl Request {
    pub(crate) fn of(new: &NewOperation, fingerprint: Fingerprint, lane: Option<LaneKey>) -> Self {
        Self {
            biz_key: new.keys.biz_key.clone(),
            idem_key: new.keys.idem_key.clone(),
            payload: new.payload.clone(),
            content_hash: new.content_hash,
            fingerprint,
            outbound_key: new.outbound_key.clone(),
            run_at: new.options.run_at,
            asked_deadline: new.options.deadline,
            labels: new.options.labels.clone(),
            lane,
            redrive_of: new.redrive_of,
            trace: new.trace.clone(),
        }
    }

    /// From column `at` on.
    pub(crate) fn read(row: &rusqlite::Row<'_>, at: usize) -> Result<Self> {
        let labels = row
            .maybe_text(at + 8)?
            .map(|text| serde_json::from_str(&text));
        let labels = labels.transpose();
        let labels = labels.map_err(|error| error::corrupt("labels").caused_by(error))?;
        let lane = row
            .maybe_bytes(at + 9)?
            .map(LaneKey::from_bytes)
            .transpose();
        let outbound_key = OutboundKey::try_from(row.text(at + 5)?);
        let hash = ContentHash::from_bytes(row.bytes(at + 3)?);
        let fingerprint = Fingerprint::from_bytes(row.bytes(at + 4)?);
        Ok(Self {
            biz_key: BizKey::new(row.text(at)?).map_err(error::unreadable)?,
            idem_key: IdemKey::new(row.text(at + 1)?).map_err(error::unreadable)?,
            payload: Sealed::new(row.bytes(at + 2)?.to_vec()),
            content_hash: hash.map_err(error::unreadable)?,
            fingerprint: fingerprint.map_err(error::unreadable)?,
            outbound_key: outbound_key.map_err(error::unreadable)?,
            run_at: row.maybe_moment(at + 6)?,
            asked_deadline: row.maybe_moment(at + 7)?,
            labels: labels.unwrap_or_default(),
            lane: lane.map_err(error::unreadable)?,
            redrive_of: row.maybe_op_id(at + 10)?,
            trace: row.maybe_text(at + 11)?,
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
}

impl Db<'_> {
    pub(crate) fn insert_request(&mut self, seq: u64, request: &Request) -> Result<()> {
        let labels = match request.labels.iter().next() {
            Some(_) => Some(to_json(&request.labels)?),
            None => None,
        };
        let hash = request.content_hash.to_bytes();
        let fingerprint = request.fingerprint.to_bytes();
        let params = params![
            stored(seq),
            request.biz_key.as_str(),
            request.idem_key.as_str(),
            request.payload.as_bytes(),
            hash.as_slice(),
            fingerprint.as_slice(),
            request.outbound_key.as_str(),
            maybe_millis(request.run_at),
            maybe_millis(request.asked_deadline),
            labels,
            request.lane.as_ref().map(|lane| lane.as_bytes().as_slice()),
            request.redrive_of.map(|id| id.0.into_bytes()),
            request.trace,
        ];
        self.run(Query::InsertRequest, params).map(|_| ())
    }

    pub(crate) fn request(&mut self, seq: u64) -> Result<Option<Request>> {
        self.first(Query::RequestBySeq, [stored(seq)], |row| {
            Request::read(row, 0)
        })
    }
}

/// The four keys in 64 bits: the upper half is that of biz_key alone, so that the same index
/// finds every operation of a business object; the lower half is of all four.
pub(crate) fn short_hash(keys: &Keys, hash: &KeyHash) -> i64 {
    let [a, b, c, d, ..] = *hash.as_bytes();
    let low = u32::from_be_bytes([a, b, c, d]);
    biz_hash(&keys.biz_key) | i64::from(low)
}

/// The upper half of [`short_hash`]: FNV-1a, which is stored and must never change.
pub(crate) fn biz_hash(biz_key: &BizKey) -> i64 {
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
    let hash = biz_key.as_str().as_bytes().iter().fold(2_166_136_261, mix);
    (u64::from(hash) << 32).cast_signed()
}
