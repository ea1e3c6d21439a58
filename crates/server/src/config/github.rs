//! `[github]`: what contradicts itself in it.

use clinch::Error;
use toml::Value;

use super::{Github, wrong};

impl Github {
    /// Users and their times, as they are written.
    pub fn scheduled(&self) -> impl Iterator<Item = (&str, &str)> {
        self.schedule.iter().filter_map(|entry| {
            let text = |key| entry.get(key).and_then(Value::as_str);
            Some((text("login")?, text("cron")?))
        })
    }

    pub(super) fn problems(&self) -> Vec<Error> {
        let mut problems = Vec::new();
        if !(1..=100).contains(&self.page_size) {
            let message = "github.page_size must be between 1 and 100; the API gives no more";
            problems.push(wrong(message.to_owned()));
        }
        if self.concurrency == 0 {
            let message = "github.concurrency must be more than 0";
            problems.push(wrong(message.to_owned()));
        }
        let is_http = ["http://", "https://"]
            .iter()
            .any(|scheme| self.api_url.starts_with(scheme));
        if !is_http {
            let message = "github.api_url must begin with https:// or http://";
            problems.push(wrong(message.to_owned()));
        }
        for (number, entry) in (1..).zip(&self.schedule) {
            let has = |key: &str| entry.get(key).is_some_and(Value::is_str);
            if !has("login") || !has("cron") || entry.len() != 2 {
                problems.push(wrong(format!(
                    "github.schedule, entry {number}: write {{ login = \"octocat\", cron = \"0 3 * * *\" }}"
                )));
            }
        }
        problems
    }
}
