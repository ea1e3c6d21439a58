//! Pages of batches.

use clinch_core::ports::{Batch, PAGE_MAX, Page, Restriction};
use clinch_core::{BatchId, Error, ErrorKind, Result};

use crate::Filling;

/// A page of batches that is to be read, by falling id.
#[derive(Debug)]
pub struct BatchPage<'a> {
    of: &'a Restriction,
    limit: usize,
    /// Only batches with smaller ids. `None`: from the largest on.
    pub below: Option<BatchId>,
}

impl<'a> BatchPage<'a> {
    /// Refuses a cursor of another list.
    pub fn new(of: &'a Restriction, cursor: Option<&str>, limit: usize) -> Result<Self> {
        let below = cursor.map(str::parse::<BatchId>).transpose();
        let message = "the cursor is not one of this list; start without one";
        let below = below.map_err(|_| Error::new(ErrorKind::Invalid, message))?;
        Ok(Self { of, limit, below })
    }

    /// How many rows to read.
    pub fn rows(&self) -> usize {
        match self.of.is_none() {
            true => Filling::<()>::new(self.limit).rows(),
            false => PAGE_MAX + 1,
        }
    }

    /// The page, from the rows that were read.
    pub fn page(self, rows: Vec<Batch>) -> Page<Batch> {
        let is_all = rows.len() < self.rows();
        let last = rows.last().map(|batch| batch.batch_id.to_string());
        let mut filling = Filling::new(self.limit);
        for batch in rows {
            if self.of.covers(&batch.owner) && !filling.push(batch, 0) {
                break;
            }
        }
        let rest = last.filter(|_| !is_all);
        filling.page_of_search(|batch| batch.batch_id.to_string(), rest)
    }
}
