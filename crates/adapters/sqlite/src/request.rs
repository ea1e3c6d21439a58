//! The request of an operation: written once at accept, read when an attempt begins.

use clinch_core::{
    BizKey, ContentHash, Fingerprint, IdemKey, KeyHash, Keys, LaneKey, OutboundKey, Result, Sealed,
};
use clinch_stored::commit::{Request, RowWrite};
use clinch_stored::json;
use rusqlite::params;

use crate::column::{Column, maybe_millis, stored};
use crate::db::Db;
use crate::error;
use crate::query::Query;

/// Reads the request and the lane from column `at` on.
pub(crate) fn read_request(
    row: &rusqlite::Row<'_>,
    at: usize,
) -> Result<(Request, Option<LaneKey>)> {
    let labels = row.maybe_text(at + 8)?;
    let labels = labels.map(|text| json::read(text.as_bytes())).transpose()?;
    let outbound_key = OutboundKey::try_from(row.text(at + 5)?);
    let hash = ContentHash::from_bytes(row.bytes(at + 3)?);
    let request = Request {
        biz_key: BizKey::new(row.text(at)?).map_err(error::unreadable)?,
        idem_key: IdemKey::new(row.text(at + 1)?).map_err(error::unreadable)?,
        payload: Sealed::new(row.bytes(at + 2)?.to_vec()),
        content_hash: hash.map_err(error::unreadable)?,
        outbound_key: outbound_key.map_err(error::unreadable)?,
        run_at: row.maybe_moment(at + 6)?,
        deadline: row.maybe_moment(at + 7)?,
        labels: labels.unwrap_or_default(),
        redrive_of: row.maybe_op_id(at + 10)?,
        trace: row.maybe_text(at + 11)?,
    };
    Ok((request, read_lane(row, at + 9)?))
}

fn read_lane(row: &rusqlite::Row<'_>, at: usize) -> Result<Option<LaneKey>> {
    let lane = row.maybe_bytes(at)?.map(LaneKey::from_bytes).transpose();
    lane.map_err(error::unreadable)
}

impl Db<'_> {
    pub(crate) fn insert_request(
        &mut self,
        seq: u64,
        write: &RowWrite,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        let request = write.row.request()?;
        let labels = match request.labels.iter().next() {
            Some(_) => Some(json::to_text(&request.labels)?),
            None => None,
        };
        let hash = request.content_hash.to_bytes();
        let fingerprint = fingerprint.to_bytes();
        let params = params![
            stored(seq),
            request.biz_key.as_str(),
            request.idem_key.as_str(),
            request.payload.as_bytes(),
            hash.as_slice(),
            fingerprint.as_slice(),
            request.outbound_key.as_str(),
            maybe_millis(request.run_at),
            maybe_millis(request.deadline),
            labels,
            write
                .row
                .lane
                .as_ref()
                .map(|lane| lane.as_bytes().as_slice()),
            request.redrive_of.map(|id| id.0.into_bytes()),
            request.trace,
        ];
        self.run(Query::InsertRequest, params).map(|_| ())
    }

    pub(crate) fn request(&mut self, seq: u64) -> Result<Option<Request>> {
        self.first(Query::RequestBySeq, [stored(seq)], |row| {
            Ok(read_request(row, 0)?.0)
        })
    }

    /// The lane of an operation, if it has one.
    pub(crate) fn lane_of(&mut self, seq: u64) -> Result<Option<LaneKey>> {
        let lane = self.first(Query::LaneOf, [stored(seq)], |row| read_lane(row, 0))?;
        Ok(lane.flatten())
    }
}

/// The four keys in 64 bits. The upper half depends on biz_key only, so that the same index finds
/// every operation of a business object; the lower half depends on all four keys.
pub(crate) fn short_hash(keys: &Keys, hash: &KeyHash) -> i64 {
    let [a, b, c, d, ..] = *hash.as_bytes();
    let low = u32::from_be_bytes([a, b, c, d]);
    biz_hash(&keys.biz_key) | i64::from(low)
}

/// The upper half of [`short_hash`]: FNV-1a. Its values are stored, so the function must never
/// change.
pub(crate) fn biz_hash(biz_key: &BizKey) -> i64 {
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
    let hash = biz_key.as_str().as_bytes().iter().fold(2_166_136_261, mix);
    (u64::from(hash) << 32).cast_signed()
}
