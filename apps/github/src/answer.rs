//! What an answer of the API means.

use std::time::Duration;

use clinch::policy::QuotaReading;
use clinch::types::Timestamp;
use jiff::fmt::rfc2822;

use crate::ApiAnswer;
use crate::model::PageJob;
use crate::streams::{Bucket, JobKind, Owner};

/// Pause after a secondary limit without `Retry-After`.
const SECONDARY_PAUSE: Duration = Duration::from_secs(60);

/// Pause after a refusal that names neither a time nor a budget.
const PENDING_PAUSE: Duration = Duration::from_secs(5);

/// Longest text of the API that is kept in a reason.
const MESSAGE_CHARS_MAX: usize = 200;

/// What an answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The body holds the page.
    Page,
    /// The page has not changed.
    NotModified,
    /// There is nothing to read, and that is no error: disabled issues, a page past the end.
    Nothing,
    /// The repository has no commits.
    Empty(String),
    /// The resource has moved to this address.
    Moved(String),
    /// A rate limit refused the request; the budget headers say for how long.
    Limited,
    /// The API does not know the token, or the installation that it belongs to is suspended.
    BadToken,
    /// The answer will be ready later.
    Pending(Duration),
    /// The API failed; retrying is harmless.
    Broken(String),
    /// The API does not give this repository: it is gone or blocked.
    Unavailable(String),
    /// Refused permanently.
    Refused(String),
}

/// Reads an answer to a request for a page of `kind`.
pub(crate) fn meaning(kind: JobKind, answer: &ApiAnswer) -> Meaning {
    let unavailable = || Meaning::Unavailable(said(answer));
    // Not the user or the list of repositories, without which there is nothing to collect.
    let is_whole = matches!(kind.stream().owner, Owner::Run | Owner::Search);
    let is_part = !is_whole && kind != JobKind::USER_REPOS;
    match answer.status {
        200 => Meaning::Page,
        202 => Meaning::Pending(retry_after(answer).unwrap_or(PENDING_PAUSE)),
        304 => Meaning::NotModified,
        301 | 302 | 307 | 308 => match answer.header("location") {
            Some(location) => Meaning::Moved(location.to_owned()),
            None => Meaning::Broken("a redirect without a location".to_owned()),
        },
        401 => Meaning::BadToken,
        403 if is_suspended(answer) => Meaning::BadToken,
        403 | 429 if is_limit(answer) => Meaning::Limited,
        429 => Meaning::Limited,
        410 if is_part && !is_disabled(answer) => unavailable(),
        status if kind.stream().nothing.contains(&status) => Meaning::Nothing,
        409 if kind == JobKind::REPO_COMMITS && is_empty(answer) => Meaning::Empty(said(answer)),
        408 | 425 => Meaning::Broken(said(answer)),
        status if status >= 500 => Meaning::Broken(said(answer)),
        404 | 409 | 410 | 451 if is_part => unavailable(),
        403 if is_part && (is_blocked(answer) || !kind.stream().is_default) => unavailable(),
        _ => Meaning::Refused(said(answer)),
    }
}

/// Whether a list has more pages than the API gives: it refuses the first one beyond.
pub(crate) fn is_cut(job: &PageJob, answer: &ApiAnswer) -> bool {
    let message = message(answer).to_ascii_lowercase();
    let says = ["pagination is limited", "results are available"];
    let is_said = says.iter().any(|one| message.contains(one));
    answer.status == 422 && job.page > 1 && job.history.is_none() && is_said
}

/// Issues are disabled. A repository that is gone has another message, and an answer that says
/// nothing, or was cut, proves neither.
fn is_disabled(answer: &ApiAnswer) -> bool {
    let message = message(answer).to_ascii_lowercase();
    message.contains("disabled")
}

/// Nothing was ever pushed to the repository. Other conflicts do not say what it holds.
fn is_empty(answer: &ApiAnswer) -> bool {
    let message = message(answer).to_ascii_lowercase();
    message.contains("repository is empty")
}

