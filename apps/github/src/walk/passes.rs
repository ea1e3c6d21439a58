//! The passes through a list whose items move while it is read.

use clinch::Fail;

use super::{Next, Page, Traversal, known_until};
use crate::model::{PageJob, Pass, Reading, hashes};
use crate::streams::Walk;

/// How often a list is read that moves while it is read.
const PASSES_MAX: u32 = 8;

/// The same of a list that begins with the newest change. Most of these passes read its head only,
/// each a shorter one than the one before.
const PASSES_BY_CHANGE_MAX: u32 = 32;

impl Traversal<'_> {
    pub(super) fn page_by_page(
        &self,
        page: &Page<'_>,
        is_known_from_here: bool,
    ) -> Result<Next, Fail> {
        let pass = self.job.pass;
        let reading = self.reading(page);
        let has_changed = pass.has_changed || page.has_moved;
        let changes = self.job.reading.changes.as_ref();
        let is_past_head = changes.is_some_and(|changes| changes.is_past_head(page.oldest));
        // The last page of the pass before cannot have slid past this one.
        let is_near = self.job.page + 1 >= pass.pages && self.job.kind.stream().cap.is_none();
        let is_settled = pass.number > 0 && !has_changed && is_near && !self.is_head();
        match page.link {
            Some(link) if !is_known_from_here && !is_past_head && !is_settled => {
                let mut next = self.following(link)?;
                next.pass.has_changed = has_changed;
                next.reading = reading;
                Ok(Next::Job(Box::new(next)))
            }
            _ => self.pass_ends(has_changed, page.link.is_none(), &reading),
        }
    }

    /// Whether the pass reads the head of the list only.
    pub(super) fn is_head(&self) -> bool {
        let changes = self.job.reading.changes.as_ref();
        changes.is_some_and(|changes| changes.is_head())
    }

    /// How far the list has been read after this page.
    fn reading(&self, page: &Page<'_>) -> Reading {
        let before = &self.job.reading;
        let stream = self.job.kind.stream();
        let recent = self.recent(page);
        // Without a cursor such a list is read by creation, and no change moves an item.
        let is_by_change = stream.by_creation.is_some() && self.cursor.is_some();
        Reading {
            items: before.items + page.count as u64,
            by_creation: before.by_creation,
            descent: stream.is_newest_first.then(|| {
                let ids: String = recent.iter().map(|(item, _)| *item).collect();
                let descent = before.descent.clone().unwrap_or_default();
                Box::new(descent.after(&ids))
            }),
            changes: is_by_change.then(|| {
                let changes = before.changes.clone().unwrap_or_default();
                Box::new(changes.after(self.job.page, &recent))
            }),
        }
    }

    /// The items of the page that the last run need not know: hashes, and the times of their places as
    /// far as known. Where a pass ends, older ones depend on what was added before them.
    fn recent<'b>(&self, page: &Page<'b>) -> Vec<(&'b str, Option<&'b str>)> {
        let until = known_until(self.job, self.cursor);
        // A page that has not changed tells no times. None of its items is older, except on the last
        // page of a pass in which nothing has changed.
        let times = page.rows.iter().map(|row| row.listed_at.as_deref());
        let times = times.chain(std::iter::repeat(None));
        let is_recent = |at: Option<&str>| {
            let ends = at.zip(until.as_deref());
            ends.is_none_or(|(at, until)| at >= until)
        };
        let items = hashes(page.ids).zip(times);
        items.filter(|(_, at)| is_recent(*at)).collect()
    }

    /// The pages have been read to the end. If some were new, an item may have slid in between from
    /// a page that was not read yet to one that was.
    fn pass_ends(&self, has_changed: bool, is_last: bool, reading: &Reading) -> Result<Next, Fail> {
        let job = self.job;
        if self.is_over(has_changed, is_last, reading) {
            return Ok(Next::End);
        }
        let most = match &reading.changes {
            Some(changes) if !changes.is_too_long() => PASSES_BY_CHANGE_MAX,
            _ => PASSES_MAX,
        };
        if job.pass.number + 1 >= most {
            let message = "the list changed each time it was read; the next run reads it again";
            return Err(Fail::new("list_moves", message));
        }
        // Those of the last pass through all of it.
        let pages = match self.is_head() {
            true => job.pass.pages,
            false => job.page,
        };
        let again = PageJob {
            seen: self.seen.clone(),
            pass: Pass {
                number: job.pass.number + 1,
                pages,
                has_changed: false,
            },
            reading: reading.again(job.page == 1),
            ..self.restarted()
        };
        Ok(Next::Job(Box::new(again)))
    }

    /// Whether no other pass is needed.
    fn is_over(&self, has_changed: bool, is_last: bool, reading: &Reading) -> bool {
        let job = self.job;
        // The pages of what belongs to an item are not remembered, and are one as a rule.
        // Of a bounded list nothing is remembered either: the next run without bounds reads it whole.
        if job.item.is_some() || !job.bounds.is_all() {
            return true;
        }
        let changes = reading.changes.as_ref();
        if self.is_head() {
            return job.page == 1 && changes.is_some_and(|changes| changes.is_settled());
        }
        let is_first = job.pass.number == 0;
        let is_shorter = is_last && job.page < job.pass.pages;
        let descent = reading.descent.as_ref();
        let is_same = !is_first && descent.is_some_and(|one| one.is_settled());
        // Old events are forgotten while they are read, and an event that was seen once is stored.
        let is_read_twice = !is_first && job.kind.stream().walk == Walk::Events;
        job.page == 1 || is_same || is_read_twice || !(has_changed || is_shorter)
    }

    /// Whether the page holds an item that was stored before; all following items are older.
    pub(super) fn reaches(&self, page: &Page<'_>) -> bool {
        if let (Some(since), Some(oldest)) = (self.job.bounds.since(), page.oldest) {
            return oldest < since;
        }
        let Some(cursor) = self.cursor else {
            return false;
        };
        match self.job.kind.stream().walk {
            Walk::Newest(_) => {
                let until = known_until(self.job, self.cursor);
                let ends = page.oldest.zip(until.as_deref());
                ends.is_some_and(|(oldest, until)| oldest < until)
            }
            Walk::Events => {
                let known = cursor.last_cursor.as_ref();
                known.is_some_and(|known| page.rows.iter().any(|row| row.id == *known))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use clinch::testing::SplitMix;
    use clinch::types::Timestamp;

    use super::*;
    use crate::ApiUrl;
    use crate::items::{Items, Row, id_hash};
    use crate::model::Repository;
    use crate::records::{Cursor, KnownPage};
    use crate::streams::JobKind;

    /// Seconds in which the items were listed that are there at the beginning.
    const PAST: u64 = 1_000;

    fn time(second: u64) -> String {
        let second = 1_800_000_000 + i64::try_from(second).expect("a time");
        let at = jiff::Timestamp::from_second(second).expect("a time");
        at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// A list that is newest first, and changes while it is read.
    struct List {
        rng: SplitMix,
        kind: JobKind,
        now: u64,
        next_id: u64,
        /// Ids, and the seconds that order them.
        items: BTreeMap<u64, u64>,
        /// Of a hundred pages, those after which something changes.
        changes: u64,
        /// Of a hundred changes, those by which an item goes.
        deletions: u64,
    }

    impl List {
        fn new(seed: u64, kind: JobKind, changes: u64, deletions: u64) -> Self {
            let mut rng = SplitMix::new(seed);
            let next_id = 20 + rng.next_u64() % 280;
            let items = (0..next_id).map(|id| (id, rng.next_u64() % PAST)).collect();
            Self {
                rng,
                kind,
                now: PAST,
                next_id,
                items,
                changes,
                deletions,
            }
        }

        fn below(&mut self, bound: u64) -> u64 {
            self.rng.next_u64() % bound.max(1)
        }

        fn page(&self, number: u32, size: u32) -> (Items, Option<String>) {
            let mut order: Vec<(u64, u64)> = self.items.iter().map(|(id, at)| (*at, *id)).collect();
            order.sort_unstable();
            order.reverse();
            let size = usize::try_from(size).expect("a size");
            let start = usize::try_from(number - 1).expect("a page") * size;
            let row = |(at, id): &(u64, u64)| Row {
                id: id.to_string(),
                changed_at: Some(time(*at)),
                listed_at: Some(time(*at)),
                ..Row::default()
            };
            let rows: Vec<Row> = order.iter().skip(start).take(size).map(row).collect();
            let items = Items {
                oldest: rows.last().and_then(|row| row.listed_at.clone()),
                rows,
                ..Items::default()
            };
            let next = || format!("https://api.github.com/list?page={}", number + 1);
            let link = (order.len() > start + size).then(next);
            (items, link)
        }

        fn stir(&mut self) {
            if self.below(100) >= self.changes {
                return;
            }
            let drawn = self.below(100);
            let at = self.below(self.items.len() as u64);
            let any = usize::try_from(at)
                .ok()
                .and_then(|at| self.items.keys().nth(at));
            let moves = self.kind == JobKind::REPO_PRS;
            match any.copied() {
                Some(id) if drawn < self.deletions => {
                    self.items.remove(&id);
                }
                Some(id) if moves && drawn < 90 => {
                    self.now += drawn % 2;
                    self.items.insert(id, self.now);
                }
                _ => {
                    self.now += 1;
                    self.items.insert(self.next_id, self.now);
                    self.next_id += 1;
                }
            }
        }

        /// Items that are in the list now and have changed since then.
        fn since(&self, until: u64) -> BTreeSet<String> {
            let there = self.items.iter().filter(|(_, at)| **at >= until);
            there.map(|(id, _)| id.to_string()).collect()
        }

        fn has(&self, id: &str) -> bool {
            id.parse().is_ok_and(|id: u64| self.items.contains_key(&id))
        }
    }

    /// Reads a list back to this second, as the jobs of a run do; returns what was stored.
    fn read(list: &mut List, until: u64, page_size: u32) -> Result<BTreeSet<String>, Fail> {
        let (api, run_id) = (ApiUrl::default(), "octocat.7".parse().expect("a run"));
        let repository = Repository {
            id: 7,
            full_name: "octocat/hello".to_owned(),
            default_branch: None,
        };
        let cursor = Cursor {
            last_timestamp: Some(time(until)),
            run: 6,
            ..Cursor::default()
        };
        let mut job = PageJob::first(&run_id, list.kind, Some(repository));
        let mut pages: BTreeMap<u32, (KnownPage, Vec<Row>)> = BTreeMap::new();
        let mut stored = BTreeSet::new();
        loop {
            let (items, link) = list.page(job.page, page_size);
            list.stir();
            stored.extend(items.rows.iter().map(|row| row.id.clone()));
            let mut traversal = Traversal {
                api: &api,
                page_size,
                job: &job,
                cursor: Some(&cursor),
                item_streams: BTreeSet::new(),
                seen: job.seen.clone(),
                now: Timestamp::from_millis(2_000_000_000_000),
            };
            traversal.see(&items);
            let ids: String = items.rows.iter().map(|row| id_hash(&row.id)).collect();
            let known = KnownPage {
                next: link.clone(),
                oldest: items.oldest.clone(),
                count: items.rows.len(),
                ids: Some(ids.clone()),
                run: 7,
                pass: job.pass.number,
                ..KnownPage::default()
            };
            let before = pages.get(&job.page);
            let is_edge = job.pass.has_changed && items.oldest < Some(time(until));
            let is_known = before.is_some_and(|(_, rows)| *rows == items.rows);
            let page = match is_known && !is_edge {
                true => Page::known(&known),
                false => {
                    let page = Page::read(&items, &ids, link.as_deref());
                    page.compared(&job, before.map(|(known, _)| known))
                }
            };
            let next = traversal.next(&page)?;
            pages.insert(job.page, (known, items.rows));
            match next {
                Next::End => return Ok(stored),
                Next::Job(next) => job = *next,
            }
        }
    }

    fn streams() -> [JobKind; 2] {
        let events = JobKind::named("issue_event").expect("a stream");
        [JobKind::REPO_PRS, events]
    }

    #[test]
    fn col_4_a_list_that_grows_and_changes_all_the_time_is_read() {
        for seed in 0..100 {
            for kind in streams() {
                let mut list = List::new(seed, kind, 100, 0);
                let (until, size) = (list.below(PAST), list.below(20));
                let wanted = list.since(until);
                let size = 10 + u32::try_from(size).expect("a size");
                let stored = read(&mut list, until, size).expect("it is read");
                let missed: Vec<_> = wanted.difference(&stored).collect();
                assert!(missed.is_empty(), "{seed} {kind}: {missed:?}");
            }
        }
    }

    #[test]
    fn col_4_an_item_that_slides_is_read_or_the_list_fails() {
        let mut failed = 0;
        for seed in 0..300 {
            for kind in streams() {
                let mut list = List::new(seed, kind, 30, 20);
                let (until, size) = (list.below(PAST), list.below(27));
                let wanted = list.since(until);
                let size = 3 + u32::try_from(size).expect("a size");
                match read(&mut list, until, size) {
                    Ok(stored) => {
                        let missed = wanted.difference(&stored);
                        let missed: Vec<_> = missed.filter(|id| list.has(id)).collect();
                        assert!(missed.is_empty(), "{seed} {kind}: {missed:?}");
                    }
                    Err(fail) => {
                        assert_eq!(fail.code, "list_moves");
                        failed += 1;
                    }
                }
            }
        }
        assert!(failed < 90, "{failed} of 600");
    }
}
