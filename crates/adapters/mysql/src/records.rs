//! Records of an application.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{
    Expected, Record, RecordList, RecordWrite, Records, check_record_keys, check_record_writes,
};
use mysql_async::Row;

use crate::Mysql;
use crate::column::Column;
use crate::link::Script;
use crate::query::Query;
use crate::text::{self, Tuple};
use crate::tx::Tx;

/// Version of a placeholder row that locks the key of a missing record.
const ABSENT: u64 = 0;

impl Tx<'_> {
    /// Locks records in order of their keys, missing ones included; returns their versions.
    async fn lock_records(&mut self, keys: &[&str]) -> Result<BTreeMap<String, u64>> {
        let place = |key: &&str| Tuple::new().bytes(key).int(0).bytes("").end();
        let places: Vec<_> = keys.iter().map(place).collect();
        let mut script = Script::default();
        script.add_rows(Query::HoldRecords, &places);
        script.add(&Query::LockRecords.with(&[("keys", &text::list(keys))]));
        let answers = self.run(script).await?;
        let rows = answers.last().map(|answer| answer.rows.as_slice());
        let read = |row: &Row| Ok((row.text(0)?, row.count(1)?));
        rows.unwrap_or_default().iter().map(read).collect()
    }

    async fn write_records(&mut self, writes: &[RecordWrite]) -> Result<bool> {
        let mut keys: Vec<_> = writes.iter().map(|write| write.key.as_str()).collect();
        keys.sort_unstable();
        let versions = self.lock_records(&keys).await?;
        let version = |key: &String| versions.get(key).copied().unwrap_or(ABSENT);
        let as_expected = |write: &RecordWrite| match write.expected {
            Expected::Anything => true,
            Expected::Absent => version(&write.key) == ABSENT,
            Expected::Version(expected) => expected != ABSENT && version(&write.key) == expected,
        };
        if !writes.iter().all(as_expected) {
            let held = versions.iter().filter(|(_, version)| **version == ABSENT);
            self.delete_records(held.map(|(key, _)| key));
            return Ok(false);
        }
        let row = |write: &RecordWrite| {
            let body = write.body.as_ref()?;
            let tuple = Tuple::new().bytes(&write.key).int(version(&write.key) + 1);
            Some(tuple.bytes(body).end())
        };
        let rows: Vec<_> = writes.iter().filter_map(row).collect();
        self.later.add_rows(Query::PutRecords, &rows);
        let gone = writes.iter().filter(|write| write.body.is_none());
        self.delete_records(gone.map(|write| &write.key));
        Ok(true)
    }

    fn delete_records<'k>(&mut self, keys: impl Iterator<Item = &'k String>) {
        let keys: Vec<_> = keys.collect();
        if !keys.is_empty() {
            let keys = text::list(keys);
            self.later
                .add(&Query::DeleteRecords.with(&[("keys", &keys)]));
        }
    }
}

#[async_trait]
impl Records for Mysql {
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        check_record_keys(keys)?;
        let list = text::list(keys);
        let rows = self.query(Query::Records.with(&[("keys", &list)])).await?;
        let mut found = HashMap::new();
        for row in &rows {
            let record = read(row)?;
            found.insert(record.key.clone(), record);
        }
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool> {
        check_record_writes(writes)?;
        if writes.is_empty() {
            return Ok(true);
        }
        self.write(writes.to_vec(), |tx, writes| {
            Box::pin(tx.write_records(writes))
        })
        .await
    }

    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>> {
        list.check()?;
        let range = list.range();
        let query = match list.descending {
            true => Query::RecordsDown,
            false => Query::RecordsUp,
        };
        let sql = query.with(&[
            ("from", &text::literal(&range.from)),
            ("until", &text::literal(&range.until)),
            ("except", &text::literal(&range.except)),
            ("limit", &range.limit.to_string()),
        ]);
        self.query(sql).await?.iter().map(read).collect()
    }
}

fn read(row: &Row) -> Result<Record> {
    Ok(Record {
        key: row.text(0)?,
        version: row.count(1)?,
        body: row.text(2)?,
    })
}
