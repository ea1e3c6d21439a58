//! Records of an application.

use std::ops::Bound;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{
    Expected, Record, RecordList, RecordWrite, Records, check_record_keys, check_record_writes,
};

use crate::Memory;

fn is_as_expected(found: Option<&Record>, expected: Expected) -> bool {
    match expected {
        Expected::Absent => found.is_none(),
        Expected::Version(version) => found.is_some_and(|record| record.version == version),
        Expected::Anything => true,
    }
}

#[async_trait]
impl Records for Memory {
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        check_record_keys(keys)?;
        Ok(self.read(|tables, _| {
            let find = |key: &String| tables.records.get(key).cloned();
            keys.iter().map(find).collect()
        }))
    }

    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool> {
        check_record_writes(writes)?;
        self.write(|tx| {
            let records = &mut tx.tables.records;
            let as_expected =
                |write: &RecordWrite| is_as_expected(records.get(&write.key), write.expected);
            if !writes.iter().all(as_expected) {
                return Ok(false);
            }
            for RecordWrite { key, body, .. } in writes {
                let Some(body) = body else {
                    records.remove(key);
                    continue;
                };
                let record = Record {
                    key: key.clone(),
                    version: records.get(key).map_or(0, |record| record.version) + 1,
                    body: body.clone(),
                };
                records.insert(key.clone(), record);
            }
            Ok(true)
        })
    }

    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>> {
        list.check()?;
        let range = list.range();
        if range.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.read(|tables, _| {
            let bounds = (
                Bound::Included(range.from.clone()),
                Bound::Excluded(range.until.clone()),
            );
            let found = tables.records.range(bounds).map(|(_, record)| record);
            let wanted = found.filter(|record| record.key != range.except);
            match list.descending {
                true => wanted.rev().take(range.limit).cloned().collect(),
                false => wanted.take(range.limit).cloned().collect(),
            }
        }))
    }
}
