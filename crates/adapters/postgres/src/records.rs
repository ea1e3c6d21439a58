//! Records of an application.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{
    Expected, Record, RecordList, RecordWrite, Records, check_record_keys, check_record_writes,
};
use tokio_postgres::Row;

use crate::Postgres;
use crate::link::Params;
use crate::query::Query;
use crate::row::{count, stored};
use crate::tx::Tx;

impl Tx<'_> {
    /// A record that another call makes in between is found by the next try.
    async fn write_records(&mut self, writes: &BTreeMap<String, RecordWrite>) -> Result<bool> {
        let keys: Vec<&String> = writes.keys().collect();
        let rows = self.query(Query::RecordsForUpdate, &[&keys]).await?;
        let version = |row: &Row| Ok((row.get(0), count(row.get(1))?));
        let found: HashMap<String, u64> = rows.iter().map(version).collect::<Result<_>>()?;
        let as_expected = |write: &RecordWrite| match write.expected {
            Expected::Anything => true,
            Expected::Absent => !found.contains_key(&write.key),
            Expected::Version(version) => found.get(&write.key) == Some(&version),
        };
        if !writes.values().all(as_expected) {
            return Ok(false);
        }
        let next = |key: &&String| stored(found.get(*key).map_or(1, |version| version + 1));
        let versions: Vec<i64> = keys.iter().map(next).collect();
        let bodies: Vec<&Option<String>> = writes.values().map(|write| &write.body).collect();
        let params: Params<'_> = &[&keys, &versions, &bodies];
        self.query(Query::WriteRecords, params).await?;
        Ok(true)
    }
}

#[async_trait]
impl Records for Postgres {
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        check_record_keys(keys)?;
        let rows = self.shared.query(Query::Records, &[&keys]).await?;
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
        let by_key = writes
            .iter()
            .map(|write| (write.key.clone(), write.clone()));
        let by_key: BTreeMap<_, _> = by_key.collect();
        self.write(by_key, |tx, writes| Box::pin(tx.write_records(writes)))
            .await
    }

    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>> {
        list.check()?;
        let range = list.range();
        let query = match list.descending {
            true => Query::RecordsDown,
            false => Query::RecordsUp,
        };
        let limit = stored(range.limit as u64);
        let params: Params<'_> = &[&range.from, &range.until, &range.except, &limit];
        let rows = self.shared.query(query, params).await?;
        rows.iter().map(read).collect()
    }
}

fn read(row: &Row) -> Result<Record> {
    Ok(Record {
        key: row.get(0),
        version: count(row.get(1))?,
        body: row.get(2),
    })
}
