//! The table of streams.

use std::time::Duration;

use super::{Key, Owner, Shape, Stream, Walk};

/// Number of streams.
pub(super) const COUNT: usize = 32;

/// A workflow run can be repeated for this long.
const RERUN: Duration = Duration::from_secs(30 * 24 * 60 * 60);

const ROW: Stream = Stream {
    name: "",
    document: "",
    owner: Owner::Repository,
    path: "",
    query: "",
    shape: Shape::List,
    key: Key::Id,
    walk: Walk::Whole,
    accept: None,
    is_part: false,
    cap: None,
    parts: None,
    by_creation: None,
    is_newest_first: false,
    nothing: &[],
    is_default: false,
};

/// Every stream. An operation names its stream, so that rows may move.
pub(super) static STREAMS: [Stream; COUNT] = [
    Stream {
        name: "user_basic",
        document: "user",
        owner: Owner::Run,
        path: "/users/{login}",
        shape: Shape::One,
        is_default: true,
        ..ROW
    },
    Stream {
        name: "user_events",
        document: "event",
        owner: Owner::Run,
        path: "/users/{login}/events",
        walk: Walk::Events,
        // Pagination of events is limited.
        nothing: &[422],
        is_default: true,
        ..ROW
    },
    Stream {
        name: "user_repos",
        document: "repository",
        owner: Owner::User,
        path: "/users/{login}/repos",
        query: "type=owner&sort=full_name",
        is_default: true,
        ..ROW
    },
    Stream {
        name: "repo_issues",
        document: "issue",
        path: "/repos/{repo}/issues",
        query: "state=all&sort=updated&direction=asc",
        walk: Walk::Updated,
        // Issues are disabled.
        nothing: &[410],
        is_default: true,
        ..ROW
    },
    Stream {
        name: "repo_prs",
        document: "pull_request",
        path: "/repos/{repo}/pulls",
        query: "state=all&sort=updated&direction=desc",
        // In a busy repository the order of changes never comes to rest.
        by_creation: Some("state=all&sort=created&direction=asc"),
        walk: Walk::Newest(Duration::ZERO),
        is_default: true,
        ..ROW
    },
    Stream {
        name: "repo_commits",
        document: "commit",
        path: "/repos/{repo}/commits",
        key: Key::Within("/sha"),
        walk: Walk::Commits,
        is_default: true,
        ..ROW
    },
    Stream {
        name: "repo_search",
        document: "repository",
        owner: Owner::Search,
        path: "/search/repositories",
        shape: Shape::ListIn("items"),
        // It tells which repositories to read, and nothing of the others.
        is_part: true,
        ..ROW
    },
    Stream {
        name: "repo_issue_comments",
        document: "issue_comment",
        path: "/repos/{repo}/issues/comments",
        query: "sort=updated&direction=asc",
        walk: Walk::Updated,
        nothing: &[410],
        ..ROW
    },
    Stream {
        name: "repo_review_comments",
        document: "review_comment",
        path: "/repos/{repo}/pulls/comments",
        query: "sort=updated&direction=asc",
        walk: Walk::Updated,
        ..ROW
    },
    Stream {
        name: "repo_issue_events",
        document: "issue_event",
        path: "/repos/{repo}/issues/events",
        is_newest_first: true,
        walk: Walk::Newest(Duration::ZERO),
        nothing: &[410],
        ..ROW
    },
    Stream {
        name: "repo_releases",
        document: "release",
        path: "/repos/{repo}/releases",
        is_newest_first: true,
        // GitHub: "Only the first 10000 results are available."
        cap: Some(10_000),
        ..ROW
    },
    Stream {
        name: "repo_tags",
        document: "tag",
        path: "/repos/{repo}/tags",
        key: Key::Within("/name"),
        ..ROW
    },
    Stream {
        name: "repo_branches",
        document: "branch",
        path: "/repos/{repo}/branches",
        key: Key::Within("/name"),
        ..ROW
    },
    Stream {
        name: "repo_labels",
        document: "label",
        path: "/repos/{repo}/labels",
        ..ROW
    },
    Stream {
        name: "repo_milestones",
        document: "milestone",
        path: "/repos/{repo}/milestones",
        query: "state=all",
        nothing: &[410],
        ..ROW
    },
    Stream {
        name: "repo_stargazers",
        document: "stargazer",
        path: "/repos/{repo}/stargazers",
        // GitHub shows 400 pages of 100.
        cap: Some(40_000),
        // With the time of the star.
        accept: Some("application/vnd.github.star+json"),
        key: Key::Within("/user/id"),
        ..ROW
    },
    Stream {
        name: "repo_contributors",
        document: "contributor",
        path: "/repos/{repo}/contributors",
        is_part: true,
        key: Key::Within("/id"),
        // The history is empty, or too long to count.
        nothing: &[204],
        ..ROW
    },
    Stream {
        name: "repo_languages",
        document: "languages",
        path: "/repos/{repo}/languages",
        shape: Shape::One,
        key: Key::OnlyOne,
        ..ROW
    },
    Stream {
        name: "repo_deployments",
        document: "deployment",
        path: "/repos/{repo}/deployments",
        is_newest_first: true,
        ..ROW
    },
    Stream {
        name: "repo_commit_comments",
        document: "commit_comment",
        path: "/repos/{repo}/comments",
        ..ROW
    },
    Stream {
        name: "repo_workflows",
        document: "workflow",
        path: "/repos/{repo}/actions/workflows",
        shape: Shape::ListIn("workflows"),
        ..ROW
    },
    Stream {
        name: "repo_workflow_runs",
        document: "workflow_run",
        path: "/repos/{repo}/actions/runs",
        shape: Shape::ListIn("workflow_runs"),
        is_newest_first: true,
        walk: Walk::Newest(RERUN),
        ..ROW
    },
    Stream {
        name: "run_jobs",
        document: "workflow_job",
        owner: Owner::Item(&["repo_workflow_runs"]),
        path: "/repos/{repo}/actions/runs/{item}/jobs",
        query: "filter=all",
        shape: Shape::ListIn("jobs"),
        ..ROW
    },
    Stream {
        name: "pr_reviews",
        document: "review",
        owner: Owner::Item(&["repo_prs"]),
        path: "/repos/{repo}/pulls/{item}/reviews",
        ..ROW
    },
    Stream {
        name: "pr_details",
        document: "pull_request_detail",
        owner: Owner::Item(&["repo_prs"]),
        path: "/repos/{repo}/pulls/{item}",
        shape: Shape::One,
        ..ROW
    },
    Stream {
        name: "issue_reactions",
        document: "reaction",
        // A repository without issues may have pull requests.
        owner: Owner::Item(&["repo_issues", "repo_prs"]),
        path: "/repos/{repo}/issues/{item}/reactions",
        ..ROW
    },
    Stream {
        name: "issue_timeline",
        document: "timeline",
        owner: Owner::Item(&["repo_issues", "repo_prs"]),
        path: "/repos/{repo}/issues/{item}/timeline",
        key: Key::Entry,
        ..ROW
    },
    Stream {
        name: "commit_details",
        document: "commit_detail",
        owner: Owner::Item(&["repo_commits"]),
        path: "/repos/{repo}/commits/{item}",
        shape: Shape::One,
        // 300 a page, 3,000 in all.
        parts: Some("files"),
        cap: Some(3_000),
        key: Key::Within("/sha"),
        ..ROW
    },
    Stream {
        name: "branch_commits",
        document: "branch_commit",
        owner: Owner::Item(&["repo_branches"]),
        // What a branch has and the default branch has not; the item is the branch's newest commit.
        path: "/repos/{repo}/compare/{base}...{item}",
        shape: Shape::ListIn("commits"),
        key: Key::Within("/sha"),
        ..ROW
    },
    Stream {
        name: "user_orgs",
        document: "organization",
        owner: Owner::User,
        path: "/users/{login}/orgs",
        key: Key::Within("/id"),
        ..ROW
    },
    Stream {
        name: "org_members",
        document: "member",
        owner: Owner::Organization,
        path: "/orgs/{login}/members",
        key: Key::Within("/id"),
        ..ROW
    },
    Stream {
        name: "org_teams",
        document: "team",
        owner: Owner::Organization,
        path: "/orgs/{login}/teams",
        ..ROW
    },
];
