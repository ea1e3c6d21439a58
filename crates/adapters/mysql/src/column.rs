//! Conversions from columns to domain types.

use clinch_core::{
    AttemptId, BatchId, Domain, EventType, KeyHash, LaneKey, OpId, Result, Sealed, Timestamp,
};
use mysql_async::{Row, Value};
use uuid::Uuid;

use crate::error;

/// Reads columns by number. Rows come in the text protocol: numbers are digits.
pub(crate) trait Column {
    fn maybe_bytes(&self, at: usize) -> Result<Option<&[u8]>>;

    fn bytes(&self, at: usize) -> Result<&[u8]> {
        self.maybe_bytes(at)?.ok_or_else(|| error::corrupt("bytes"))
    }

    fn maybe_int(&self, at: usize) -> Result<Option<i64>> {
        let Some(digits) = self.maybe_bytes(at)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(digits).ok();
        // MySQL returns sums as decimals.
        let value = text.and_then(|text| text.parse().ok());
        value.map(Some).ok_or_else(|| error::corrupt("number"))
    }

    fn int(&self, at: usize) -> Result<i64> {
        self.maybe_int(at)?.ok_or_else(|| error::corrupt("number"))
    }

    fn count(&self, at: usize) -> Result<u64> {
        let text = std::str::from_utf8(self.bytes(at)?).ok();
        let value = text.and_then(|text| text.parse().ok());
        value.ok_or_else(|| error::corrupt("count"))
    }

    fn text(&self, at: usize) -> Result<String> {
        self.maybe_text(at)?.ok_or_else(|| error::corrupt("text"))
    }

    fn maybe_text(&self, at: usize) -> Result<Option<String>> {
        let bytes = self.maybe_bytes(at)?;
        let text = bytes.map(|bytes| String::from_utf8(bytes.to_vec()));
        text.transpose().map_err(|_| error::corrupt("text"))
    }

    fn moment(&self, at: usize) -> Result<Timestamp> {
        self.int(at).map(Timestamp::from_millis)
    }

    fn maybe_moment(&self, at: usize) -> Result<Option<Timestamp>> {
        Ok(self.maybe_int(at)?.map(Timestamp::from_millis))
    }

    fn maybe_uuid(&self, at: usize) -> Result<Option<Uuid>> {
        let bytes = self.maybe_bytes(at)?;
        let uuid = bytes.map(Uuid::from_slice).transpose();
        uuid.map_err(|_| error::corrupt("id"))
    }

    fn op_id(&self, at: usize) -> Result<OpId> {
        self.maybe_op_id(at)?.ok_or_else(|| error::corrupt("id"))
    }

    fn maybe_op_id(&self, at: usize) -> Result<Option<OpId>> {
        Ok(self.maybe_uuid(at)?.map(OpId))
    }

    fn maybe_attempt_id(&self, at: usize) -> Result<Option<AttemptId>> {
        Ok(self.maybe_uuid(at)?.map(AttemptId))
    }

    fn maybe_batch_id(&self, at: usize) -> Result<Option<BatchId>> {
        Ok(self.maybe_uuid(at)?.map(BatchId))
    }

    fn maybe_sealed(&self, at: usize) -> Result<Option<Sealed>> {
        let bytes = self.maybe_bytes(at)?;
        Ok(bytes.map(|bytes| Sealed::new(bytes.to_vec())))
    }

    fn key_hash(&self, at: usize) -> Result<KeyHash> {
        KeyHash::from_bytes(self.bytes(at)?).map_err(error::unreadable)
    }

    fn domain(&self, at: usize) -> Result<Domain> {
        Domain::new(self.text(at)?).map_err(error::unreadable)
    }

    fn event_type(&self, at: usize) -> Result<EventType> {
        EventType::new(self.text(at)?).map_err(error::unreadable)
    }

    fn maybe_lane(&self, at: usize) -> Result<Option<LaneKey>> {
        let lane = self.maybe_bytes(at)?.map(LaneKey::from_bytes).transpose();
        lane.map_err(error::unreadable)
    }
}

impl Column for Row {
    fn maybe_bytes(&self, at: usize) -> Result<Option<&[u8]>> {
        match self.as_ref(at) {
            Some(Value::NULL) => Ok(None),
            Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
            _ => Err(error::corrupt("column")),
        }
    }
}
