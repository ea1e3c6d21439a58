//! Addresses of the API's pages.
//!
//! Every request of the collector carries a token, so every address must be one of the API. An
//! address is either built here from the names of its resource, or it comes from an answer, a
//! payload or a record and is compared here with `api_url`. The origin is always written as in
//! `api_url`; only path and query of a given address are used.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::model::{InvalidText, JobKind, PageJob};

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

    /// The first page of a job's resource, or of the changes since `since`. `Err`: the job names no
    /// resource.
    pub(crate) fn first_page(
        &self,
        job: &PageJob,
        since: Option<&str>,
        size: u32,
    ) -> Result<String, InvalidText> {
        let newest_first = "state=all&sort=updated&direction=desc";
        let since = since
            .map(|at| format!("&since={}", escaped(at)))
            .unwrap_or_default();
        let user = || format!("/users/{}", escaped(&job.run_id.login));
        let repository = || {
            let missing = || InvalidText("the job names no repository".to_owned());
            let repository = job.repository.as_ref().ok_or_else(missing)?;
            let (owner, name) = repository.names()?;
            Ok(format!("/repos/{}/{}", escaped(owner), escaped(name)))
        };
        let path = match job.kind {
            JobKind::UserBasic => user(),
            JobKind::UserEvents => format!("{}/events?per_page={size}", user()),
            JobKind::UserRepos => {
                format!("{}/repos?type=owner&sort=full_name&per_page={size}", user())
            }
            JobKind::RepoIssues => {
                format!(
                    "{}/issues?{newest_first}&per_page={size}{since}",
                    repository()?
                )
            }
            JobKind::RepoPrs => format!("{}/pulls?{newest_first}&per_page={size}", repository()?),
            JobKind::RepoCommits => format!("{}/commits?per_page={size}{since}", repository()?),
        };
        Ok(self.at(&path))
    }
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
            full_name: "octo-cat/hello.world_1".to_owned(),
        };
        PageJob::first(&"octocat.1".parse().expect("a run"), kind, Some(repository))
    }

    #[test]
    fn addresses_are_built_from_names() {
        let since = Some("2026-01-01T00:00:00Z&x");
        let issues = api().first_page(&job(JobKind::RepoIssues), since, 100);
        assert_eq!(
            issues.expect("a resource"),
            "https://api.example/v3/repos/octo-cat/hello.world_1/issues?state=all&sort=updated\
             &direction=desc&per_page=100&since=2026-01-01T00%3A00%3A00Z%26x"
        );
        let user = api().first_page(&job(JobKind::UserBasic), None, 100);
        assert_eq!(
            user.expect("a user"),
            "https://api.example/v3/users/octocat"
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
