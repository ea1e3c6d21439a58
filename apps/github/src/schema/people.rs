//! Users, their events, organizations and teams.

use super::{Column, boolean, integer, object, string, timestamp};

pub(super) const USER: &[Column] = &[
    integer("id", "/id"),
    string("node_id", "/node_id"),
    string("login", "/login"),
    string("type", "/type"),
    boolean("site_admin", "/site_admin"),
    string("name", "/name"),
    string("company", "/company"),
    string("blog", "/blog"),
    string("location", "/location"),
    string("email", "/email"),
    boolean("hireable", "/hireable"),
    string("bio", "/bio"),
    string("twitter_username", "/twitter_username"),
    integer("public_repos", "/public_repos"),
    integer("public_gists", "/public_gists"),
    integer("followers", "/followers"),
    integer("following", "/following"),
    timestamp("created_at", "/created_at"),
    timestamp("updated_at", "/updated_at"),
    string("avatar_url", "/avatar_url"),
    string("html_url", "/html_url"),
];

/// GitHub sends the ids of events as text.
pub(super) const EVENT: &[Column] = &[
    string("id", "/id"),
    string("type", "/type"),
    integer("actor_id", "/actor/id"),
    string("actor_login", "/actor/login"),
    integer("repo_id", "/repo/id"),
    string("repo_name", "/repo/name"),
    integer("org_id", "/org/id"),
    string("org_login", "/org/login"),
    string("action", "/payload/action"),
    boolean("public", "/public"),
    timestamp("created_at", "/created_at"),
    object("payload", "/payload"),
];

pub(super) const ORGANIZATION: &[Column] = &[
    integer("id", "/id"),
    string("node_id", "/node_id"),
    string("login", "/login"),
    string("name", "/name"),
    string("description", "/description"),
    string("company", "/company"),
    string("blog", "/blog"),
    string("location", "/location"),
    string("email", "/email"),
    string("twitter_username", "/twitter_username"),
    boolean("is_verified", "/is_verified"),
    boolean("has_organization_projects", "/has_organization_projects"),
    boolean("has_repository_projects", "/has_repository_projects"),
    integer("public_repos", "/public_repos"),
    integer("public_gists", "/public_gists"),
    integer("followers", "/followers"),
    integer("following", "/following"),
    timestamp("created_at", "/created_at"),
    timestamp("updated_at", "/updated_at"),
    timestamp("archived_at", "/archived_at"),
    string("avatar_url", "/avatar_url"),
    string("html_url", "/html_url"),
];

pub(super) const MEMBER: &[Column] = &[
    integer("id", "/id"),
    string("node_id", "/node_id"),
    string("login", "/login"),
    string("type", "/type"),
    boolean("site_admin", "/site_admin"),
    string("avatar_url", "/avatar_url"),
    string("html_url", "/html_url"),
];

pub(super) const TEAM: &[Column] = &[
    integer("id", "/id"),
    string("node_id", "/node_id"),
    string("name", "/name"),
    string("slug", "/slug"),
    string("description", "/description"),
    string("privacy", "/privacy"),
    string("notification_setting", "/notification_setting"),
    string("permission", "/permission"),
    object("permissions", "/permissions"),
    integer("parent_id", "/parent/id"),
    string("parent_slug", "/parent/slug"),
    string("html_url", "/html_url"),
];

/// As sent for the media type `application/vnd.github.star+json`, which adds the time.
pub(super) const STARGAZER: &[Column] = &[
    timestamp("starred_at", "/starred_at"),
    integer("user_id", "/user/id"),
    string("user_login", "/user/login"),
    string("user_type", "/user/type"),
    string("user_html_url", "/user/html_url"),
];

/// A contributor without an account has a name and an e-mail address only.
pub(super) const CONTRIBUTOR: &[Column] = &[
    integer("id", "/id"),
    string("login", "/login"),
    string("type", "/type"),
    string("name", "/name"),
    string("email", "/email"),
    integer("contributions", "/contributions"),
    string("html_url", "/html_url"),
];
