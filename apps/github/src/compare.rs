//! Compares a shadow with the real documents.

mod runs;

use clinch::Result;
use clinch::ports::{Document, DocumentFilter};
use serde::Serialize;

use crate::collector::Collector;
use crate::model::Space;

pub use runs::{CompareLimits, Difference, RunComparison};
pub(crate) use runs::{NOISE, took};

/// Documents that are read at once.
const PAGE: usize = 64;
/// Maximum ids that a comparison lists.
const NAMED_MAX: usize = 20;

/// The result of a comparison of a shadow with the real documents.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Comparison {
    /// Documents that both have, with the same content.
    pub equal: u64,
    /// Documents that both have, with different content.
    pub different: u64,
    /// Documents that only the real collection has.
    pub missing: u64,
    /// Documents that only the shadow has.
    pub extra: u64,
    /// Ids of some documents that differ.
    pub examples: Vec<String>,
}

impl Comparison {
    /// Whether nothing differs.
    pub fn is_equal(&self) -> bool {
        self.different + self.missing + self.extra == 0
    }

    fn name(&mut self, id: &str) {
        if self.examples.len() < NAMED_MAX {
            self.examples.push(id.to_owned());
        }
    }
}

impl Collector {
    /// Compares a user's shadow with the real documents (COL-18).
    pub async fn compare(&self, login: &str) -> Result<Comparison> {
        let filter = DocumentFilter {
            user: Some(login.to_ascii_lowercase()),
            ..DocumentFilter::default()
        };
        let mut comparison = Comparison::default();
        let mut real = Scan::new(self, Space::Main, &filter);
        let mut shadow = Scan::new(self, Space::Shadow, &filter);
        let (mut left, mut right) = (real.next().await?, shadow.next().await?);
        loop {
            match (&left, &right) {
                (None, None) => return Ok(comparison),
                (Some(one), Some(other)) if one.id == other.id => {
                    if one == other || same_value(one, other) {
                        comparison.equal += 1;
                    } else {
                        comparison.different += 1;
                        comparison.name(&one.id);
                    }
                    (left, right) = (real.next().await?, shadow.next().await?);
                }
                (Some(one), other) if other.as_ref().is_none_or(|other| one.id < other.id) => {
                    comparison.missing += 1;
                    comparison.name(&one.id);
                    left = real.next().await?;
                }
                (_, Some(other)) => {
                    comparison.extra += 1;
                    comparison.name(&other.id);
                    right = shadow.next().await?;
                }
                (Some(_), None) => unreachable!("the case before takes it"),
            }
        }
    }
}

/// Iterates over documents, reading a page at a time.
struct Scan<'a> {
    collector: &'a Collector,
    space: Space,
    filter: &'a DocumentFilter,
    page: std::vec::IntoIter<Document>,
    after: Option<String>,
    is_over: bool,
}

impl<'a> Scan<'a> {
    fn new(collector: &'a Collector, space: Space, filter: &'a DocumentFilter) -> Self {
        Self {
            collector,
            space,
            filter,
            page: Vec::new().into_iter(),
            after: None,
            is_over: false,
        }
    }

    async fn next(&mut self) -> Result<Option<Document>> {
        if self.page.len() == 0 && !self.is_over {
            let (after, limit) = (self.after.as_deref(), PAGE);
            let page = self
                .collector
                .documents(self.space, self.filter, after, limit)
                .await?;
            self.is_over = page.len() < PAGE;
            self.page = page.into_iter();
        }
        let next = self.page.next();
        if let Some(document) = &next {
            self.after = Some(document.id.clone());
        }
        Ok(next)
    }
}

/// Compares JSON values: sinks need not keep a document's exact text.
fn same_value(one: &Document, other: &Document) -> bool {
    let value =
        |document: &Document| serde_json::from_str::<serde_json::Value>(&document.body).ok();
    let of = |document: &Document| (document.kind.clone(), document.resource.clone());
    of(one) == of(other) && value(one).is_some() && value(one) == value(other)
}
