//! Private repositories: who sees them.

use serde_json::json;

use super::answer::{Ask, not_found, refusal};
use super::query::Query;
use super::world::{Found, World};
use crate::ApiAnswer;

impl World {
    /// Makes a repository private. Its owner sees it, and the members of an organization.
    pub fn make_private(&mut self, full_name: &str) {
        if let Some(Found::Here(at)) = self.find(full_name) {
            self.repositories[at].is_private = true;
        }
    }

    /// Makes a repository public again.
    pub fn make_public(&mut self, full_name: &str) {
        if let Some(Found::Here(at)) = self.find(full_name) {
            self.repositories[at].is_private = false;
        }
    }
}

impl Ask<'_> {
    /// Whether the sender sees a repository.
    pub(super) fn sees(&self, at: usize) -> bool {
        let repository = &self.world.repositories[at];
        let owner = &self.world.users[repository.owner];
        let is = |login: &str| owner.login.eq_ignore_ascii_case(login);
        let organization = self.world.organization.as_ref();
        let organization = organization.filter(|one| one.user == repository.owner);
        let sender = self.account.and_then(|login| self.world.user(login));
        let is_member = |user| organization.is_some_and(|one| one.members.contains(&user));
        !repository.is_private
            || self.account.is_some_and(is)
            || self.installed_at.is_some_and(is)
            || sender.is_some_and(is_member)
    }

    /// What the sender owns.
    pub(super) fn own_repositories(&self, query: &Query) -> ApiAnswer {
        let sender = self.account.and_then(|login| self.world.user(login));
        match (self.account, self.installed_at) {
            (None, _) => refusal(401, "Requires authentication"),
            (_, Some(_)) => refusal(403, "Resource not accessible by integration"),
            (Some(_), None) => match sender {
                Some(user) => {
                    let path = "/user/repos".to_owned();
                    let owned = self.repositories(user, path, query, |_| true);
                    self.list(owned, query)
                }
                None => not_found(),
            },
        }
    }

    /// What the owner has opened to the app.
    pub(super) fn installed_repositories(&self, query: &Query) -> ApiAnswer {
        let user = self.installed_at.and_then(|login| self.world.user(login));
        let Some(user) = user else {
            return refusal(403, "Resource not accessible by personal access token");
        };
        let path = "/installation/repositories".to_owned();
        let list = self.repositories(user, path, query, |_| true);
        self.list_in(
            &list,
            query,
            self.paging,
            |rows| json!({ "total_count": rows.len(), "repositories": rows }),
        )
    }
}
