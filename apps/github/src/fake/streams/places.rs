//! Which documents the streams have.

use crate::fake::world::{DocumentRef, World};

impl World {
    /// The documents of a repository's streams.
    pub(in crate::fake) fn places_of_streams(&self, at: usize) -> Vec<DocumentRef> {
        if !self.has_streams {
            return Vec::new();
        }
        let repository = &self.repositories[at];
        let mut places = vec![DocumentRef::Languages(at)];
        for (kind, entries) in &repository.streams.entries {
            places.extend((0..entries.len()).map(|n| DocumentRef::Entry(at, *kind, n)));
        }
        let listed = repository.history.listed();
        places.extend(listed.first().map(|_| DocumentRef::MainBranch(at)));
        places.extend(listed.iter().map(|n| DocumentRef::CommitDetail(at, *n)));
        let others = self.other_commits(at).into_iter();
        places.extend(others.map(|n| DocumentRef::BranchCommit(at, n)));
        places.extend(self.contributors(at));
        places.extend(self.timelines(at));
        let issues = repository.issues.iter().enumerate();
        let pulls = issues.filter(|(_, issue)| issue.is_pull && !issue.is_deleted);
        places.extend(pulls.map(|(n, _)| DocumentRef::PullDetail(at, n)));
        places
    }

    /// The organisation of a user, and the members and teams of an organisation.
    pub(in crate::fake) fn places_of_user(&self, user: usize) -> Vec<DocumentRef> {
        let mut places = self.organizations_of(user);
        if let Some(organization) = self.organization.as_ref().filter(|one| one.user == user) {
            let members = organization.members.iter();
            places.extend(members.map(|member| DocumentRef::Member(*member)));
            places.extend((0..organization.teams.len()).map(DocumentRef::Team));
        }
        places
    }

    pub(super) fn organizations_of(&self, user: usize) -> Vec<DocumentRef> {
        let organization = self.organization.as_ref();
        let is_member = organization.is_some_and(|one| one.members.contains(&user));
        let place = is_member.then_some(DocumentRef::Organization(user));
        place.into_iter().collect()
    }

    /// The authors of the commits that the head reaches; those with most commits first.
    pub(super) fn contributors(&self, at: usize) -> Vec<DocumentRef> {
        if !self.has_streams {
            return Vec::new();
        }
        let mut counts = vec![0; self.users.len()];
        for n in self.repositories[at].history.listed().iter() {
            counts[self.actor(*n as u64)] += 1;
        }
        let mut authors: Vec<(usize, usize)> = counts.into_iter().enumerate().collect();
        authors.retain(|(_, count)| *count > 0);
        authors.sort_by_key(|(user, count)| (std::cmp::Reverse(*count), *user));
        let authors = authors.into_iter();
        authors
            .map(|(user, count)| DocumentRef::Contributor(at, user, count))
            .collect()
    }

    /// The user who did something; never the organisation.
    pub(in crate::fake) fn actor(&self, key: u64) -> usize {
        let people = match self.organization {
            Some(_) => self.users.len() - 1,
            None => self.users.len(),
        };
        (key % people as u64) as usize
    }
}
