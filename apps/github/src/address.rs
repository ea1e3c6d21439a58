//! Addresses of the API's pages.
//!
//! Every request of the collector carries a token, so every address must be one of the API. An
//! address is either built here from the names of its resource, or it comes from an answer, a
//! payload or a record and is compared here with `api_url`. The origin is always written as in
//! `api_url`; only path and query of a given address are used.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::model::{History, InvalidText, PageJob};
use crate::streams::{JobKind, Shape, Walk};

/// Characters that need no escape in a path segment or a query value.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// The API: GitHub, GitHub Enterprise or a test server.
///
/// ```
/// use clinch_github::ApiUrl;
///
/// let api: ApiUrl = "HTTPS://GHE.example:443/api/v3/".parse().expect("an address");
/// assert_eq!(api.to_string(), "https://ghe.example/api/v3");
/// assert!("https://token@ghe.example".parse::<ApiUrl>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiUrl {
    /// Scheme, host and, unless it is the scheme's own, port; in lower case.
    origin: String,
    /// Prefix of the path of every resource; without a slash at its end.
    base: String,
}

/// An address that is not one of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForeignAddress;

impl Default for ApiUrl {
    fn default() -> Self {
        Self {
            origin: "https://api.github.com".to_owned(),
            base: String::new(),
        }
    }
}

impl fmt::Display for ApiUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.base)
    }
}

impl FromStr for ApiUrl {
    type Err = InvalidText;

    /// The message does not repeat the text, which may hold a password.
    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let wrong = || {
            let message = "the API's address is http:// or https://, a host in ASCII, a port and \
                           a path; no user, query, fragment or dot segments";
            InvalidText(message.to_owned())
        };
        let (origin, rest) = split(text).ok_or_else(wrong)?;
        let base = rest.trim_end_matches('/');
        if rest.contains('?') || !(base.is_empty() || is_plain_path(base)) {
            return Err(wrong());
        }
        Ok(Self {
            origin,
            base: base.to_owned(),
        })
    }
}

impl ApiUrl {
    /// A path of the API, which begins with a slash.
    pub fn at(&self, path: &str) -> String {
        format!("{self}{path}")
    }

    /// Checks that a given address is one of the API: the same scheme, host and port, and a path
    /// below that of `api_url`. The case of scheme and host is ignored, and so is the scheme's
    /// default port. An address that can be read in two ways is refused.
    pub(crate) fn own(&self, given: &str) -> Result<String, ForeignAddress> {
        let rest = match given.starts_with('/') {
            true => given,
            false => {
                let (origin, rest) = split(given).ok_or(ForeignAddress)?;
                if origin != self.origin {
                    return Err(ForeignAddress);
                }
                rest
            }
        };
        let path = rest.split('?').next().unwrap_or_default();
        let below = path.strip_prefix(&*self.base).ok_or(ForeignAddress)?;
        if !rest.bytes().all(is_url_byte) || !is_plain_path(path) || !below.starts_with('/') {
            return Err(ForeignAddress);
        }
        Ok(format!("{}{rest}", self.origin))
    }

    /// Whether an address of the API shows what the token's own account sees, whoever that is.
    pub(crate) fn is_personal(&self, url: &str) -> bool {
        let path = url.split('?').next().unwrap_or_default();
        let path = path.strip_prefix(&self.origin).unwrap_or(path);
        let path = path.strip_prefix(&*self.base).unwrap_or(path);
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let plain = |segment: &str| {
            let decoded = percent_encoding::percent_decode_str(segment).decode_utf8_lossy();
            decoded.to_ascii_lowercase()
        };
        match segments.next().map(plain).as_deref() {
            // GitHub's own links name a user by id: `/user/583231/repos`.
            Some("user") => segments
                .next()
                .is_none_or(|id| !id.bytes().all(|byte| byte.is_ascii_digit())),
            Some("installation" | "app") => true,
            _ => false,
        }
    }

