//! Changes of a world by name. Each one happens after everything before it.

use super::world::{Found, World};

impl World {
    /// Renames a repository, `OWNER/OLD`. The old name then redirects to the new one.
    ///
    /// False: there is no such repository, or the owner already has one of the new name.
    pub fn rename(&mut self, old: &str, new: &str) -> bool {
        let Some(Found::Here(at)) = self.find(old) else {
            return false;
        };
        let owner = self.repositories[at].owner;
        self.relocate(at, owner, new.to_owned())
    }

    /// Gives a repository to another user of the world. The old name then redirects to the new one.
    ///
    /// False: there is no such repository or user, or the user already owns it or one of its name.
    pub fn transfer(&mut self, full_name: &str, new_owner: &str) -> bool {
        let (Some(Found::Here(at)), Some(owner)) = (self.find(full_name), self.user(new_owner))
        else {
            return false;
        };
        let (old_owner, name) = {
            let repository = &self.repositories[at];
            (repository.owner, repository.name.clone())
        };
        if !self.relocate(at, owner, name) {
            return false;
        }
        for user in [old_owner, owner] {
            self.users[user].updated = self.latest;
        }
        true
    }

    /// False: the name is taken.
    fn relocate(&mut self, at: usize, owner: usize, name: String) -> bool {
        let old = self.full_name(at).to_lowercase();
        let wanted = format!("{}/{name}", self.users[owner].login);
        if let Some(Found::Here(_)) = self.find(&wanted) {
            return false;
        }
        self.moved.remove(&wanted.to_lowercase());
        self.moved.insert(old, at);
        self.latest += 1;
        let repository = &mut self.repositories[at];
        repository.owner = owner;
        repository.name = name;
        repository.updated = self.latest;
        true
    }

    /// Deletes a repository and everything in it. None of its names leads anywhere then.
    ///
    /// False: there is no such repository.
    pub fn delete_repository(&mut self, full_name: &str) -> bool {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return false;
        };
        self.latest += 1;
        let owner = self.repositories[at].owner;
        self.repositories[at].is_deleted = true;
        self.users[owner].updated = self.latest;
        self.moved.retain(|_, moved| *moved != at);
        true
    }

    /// Deletes an issue or a pull request with its comments and reviews. Its number is not used
    /// again.
    ///
    /// False: there is no such repository or number.
    pub fn delete_issue(&mut self, full_name: &str, number: u64) -> bool {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return false;
        };
        let index = number.checked_sub(1).and_then(|n| usize::try_from(n).ok());
        let repository = &mut self.repositories[at];
        let issues = repository.issues.iter().enumerate();
        let mut there = issues.filter(|(_, issue)| !issue.is_deleted);
        let Some((n, _)) = there.find(|(n, _)| Some(*n) == index) else {
            return false;
        };
        repository.issues[n].is_deleted = true;
        repository.streams.delete_issue(n);
        self.latest += 1;
        true
    }

    /// Adds a branch of commits of these dates (seconds since 1970) and merges it: the branch
    /// begins at an existing commit, and a merge commit of the current time becomes the head. A
    /// date may be long past, or in the future. In an empty repository the branch itself becomes
    /// the head.
    ///
    /// False: there is no such repository, or no date.
    pub fn merge(&mut self, full_name: &str, dates: &[i64]) -> bool {
        let Some(at) = self.begin_push(full_name, dates) else {
            return false;
        };
        let listed = self.repositories[at].history.listed();
        let drawn = self.rng(8, self.latest.unsigned_abs()).next_u64() as usize;
        let fork = drawn.checked_rem(listed.len()).map(|n| listed[n]);
        let now = self.latest;
        self.repositories[at].history.merge(fork, dates, now);
        true
    }

    /// Adds commits of these dates (seconds since 1970) to the head. A date may be long past, or
    /// in the future.
    ///
    /// False: there is no such repository, or no date.
    pub fn push(&mut self, full_name: &str, dates: &[i64]) -> bool {
        let Some(at) = self.begin_push(full_name, dates) else {
            return false;
        };
        self.repositories[at].history.push(dates);
        true
    }

    /// Moves the head back by `dropped` first parents, and adds commits of these dates (seconds
    /// since 1970). If all are dropped, the new commits begin with another root. Dropped commits
    /// can be asked for until [`World::collect_garbage`].
    ///
    /// False: there is no such repository, nothing to drop or add, or no commit would be left.
    pub fn force_push(&mut self, full_name: &str, dropped: usize, dates: &[i64]) -> bool {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return false;
        };
        let history = &self.repositories[at].history;
        let drops_all = history.line(dropped.saturating_add(1)) <= dropped;
        if dates.is_empty() && (dropped == 0 || drops_all) {
            return false;
        }
        self.pushed(at);
        self.repositories[at].history.force_push(dropped, dates);
        true
    }

    /// Forgets the commits that no branch reaches.
    ///
    /// False: there is no such repository, or no such commit.
    pub fn collect_garbage(&mut self, full_name: &str) -> bool {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return false;
        };
        let tips = self.tips(at);
        if !self.repositories[at].history.collect_garbage(&tips) {
            return false;
        }
        self.latest += 1;
        true
    }

    fn begin_push(&mut self, full_name: &str, dates: &[i64]) -> Option<usize> {
        let Some(Found::Here(at)) = self.find(full_name) else {
            return None;
        };
        if dates.is_empty() {
            return None;
        }
        self.pushed(at);
        Some(at)
    }

    fn pushed(&mut self, at: usize) {
        self.latest += 1;
        let repository = &mut self.repositories[at];
        repository.pushed = self.latest;
        repository.updated = self.latest;
    }
}
