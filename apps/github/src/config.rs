//! `[github]` of `clinch.toml`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::model::Selection;

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
    /// Keys that seal tokens of users: 32 bytes each; the first seals, each opens. Values are
    /// secrets.
    pub token_keys: Vec<String>,
    /// Id of a GitHub App, whose installations give tokens; empty: none.
    pub app_id: String,
    /// Its private key, a PEM file. The value is a secret.
    pub app_private_key: String,
    /// `store`, `postgres://` or `mongodb://`.
    pub sink: String,
    /// Where the documents of shadow runs go; empty: where the others go.
    pub shadow_sink: String,
    /// Quota kept in reserve.
    pub threshold: u32,
    /// Items of one page.
    pub page_size: u32,
    /// Concurrent requests.
    pub concurrency: usize,
    /// Requests a minute of one account; 0: as many as the API takes: 900 at github.com, and any
    /// number elsewhere.
    pub requests_per_minute: u32,
    /// How long the records of ended runs are kept, such as `90d`.
    pub keep_runs: String,
    /// `{ login = "octocat", cron = "0 3 * * *" }`
    pub schedule: Vec<Table>,
    /// What is collected: kinds of documents, or `all`; empty: user, events, repositories, issues,
    /// pull requests and commits.
    pub streams: Vec<String>,
    /// `OWNER/NAME`: of an owner that is named here, only these repositories are read.
    pub repositories: Vec<String>,
    /// How often a run reads everything, not only what changed.
    pub full_every: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            api_url: "https://api.github.com".to_owned(),
            allow_private: false,
            tokens: Vec::new(),
            token_keys: Vec::new(),
            app_id: String::new(),
            app_private_key: String::new(),
            sink: "store".to_owned(),
            shadow_sink: String::new(),
            threshold: 100,
            page_size: 100,
            concurrency: 16,
            requests_per_minute: 0,
            keep_runs: "90d".to_owned(),
            schedule: Vec::new(),
            streams: Vec::new(),
            repositories: Vec::new(),
            full_every: "30d".to_owned(),
        }
    }
}

impl Config {
    /// The name of the section.
    pub const SECTION: &str = "github";
    /// Keys whose values are never shown.
    pub const SECRETS: &[&str] = &["tokens", "token_keys", "app_private_key"];

    /// Users and their times, as they are written.
    pub fn scheduled(&self) -> impl Iterator<Item = (&str, &str)> {
        self.schedule.iter().filter_map(|entry| {
            let text = |key| entry.get(key).and_then(Value::as_str);
            Some((text("login")?, text("cron")?))
        })
    }

    /// `keep_runs` as a duration; `None`: it is none.
    pub fn kept_for(&self) -> Option<Duration> {
        duration(&self.keep_runs)
    }

    /// `full_every` as a duration; `None`: it is none.
    pub fn full_after(&self) -> Option<Duration> {
        duration(&self.full_every)
    }

    /// What is wrong with the first repository that is wrong.
    fn wrong_repository(&self) -> Option<String> {
        let wrong = |text: &String| {
            let (owner, _) = text.split_once('/').unwrap_or_default();
            match Selection::configured(owner, &self.repositories) {
                Ok(own) if own.is_all() => Some(format!("{text:?} is not OWNER/NAME")),
                Ok(_) => None,
                Err(wrong) => Some(wrong.to_string()),
            }
        };
        let wrong = self.repositories.iter().find_map(wrong)?;
        Some(format!("github.repositories: {wrong}"))
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
        if self.kept_for().is_none() {
            let message = "github.keep_runs must be a duration: a number and s, m, h or d";
            problems.push(message.to_owned());
        }
        if self.app_id.is_empty() != self.app_private_key.is_empty() {
            let message = "github.app_id and github.app_private_key belong together; set both or \
                           neither";
            problems.push(message.to_owned());
        }
        let api_url = self.api_url.to_ascii_lowercase();
        let is_http = ["http://", "https://"]
            .iter()
            .any(|scheme| api_url.starts_with(scheme));
        if !is_http {
            problems.push("github.api_url must begin with https:// or http://".to_owned());
        }
        if self.full_after().is_none() {
            let message = "github.full_every must be a duration: a number and s, m, h or d";
            problems.push(message.to_owned());
        }
        if let Err(wrong) = crate::streams::selected(&self.streams) {
            problems.push(format!("github.streams: {wrong}"));
        }
        problems.extend(self.wrong_repository());
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

/// A number and `s`, `m`, `h` or `d`.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(seconds).map(Duration::from_secs)
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
        assert_eq!(config.kept_for(), Some(settings.keep_runs));
        assert_eq!(config.full_after(), Some(settings.full_every));
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
        let text = "page_size = 101\nconcurrency = 0\nkeep_runs = \"soon\"\n\
            api_url = \"api.github.com\"\n\
            schedule = [{ login = \"octocat\", cron = \"0 3 * * *\" }, { login = \"octocat\" }]";
        let config = read(text);
        assert_eq!(
            config.problems(),
            [
                "github.page_size must be between 1 and 100; the API gives no more",
                "github.concurrency must be more than 0",
                "github.keep_runs must be a duration: a number and s, m, h or d",
                "github.api_url must begin with https:// or http://",
                "github.schedule, entry 2: write { login = \"octocat\", cron = \"0 3 * * *\" }",
            ]
        );
        assert_eq!(
            config.scheduled().collect::<Vec<_>>(),
            [("octocat", "0 3 * * *")]
        );
        for (repositories, word) in [
            ("[\"api\"]", "\"api\" is not OWNER/NAME"),
            ("[\"octocat/a b\"]", "write NAME or OWNER/NAME"),
        ] {
            let config = read(&format!("repositories = {repositories}"));
            let problems = config.problems();
            assert!(
                problems.len() == 1 && problems[0].contains(word),
                "{problems:?}"
            );
        }
        for text in [
            "repositories = [\"a/b\", \"c/d\"]",
            "api_url = \"HTTPS://API.GitHub.com:443/\"",
        ] {
            assert_eq!(read(text).problems(), [""; 0], "{text}");
        }
        let more = "schedule = [{ login = \"a\", cron = \"0 3 * * *\", shadow = true }]";
        assert_eq!(read(more).problems().len(), 1);
    }
}
