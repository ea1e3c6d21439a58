//! Branches beside the default one, with commits of their own.

use super::kind::Kind;
use super::streams::Entry;
use super::world::{Found, World};

impl World {
    /// Begins a branch at the head of the default branch, with commits of these dates (seconds since
    /// 1970); returns its number.
    ///
    /// `None`: there is no such repository, or it has no commit.
    pub fn branch(&mut self, full_name: &str, dates: &[i64]) -> Option<u64> {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return None;
        };
        self.latest += 1;
        let latest = self.latest;
        let repository = &mut self.repositories[at];
        let head = repository.history.head()?;
        let tip = repository.history.fork(Some(head), dates)?;
        let entry = Entry::new(tip as u64, latest);
        Some(repository.streams.add(Kind::Branch, entry))
    }

    /// Takes the newest commits from a branch, and adds commits of these dates.
    ///
    /// False: there is no such repository or branch.
    pub fn push_branch(
        &mut self,
        full_name: &str,
        number: u64,
        dropped: usize,
        dates: &[i64],
    ) -> bool {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return false;
        };
        self.latest += 1;
        let repository = &mut self.repositories[at];
        let entries = repository.streams.of(Kind::Branch).iter();
        let Some(tip) = entries.clone().find(|one| one.serial == number) else {
            return false;
        };
        let mut tip = Some(tip.parent as usize);
        for _ in 0..dropped {
            tip = tip.and_then(|tip| repository.history.commit(tip).parents().next());
        }
        let Some(tip) = repository.history.fork(tip, dates) else {
            return false;
        };
        repository.streams.move_branch(number, Some(tip as u64));
        true
    }

    /// Deletes a branch.
    ///
    /// False: there is no such repository or branch.
    pub fn delete_branch(&mut self, full_name: &str, number: u64) -> bool {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return false;
        };
        self.latest += 1;
        self.repositories[at].streams.move_branch(number, None)
    }

    /// The newest commits of the branches beside the default one.
    pub(super) fn tips(&self, at: usize) -> Vec<usize> {
        let branches = self.repositories[at].streams.of(Kind::Branch).iter();
        branches.map(|entry| entry.parent as usize).collect()
    }

    /// The commits that other branches have and the default branch has not.
    pub(super) fn other_commits(&self, at: usize) -> Vec<usize> {
        let history = &self.repositories[at].history;
        match history.is_empty() {
            true => Vec::new(),
            false => history.beside(&self.tips(at)),
        }
    }
}

impl super::streams::Streams {
    /// Moves a branch to another commit, or deletes it.
    fn move_branch(&mut self, number: u64, tip: Option<u64>) -> bool {
        let branches = self.of_mut(Kind::Branch);
        let before = branches.len();
        match tip {
            Some(tip) => branches
                .iter_mut()
                .filter(|one| one.serial == number)
                .for_each(|one| one.parent = tip),
            None => branches.retain(|one| one.serial != number),
        }
        branches.len() < before || tip.is_some()
    }
}
