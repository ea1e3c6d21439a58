//! Renders accounts, organisations, members, teams and contributors.

use serde_json::{Value, json};

use super::Entry;
use crate::fake::render::{API, HTML, date};
use crate::fake::world::World;

/// Outsiders have ids from here on; the users of a world have smaller ones.
const OUTSIDERS: u64 = 5_000_000;

impl World {
    pub(in crate::fake) fn account_type(&self, user: usize) -> &'static str {
        match &self.organization {
            Some(organization) if organization.user == user => "Organization",
            _ => "User",
        }
    }

    /// A user in the form that lists embed.
    pub(in crate::fake) fn account(&self, user: usize) -> Value {
        let kind = self.account_type(user);
        let user = &self.users[user];
        account(&user.login, user.id, kind)
    }

    /// The account of whoever did something.
    pub(super) fn actor_account(&self, key: u64) -> Value {
        self.account(self.actor(key))
    }

    pub(in crate::fake) fn render_contributor(&self, user: usize, count: usize) -> Value {
        let mut body = self.account(user);
        body["contributions"] = json!(count);
        body
    }

    pub(in crate::fake) fn render_organization(&self) -> Value {
        let Some(organization) = &self.organization else {
            return Value::Null;
        };
        let user = &self.users[organization.user];
        let url = format!("{API}/orgs/{}", user.login);
        json!({
            "login": user.login,
            "id": user.id,
            "node_id": format!("O_{}", user.id),
            "url": url,
            "repos_url": format!("{url}/repos"),
            "events_url": format!("{url}/events"),
            "hooks_url": format!("{url}/hooks"),
            "issues_url": format!("{url}/issues"),
            "members_url": format!("{url}/members{{/member}}"),
            "public_members_url": format!("{url}/public_members{{/member}}"),
            "avatar_url": avatar(user.id),
            "description": self.text(30, user.id, 8),
        })
    }

    pub(in crate::fake) fn render_team(&self, n: usize) -> Value {
        let Some(organization) = &self.organization else {
            return Value::Null;
        };
        let team = &organization.teams[n];
        let user = &self.users[organization.user];
        let id = 900_000 + team.serial;
        let url = format!("{API}/organizations/{}/team/{id}", user.id);
        json!({
            "id": id,
            "node_id": format!("T_{id}"),
            "url": url,
            "html_url": format!("{HTML}/orgs/{}/teams/team-{}", user.login, team.serial),
            "name": format!("Team {}", team.serial),
            "slug": format!("team-{}", team.serial),
            "description": self.text(31 + (u64::from(team.revision) << 8), id, 6),
            "privacy": "closed",
            "notification_setting": "notifications_enabled",
            "permission": "pull",
            "members_url": format!("{url}/members{{/member}}"),
            "repositories_url": format!("{url}/repos"),
            "parent": null,
        })
    }

    /// Users outside of this world give stars, each one once.
    pub(super) fn render_stargazer(&self, at: usize, entry: &Entry) -> Value {
        let id = OUTSIDERS + self.repositories[at].id * 1_000 + entry.serial;
        json!({
            "starred_at": date(entry.created),
            "user": account(&format!("fan-{id}"), id, "User"),
        })
    }
}

fn avatar(id: u64) -> String {
    format!("https://avatars.githubusercontent.com/u/{id}?v=4")
}

fn account(login: &str, id: u64, kind: &str) -> Value {
    let url = format!("{API}/users/{login}");
    json!({
        "login": login,
        "id": id,
        "node_id": format!("U_{id}"),
        "avatar_url": avatar(id),
        "gravatar_id": "",
        "url": url,
        "html_url": format!("{HTML}/{login}"),
        "followers_url": format!("{url}/followers"),
        "following_url": format!("{url}/following{{/other_user}}"),
        "gists_url": format!("{url}/gists{{/gist_id}}"),
        "starred_url": format!("{url}/starred{{/owner}}{{/repo}}"),
        "subscriptions_url": format!("{url}/subscriptions"),
        "organizations_url": format!("{url}/orgs"),
        "repos_url": format!("{url}/repos"),
        "events_url": format!("{url}/events{{/privacy}}"),
        "received_events_url": format!("{url}/received_events"),
        "type": kind,
        "user_view_type": "public",
        "site_admin": false,
    })
}
