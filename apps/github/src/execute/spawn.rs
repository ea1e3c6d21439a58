//! The jobs that follow from a page.

use clinch::Done;

use super::request;
use crate::collector::Inner;
use crate::items::{Items, Row};
use crate::model::{FirstPage, PageDone, PageJob, Repository, Run};
use crate::streams::{JobKind, Owner};
use crate::walk::{Next, Traversal};

/// Jobs that one page of repositories may make; the engine takes a thousand, with some to spare.
const SPAWNED_MAX: u32 = 900;

impl Inner {
    /// Items of one page. A page of repositories makes jobs for each of them, and one commit takes
    /// a bounded number of jobs.
    pub(super) fn page_size(&self, run: Option<&Run>, kind: JobKind) -> u32 {
        let size = self.settings.page_size;
        let streams = run.map_or(0, |run| self.streams(run, Owner::Repository).count());
        let most = SPAWNED_MAX / u32::try_from(streams).unwrap_or(u32::MAX).max(1);
        match kind {
            JobKind::USER_REPOS | JobKind::SEARCH => size.min(most.max(1)),
            _ => size,
        }
    }

    /// The streams of this owner that the run collects.
    pub(crate) fn streams<'a>(
        &'a self,
        run: &'a Run,
        owner: Owner,
    ) -> impl Iterator<Item = JobKind> + 'a {
        self.collected(run)
            .filter(move |kind| kind.stream().owner == owner)
    }

    fn collected<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = JobKind> + 'a {
        let all = match run.streams.is_empty() {
            // A run of an earlier release.
            true => &self.settings.streams,
            false => &run.streams,
        };
        all.iter().copied()
    }

    /// The jobs that read something of each new or changed item.
    pub(super) fn children(
        &self,
        run: &Run,
        traversal: &Traversal<'_>,
        items: &Items,
        next: &Next,
    ) -> Vec<PageJob> {
        let job = traversal.job;
        let is_child = |kind: &JobKind| kind.parents().any(|parent| parent == job.kind);
        let kinds: Vec<JobKind> = self.collected(run).filter(is_child).collect();
        if kinds.is_empty() {
            return Vec::new();
        }
        // The list of pull requests has them too.
        let rows = traversal.changed_items(&items.rows, next).into_iter();
        let is_other = |row: &Row| row.is_pull && job.kind == JobKind::REPO_ISSUES;
        let rows = rows.filter(|row| !row.is_outside && !is_other(row));
        let of_row = |row: &Row| {
            let seen = FirstPage {
                latest: row.changed_at.clone(),
                newest: None,
            };
            let number = row.number.map(|number| number.to_string());
            let item = number.unwrap_or_else(|| row.id.clone());
            let child = |kind: &JobKind| PageJob {
                item: Some(item.clone()),
                seen: seen.clone(),
                is_full: job.is_full,
                ..PageJob::first(&job.run_id, *kind, job.repository.clone())
            };
            kinds.iter().map(child).collect::<Vec<_>>()
        };
        rows.flat_map(of_row).collect()
    }

    /// Adds the jobs for a user's lists and for repositories.
    pub(super) fn spawned(
        &self,
        run: &Run,
        job: &PageJob,
        mut done: Done<PageDone>,
        repositories: &[Repository],
        is_organization: bool,
    ) -> Done<PageDone> {
        let first = |kind, repository| request(&run.first_job(kind, repository));
        // Jobs of the user and of repositories exist once a run, however often a list is read.
        if job.kind == JobKind::USER_BASIC {
            let of_organization = self.streams(run, Owner::Organization);
            let of_organization = of_organization.filter(|_| is_organization);
            for kind in self.streams(run, Owner::User).chain(of_organization) {
                done = done.then(first(kind, None));
            }
            if run.selection.search.is_some() {
                done = done.then(request(&PageJob {
                    search: run.selection.search.clone(),
                    ..run.first_job(JobKind::SEARCH, None)
                }));
            }
        }
        let is_read = |one: &&Repository| match job.kind {
            JobKind::SEARCH => true,
            _ => run.selection.has(&one.full_name),
        };
        for repository in repositories.iter().filter(is_read) {
            for kind in self.streams(run, Owner::Repository) {
                done = done.then(first(kind, Some(repository.clone())));
            }
        }
        done
    }
}

pub(super) fn continuing(done: Done<PageDone>, next: Next) -> Done<PageDone> {
    match next {
        Next::End => done,
        Next::Job(job) => done.then(request(&job)),
    }
}
