//! `[github]` of `clinch.toml`.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// `[github]` as it is written. Secrets are not resolved yet; [`Settings`](crate::Settings) holds
/// what the collector uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// GitHub, GitHub Enterprise or a test server.
    pub api_url: String,
    /// `api_url` may name a host whose addresses are private or loopback.
    pub allow_private: bool,
    /// Tokens. Values are secrets.
    pub tokens: Vec<String>,
    /// `store`, `postgres://` or `mongodb://`.
    pub sink: String,
    /// Quota kept in reserve.
    pub threshold: u32,
    /// Items of one page.
    pub page_size: u32,
    /// Concurrent requests.
    pub concurrency: usize,
    /// `{ login = "octocat", cron = "0 3 * * *" }`
    pub schedule: Vec<Table>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            api_url: "https://api.github.com".to_owned(),
            allow_private: false,
            tokens: Vec::new(),
            sink: "store".to_owned(),
            threshold: 100,
            page_size: 100,
            concurrency: 8,
            schedule: Vec::new(),
        }
    }
}

impl Config {
    /// The name of the section.
    pub const SECTION: &str = "github";
    /// Keys whose values are never shown.
    pub const SECRETS: &[&str] = &["tokens"];

    /// Users and their times, as they are written.
    pub fn scheduled(&self) -> impl Iterator<Item = (&str, &str)> {
        self.schedule.iter().filter_map(|entry| {
            let text = |key| entry.get(key).and_then(Value::as_str);
            Some((text("login")?, text("cron")?))
        })
    }

    /// Every contradiction, each as one line that says what to do.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !(1..=100).contains(&self.page_size) {
            let message = "github.page_size must be between 1 and 100; the API gives no more";
            problems.push(message.to_owned());
        }
        if self.concurrency == 0 {
            problems.push("github.concurrency must be more than 0".to_owned());
        }
        let is_http = ["http://", "https://"]
            .iter()
            .any(|scheme| self.api_url.starts_with(scheme));
        if !is_http {
            problems.push("github.api_url must begin with https:// or http://".to_owned());
        }
        for (number, entry) in (1..).zip(&self.schedule) {
            let has = |key: &str| entry.get(key).is_some_and(Value::is_str);
            if !has("login") || !has("cron") || entry.len() != 2 {
                problems.push(format!(
                    "github.schedule, entry {number}: write {{ login = \"octocat\", cron = \"0 3 * * *\" }}"
                ));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Config {
        toml::from_str(text).expect("a section")
    }

    #[test]
    fn the_defaults_are_well_and_are_those_of_the_settings() {
        let (config, settings) = (Config::default(), crate::Settings::default());
        assert_eq!(config.problems(), [""; 0]);
        assert_eq!(
            (config.api_url, config.page_size, config.concurrency),
            (
                settings.api_url.to_string(),
                settings.page_size,
                settings.concurrency
            )
        );
    }

    #[test]
    fn every_contradiction_is_a_line() {
        let text = "page_size = 101\nconcurrency = 0\napi_url = \"api.github.com\"\n\
            schedule = [{ login = \"octocat\", cron = \"0 3 * * *\" }, { login = \"octocat\" }]";
        let config = read(text);
        assert_eq!(
            config.problems(),
            [
                "github.page_size must be between 1 and 100; the API gives no more",
                "github.concurrency must be more than 0",
                "github.api_url must begin with https:// or http://",
                "github.schedule, entry 2: write { login = \"octocat\", cron = \"0 3 * * *\" }",
            ]
        );
        assert_eq!(
            config.scheduled().collect::<Vec<_>>(),
            [("octocat", "0 3 * * *")]
        );
        let more = "schedule = [{ login = \"a\", cron = \"0 3 * * *\", shadow = true }]";
        assert_eq!(read(more).problems().len(), 1);
    }
}
