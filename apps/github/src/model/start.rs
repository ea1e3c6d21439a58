//! How a run begins, which repositories it reads, and of which time.

use serde::{Deserialize, Serialize};

use super::{InvalidText, Space, login, repository_name};
use crate::streams::JobKind;

/// Repositories that one run may name. Every job reads its run, so that the list must stay short; a
/// search selects more.
const REPOSITORIES_MAX: usize = 500;

/// Longest search, in characters: GitHub's limit.
const SEARCH_CHARS_MAX: usize = 256;

/// Why a run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Trigger {
    /// A person or a program requested it.
    #[default]
    Manual,
    /// The schedule started it.
    Scheduled,
    /// Another service requested it, after a signup for example.
    Event,
}

/// How a run begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Start {
    /// Why it begins.
    pub trigger: Trigger,
    /// Where its documents go.
    pub space: Space,
    /// Read everything, not only what changed, so that what is gone is noticed.
    pub is_full: bool,
    /// What to collect; empty: what the settings say.
    pub streams: Vec<JobKind>,
    /// Which repositories to read; the default: what the settings say.
    pub selection: Selection,
    /// The time that it is bounded to.
    pub bounds: Bounds,
}

/// Which of a user's repositories a run reads; the default: all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Selection {
    /// Names without their owner, in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) repositories: Vec<String>,
    /// A search of GitHub, whose results are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) search: Option<String>,
}

impl Selection {
    /// The repositories of these names, `NAME` or `OWNER/NAME`, or those that a search finds. `Err`:
    /// another user owns one, or a text is none of these.
    pub fn new(
        user: &str,
        repositories: &[String],
        search: Option<&str>,
    ) -> Result<Self, InvalidText> {
        if search.is_some() && !repositories.is_empty() {
            let message = "select repositories by name or by a search, not by both";
            return Err(InvalidText(message.to_owned()));
        }
        if repositories.len() > REPOSITORIES_MAX {
            let message = format!(
                "a run takes at most {REPOSITORIES_MAX} names of repositories; use a search"
            );
            return Err(InvalidText(message));
        }
        let names = repositories.iter().map(|text| own(user, text));
        let mut names = names.collect::<Result<Vec<_>, _>>()?;
        names.sort();
        names.dedup();
        let search = search.map(|text| searched(user, text)).transpose()?;
        Ok(Self {
            repositories: names,
            search,
        })
    }

    /// Of names `OWNER/NAME`, those of this user.
    pub(crate) fn configured(user: &str, repositories: &[String]) -> Result<Self, InvalidText> {
        let is_own = |text: &&String| {
            let owner = text.split_once('/').map(|(owner, _)| owner);
            owner.is_some_and(|owner| owner.eq_ignore_ascii_case(user))
        };
        let own: Vec<String> = repositories.iter().filter(is_own).cloned().collect();
        Self::new(user, &own, None)
    }

    /// Whether every repository is read.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Names of the selected repositories, without their owner; empty: all, or those of a search.
    pub fn repositories(&self) -> &[String] {
        &self.repositories
    }

    /// The search.
    pub fn search(&self) -> Option<&str> {
        self.search.as_deref()
    }

    /// Whether a repository of the user's list is read, by `OWNER/NAME`. What a search selects is
    /// known by its results only.
    pub(crate) fn has(&self, full_name: &str) -> bool {
        let name = full_name.rsplit('/').next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        self.is_all() || self.repositories.binary_search(&name).is_ok()
    }
}

/// The time that a run is bounded to, both ends included; the default: all time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bounds {
    /// In GitHub's form, so that times are compared as texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
}

impl Bounds {
    /// From and to these times: RFC 3339, or a day in UTC, of which the whole day counts.
    pub fn new(since: Option<&str>, until: Option<&str>) -> Result<Self, InvalidText> {
        let since = since.map(|text| time(text, (0, 0, 0))).transpose()?;
        let until = until.map(|text| time(text, (23, 59, 59))).transpose()?;
        if since.is_some() && until.is_some() && since > until {
            return Err(InvalidText("since must not be later than until".to_owned()));
        }
        Ok(Self { since, until })
    }

    /// Whether nothing is left out.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// The earliest time.
    pub fn since(&self) -> Option<&str> {
        self.since.as_deref()
    }

    /// The latest time.
    pub fn until(&self) -> Option<&str> {
        self.until.as_deref()
    }

    /// Whether an item of this time is collected. An item without a time always is.
    pub(crate) fn hold(&self, at: Option<&str>) -> bool {
        let Some(at) = at else { return true };
        let is_before = self.since().is_some_and(|since| at < since);
        !is_before && !self.is_past(at)
    }

    /// Whether this time is too late.
    pub(crate) fn is_past(&self, at: &str) -> bool {
        self.until().is_some_and(|until| at > until)
    }
}

