//! The way through the pages of a list: which request comes next, and where the cursor ends up.
//!
//! Every rule ends in one of three ways: the list is known to its end, there is another page, or the
//! list cannot be read further, which fails the job. Nothing is read half and called whole.

mod commits;
mod passes;
mod times;

use std::collections::BTreeSet;

use clinch::Fail;
use clinch::types::Timestamp;

use crate::ApiUrl;
use crate::items::{Items, Row};
use crate::model::{FirstPage, History, PageJob};
use crate::records::{Cursor, KnownPage};
use crate::streams::{JobKind, Walk};
use commits::new_commits;
pub(crate) use times::{earlier, known_until};
use times::{latest_past, past};

/// Maximum pages of one resource: bounds a chain of next links that never ends.
pub(crate) const PAGES_MAX: u32 = 100_000;

/// ETags that a cursor keeps, one for each token. Tokens are replaced, and a record must not grow with
/// each new one: beyond this number those of the tokens in use are earned again.
const ETAGS_MAX: usize = 32;

/// What to do after a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Everything is stored.
    End,
    /// This job reads on.
    Job(Box<PageJob>),
}

/// What a page shows, read now or known from before.
#[derive(Debug, Default)]
pub(crate) struct Page<'a> {
    pub(crate) rows: &'a [Row],
    /// Number of its items.
    pub(crate) count: usize,
    pub(crate) oldest: Option<&'a str>,
    /// How two commits compare.
    pub(crate) comparison: Option<&'a crate::items::Comparison>,
    /// The address of the next page.
    pub(crate) link: Option<&'a str>,
    /// Hashes of its documents' ids.
    pub(crate) ids: &'a str,
    /// Whether it holds other items than were known.
    pub(crate) has_changed: bool,
    /// Whether items of the list have changed places: more than some added at its end.
    pub(crate) has_moved: bool,
}

impl<'a> Page<'a> {
    pub(crate) fn read(items: &'a Items, ids: &'a str, link: Option<&'a str>) -> Self {
        Self {
            rows: &items.rows,
            count: items.part.unwrap_or(items.rows.len()),
            oldest: items.oldest.as_deref(),
            comparison: items.comparison.as_ref(),
            link,
            ids,
            has_changed: true,
            has_moved: true,
        }
    }

    /// Compares the page with what was known of it. Within a run, items that are added to the end of
    /// the list are no reason to read it again: the next run sees what was added meanwhile.
    pub(crate) fn compared(mut self, job: &PageJob, known: Option<&KnownPage>) -> Self {
        let ids = known.and_then(|known| known.ids.as_deref());
        // A job that is executed again finds its own page.
        let own = known.filter(|known| known.is_of(job));
        self.has_changed = ids != Some(self.ids) || own.is_some_and(|own| own.has_changed);
        self.has_moved = match (ids, own) {
            (Some(ids), Some(own)) => own.has_moved || ids != self.ids,
            _ if job.pass.number > 0 && job.page > job.pass.pages => false,
            (Some(ids), None) => !self.ids.starts_with(ids),
            (None, _) => true,
        };
        self
    }

