//! Records of an application: the area `records::`.

mod lists;
mod writes;

use std::any::Any;
use std::sync::Arc;

use clinch_core::ports::{Expected, Record, RecordList, RecordWrite, Records};
use clinch_core::{Error, ErrorKind};

use crate::case::{Failure, Verdict};
use crate::port::{FailNext, PortCase};

/// One fresh, empty implementation.
#[derive(Clone)]
pub struct RecordsSubject {
    /// The port.
    pub records: Arc<dyn Records>,
    /// Makes the next writing call fail.
    pub fail_next: FailNext,
    /// Kept alive for as long as the case runs, for example a folder.
    pub held: Arc<dyn Any + Send + Sync>,
}

/// Every case of the area `records::`.
pub fn records_cases() -> Vec<PortCase<RecordsSubject>> {
    [writes::CASES, lists::CASES].concat()
}

/// A write of `body`.
fn put(key: &str, expected: Expected, body: &str) -> RecordWrite {
    RecordWrite {
        key: key.into(),
        expected,
        body: Some(body.into()),
    }
}

fn remove(key: &str, expected: Expected) -> RecordWrite {
    RecordWrite {
        key: key.into(),
        expected,
        body: None,
    }
}

fn is_invalid<T>(result: Result<T, Error>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::Invalid)
}

impl RecordsSubject {
    async fn read(&self, key: &str) -> Verdict<Option<Record>> {
        let mut read = self.records.read_records(&[key.into()]).await?;
        ensure_eq!(read.len(), 1, "answers to a read of one key");
        Ok(read.remove(0))
    }

    /// A record that must exist.
    async fn get(&self, key: &str) -> Verdict<Record> {
        let missing = || Failure::new(format!("{key:?} is not there"));
        self.read(key).await?.ok_or_else(missing)
    }

    async fn write(&self, writes: &[RecordWrite]) -> Verdict<bool> {
        Ok(self.records.write_records(writes).await?)
    }

    /// Creates records, each with its key as the body.
    async fn fill<'k>(&self, keys: impl IntoIterator<Item = &'k str>) -> Verdict {
        let new = |key| put(key, Expected::Absent, key);
        let writes: Vec<_> = keys.into_iter().map(new).collect();
        ensure!(self.write(&writes).await?, "new records are written");
        Ok(())
    }

    /// Keys of one page.
    async fn page(
        &self,
        prefix: &str,
        descending: bool,
        after: Option<&str>,
        limit: usize,
    ) -> Verdict<Vec<String>> {
        let list = RecordList {
            prefix: prefix.into(),
            descending,
            after: after.map(str::to_owned),
            limit,
        };
        let records = self.records.list_records(&list).await?;
        Ok(records.into_iter().map(|record| record.key).collect())
    }

    /// Every key with this prefix.
    async fn keys(&self, prefix: &str) -> Verdict<Vec<String>> {
        self.page(prefix, false, None, usize::MAX).await
    }
}
