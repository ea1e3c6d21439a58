//! Settings of the collector.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{ApiUrl, App, JobKind, Schedule, Token, TokenKeys};

/// The default of `github.keep_runs`: 90 days.
const KEEP_RUNS: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Settings of the collector.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The API: GitHub, GitHub Enterprise or a test server.
    pub api_url: ApiUrl,
    /// Tokens whose budgets are used; without any, the small anonymous budget.
    pub tokens: Vec<Token>,
    /// Reads these tokens again.
    pub token_reader: TokenReader,
    /// The keys that seal tokens of users; without any, none can be stored.
    pub token_keys: TokenKeys,
    /// The GitHub App whose installations give tokens.
    pub app: Option<App>,
    /// Items per page, at most 100.
    pub page_size: u32,
    /// Maximum concurrent requests.
    pub concurrency: usize,
    /// Requests a minute of one account; 0: any number; `None`: as many as the API takes: 900 at
    /// github.com, and any number elsewhere.
    pub requests_per_minute: Option<u32>,
    /// Users that are collected on a schedule.
    pub schedule: Vec<Schedule>,
    /// What is collected. Streams that these need are added.
    pub streams: Vec<JobKind>,
    /// Repositories, `OWNER/NAME`: of an owner that is named here, only these are read.
    pub repositories: Vec<String>,
    /// How often a run reads everything, not only what changed.
    pub full_every: Duration,
    /// How long the records of ended runs are kept; the newest ten of a user always are.
    pub keep_runs: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            api_url: ApiUrl::default(),
            tokens: Vec::new(),
            token_reader: TokenReader::default(),
            token_keys: TokenKeys::default(),
            app: None,
            page_size: 100,
            concurrency: 16,
            requests_per_minute: None,
            schedule: Vec::new(),
            streams: JobKind::defaults().collect(),
            repositories: Vec::new(),
            full_every: Duration::from_secs(30 * 24 * 60 * 60),
            keep_runs: KEEP_RUNS,
        }
    }
}

/// What GitHub takes of one account in a minute; beyond, it refuses requests for some time.
const GITHUB_PER_MINUTE: u32 = 900;

impl Settings {
    /// Requests a minute of one account; `None`: no bound.
    pub(crate) fn pace(&self) -> Option<u32> {
        let is_github = self.api_url == ApiUrl::default();
        let usual = is_github.then_some(GITHUB_PER_MINUTE);
        self.requests_per_minute.or(usual).filter(|most| *most > 0)
    }
}

/// The server's secrets.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    /// Its tokens.
    pub tokens: Vec<Token>,
    /// The keys that seal tokens of users.
    pub token_keys: TokenKeys,
    /// The GitHub App, with its private key.
    pub app: Option<App>,
}

/// Reads the server's secrets again, from where they came; the error shows none of them.
#[derive(Clone, Default)]
pub struct TokenReader(Option<Arc<ReadSecrets>>);

type ReadSecrets = dyn Fn() -> Result<Secrets, String> + Send + Sync;

impl TokenReader {
    /// Reads the secrets with this function, which may block.
    pub fn new(read: impl Fn() -> Result<Secrets, String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(read)))
    }

    /// `None`: the secrets come from nowhere else.
    pub(crate) fn read(&self) -> Option<Result<Secrets, String>> {
        self.0.as_ref().map(|read| read())
    }
}

impl fmt::Debug for TokenReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenReader")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(url: &str, requests_per_minute: Option<u32>) -> Option<u32> {
        let settings = Settings {
            api_url: url.parse().expect("an address"),
            requests_per_minute,
            ..Settings::default()
        };
        settings.pace()
    }

    #[test]
    fn col_8_github_is_paced_however_its_address_is_written() {
        assert_eq!(Settings::default().pace(), Some(900));
        for same in [
            "https://api.github.com",
            "https://api.github.com/",
            "https://API.GitHub.com",
            "HTTPS://api.github.com:443/",
        ] {
            assert_eq!(pace(same, None), Some(900), "{same}");
            assert_eq!(pace(same, Some(60)), Some(60), "{same}");
            assert_eq!(pace(same, Some(0)), None, "{same}");
        }
        for other in [
            "https://ghe.example/api/v3",
            "https://api.github.com.example",
            "https://api.github.com:8443",
        ] {
            assert_eq!(pace(other, None), None, "{other}");
            assert_eq!(pace(other, Some(60)), Some(60), "{other}");
        }
    }
}