/// A time in GitHub's form, of a time or a day.
fn time(text: &str, (hour, minute, second): (i8, i8, i8)) -> Result<String, InvalidText> {
    let wrong = || {
        InvalidText(format!(
            "{text:?} is no time; write 2026-01-31 or 2026-01-31T08:00:00Z"
        ))
    };
    let is_day = text.len() == "2026-01-31".len();
    let at: jiff::Timestamp = match is_day {
        true => {
            let day: jiff::civil::Date = text.parse().map_err(|_| wrong())?;
            let at = day.at(hour, minute, second, 0);
            at.to_zoned(jiff::tz::TimeZone::UTC)
                .map_err(|_| wrong())?
                .timestamp()
        }
        false => text.parse().map_err(|_| wrong())?,
    };
    Ok(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// The name of a user's own repository, in lower case: GitHub ignores case.
fn own(user: &str, text: &str) -> Result<String, InvalidText> {
    let (owner, name) = text.split_once('/').unwrap_or((user, text));
    let is_login = login(owner).is_ok();
    if !is_login || !repository_name(name) {
        return Err(InvalidText(format!(
            "{text:?} is no repository; write NAME or OWNER/NAME"
        )));
    }
    if !owner.eq_ignore_ascii_case(user) {
        return Err(InvalidText(format!(
            "{text} is not a repository of {user}; a run reads repositories of its own user, so \
             start a run of {owner}"
        )));
    }
    Ok(name.to_ascii_lowercase())
}

/// A search within the user's repositories. GitHub joins several owners by "or".
fn searched(user: &str, text: &str) -> Result<String, InvalidText> {
    let text = text.trim();
    let is_long = text.chars().count() > SEARCH_CHARS_MAX;
    if text.is_empty() || is_long || text.chars().any(char::is_control) {
        return Err(InvalidText(format!(
            "a search is 1 to {SEARCH_CHARS_MAX} characters, such as language:rust"
        )));
    }
    for word in text.split_whitespace() {
        let (qualifier, value) = word.split_once(':').unwrap_or_default();
        let owner = value.trim_matches('"').split('/').next();
        let owner = owner.unwrap_or_default();
        let names_owner = ["user", "org", "repo"]
            .iter()
            .any(|one| qualifier.eq_ignore_ascii_case(one));
        if names_owner && !owner.eq_ignore_ascii_case(user) {
            return Err(InvalidText(format!(
                "the search names {owner}, and a run reads repositories of its own user; start a \
                 run of {owner}"
            )));
        }
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(repositories: &[&str]) -> Vec<String> {
        repositories.iter().map(|one| (*one).to_owned()).collect()
    }

    #[test]
    fn repositories_are_named_with_or_without_their_owner() {
        let list = names(&["Hello.World", "OctoCat/api", "api"]);
        let selection = Selection::new("octocat", &list, None).expect("names");
        assert_eq!(selection.repositories(), ["api", "hello.world"]);
        for (name, is_selected) in [
            ("octocat/Hello.World", true),
            ("octocat/API", true),
            ("octocat/hello", false),
        ] {
            assert_eq!(selection.has(name), is_selected, "{name}");
        }
        assert!(Selection::default().has("octocat/anything"));
        let configured = names(&["acme/api", "octocat/web"]);
        let own = Selection::configured("octocat", &configured).expect("names");
        assert_eq!(own.repositories(), ["web"]);
        let none = Selection::configured("hubot", &configured).expect("names");
        assert!(none.is_all());
    }

    #[test]
    fn bounds_are_times_or_whole_days() {
        let bounds = Bounds::new(Some("2026-01-01"), Some("2026-01-31")).expect("days");
        assert_eq!(bounds.since(), Some("2026-01-01T00:00:00Z"));
        assert_eq!(bounds.until(), Some("2026-01-31T23:59:59Z"));
        for (at, is_held) in [
            ("2025-12-31T23:59:59Z", false),
            ("2026-01-01T00:00:00Z", true),
            ("2026-01-31T23:59:59Z", true),
            ("2026-02-01T00:00:00Z", false),
        ] {
            assert_eq!(bounds.hold(Some(at)), is_held, "{at}");
        }
        assert!(bounds.hold(None));
        let time = Bounds::new(Some("2026-01-01T09:00:00+09:00"), None).expect("a time");
        assert_eq!(time.since(), Some("2026-01-01T00:00:00Z"));
        assert!(Bounds::new(None, None).expect("none").is_all());
        for (since, until) in [
            (Some("yesterday"), None),
            (None, Some("2026-02-30")),
            (Some("2026-01-01T00:00:00"), None),
            (Some("2026-02-01"), Some("2026-01-31")),
        ] {
            assert!(Bounds::new(since, until).is_err(), "{since:?} {until:?}");
        }
    }

    #[test]
    fn a_selection_of_other_owners_is_refused_with_what_to_do() {
        let refused = |list: &[&str], search: Option<&str>| {
            let selection = Selection::new("octocat", &names(list), search);
            selection.expect_err("refused").to_string()
        };
        assert!(refused(&["acme/api"], None).contains("start a run of acme"));
        assert!(refused(&[], Some("org:acme rust")).contains("start a run of acme"));
        assert!(refused(&[], Some("repo:acme/api")).contains("start a run of acme"));
        for wrong in ["", "a b", "a/b/c", "..", "octocat/"] {
            assert!(
                refused(&[wrong], None).contains("NAME or OWNER/NAME"),
                "{wrong}"
            );
        }
        assert!(refused(&["api"], Some("rust")).contains("not by both"));
        assert!(refused(&[], Some("  ")).contains("1 to 256"));
        assert!(refused(&[], Some(&"x".repeat(257))).contains("1 to 256"));
        let many: Vec<String> = (0..501).map(|n| format!("r{n}")).collect();
        let many = Selection::new("octocat", &many, None).expect_err("too many");
        assert!(many.to_string().contains("at most 500"), "{many}");
        let own = Selection::new("octocat", &[], Some("org:OctoCat language:rust"));
        assert_eq!(
            own.expect("own").search(),
            Some("org:OctoCat language:rust")
        );
    }
}
