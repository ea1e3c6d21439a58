//! How long a request waits: `Prefer` (RFC 7240), else `?wait=`, else a default.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use clinch_core::TimeBudget;

use super::problem::Problem;
use crate::config::Span;

/// How long to wait, and the preferences that the answer confirms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) budget: Duration,
    pub(crate) applied: Option<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Preferences {
    respond_async: bool,
    wait: Option<u64>,
}

impl Wait {
    /// The wait by the headers and the query's `wait`; `otherwise` if neither is given.
    pub(crate) fn of(
        headers: &HeaderMap,
        query: Option<&str>,
        otherwise: Duration,
    ) -> Result<Self, Problem> {
        let preferred = Preferences::of(headers);
        let asked = query.map(read).transpose()?;
        let clamp = |wait: Duration| wait.min(TimeBudget::MAX);
        let budget = match (preferred.wait, asked) {
            (Some(secs), _) => clamp(Duration::from_secs(secs)),
            (None, Some(asked)) => clamp(asked),
            (None, None) if preferred.respond_async => Duration::ZERO,
            (None, None) => otherwise,
        };
        let respond_async = preferred.respond_async.then(|| "respond-async".to_owned());
        let wait = preferred.wait.map(|_| format!("wait={}", budget.as_secs()));
        let applied: Vec<String> = respond_async.into_iter().chain(wait).collect();
        Ok(Self {
            budget,
            applied: (!applied.is_empty()).then(|| applied.join(", ")),
        })
    }

    /// Confirms in the answer which preferences were applied.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let applied = self.applied.as_deref();
        if let Some(Ok(applied)) = applied.map(HeaderValue::from_str) {
            headers.insert("preference-applied", applied);
        }
    }
}

/// `2s`, `500ms`, or a number of seconds.
fn read(text: &str) -> Result<Duration, Problem> {
    if let Ok(secs) = text.parse::<u64>() {
        return Ok(Duration::from_secs(secs));
    }
    let span: Result<Span, _> = text.parse();
    span.map(|span| span.0)
        .map_err(|_| Problem::request("wait must be a duration such as 2s or 500ms").field("wait"))
}

impl Preferences {
    /// The first preference of each name counts; unknown preferences are ignored, as the RFC
    /// requires.
    fn of(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        let mut seen_wait = false;
        for header in headers.get_all("prefer") {
            let Ok(text) = header.to_str() else { continue };
            for preference in split_unquoted(text, ',') {
                let preference = split_unquoted(preference, ';');
                let first = preference.first().copied().unwrap_or_default();
                let (name, value) = first.split_once('=').unwrap_or((first, ""));
                let value = value.trim().trim_matches('"');
                match name.trim().to_ascii_lowercase().as_str() {
                    "respond-async" => found.respond_async = true,
                    "wait" if !seen_wait => {
                        seen_wait = true;
                        let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
                        // A number with too many digits is still a long wait.
                        found.wait = digits.then(|| value.parse().unwrap_or(u64::MAX));
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

/// Splits at separators outside quotes.
fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = text.split(move |c: char| {
        let splits = c == separator && !quoted;
        match c {
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = quoted && c == '\\' && !escaped;
        splits
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(prefer: &[&str], query: Option<&str>) -> (u128, Option<String>) {
        let mut headers = HeaderMap::new();
        for one in prefer {
            headers.append("prefer", HeaderValue::from_str(one).expect("a header"));
        }
        let wait = Wait::of(&headers, query, TimeBudget::DEFAULT.get()).expect("valid");
        (wait.budget.as_millis(), wait.applied)
    }

    #[test]
    fn core_8_the_budget_is_preferred_asked_for_or_two_seconds() {
        let applied = |text: &str| Some(text.to_owned());
        assert_eq!(wait(&[], None), (2_000, None));
        assert_eq!(wait(&[], Some("5s")), (5_000, None));
        assert_eq!(wait(&[], Some("0")), (0, None));
        assert_eq!(wait(&[], Some("10m")), (60_000, None));
        assert_eq!(wait(&["wait=7"], Some("5s")), (7_000, applied("wait=7")));
        assert_eq!(wait(&["WAIT=\"7\""], None), (7_000, applied("wait=7")));
        assert_eq!(wait(&["wait=0"], None), (0, applied("wait=0")));
        assert_eq!(wait(&["wait=600"], None), (60_000, applied("wait=60")));
        assert_eq!(
            wait(&["respond-async"], None),
            (0, applied("respond-async"))
        );
        let both = applied("respond-async, wait=3");
        assert_eq!(
            wait(&["respond-async, wait=3"], None),
            (3_000, both.clone())
        );
        assert_eq!(
            wait(&["wait=3; x=\"a,wait=9\"", "respond-async"], None),
            (3_000, both)
        );
        assert_eq!(wait(&["wait=soon"], None), (2_000, None));
        assert_eq!(wait(&["return=minimal"], None), (2_000, None));
    }
}
