//! One way through the pages of a resource.

use clinch::types::Timestamp;

use crate::items::Items;
use crate::model::{PageJob, Seen};
use crate::shelf::{Cursor, KnownPage};

/// Most pages of one resource: a chain of addresses that never ends is not followed forever.
pub(crate) const PAGES_MAX: u32 = 100_000;

/// Where reading goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Everything is stored.
    End,
    /// At this address.
    Page(String),
    /// With what changed since then.
    Since(String),
}

/// One way through the pages of a resource.
pub(crate) struct Reading<'a> {
    pub(crate) job: &'a PageJob,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) since: Option<String>,
    pub(crate) seen: Seen,
}

impl Reading<'_> {
    pub(crate) fn next(&self, items: &Items, next: Option<String>) -> Next {
        let Some(url) = next else {
            return Next::End;
        };
        let (Some(cursor), None) = (&self.cursor, &self.since) else {
            return Next::Page(url);
        };
        if self.job.kind.is_newest_first() && reaches(items, cursor) {
            return Next::End;
        }
        match (&cursor.last_timestamp, self.job.is_head()) {
            (Some(since), true) if self.job.kind.has_since() => Next::Since(since.clone()),
            _ => Next::Page(url),
        }
    }

    /// After a page that did not change. If the run that stored the resource's last page also
    /// saw this first page, nothing at all changed.
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

    /// Pages that were there the last time and need not be asked for.
    pub(crate) fn skipped(&self, next: &Next) -> u64 {
        let known = self.cursor.as_ref().map_or(0, |cursor| cursor.pages);
        match next {
            Next::End => u64::from(known.saturating_sub(self.job.page)),
            Next::Page(_) | Next::Since(_) => 0,
        }
    }

    /// The cursor after the last page is stored; `None`: the resource has none.
    pub(crate) fn moved_cursor(&self, etag: Option<String>, now: Timestamp) -> Option<Cursor> {
        if !self.job.kind.has_cursor() {
            return None;
        }
        let before = self.cursor.clone().unwrap_or_default();
        let read = self.job.page;
        let pages = match self.cursor {
            // Only the newest were read.
            Some(_) => before.pages.max(read),
            None => read,
        };
        Some(Cursor {
            last_cursor: self.seen.newest.clone().or(before.last_cursor),
            last_timestamp: self.seen.latest.clone().max(before.last_timestamp),
            last_etag: etag.filter(|_| self.job.is_head()).or(before.last_etag),
            run: self.job.run_id.number,
            pages,
            updated_at: now,
        })
    }
}

/// The page holds something that was stored before; what follows is older still.
fn reaches(items: &Items, cursor: &Cursor) -> bool {
    let known = cursor.last_cursor.as_ref();
    let is_older = match (&items.oldest, &cursor.last_timestamp) {
        (Some(oldest), Some(last)) => oldest < last,
        _ => false,
    };
    // Events have no change but their making: the newest one of the last time will do.
    let has_newest = items.oldest.is_none() && known.is_some_and(|known| items.ids.contains(known));
    is_older || has_newest
}
