//! Records of an application.

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{
    Expected, Record, RecordList, RecordWrite, Records, check_record_keys, check_record_writes,
};
use rusqlite::{Row, params};

use crate::Sqlite;
use crate::column::{Column, stored};
use crate::query::Query;
use crate::tx::Tx;

impl Tx<'_, '_> {
    fn is_as_expected(&mut self, write: &RecordWrite) -> Result<bool> {
        let mut version = || {
            let query = Query::RecordVersion;
            self.db.first(query, [&write.key], |row| row.count(0))
        };
        Ok(match write.expected {
            Expected::Anything => true,
            Expected::Absent => version()?.is_none(),
            Expected::Version(expected) => version()? == Some(expected),
        })
    }

    fn write_records(&mut self, writes: &[RecordWrite]) -> Result<bool> {
        for write in writes {
            if !self.is_as_expected(write)? {
                return Ok(false);
            }
        }
        for RecordWrite { key, body, .. } in writes {
            match body {
                Some(body) => self.db.run(Query::PutRecord, params![key, body])?,
                None => self.db.run(Query::DeleteRecord, [key])?,
            };
        }
        Ok(true)
    }
}

#[async_trait]
impl Records for Sqlite {
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        check_record_keys(keys)?;
        let keys = keys.to_vec();
        self.read(move |db| {
            let mut find = |key: &String| db.first(Query::Record, [key], read);
            keys.iter().map(&mut find).collect()
        })
        .await
    }

    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool> {
        check_record_writes(writes)?;
        let writes = writes.to_vec();
        self.write(move |tx| tx.write_records(&writes)).await
    }

    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>> {
        list.check()?;
        let range = list.range();
        let query = match list.descending {
            true => Query::RecordsDown,
            false => Query::RecordsUp,
        };
        self.read(move |db| {
            let params = params![
                range.from,
                range.until,
                range.except,
                stored(range.limit as u64)
            ];
            db.all(query, params, read)
        })
        .await
    }
}

pub(crate) fn read(row: &Row<'_>) -> Result<Record> {
    Ok(Record {
        key: row.text(0)?,
        version: row.count(1)?,
        body: row.text(2)?,
    })
}