    /// The first page of a job's resource, or of the changes that it asks for. `Err`: the job names
    /// no resource.
    pub(crate) fn first_page(&self, job: &PageJob, size: u32) -> Result<String, InvalidText> {
        let stream = job.kind.stream();
        let is_history = matches!(job.history, Some(History::Of(_)));
        let resource = match is_history {
            true => JobKind::REPO_COMMITS.stream().path,
            false => stream.path,
        };
        let mut path = resource.replace("{login}", &escaped(&job.run_id.login));
        if job.kind.is_of_repository() {
            let missing = || InvalidText("the job names no repository".to_owned());
            let repository = job.repository.as_ref().ok_or_else(missing)?;
            let (owner, name) = repository.names()?;
            path = path.replace("{repo}", &format!("{}/{}", escaped(owner), escaped(name)));
        }
        if path.contains("{base}") {
            let named = job.repository.as_ref();
            let base = named.and_then(|one| one.default_branch.as_deref());
            path = path.replace("{base}", &escaped(base.unwrap_or("HEAD")));
        }
        if path.contains("{item}") {
            path = path.replace("{item}", item(job.item.as_deref())?);
        }
        let mut query = Vec::new();
        let whole = stream.by_creation.filter(|_| job.reading.by_creation);
        let of_stream = whole.unwrap_or(stream.query);
        if !of_stream.is_empty() {
            query.push(of_stream.to_owned());
        }
        match &job.history {
            Some(History::Between { base, head, .. }) => {
                let (base, head) = (item(Some(base))?, item(Some(head))?);
                path = path.replace("/commits", &format!("/compare/{base}...{head}"));
            }
            Some(History::Of(head)) => query.push(format!("sha={}", item(Some(head))?)),
            None => {}
        }
        if stream.shape != Shape::One {
            query.push(format!("per_page={size}"));
        }
        if job.kind == JobKind::SEARCH {
            let missing = || InvalidText("the job names no search".to_owned());
            let search = job.search.as_deref().ok_or_else(missing)?;
            // The list of a user's repositories, whose documents are kept, holds public ones only.
            let all = format!("{search} user:{} is:public", job.run_id.login);
            query.push(format!("q={}", escaped(&all)));
        }
        if stream.walk == Walk::Commits && !job.bounds.is_all() {
            let (since, until) = (job.bounds.since(), job.bounds.until());
            for (name, at) in [("since", since), ("until", until)] {
                query.extend(at.map(|at| format!("{name}={}", escaped(at))));
            }
        }
        if let Some(since) = &job.since {
            query.push(format!("since={}", escaped(since)));
        }
        let query = query.join("&");
        Ok(match query.is_empty() {
            true => self.at(&path),
            false => self.at(&format!("{path}?{query}")),
        })
    }
}

