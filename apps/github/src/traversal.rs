//! The way through the pages of a resource: which page comes next, and where the cursor ends up.

use clinch::types::Timestamp;

use crate::items::Items;
use crate::model::{FirstPage, PageJob};
use crate::records::{Cursor, KnownPage};

/// Maximum pages of one resource: bounds a chain of next links that never ends.
pub(crate) const PAGES_MAX: u32 = 100_000;

/// What to read next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing: everything is stored.
    End,
    /// The page at this address.
    Page(String),
    /// The changes since this time.
    Since(String),
}

/// The state of reading a resource page by page.
pub(crate) struct Traversal<'a> {
    pub(crate) job: &'a PageJob,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) since: Option<String>,
    pub(crate) seen: FirstPage,
}

impl Traversal<'_> {
    pub(crate) fn next(&self, items: &Items, next: Option<String>) -> Next {
        let Some(url) = next else {
            return Next::End;
        };
        let (Some(cursor), None) = (&self.cursor, &self.since) else {
            return Next::Page(url);
        };
        let since = cursor.since(self.job.kind);
        if self.job.kind.is_newest_first() && reaches(items, cursor, since.as_ref()) {
            return Next::End;
        }
        match (since, self.job.is_head()) {
            (Some(since), true) if self.job.kind.has_since() => Next::Since(since),
            _ => Next::Page(url),
        }
    }

    /// The next step after a page that did not change. If the run that stored the resource's last
    /// page also saw this first page, nothing has changed at all.
    pub(crate) fn next_unmodified(&self, is_current: bool, known: &KnownPage) -> Next {
        if is_current && self.job.is_head() && self.job.kind.has_cursor() {
            return Next::End;
        }
        let items = Items {
            oldest: known.oldest.clone(),
            ..Items::default()
        };
        self.next(&items, known.next.clone())
    }

    pub(crate) fn following(&self, url: String) -> PageJob {
        PageJob {
            page: self.job.page + 1,
            hops: 0,
            url: Some(url),
            since: self.since.clone(),
            seen: self.seen.clone(),
            ..self.job.clone()
        }
    }

    /// Pages of the last run that need not be requested.
    pub(crate) fn skipped(&self, next: &Next) -> u64 {
        let known = self.cursor.as_ref().map_or(0, |cursor| cursor.pages);
        match next {
            Next::End => u64::from(known.saturating_sub(self.job.page)),
            Next::Page(_) | Next::Since(_) => 0,
        }
    }

    /// The cursor after the last page is stored; `None`: resources of this kind have no cursor.
    pub(crate) fn moved_cursor(&self, etag: Option<String>, now: Timestamp) -> Option<Cursor> {
        if !self.job.kind.has_cursor() {
            return None;
        }
        let before = self.cursor.clone().unwrap_or_default();
        let read = self.job.page;
        let pages = match self.cursor {
            // Only the newest pages were read.
            Some(_) => before.pages.max(read),
            None => read,
        };
        Some(Cursor {
            last_cursor: self.seen.newest.clone().or(before.last_cursor),
            last_timestamp: past(self.seen.latest.clone().max(before.last_timestamp), now),
            last_etag: etag.filter(|_| self.job.is_head()).or(before.last_etag),
            run: self.job.run_id.number,
            pages,
            updated_at: now,
            full_at: match self.cursor {
                Some(_) => before.full_at,
                None => Some(now),
            },
        })
    }
}

/// A date in the future, such as that of a commit made with a wrong clock, would hide everything
/// until then.
fn past(latest: Option<String>, now: Timestamp) -> Option<String> {
    let now = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    latest.map(|latest| latest.min(now))
}

/// Whether the page holds an item that was stored before; all following items are older.
fn reaches(items: &Items, cursor: &Cursor, since: Option<&String>) -> bool {
    let known = cursor.last_cursor.as_ref();
    let is_older = match (&items.oldest, since) {
        (Some(oldest), Some(last)) => oldest < last,
        _ => false,
    };
    // Events never change, so it is enough to find the newest event of the last run.
    let has_newest = items.oldest.is_none() && known.is_some_and(|known| items.ids.contains(known));
    is_older || has_newest
}