/// Whether the API says that there is no such thing. An answer that says nothing may have been cut.
pub(crate) fn is_absent(answer: &ApiAnswer) -> bool {
    matches!(answer.status, 404 | 410) && !message(answer).is_empty()
}

/// Two commits have no history in common, as those of a branch that holds a site.
pub(crate) fn is_unrelated(answer: &ApiAnswer) -> bool {
    let message = message(answer).to_ascii_lowercase();
    answer.status == 404 && message.contains("no common ancestor")
}

/// GitHub has blocked the repository, for its terms of service for example.
fn is_blocked(answer: &ApiAnswer) -> bool {
    let message = message(answer).to_ascii_lowercase();
    message.contains("repository access blocked")
}

/// The owner, or GitHub, has suspended the installation that the token belongs to.
fn is_suspended(answer: &ApiAnswer) -> bool {
    let message = message(answer).to_ascii_lowercase();
    answer.status == 403 && message.contains("installation has been suspended")
}

/// Checks headers first, then the message: a refusal for missing permissions looks much the same.
pub(crate) fn is_limit(answer: &ApiAnswer) -> bool {
    let exhausted = number(answer, "x-ratelimit-remaining") == Some(0);
    exhausted || retry_after(answer).is_some() || is_secondary(answer) || {
        let message = message(answer).to_ascii_lowercase();
        message.contains("rate limit exceeded")
    }
}

/// A limit on the rate of requests, not on their number in a window.
fn is_secondary(answer: &ApiAnswer) -> bool {
    let message = message(answer).to_ascii_lowercase();
    message.contains("secondary rate limit") || message.contains("abuse detection")
}

/// What an answer said of the budget. The API's clock may differ from ours, so the end of the
/// window is counted from the time that the answer gives as its own.
pub(crate) fn reading(answer: &ApiAnswer, now: Timestamp) -> QuotaReading {
    let limited = matches!(answer.status, 403 | 429) && (answer.status == 429 || is_limit(answer));
    let exhausted = number(answer, "x-ratelimit-remaining") == Some(0) && !is_secondary(answer);
    let asked = retry_after(answer).filter(|_| limited);
    let pause = asked.or_else(|| (limited && !exhausted).then_some(SECONDARY_PAUSE));
    let reset = number(answer, "x-ratelimit-reset").map(|seconds| {
        let reset = Timestamp::from_millis(seconds.saturating_mul(1_000));
        match sent_at(answer) {
            Some(sent) if reset > sent => now + reset.since(sent),
            _ => reset,
        }
    });
    QuotaReading {
        limit: number(answer, "x-ratelimit-limit").and_then(|limit| u64::try_from(limit).ok()),
        remaining: number(answer, "x-ratelimit-remaining"),
        reset_at: reset,
        retry_after: pause,
        unspent: 0,
    }
}

/// Whether the answer is about this budget.
pub(crate) fn is_about(bucket: Bucket, answer: &ApiAnswer) -> bool {
    answer
        .header("x-ratelimit-resource")
        .is_none_or(|resource| resource == bucket.as_str())
}

fn number(answer: &ApiAnswer, header: &str) -> Option<i64> {
    answer.header(header)?.trim().parse().ok()
}

/// Reads `Retry-After`: seconds, or a date.
fn retry_after(answer: &ApiAnswer) -> Option<Duration> {
    let text = answer.header("retry-after")?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = rfc2822::parse(text).ok()?.timestamp().as_millisecond();
    Some(Timestamp::from_millis(at).since(sent_at(answer)?))
}

fn sent_at(answer: &ApiAnswer) -> Option<Timestamp> {
    let date = rfc2822::parse(answer.header("date")?).ok()?;
    Some(Timestamp::from_millis(date.timestamp().as_millisecond()))
}

/// The message in the API's answer.
fn message(answer: &ApiAnswer) -> String {
    #[derive(serde::Deserialize)]
    struct Problem {
        message: String,
    }
    let problem: Option<Problem> = serde_json::from_slice(&answer.body).ok();
    problem.map(|problem| problem.message).unwrap_or_default()
}