/// A number or a hash: nothing that could change the path of an address.
fn item(text: Option<&str>) -> Result<&str, InvalidText> {
    let is_plain = |text: &&str| {
        (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let wrong = || InvalidText("the job names no item".to_owned());
    text.filter(is_plain).ok_or_else(wrong)
}

/// Visible ASCII, without characters that some parsers treat as a slash, an end or a fragment.
fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#')
}

/// Begins with one slash, and no segment leads up, in any encoding.
fn is_plain_path(path: &str) -> bool {
    let is_plain = |segment: &str| {
        let segment = segment.to_ascii_lowercase().replace("%2e", ".");
        let hides_slash = segment.contains("%2f") || segment.contains("%5c");
        !hides_slash && segment != "." && segment != ".."
    };
    path.starts_with('/') && !path.starts_with("//") && path.split('/').all(is_plain)
}

/// The normalized origin, and the rest, which is empty or begins with `/` or `?`.
fn split(url: &str) -> Option<(String, &str)> {
    if !url.bytes().all(is_url_byte) {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let own_port = match scheme.as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let host_end = match authority.rfind(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(host_end);
    let host = host.to_ascii_lowercase();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_ip = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let inner = host.strip_prefix('[').and_then(|one| one.strip_suffix(']'));
    let is_host = match inner {
        Some(inner) => !inner.is_empty() && inner.bytes().all(is_ip),
        None => !host.is_empty() && host.bytes().all(is_name),
    };
    if !is_host {
        return None;
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => own_port,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse().ok().filter(|port: &u16| *port > 0)?
        }
        _ => return None,
    };
    let origin = match port == own_port {
        true => format!("{scheme}://{host}"),
        false => format!("{scheme}://{host}:{port}"),
    };
    Some((origin, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Repository;

    fn api() -> ApiUrl {
        "https://api.example/v3/".parse().expect("an address")
    }

    fn job(kind: JobKind) -> PageJob {
        let repository = Repository {
            id: 1,
            default_branch: None,
            full_name: "octo-cat/hello.world_1".to_owned(),
        };
        PageJob::first(&"octocat.1".parse().expect("a run"), kind, Some(repository))
    }

    #[test]
    fn addresses_are_built_from_names() {
        let issues = PageJob {
            since: Some("2026-01-01T00:00:00Z&x".to_owned()),
            ..job(JobKind::REPO_ISSUES)
        };
        let issues = api().first_page(&issues, 100);
        assert_eq!(
            issues.expect("a resource"),
            "https://api.example/v3/repos/octo-cat/hello.world_1/issues?state=all&sort=updated\
             &direction=asc&per_page=100&since=2026-01-01T00%3A00%3A00Z%26x"
        );
        let user = api().first_page(&job(JobKind::USER_BASIC), 100);
        assert_eq!(
            user.expect("a user"),
            "https://api.example/v3/users/octocat"
        );
        let compared = PageJob {
            history: Some(History::Between {
                base: "abc1".to_owned(),
                head: "def2".to_owned(),
                read: 0,
            }),
            ..job(JobKind::REPO_COMMITS)
        };
        assert_eq!(
            api().first_page(&compared, 100).expect("a resource"),
            "https://api.example/v3/repos/octo-cat/hello.world_1/compare/abc1...def2?per_page=100"
        );
        let search = PageJob {
            search: Some("language:rust & more".to_owned()),
            ..job(JobKind::SEARCH)
        };
        assert_eq!(
            api().first_page(&search, 30).expect("a search"),
            "https://api.example/v3/search/repositories?per_page=30\
             &q=language%3Arust%20%26%20more%20user%3Aoctocat%20is%3Apublic"
        );
        assert!(api().first_page(&job(JobKind::SEARCH), 30).is_err());
        for wrong in ["", "7/../8", "7?x=1", "a.b"] {
            let reviews = PageJob {
                item: Some(wrong.to_owned()),
                ..job(JobKind::named("review").expect("a stream"))
            };
            assert!(api().first_page(&reviews, 100).is_err(), "{wrong}");
        }
    }

    #[test]
    fn col_3_a_branch_without_a_common_ancestor_is_read_as_a_history() {
        let compared = PageJob {
            item: Some("abc1".to_owned()),
            ..job(JobKind::named("branch_commit").expect("a stream"))
        };
        let whole = PageJob {
            history: Some(History::Of("abc1".to_owned())),
            ..compared.clone()
        };
        let address = |job: &PageJob| api().first_page(job, 100).expect("a resource");
        let base = "https://api.example/v3/repos/octo-cat/hello.world_1";
        assert_eq!(
            address(&compared),
            format!("{base}/compare/HEAD...abc1?per_page=100")
        );
        assert_eq!(
            address(&whole),
            format!("{base}/commits?sha=abc1&per_page=100")
        );
    }

    #[test]
    fn col_17_an_address_is_compared_as_an_address() {
        let page = "https://api.example/v3/repositories/1/issues?page=2";
        for same in [
            page,
            "/v3/repositories/1/issues?page=2",
            "HTTPS://API.EXAMPLE/v3/repositories/1/issues?page=2",
            "https://api.example:443/v3/repositories/1/issues?page=2",
        ] {
            assert_eq!(api().own(same).as_deref(), Ok(page), "{same}");
        }
        let odd: ApiUrl = "http://[::1]:8080".parse().expect("an address");
        let page = "http://[::1]:8080/users/a";
        assert_eq!(odd.own(page).as_deref(), Ok(page));
        for elsewhere in ["http://[::1]/users/a", "http://[::2]:8080/users/a"] {
            assert_eq!(odd.own(elsewhere), Err(ForeignAddress), "{elsewhere}");
        }
    }

    #[test]
    fn an_api_address_with_more_than_a_place_is_refused() {
        for wrong in [
            "",
            "api.example",
            "ftp://api.example",
            "https://",
            "https://user:canary@api.example",
            "https://api.example?x=canary",
            "https://api.example/v3#x",
            "https://api.example/v3/../x",
            "https://api.example:0",
            "https://api.ex\u{e0}mple",
            "https://[::1",
        ] {
            let error = wrong.parse::<ApiUrl>().expect_err(wrong).to_string();
            assert!(!error.contains("canary"), "{error}");
        }
        assert_eq!(ApiUrl::default().to_string(), "https://api.github.com");
    }
}
