//! The jobs that follow from a page.

use std::collections::BTreeSet;

use clinch::{Call, Done};

use super::request;
use crate::collector::Inner;
use crate::items::{Items, Row};
use crate::model::{FirstPage, PageDone, PageJob, Repository, Run};
use crate::records::{Before, KnownPage};
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

    pub(super) fn collected<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = JobKind> + 'a {
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
        before: &Before,
    ) -> Vec<PageJob> {
        let job = traversal.job;
        let known = before.known.as_ref();
        // A job that is executed again finds what it has written itself.
        let known = known.filter(|one| one.resource == job.resource() && !one.is_of(job));
        let is_child = |kind: &JobKind| kind.parents().any(|parent| parent == job.kind);
        let kinds: Vec<JobKind> = self.collected(run).filter(is_child).collect();
        let known = known.filter(|one| kinds.iter().all(|kind| one.item_streams.contains(kind)));
        if kinds.is_empty() {
            return Vec::new();
        }
        // The list of pull requests has them too.
        let rows = traversal.changed_items(&items.rows, next).into_iter();
        let is_other = |row: &Row| row.is_pull && job.kind == JobKind::REPO_ISSUES;
        let rows = rows.filter(|row| !row.is_outside && !is_other(row));
        let default_branch = job.repository.as_ref();
        let default_branch = default_branch.and_then(|one| one.default_branch.as_deref());
        // A branch that is where it was has no new commits; the default branch has none that it lacks.
        let is_at_rest = |row: &Row| {
            let was_there = |known: &KnownPage| known.heads.iter().any(|one| row.is_at(one));
            let is_read = !job.is_full && known.is_some_and(was_there);
            job.kind.document() == "branch" && (is_read || default_branch == Some(&*row.id))
        };
        // Branches that end with the same commit have the same commits.
        let mut heads = BTreeSet::new();
        let rows = rows.filter(|row| !is_at_rest(row));
        let rows = rows.filter(|row| row.head.as_ref().is_none_or(|head| heads.insert(head)));
        let of_row = |row: &Row| {
            let seen = FirstPage {
                latest: row.changed_at.clone(),
                newest: None,
            };
            let number = row.number.map(|number| number.to_string());
            let head = row.head.clone().filter(|_| job.kind.document() == "branch");
            let item = number.or(head).unwrap_or_else(|| row.id.clone());
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
        priority: i8,
    ) -> Done<PageDone> {
        let mut ranks = 0..;
        let mut first = |kind, repository| {
            let rank = ranks.next().unwrap_or_default();
            request(&run.first_job(kind, repository)).priority(of_child(priority, rank))
        };
        // Jobs of the user and of repositories exist once a run, however often a list is read.
        if job.kind == JobKind::USER_BASIC {
            let of_organization = self.streams(run, Owner::Organization);
            let of_organization = of_organization.filter(|_| is_organization);
            for kind in self.streams(run, Owner::User).chain(of_organization) {
                done = done.then(first(kind, None));
            }
            if run.selection.search.is_some() {
                let search = request(&PageJob {
                    search: run.selection.search.clone(),
                    ..run.first_job(JobKind::SEARCH, None)
                });
                done = done.then(search.priority(priority));
            }
        }
        let is_read = |one: &&Repository| match job.kind {
            JobKind::SEARCH => true,
            _ => run.selection.has(&one.full_name),
        };
        // One list of each repository after the other: the first answer for a repository shows
        // whether it is well.
        for kind in self.streams(run, Owner::Repository) {
            for repository in repositories.iter().filter(is_read) {
                done = done.then(first(kind, Some(repository.clone())));
            }
        }
        done
    }
}

pub(super) fn continuing(done: Done<PageDone>, next: Next, priority: i8) -> Done<PageDone> {
    match next {
        Next::End => done,
        Next::Job(job) => done.then(request(&job).priority(priority)),
    }
}

/// Adds the jobs that read something of the items of a page.
pub(super) fn with_children(
    done: Done<PageDone>,
    children: &[PageJob],
    priority: i8,
) -> Done<PageDone> {
    let children = children.iter().enumerate();
    let child = |(rank, job)| request(job).priority(of_child(priority, rank));
    children.map(child).fold(done, Done::then)
}

/// The priority of the job that is being executed.
pub(super) fn priority(call: &Call<PageJob>) -> i8 {
    i8::from(call.envelope().command.options.priority)
}

/// Jobs of the first level.
const FIRST_LEVEL: usize = 16;
/// The lowest priority of an operation, and so the number of further levels.
const LEVELS: u32 = 10;

/// The priority of the job that is made as number `rank` by a job of this priority.
///
/// Due jobs are taken by priority, then by time. So a run that makes thousands of jobs at once does
/// not go before one that makes a few: its first sixteen jobs have the highest priority, the next
/// sixteen a lower one, the next 32 one below that, and so on. What a job makes is never above it.
pub(crate) fn of_child(parent: i8, rank: usize) -> i8 {
    let of_rank = match rank / FIRST_LEVEL {
        0 => 0,
        times => times.ilog2().saturating_add(1).min(LEVELS),
    };
    parent.min(i8::try_from(of_rank).map_or(i8::MIN, |level| -level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_many_jobs_of_a_run_come_after_the_few_of_another() {
        let levels = [
            (0, 0),
            (15, 0),
            (16, -1),
            (31, -1),
            (32, -2),
            (63, -2),
            (64, -3),
            (900, -6),
        ];
        for (rank, priority) in levels {
            assert_eq!(of_child(0, rank), priority, "{rank}");
        }
        assert_eq!(
            of_child(-3, 0),
            -3,
            "the items of a list are not before the list"
        );
        assert_eq!(of_child(-1, usize::MAX), -10);
    }
}