    /// A page that has not changed since it was read.
    pub(crate) fn known(known: &'a KnownPage) -> Self {
        Self {
            count: known.count,
            oldest: known.oldest.as_deref(),
            link: known.next.as_deref(),
            ids: known.ids.as_deref().unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// The state of reading a list page by page.
pub(crate) struct Traversal<'a> {
    pub(crate) api: &'a ApiUrl,
    pub(crate) page_size: u32,
    pub(crate) job: &'a PageJob,
    /// Where the last run ended; `None`: everything is read.
    pub(crate) cursor: Option<&'a Cursor>,
    /// Streams of the run that read something of each item.
    pub(crate) item_streams: BTreeSet<JobKind>,
    /// The newest items of the list.
    pub(crate) seen: FirstPage,
    pub(crate) now: Timestamp,
}

impl Traversal<'_> {
    /// Takes in what a page shows of the newest items.
    pub(crate) fn see(&mut self, items: &Items) {
        let job = self.job;
        let is_head = job.page == 1 && !job.reading.by_creation;
        if is_head || job.kind.stream().walk == Walk::Updated {
            let latest = latest_past(&items.rows, self.now);
            self.seen.latest = latest.max(self.seen.latest.take());
        }
        if is_head && job.history.is_none() {
            let newest = items.rows.first().map(|row| row.id.clone());
            self.seen.newest = newest.or(self.seen.newest.take());
        }
    }

    pub(crate) fn next(&self, page: &Page<'_>) -> Result<Next, Fail> {
        match self.job.kind.stream().walk {
            Walk::Whole => self.page_by_page(page, false),
            Walk::Newest(_) if self.begins_whole(page) => Ok(self.by_creation()),
            Walk::Newest(_) | Walk::Events => self.page_by_page(page, self.reaches(page)),
            Walk::Updated => self.updated(page),
            Walk::Commits => self.commits(page),
        }
    }

    /// Whether the list is read as a whole, so that what it does not hold is gone.
    pub(crate) fn is_whole(&self, next: &Next, page: &Page<'_>) -> bool {
        let job = self.job;
        // Items of items are complete only if every one of the items is read again.
        let is_all = job.is_full || (self.cursor.is_none() && job.item.is_none());
        match job.kind.stream().walk {
            _ if job.kind.stream().is_part || !job.bounds.is_all() => false,
            Walk::Events => false,
            Walk::Whole => job.item.is_none() || job.is_full,
            Walk::Newest(_) if job.kind.stream().by_creation.is_some() => {
                is_all && (job.reading.by_creation || (job.page == 1 && page.link.is_none()))
            }
            Walk::Newest(_) | Walk::Updated => is_all,
            Walk::Commits => match (&job.history, next) {
                (Some(History::Of(_)), _) => true,
                // Jobs of an earlier release asked for the commits since a time.
                (None, _) if job.since.is_some() => false,
                (None, Next::End) => page.link.is_none(),
                (None, Next::Job(next)) => matches!(next.history, Some(History::Of(_))),
                (Some(History::Between { .. }), _) => false,
            },
        }
    }

    /// Whether a list that has pages, and of which nothing is known, is read whole from here.
    fn begins_whole(&self, page: &Page<'_>) -> bool {
        let job = self.job;
        let is_first = job.page == 1 && job.pass.number == 0 && !job.reading.by_creation;
        let has_order = job.kind.stream().by_creation.is_some();
        let is_all = self.cursor.is_none() && job.bounds.is_all();
        has_order && is_first && is_all && page.link.is_some()
    }

    /// The same list in the order in which its items were created. The cursor stays with the latest
    /// change that the page before has shown: what changes from now on is for the next run.
    fn by_creation(&self) -> Next {
        let mut whole = self.restarted();
        whole.seen = self.seen.clone();
        whole.reading.by_creation = true;
        Next::Job(Box::new(whole))
    }

    /// What the API does not give, if the list ends here and only because the API ends it.
    pub(crate) fn cut(&self, next: &Next, page: &Page<'_>) -> Option<String> {
        let stream = self.job.kind.stream();
        let cap = stream.cap?;
        let read = self.job.reading.items + page.count as u64;
        let is_over = *next == Next::End && page.link.is_none() && read >= cap;
        is_over.then(|| {
            let what = stream.parts.unwrap_or("entries");
            format!(
                "the API shows the first {} {what} of this list",
                grouped(cap)
            )
        })
    }

    /// Oldest change first: each request begins where the last one ended, by time. An item that
    /// goes, or changes again, moves no other.
    fn updated(&self, page: &Page<'_>) -> Result<Next, Fail> {
        // Jobs of an earlier release are paged newest first.
        let is_descending = |url: &String| url.contains("direction=desc");
        if self.job.url.as_ref().is_some_and(is_descending) {
            return match page.link {
                Some(link) => Ok(Next::Job(Box::new(self.following(link)?))),
                None => Ok(Next::End),
            };
        }
        let changes = page.rows.iter().filter_map(|row| row.changed_at.as_deref());
        if changes.into_iter().any(|at| self.job.bounds.is_past(at)) {
            return Ok(Next::End);
        }
        let is_full_page = page.count >= self.page_size as usize;
        if page.link.is_none() && !is_full_page {
            return Ok(Next::End);
        }
        // A second earlier, in case that second has more items than the page holds.
        let since = latest_past(page.rows, self.now)
            .as_deref()
            .and_then(|at| earlier(at, std::time::Duration::from_secs(1)));
        let moves_on = since.as_deref() > self.job.since.as_deref();
        match (since.filter(|_| moves_on), page.link) {
            (Some(since), _) => Ok(Next::Job(Box::new(PageJob {
                page: self.next_page()?,
                since: Some(since),
                seen: self.seen.clone(),
                ..self.restarted()
            }))),
            // More items of one second than fit a page.
            (None, Some(link)) => Ok(Next::Job(Box::new(self.following(link)?))),
            (None, None) => Ok(Next::End),
        }
    }

    /// The first page of the same list.
    fn restarted(&self) -> PageJob {
        let job = self.job;
        PageJob {
            item: job.item.clone(),
            search: job.search.clone(),
            bounds: job.bounds.clone(),
            is_full: job.is_full,
            ..PageJob::first(&job.run_id, job.kind, job.repository.clone())
        }
    }

    fn next_page(&self) -> Result<u32, Fail> {
        if self.job.page >= PAGES_MAX {
            let message = "the resource has more pages than the collector reads";
            return Err(Fail::new("too_many_pages", message));
        }
        Ok(self.job.page + 1)
    }

    /// The job for the page at this address. If the address cannot be read, the job fails: an
    /// incomplete list would look complete.
    fn following(&self, link: &str) -> Result<PageJob, Fail> {
        let page = self.next_page()?;
        let url = self.api.own(link).map_err(|_| {
            let message = "the next page that the API names is not at github.api_url, and no token \
                           is sent there; set api_url as the API writes it";
            Fail::new("link_refused", message)
        })?;
        Ok(PageJob {
            page,
            hops: 0,
            url: Some(url),
            seen: self.seen.clone(),
            ..self.job.clone()
        })
    }

    /// Number of pages of a list whose last request this was.
    pub(crate) fn pages(&self, page: &Page<'_>) -> u32 {
        match page.link {
            None => self.job.page,
            Some(_) => self.job.page.max(self.job.pass.pages),
        }
    }

    /// Pages of the last run that need not be requested.
    pub(crate) fn skipped(&self, next: &Next) -> u64 {
        let known = self.cursor.as_ref().map_or(0, |cursor| cursor.pages);
        let read = match self.is_head() {
            true => self.job.pass.pages,
            false => self.job.page,
        };
        match next {
            Next::End => u64::from(known.saturating_sub(read)),
            Next::Job(_) => 0,
        }
    }

    /// The items that are new or have changed since the last run.
    pub(crate) fn changed_items<'b>(&self, rows: &'b [Row], next: &Next) -> Vec<&'b Row> {
        let last = self
            .cursor
            .and_then(|cursor| cursor.last_timestamp.as_ref());
        let is_changed = |row: &&Row| last.is_none() || row.changed_at.as_ref() >= last;
        match (self.job.kind.stream().walk, &self.job.history) {
            // Commits do not change: those of the last run need no second look.
            (Walk::Commits, None) => {
                let base = self.cursor.and_then(|cursor| cursor.last_cursor.as_ref());
                let new = base.and_then(|base| new_commits(rows, base));
                match (base, new, next) {
                    (Some(_), Some(new), _) => {
                        rows.iter().filter(|row| new.contains(&*row.id)).collect()
                    }
                    (Some(_), None, Next::Job(_)) => Vec::new(),
                    _ => rows.iter().collect(),
                }
            }
            (Walk::Commits, _) => rows.iter().collect(),
            _ => rows.iter().filter(is_changed).collect(),
        }
    }

    /// Streams that have read something of each item when this list is read to its end.
    fn covered(&self) -> BTreeSet<JobKind> {
        match self.cursor {
            Some(cursor) => &self.item_streams & &cursor.item_streams,
            None => self.item_streams.clone(),
        }
    }

    /// The cursor after the last page is stored; `None`: the list has no cursor, or a run that is
    /// bounded by time leaves it where it is.
    pub(crate) fn moved_cursor(
        &self,
        before: Option<&Cursor>,
        etag: Option<(String, String)>,
    ) -> Option<Cursor> {
        let (job, now) = (self.job, self.now);
        // What a bounded list left out is for the next run without bounds.
        if !job.kind.has_cursor() || !job.bounds.is_all() {
            return None;
        }
        let began = before.cloned();
        let before = began.clone().unwrap_or_default();
        let read = job.page.max(job.pass.pages);
        let pages = match self.cursor {
            // Only the newest pages were read.
            Some(_) => before.pages.max(read),
            None => read,
        };
        let last_etag = etag.as_ref().map(|(_, etag)| etag.clone());
        // ETags of the last request, which the next run repeats.
        let mut etags = before.etags;
        if before.since != job.since || etag.is_none() {
            etags.clear();
        }
        if job.kind.stream().walk == Walk::Updated {
            if etags.len() >= ETAGS_MAX {
                etags.clear();
            }
            etags.extend(etag);
        }
        Some(Cursor {
            resource: job.resource(),
            last_cursor: self.seen.newest.clone().or(before.last_cursor),
            last_timestamp: past(self.seen.latest.clone().max(before.last_timestamp), now),
            last_etag: last_etag.or(before.last_etag),
            since: job.since.clone(),
            etags,
            run: job.run_id.number,
            pages,
            item_streams: self.covered(),
            updated_at: now,
            before: began.map(|began| {
                Box::new(Cursor {
                    before: None,
                    ..began
                })
            }),
        })
    }
}

/// A number with its thousands apart: 10,000.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let is_edge = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    let digit = |(at, digit): (usize, char)| match is_edge(at) {
        true => format!(",{digit}"),
        false => digit.to_string(),
    };
    digits.chars().enumerate().map(digit).collect()
}
