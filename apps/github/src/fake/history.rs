//! The commits of a repository: a graph that only grows, and a head that moves in it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, PoisonError};

/// Orders that are kept for later requests: those of the head, of a commit that a client lists
/// from, and of both ends of a comparison.
const ORDERS_MAX: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Commit {
    /// The committer date, in seconds.
    pub(super) date: i64,
    first_parent: Option<usize>,
    second_parent: Option<usize>,
    /// It was dropped, and is no longer kept.
    is_collected: bool,
}

impl Commit {
    pub(super) fn parents(&self) -> impl Iterator<Item = usize> + use<> {
        self.first_parent.into_iter().chain(self.second_parent)
    }
}

/// A commit is identified by its position, which never changes.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    commits: Vec<Commit>,
    head: Option<usize>,
    orders: Orders,
}

/// How one commit relates to another.
pub(super) struct Comparison {
    pub(super) merge_base: usize,
    /// Commits that only the head reaches, oldest first.
    pub(super) ahead: Vec<usize>,
    /// How many commits only the base reaches.
    pub(super) behind: usize,
}

impl History {
    /// A line of commits with a few short branches that are merged at once; the last one is the
    /// head. `forks` says whether a branch begins.
    pub(super) fn generate(dates: &[i64], mut forks: impl FnMut() -> bool) -> Self {
        let mut history = Self::default();
        let mut open_branch = None;
        for (n, date) in dates.iter().enumerate() {
            let before = n.checked_sub(1);
            let (first, second) = match open_branch.take() {
                Some(side) => (Some(n - 2), Some(side)),
                // The next commit merges the branch.
                None if n >= 2 && n + 1 < dates.len() && forks() => {
                    open_branch = Some(n);
                    (Some(n - 2), None)
                }
                None => (before, None),
            };
            let n = history.add(*date, first, second);
            history.head = Some(n);
        }
        history
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    pub(super) fn head(&self) -> Option<usize> {
        self.head
    }

    /// A commit that can still be asked for.
    pub(super) fn known(&self, n: usize) -> Option<&Commit> {
        self.commits.get(n).filter(|commit| !commit.is_collected)
    }

    pub(super) fn commit(&self, n: usize) -> &Commit {
        &self.commits[n]
    }

    fn add(&mut self, date: i64, first: Option<usize>, second: Option<usize>) -> usize {
        self.commits.push(Commit {
            date,
            first_parent: first,
            second_parent: second,
            is_collected: false,
        });
        self.commits.len() - 1
    }

    /// Adds a line of commits to a parent; returns the last one.
    fn grow(&mut self, parent: Option<usize>, dates: &[i64]) -> Option<usize> {
        let mut tip = parent;
        for date in dates {
            tip = Some(self.add(*date, tip, None));
        }
        tip
    }

    pub(super) fn push(&mut self, dates: &[i64]) {
        self.head = self.grow(self.head, dates);
    }

    /// Adds a branch that begins at `fork`, and a commit of the date `now` that merges it. Without
    /// a fork the branch becomes the head.
    pub(super) fn merge(&mut self, fork: Option<usize>, dates: &[i64], now: i64) {
        let side = self.grow(fork, dates);
        self.head = match self.head {
            None => side,
            main => Some(self.add(now, main, side)),
        };
    }

    /// Moves the head back along first parents, then adds commits.
    pub(super) fn force_push(&mut self, dropped: usize, dates: &[i64]) {
        let mut tip = self.head;
        for _ in 0..dropped {
            tip = tip.and_then(|tip| self.commits[tip].first_parent);
        }
        self.head = self.grow(tip, dates);
    }

    /// How many commits the head's line of first parents has, up to `max`.
    pub(super) fn line(&self, max: usize) -> usize {
        let parent = |n: &usize| self.commits[*n].first_parent;
        std::iter::successors(self.head, parent).take(max).count()
    }

    /// Adds a line of commits that no branch has yet; returns the last one.
    pub(super) fn fork(&mut self, from: Option<usize>, dates: &[i64]) -> Option<usize> {
        self.grow(from, dates)
    }

    /// The commits that these reach and the head does not.
    pub(super) fn beside(&self, tips: &[usize]) -> Vec<usize> {
        let main = self.marks(&self.listed());
        let all = tips.iter().flat_map(|tip| self.order(*tip).to_vec());
        let beside: std::collections::BTreeSet<usize> = all.filter(|n| !main[*n]).collect();
        beside.into_iter().collect()
    }

    /// Forgets the commits that neither the head nor one of these reaches; returns whether there
    /// were any.
    pub(super) fn collect_garbage(&mut self, tips: &[usize]) -> bool {
        let mut kept = self.marks(&self.listed());
        for n in self.beside(tips) {
            kept[n] = true;
        }
        let mut found = false;
        for (commit, is_kept) in self.commits.iter_mut().zip(kept) {
            found |= !is_kept && !commit.is_collected;
            commit.is_collected = !is_kept;
        }
        found
    }

    /// The commits that the head reaches, in the order of `git log`.
    pub(super) fn listed(&self) -> Arc<[usize]> {
        self.head
            .map_or_else(|| Arc::from([]), |head| self.order(head))
    }

    /// The commits that `start` reaches, in the order of `git log`: of those with a child that is
    /// already listed, the one with the latest date is next.
    pub(super) fn order(&self, start: usize) -> Arc<[usize]> {
        self.orders.get(start, || self.walk(start))
    }

    fn walk(&self, start: usize) -> Vec<usize> {
        let mut is_queued = vec![false; self.commits.len()];
        let mut queue = BinaryHeap::new();
        let mut order = Vec::new();
        let mut serial = 0_usize;
        let mut add = |queue: &mut BinaryHeap<_>, n: usize| {
            if !is_queued[n] {
                is_queued[n] = true;
                // Of equal dates, the first that was added is the first to leave.
                serial += 1;
                queue.push((self.commits[n].date, Reverse(serial), n));
            }
        };
        add(&mut queue, start);
        while let Some((_, _, n)) = queue.pop() {
            order.push(n);
            for parent in self.commits[n].parents() {
                add(&mut queue, parent);
            }
        }
        order
    }

    fn marks(&self, listed: &[usize]) -> Vec<bool> {
        let mut marks = vec![false; self.commits.len()];
        for n in listed {
            marks[*n] = true;
        }
        marks
    }

    /// Compares two commits; `None`: they have no common ancestor.
    pub(super) fn compare(&self, base: usize, head: usize) -> Option<Comparison> {
        let (of_base, of_head) = (self.order(base), self.order(head));
        let (in_base, in_head) = (self.marks(&of_base), self.marks(&of_head));
        // A merge base is common to both and has no child that is.
        let common: Vec<usize> = of_head.iter().copied().filter(|n| in_base[*n]).collect();
        let mut has_common_child = vec![false; self.commits.len()];
        for n in &common {
            for parent in self.commits[*n].parents() {
                has_common_child[parent] = true;
            }
        }
        let bases = common.into_iter().filter(|n| !has_common_child[*n]);
        let merge_base = bases.max_by_key(|n| (self.commits[*n].date, *n))?;
        let ahead = of_head.iter().rev().copied();
        Some(Comparison {
            merge_base,
            ahead: ahead.filter(|n| !in_base[*n]).collect(),
            behind: of_base.iter().filter(|n| !in_head[**n]).count(),
        })
    }
}

/// The latest orders, by the commit that they begin with. Commits never change, so neither does
/// the order from one.
#[derive(Debug, Default)]
struct Orders(Mutex<Vec<(usize, Arc<[usize]>)>>);

impl Orders {
    fn get(&self, start: usize, walk: impl FnOnce() -> Vec<usize>) -> Arc<[usize]> {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, order)) = orders.iter().find(|(known, _)| *known == start) {
            return Arc::clone(order);
        }
        let order: Arc<[usize]> = walk().into();
        if orders.len() >= ORDERS_MAX {
            orders.remove(0);
        }
        orders.push((start, Arc::clone(&order)));
        order
    }
}

impl Clone for Orders {
    fn clone(&self) -> Self {
        let orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Self(Mutex::new(orders.clone()))
    }
}