fn said(answer: &ApiAnswer) -> String {
    let message: String = message(answer).chars().take(MESSAGE_CHARS_MAX).collect();
    match message.is_empty() {
        true => format!("HTTP {}", answer.status),
        false => format!("HTTP {}: {message}", answer.status),
    }
}

/// The address of the next page, taken unchanged: its content is opaque.
pub(crate) fn next_page(answer: &ApiAnswer) -> Option<String> {
    linked(answer, "next")
}

/// The number of the last page, if the pages of the list are numbered.
pub(crate) fn last_page(answer: &ApiAnswer) -> Option<u64> {
    let url = linked(answer, "last")?;
    let (_, query) = url.split_once('?')?;
    let page = query.split('&').find_map(|pair| pair.strip_prefix("page="));
    page?.parse().ok()
}

fn linked(answer: &ApiAnswer, relation: &str) -> Option<String> {
    let mut rest = answer.header("link")?;
    while let Some((_, after)) = rest.split_once('<') {
        let (url, after) = after.split_once('>')?;
        let (parameters, more) = match after.split_once(",") {
            Some((parameters, more)) if more.contains('<') => (parameters, more),
            _ => (after, ""),
        };
        let is_it = |parameter: &str| {
            let (name, value) = parameter.trim().split_once('=').unwrap_or_default();
            let mut relations = value.trim_matches('"').split(' ');
            name.eq_ignore_ascii_case("rel") && relations.any(|one| one == relation)
        };
        if parameters.split(';').any(is_it) {
            return Some(url.to_owned());
        }
        rest = more;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> ApiAnswer {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        ApiAnswer {
            status,
            headers: headers.iter().map(pair).collect(),
            body: body.as_bytes().to_vec(),
        }
    }

    fn of(kind: JobKind, status: u16) -> Meaning {
        meaning(kind, &answer(status, &[], ""))
    }

    #[test]
    fn col_16_an_answer_that_says_nothing_does_not_say_that_something_is_gone() {
        let whole = r#"{"message":"Not Found","status":"404"}"#;
        for status in [404, 410] {
            assert!(is_absent(&answer(status, &[], whole)));
            assert!(!is_absent(&answer(status, &[], &whole[..20])), "cut");
            assert!(!is_absent(&answer(status, &[], "<html></html>")));
            assert!(!is_absent(&answer(status, &[], "")));
        }
        assert!(!is_absent(&answer(403, &[], whole)));
    }

    #[test]
    fn col_16_every_status_has_its_meaning() {
        let (user, events) = (JobKind::USER_BASIC, JobKind::USER_EVENTS);
        let (issues, commits) = (JobKind::REPO_ISSUES, JobKind::REPO_COMMITS);
        assert_eq!(of(user, 200), Meaning::Page);
        assert_eq!(of(user, 304), Meaning::NotModified);
        assert_eq!(of(user, 202), Meaning::Pending(PENDING_PAUSE));
        assert_eq!(of(user, 401), Meaning::BadToken);
        assert_eq!(of(events, 422), Meaning::Nothing);
        for (kind, status) in [
            (issues, 422),
            (issues, 400),
            (issues, 403),
            (user, 404),
            (events, 451),
        ] {
            assert!(matches!(of(kind, status), Meaning::Refused(_)), "{status}");
        }
        for (kind, status) in [
            (issues, 404),
            (issues, 409),
            (issues, 410),
            (commits, 409),
            (commits, 410),
            (issues, 451),
        ] {
            let reason = format!("HTTP {status}");
            assert_eq!(of(kind, status), Meaning::Unavailable(reason));
        }
        for status in [408, 500, 502, 503] {
            assert!(matches!(of(user, status), Meaning::Broken(_)));
        }
    }

    #[test]
    fn col_16_a_blocked_repository_is_told_from_a_missing_permission() {
        let of = |kind, status, message: &str| {
            let body = format!(r#"{{"message":"{message}"}}"#);
            meaning(kind, &answer(status, &[], &body))
        };
        let blocked = of(JobKind::REPO_PRS, 403, "Repository access blocked");
        let reason = "HTTP 403: Repository access blocked".to_owned();
        assert_eq!(blocked, Meaning::Unavailable(reason));
        let gone = of(JobKind::REPO_ISSUES, 410, "This repository is gone");
        assert!(matches!(gone, Meaning::Unavailable(_)));
        let empty = of(JobKind::REPO_COMMITS, 409, "Git Repository is empty.");
        let reason = "HTTP 409: Git Repository is empty.".to_owned();
        assert_eq!(empty, Meaning::Empty(reason));
        let cut = answer(410, &[], r#"{"message":"This repo"#);
        let reason = "HTTP 410".to_owned();
        assert_eq!(
            meaning(JobKind::REPO_ISSUES, &cut),
            Meaning::Unavailable(reason)
        );
        let message = "Issues has been disabled in this repository.";
        assert_eq!(of(JobKind::REPO_ISSUES, 410, message), Meaning::Nothing);
        let suspended = of(
            JobKind::REPO_PRS,
            403,
            "This installation has been suspended",
        );
        assert_eq!(suspended, Meaning::BadToken);
        let forbidden = of(JobKind::REPO_PRS, 403, "Resource not accessible");
        assert!(matches!(forbidden, Meaning::Refused(_)));
    }

    #[test]
    fn limits_are_told_by_headers_then_by_message() {
        let kind = JobKind::REPO_ISSUES;
        let exhausted = answer(403, &[("x-ratelimit-remaining", "0")], "");
        assert_eq!(meaning(kind, &exhausted), Meaning::Limited);
        let asked = answer(403, &[("retry-after", "30")], "");
        assert_eq!(meaning(kind, &asked), Meaning::Limited);
        assert_eq!(meaning(kind, &answer(429, &[], "")), Meaning::Limited);
        let body = r#"{"message":"You have exceeded a secondary rate limit. Please wait"}"#;
        let secondary = answer(403, &[("x-ratelimit-remaining", "4000")], body);
        assert_eq!(meaning(kind, &secondary), Meaning::Limited);
        let now = Timestamp::from_millis(0);
        assert_eq!(reading(&secondary, now).retry_after, Some(SECONDARY_PAUSE));
        assert_eq!(
            reading(&asked, now).retry_after,
            Some(Duration::from_secs(30))
        );
        let forbidden = answer(403, &[], r#"{"message":"Resource not accessible"}"#);
        assert!(matches!(meaning(kind, &forbidden), Meaning::Refused(_)));
        assert_eq!(reading(&forbidden, now).retry_after, None);
    }

    #[test]
    fn a_window_ends_on_the_clock_of_the_api() {
        let headers = [
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "4999"),
            ("x-ratelimit-reset", "1700003600"),
            ("date", "Tue, 14 Nov 2023 22:13:20 GMT"),
        ];
        let read = reading(&answer(200, &headers, ""), Timestamp::from_millis(5_000));
        // One hour after the answer, whatever our own clock says.
        assert_eq!(read.reset_at, Some(Timestamp::from_millis(3_605_000)));
        assert_eq!((read.limit, read.remaining), (Some(5_000), Some(4_999)));
    }

    #[test]
    fn the_next_page_is_taken_as_it_is() {
        let next = |link: &str| next_page(&answer(200, &[("link", link)], ""));
        let both = r#"<https://api.example/a?page=1,2>; rel="prev", <https://api.example/a?after=x%2Cy>; rel="next", <https://api.example/a?page=9>; rel="last""#;
        assert_eq!(
            next(both).as_deref(),
            Some("https://api.example/a?after=x%2Cy")
        );
        assert_eq!(last_page(&answer(200, &[("link", both)], "")), Some(9));
        let unnumbered = r#"<https://api.example/a?after=x>; rel="last""#;
        assert_eq!(last_page(&answer(200, &[("link", unnumbered)], "")), None);
        assert_eq!(next(r#"<https://api.example/a>; rel="first last""#), None);
        assert_eq!(
            next(r#"<https://api.example/b>; rel="first next""#).as_deref(),
            Some("https://api.example/b")
        );
        assert_eq!(next("nonsense"), None);
        assert_eq!(next("<https://api.example/unfinished"), None);
    }
}
