//! Documents of further streams: their fields, and what identifies them.

use std::collections::BTreeSet;

use clinch_github::fake::{Item, Kind};
use serde_json::Value;

use crate::streams::{of, world};

/// Some fields of every kind that are always there.
const FIELDS: [(Kind, &str); 23] = [
    (
        Kind::IssueComment,
        "id issue_url body user author_association reactions updated_at",
    ),
    (
        Kind::ReviewComment,
        "diff_hunk path commit_id _links line side pull_request_url",
    ),
    (
        Kind::Review,
        "id state submitted_at commit_id body user pull_request_url",
    ),
    (
        Kind::IssueEvent,
        "id event actor created_at issue commit_id",
    ),
    (Kind::Timeline, "event"),
    (Kind::Reaction, "id content user created_at"),
    (
        Kind::Release,
        "id tag_name assets author draft prerelease published_at body",
    ),
    (Kind::Tag, "name commit zipball_url tarball_url node_id"),
    (Kind::Branch, "name commit protected protection"),
    (Kind::Label, "id name color default description url"),
    (
        Kind::Milestone,
        "id number state title creator open_issues due_on closed_at",
    ),
    (Kind::Stargazer, "starred_at user"),
    (Kind::Contributor, "login id avatar_url type contributions"),
    (Kind::Workflow, "id name path state badge_url created_at"),
    (
        Kind::WorkflowRun,
        "id run_attempt run_number head_sha status conclusion workflow_id jobs_url repository head_commit",
    ),
    (
        Kind::WorkflowJob,
        "id run_id run_attempt status steps labels started_at completed_at",
    ),
    (
        Kind::Deployment,
        "id sha ref task environment creator statuses_url payload",
    ),
    (
        Kind::CommitComment,
        "id commit_id path position line body user",
    ),
    (
        Kind::Organization,
        "login id members_url avatar_url description",
    ),
    (Kind::Member, "login id avatar_url type site_admin"),
    (Kind::Team, "id name slug privacy permission parent"),
    (
        Kind::PullRequestDetail,
        "number head base merged mergeable merged_by comments review_comments commits additions deletions changed_files",
    ),
    (Kind::CommitDetail, "sha commit parents stats files"),
];

/// What identifies a document among those of its kind and resource.
fn identity(item: &Item) -> String {
    let body = &item.body;
    let key = match item.kind {
        Kind::Tag | Kind::Branch => &body["name"],
        Kind::Stargazer => &body["user"]["id"],
        Kind::Commit | Kind::BranchCommit | Kind::CommitDetail => &body["sha"],
        Kind::Languages => &Value::Null,
        Kind::Timeline if body["event"] == "committed" => &body["sha"],
        Kind::Timeline if body["event"] == "cross-referenced" => &body["source"]["issue"]["id"],
        _ => &body["id"],
    };
    assert_eq!(key.is_null(), item.kind == Kind::Languages, "{item:?}");
    match item.kind {
        // Ids of comments, reviews and events are counted apart.
        Kind::Timeline => format!("{} {key}", body["event"]),
        _ => key.to_string(),
    }
}

#[test]
fn no_two_documents_of_a_stream_are_one() {
    let mut world = world(7);
    world.upset(1, 300);
    let mut seen = BTreeSet::new();
    for item in world.items() {
        let shared = matches!(
            item.kind,
            Kind::Tag
                | Kind::Branch
                | Kind::Languages
                | Kind::Contributor
                | Kind::Organization
                | Kind::Member
        );
        let resource = if shared { item.resource.as_str() } else { "" };
        let key = (item.kind, resource.to_owned(), identity(&item));
        assert!(seen.insert(key), "twice: {item:?}");
    }
}

#[test]
fn documents_have_the_fields_of_the_api() {
    let world = world(5);
    for (kind, fields) in FIELDS {
        let items = of(&world, kind);
        assert!(!items.is_empty(), "{}", kind.as_str());
        for item in items {
            for field in fields.split(' ') {
                assert!(item.body.get(field).is_some(), "{} {field}", kind.as_str());
            }
        }
    }
    for item in of(&world, Kind::CommitDetail) {
        let files = item.body["files"].as_array().expect("files");
        let additions = files.iter().filter_map(|file| file["additions"].as_u64());
        assert_eq!(item.body["stats"]["additions"], additions.sum::<u64>());
    }
}
