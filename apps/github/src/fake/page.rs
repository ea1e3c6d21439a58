//! Pages of a list, and the links between them.

use super::answer::refusal;
use super::query::Query;
use super::world::DocumentRef;
use crate::ApiAnswer;

const PER_PAGE: usize = 30;
const PER_PAGE_MAX: usize = 100;

/// How links lead from page to page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paging {
    /// `page=2`, with `prev`, `next`, `last` and `first`.
    #[default]
    Numbers,
    /// `after=…` in `next` and nothing else; asking for a page by number is refused.
    Cursors,
}

/// A list in display order.
pub(super) struct List {
    /// Path of the links.
    pub(super) path: String,
    pub(super) rows: Vec<Row>,
    pub(super) is_descending: bool,
    /// Positions from here on cannot be requested.
    pub(super) end: Option<usize>,
}

/// The sort value and the id.
pub(super) struct Row {
    pub(super) key: (i64, u64),
    pub(super) place: DocumentRef,
}

/// One page.
pub(super) struct Page<'a> {
    pub(super) rows: &'a [Row],
    pub(super) link: Option<String>,
}

impl List {
    pub(super) fn new(path: String, mut rows: Vec<Row>, is_descending: bool) -> Self {
        rows.sort_by_key(|row| row.key);
        if is_descending {
            rows.reverse();
        }
        Self {
            path,
            rows,
            is_descending,
            end: None,
        }
    }

    /// Shows the first entries only.
    pub(super) fn cut(&mut self, shown: usize) {
        self.rows.truncate(shown);
        self.end = Some(shown);
    }

    pub(super) fn page(
        &self,
        base: &str,
        query: &Query,
        paging: Paging,
    ) -> Result<Page<'_>, ApiAnswer> {
        let per_page = number(query, "per_page").unwrap_or(PER_PAGE);
        let per_page = per_page.min(PER_PAGE_MAX);
        match paging {
            Paging::Numbers => self.numbered(base, query, per_page),
            Paging::Cursors => self.after(base, query, per_page),
        }
    }

    fn numbered(&self, base: &str, query: &Query, size: usize) -> Result<Page<'_>, ApiAnswer> {
        let page = number(query, "page").unwrap_or(1);
        let start = (page - 1).saturating_mul(size);
        if self.end.is_some_and(|end| start >= end) {
            return Err(refusal(
                422,
                "In order to keep the API fast for all users, pagination is limited for this resource.",
            ));
        }
        let count = self.rows.len();
        let last = count.div_ceil(size).max(1);
        let mut links = Vec::new();
        let mut relate = |relation: &str, page: usize| {
            let query = query.with("page", &page.to_string());
            links.push(format!("<{base}{}{query}>; rel=\"{relation}\"", self.path));
        };
        if page > 1 {
            relate("prev", (page - 1).min(last));
        }
        if page < last {
            relate("next", page + 1);
            relate("last", last);
        }
        if page > 1 {
            relate("first", 1);
        }
        let start = start.min(count);
        let end = start.saturating_add(size).min(count);
        Ok(Page {
            rows: &self.rows[start..end],
            link: (!links.is_empty()).then(|| links.join(", ")),
        })
    }

    fn after(&self, base: &str, query: &Query, size: usize) -> Result<Page<'_>, ApiAnswer> {
        if query.get("page").is_some() {
            return Err(refusal(
                422,
                "Pagination with the page parameter is not supported for large datasets, please use cursor based pagination (after/before)",
            ));
        }
        let start = match query.get("after").map(read_cursor) {
            None => 0,
            Some(Some(key)) => self.rows.partition_point(|row| match self.is_descending {
                true => row.key >= key,
                false => row.key <= key,
            }),
            Some(None) => return Err(refusal(422, "Invalid cursor")),
        };
        let end = start.saturating_add(size).min(self.rows.len());
        let rows = &self.rows[start..end];
        let last = rows.last().filter(|_| end < self.rows.len());
        let link = last.map(|row| {
            let query = query.with("after", &cursor(row.key));
            format!("<{base}{}{query}>; rel=\"next\"", self.path)
        });
        Ok(Page { rows, link })
    }
}

/// A missing value, zero and nonsense all mean the default, as at GitHub.
fn number(query: &Query, name: &str) -> Option<usize> {
    let value = query.get(name)?.parse().ok()?;
    (value > 0).then_some(value)
}

fn cursor((value, id): (i64, u64)) -> String {
    format!("c2{value:016x}{id:016x}")
}

pub(super) fn read_cursor(text: &str) -> Option<(i64, u64)> {
    let digits = text.strip_prefix("c2").filter(|rest| rest.len() == 32)?;
    let value = u64::from_str_radix(digits.get(..16)?, 16).ok()?;
    let id = u64::from_str_radix(digits.get(16..)?, 16).ok()?;
    Some((value.cast_signed(), id))
}
