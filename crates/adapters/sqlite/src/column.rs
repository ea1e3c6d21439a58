//! Conversions between columns and domain types.

use clinch_core::{AttemptId, BatchId, OpId, Result, Timestamp};
use rusqlite::Row;
use uuid::Uuid;

use crate::error;

/// Reads columns by number.
pub(crate) trait Column {
    fn int(&self, at: usize) -> Result<i64>;
    fn maybe_int(&self, at: usize) -> Result<Option<i64>>;
    fn text(&self, at: usize) -> Result<String>;
    fn maybe_text(&self, at: usize) -> Result<Option<String>>;
    fn bytes(&self, at: usize) -> Result<&[u8]>;
    fn maybe_bytes(&self, at: usize) -> Result<Option<&[u8]>>;

    fn count(&self, at: usize) -> Result<u64> {
        u64::try_from(self.int(at)?).map_err(|_| error::corrupt("count"))
    }

    fn small(&self, at: usize) -> Result<u32> {
        u32::try_from(self.int(at)?).map_err(|_| error::corrupt("count"))
    }

    fn moment(&self, at: usize) -> Result<Timestamp> {
        self.int(at).map(Timestamp::from_millis)
    }

    fn maybe_moment(&self, at: usize) -> Result<Option<Timestamp>> {
        Ok(self.maybe_int(at)?.map(Timestamp::from_millis))
    }

    fn uuid(&self, at: usize) -> Result<Uuid> {
        Uuid::from_slice(self.bytes(at)?).map_err(|_| error::corrupt("id"))
    }

    fn maybe_uuid(&self, at: usize) -> Result<Option<Uuid>> {
        let bytes = self.maybe_bytes(at)?;
        let uuid = bytes.map(Uuid::from_slice).transpose();
        uuid.map_err(|_| error::corrupt("id"))
    }

    fn op_id(&self, at: usize) -> Result<OpId> {
        self.uuid(at).map(OpId)
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
}

fn value<T>(value: rusqlite::types::FromSqlResult<T>, what: &'static str) -> Result<T> {
    value.map_err(|error| error::corrupt(what).caused_by(error))
}

impl Column for Row<'_> {
    fn int(&self, at: usize) -> Result<i64> {
        value(self.get_ref(at).map_err(error::sql)?.as_i64(), "number")
    }

    fn maybe_int(&self, at: usize) -> Result<Option<i64>> {
        let cell = self.get_ref(at).map_err(error::sql)?;
        value(cell.as_i64_or_null(), "number")
    }

    fn text(&self, at: usize) -> Result<String> {
        let cell = self.get_ref(at).map_err(error::sql)?;
        value(cell.as_str(), "text").map(str::to_owned)
    }

    fn maybe_text(&self, at: usize) -> Result<Option<String>> {
        let cell = self.get_ref(at).map_err(error::sql)?;
        Ok(value(cell.as_str_or_null(), "text")?.map(str::to_owned))
    }

    fn bytes(&self, at: usize) -> Result<&[u8]> {
        value(self.get_ref(at).map_err(error::sql)?.as_blob(), "bytes")
    }

    fn maybe_bytes(&self, at: usize) -> Result<Option<&[u8]>> {
        let cell = self.get_ref(at).map_err(error::sql)?;
        value(cell.as_blob_or_null(), "bytes")
    }
}

/// A time as it is stored.
pub(crate) fn millis(at: Timestamp) -> i64 {
    at.as_millis()
}

/// An optional time as it is stored.
pub(crate) fn maybe_millis(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millis)
}

/// A count as it is stored. SQLite's integers are signed; no counter reaches the sign bit.
pub(crate) fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
