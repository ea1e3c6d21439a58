//! Where the pages are.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::model::{JobKind, PageJob};

/// What needs no escape in a segment or a value.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// The first page of a job's resource, or of what changed since.
pub(crate) fn first_page(api_url: &str, job: &PageJob, since: Option<&str>, size: u32) -> String {
    let api = api_url.trim_end_matches('/');
    let user = format!("{api}/users/{}", escaped(&job.run_id.login));
    let repository = || {
        let full_name = job.repository.as_ref().map(|one| one.full_name.as_str());
        let (owner, name) = full_name
            .and_then(|one| one.split_once('/'))
            .unwrap_or_default();
        format!("{api}/repos/{}/{}", escaped(owner), escaped(name))
    };
    let newest_first = "state=all&sort=updated&direction=desc";
    let since = since
        .map(|at| format!("&since={}", escaped(at)))
        .unwrap_or_default();
    match job.kind {
        JobKind::UserBasic => user,
        JobKind::UserEvents => format!("{user}/events?per_page={size}"),
        JobKind::UserRepos => format!("{user}/repos?type=owner&sort=full_name&per_page={size}"),
        JobKind::RepoIssues => {
            format!(
                "{}/issues?{newest_first}&per_page={size}{since}",
                repository()
            )
        }
        JobKind::RepoPrs => format!("{}/pulls?{newest_first}&per_page={size}", repository()),
        JobKind::RepoCommits => format!("{}/commits?per_page={size}{since}", repository()),
    }
}

/// An address that an answer gave, if it leads to the API: a token is sent nowhere else.
pub(crate) fn of_the_api(api_url: &str, given: &str) -> Option<String> {
    let api = api_url.trim_end_matches('/');
    let origin_end = api.find("://").map_or(0, |at| at + 3);
    let origin = match api[origin_end..].find('/') {
        Some(slash) => &api[..origin_end + slash],
        None => api,
    };
    if given.starts_with('/') && !given.starts_with("//") {
        return Some(format!("{origin}{given}"));
    }
    let rest = given.strip_prefix(origin)?;
    let is_same = rest.is_empty() || rest.starts_with(['/', '?']);
    is_same.then(|| given.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Repository;

    const API: &str = "https://api.example/v3/";

    fn job(kind: JobKind) -> PageJob {
        let repository = Repository {
            id: 1,
            full_name: "octo cat/hello?".to_owned(),
        };
        PageJob::first(&"octocat.1".parse().expect("a run"), kind, Some(repository))
    }

    #[test]
    fn addresses_are_escaped() {
        let issues = first_page(
            API,
            &job(JobKind::RepoIssues),
            Some("2026-01-01T00:00:00Z"),
            100,
        );
        assert_eq!(
            issues,
            "https://api.example/v3/repos/octo%20cat/hello%3F/issues?state=all&sort=updated\
             &direction=desc&per_page=100&since=2026-01-01T00%3A00%3A00Z"
        );
        let user = first_page(API, &job(JobKind::UserBasic), None, 100);
        assert_eq!(user, "https://api.example/v3/users/octocat");
    }

    #[test]
    fn col_17_a_token_goes_nowhere_but_to_the_api() {
        let here = "https://api.example/repositories/1/issues?page=2";
        assert_eq!(of_the_api(API, here).as_deref(), Some(here));
        let relative = of_the_api(API, "/repositories/1");
        assert_eq!(
            relative.as_deref(),
            Some("https://api.example/repositories/1")
        );
        for elsewhere in [
            "https://evil.example/repositories/1",
            "https://api.example.evil/x",
            "https://api.example@evil/x",
            "http://api.example/x",
            "//evil.example/x",
            "",
        ] {
            assert_eq!(of_the_api(API, elsewhere), None, "{elsewhere}");
        }
    }
}
