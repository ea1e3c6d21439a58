//! Counts the documents of one place by week. Pure: documents in, weeks out.
//!
//! A document is GitHub's, and may lack anything: whatever is missing, or is of another type, is
//! not counted, and is never an error.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde::de::MapAccess;

use super::activity::Weeks;
use super::lenient::{Lenient, Time, Value, fields};

/// The kinds of documents that are counted.
pub(crate) const KINDS: [&str; 6] = [
    "commit",
    "issue",
    "pull_request",
    "review",
    "event",
    "languages",
];

/// The fields that matter, of documents of any kind.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    number: Lenient<u64>,
    created_at: Lenient<Time>,
    closed_at: Lenient<Time>,
    merged_at: Lenient<Time>,
    submitted_at: Lenient<Time>,
    user: Lenient<Person>,
    author: Lenient<Person>,
    commit: Lenient<Commit>,
    #[serde(rename = "type")]
    event_type: Lenient<String>,
    pull_request_url: Lenient<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Person {
    id: Lenient<u64>,
    login: Lenient<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Commit {
    committer: Lenient<Signature>,
    author: Lenient<Signature>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Signature {
    date: Lenient<Time>,
}

impl Value for Person {
    fn of_object<'de, A: MapAccess<'de>>(object: A) -> Result<Option<Self>, A::Error> {
        fields(object)
    }
}

impl Value for Commit {
    fn of_object<'de, A: MapAccess<'de>>(object: A) -> Result<Option<Self>, A::Error> {
        fields(object)
    }
}

impl Value for Signature {
    fn of_object<'de, A: MapAccess<'de>>(object: A) -> Result<Option<Self>, A::Error> {
        fields(object)
    }
}

/// What the time to the first review needs of a pull request.
struct Opened {
    at: Time,
    by: Option<u64>,
}

/// Counts the documents of one place, in any order.
pub(crate) struct Counter {
    /// The user whose own commits are counted.
    login: String,
    weeks: Weeks,
    /// Documents that were seen.
    documents: u64,
    opened: HashMap<u64, Opened>,
    /// The first review of each pull request by each person.
    reviews: HashMap<(u64, Option<u64>), Time>,
}

impl Counter {
    pub(crate) fn new(login: &str) -> Self {
        Self {
            login: login.to_owned(),
            weeks: Weeks::default(),
            documents: 0,
            opened: HashMap::new(),
            reviews: HashMap::new(),
        }
    }

    /// Counts a document of one of the [`KINDS`].
    pub(crate) fn see(&mut self, kind: &str, text: &str) {
        self.documents += 1;
        if kind == "languages" {
            return self.see_languages(text);
        }
        let Ok(body) = serde_json::from_str::<Body>(text) else {
            return;
        };
        match kind {
            "commit" => self.see_commit(&body),
            "issue" => self.see_issue(&body),
            "pull_request" => self.see_pull_request(&body),
            "review" => self.see_review(&body),
            "event" => self.see_event(&body),
            _ => {}
        }
    }

    /// The weeks; `None`: there was no document.
    pub(crate) fn finish(mut self) -> Option<Weeks> {
        let mut first: BTreeMap<u64, Time> = BTreeMap::new();
        for ((number, by), at) in &self.reviews {
            let opened = self.opened.get(number);
            // Comments of the author are reviews too, for GitHub.
            let is_own = by.is_some() && opened.is_some_and(|opened| opened.by == *by);
            if !is_own {
                let first = first.entry(*number).or_insert(*at);
                *first = (*first).min(*at);
            }
        }
        for (number, at) in first {
            let opened = self.opened.get(&number);
            if let Some(minutes) = opened.and_then(|opened| at.minutes_since(opened.at)) {
                self.weeks.at(at.week()).review_time.add(minutes);
            }
        }
        (self.documents > 0).then_some(self.weeks)
    }

    fn see_commit(&mut self, body: &Body) {
        let date = |signature: &Lenient<Signature>| signature.0.as_ref()?.date.0;
        let dates = body.commit.0.as_ref();
        let date = dates.and_then(|commit| date(&commit.committer).or(date(&commit.author)));
        let Some(date) = date else {
            return;
        };
        let login = body.author.0.as_ref();
        let login = login.and_then(|one| one.login.0.as_deref());
        let is_own = login.is_some_and(|login| login.eq_ignore_ascii_case(&self.login));
        let week = self.weeks.at(date.week());
        week.commits += 1;
        week.own_commits += u64::from(is_own);
    }

    fn see_issue(&mut self, body: &Body) {
        if let Some(at) = body.created_at.0 {
            self.weeks.at(at.week()).issues_opened += 1;
        }
        if let Some(at) = body.closed_at.0 {
            self.weeks.at(at.week()).issues_closed += 1;
        }
    }

    fn see_pull_request(&mut self, body: &Body) {
        if let Some(at) = body.created_at.0 {
            self.weeks.at(at.week()).pull_requests_opened += 1;
            if let Some(number) = body.number.0 {
                let by = body.user.0.as_ref().and_then(|user| user.id.0);
                self.opened.insert(number, Opened { at, by });
            }
        }
        match (body.merged_at.0, body.closed_at.0) {
            (Some(merged), _) => {
                let week = self.weeks.at(merged.week());
                week.pull_requests_merged += 1;
                let opened = body.created_at.0;
                if let Some(minutes) = opened.and_then(|opened| merged.minutes_since(opened)) {
                    week.lead_time.add(minutes);
                }
            }
            (None, Some(closed)) => self.weeks.at(closed.week()).pull_requests_closed += 1,
            (None, None) => {}
        }
    }

    fn see_review(&mut self, body: &Body) {
        let url = body.pull_request_url.0.as_deref();
        let number = url.and_then(|url| url.rsplit('/').next()?.parse().ok());
        // A review that is being written has no time yet.
        let (Some(number), Some(at)) = (number, body.submitted_at.0) else {
            return;
        };
        let by = body.user.0.as_ref().and_then(|user| user.id.0);
        let first = self.reviews.entry((number, by)).or_insert(at);
        *first = (*first).min(at);
    }

    fn see_event(&mut self, body: &Body) {
        if let (Some(name), Some(at)) = (&body.event_type.0, body.created_at.0) {
            self.weeks.add_event(at.week(), name);
        }
    }

    fn see_languages(&mut self, text: &str) {
        let languages: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(text).unwrap_or_default();
        for (name, bytes) in languages {
            if let Some(bytes) = bytes.as_u64() {
                self.weeks.add_language(&name, bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::statistics::activity::Activity;

    fn counted(documents: &[(&str, Value)]) -> Weeks {
        let mut counter = Counter::new("octocat");
        for (kind, body) in documents {
            counter.see(kind, &body.to_string());
        }
        counter.finish().expect("there are documents")
    }

    fn week(weeks: &Weeks, monday: &str) -> Activity {
        let week = monday.parse().expect("a week");
        let mut weeks = weeks.latest(week, 1);
        weeks.pop().expect("one").1
    }

    fn commit(author: &str, authored: &str, committed: &str) -> (&'static str, Value) {
        let body = json!({
            "sha": "1", "author": {"login": author},
            "commit": {"author": {"date": authored}, "committer": {"date": committed}},
        });
        ("commit", body)
    }

    #[test]
    fn commits_count_in_the_week_of_their_committer() {
        let weeks = counted(&[
            commit("OctoCat", "2026-11-01T00:00:00Z", "2026-11-15T23:59:59Z"),
            commit("hubot", "2026-11-16T00:00:00Z", "2026-11-16T00:00:00Z"),
            commit("octocat", "2099-01-01T00:00:00Z", "2099-01-01T00:00:00Z"),
            (
                "commit",
                json!({"commit": {"author": {"date": "2026-11-17T00:00:00+09:00"}}}),
            ),
        ]);
        let before = week(&weeks, "2026-11-09");
        assert_eq!((before.commits, before.own_commits), (1, 1));
        let after = week(&weeks, "2026-11-16");
        assert_eq!((after.commits, after.own_commits), (2, 0));
        assert_eq!(week(&weeks, "2098-12-29").own_commits, 1);
    }

    #[test]
    fn issues_count_when_they_open_and_when_they_close() {
        let weeks = counted(&[
            (
                "issue",
                json!({"created_at": "2026-11-09T08:00:00Z", "closed_at": "2026-11-16T08:00:00Z"}),
            ),
            (
                "issue",
                json!({"created_at": "2026-11-16T08:00:00Z", "closed_at": null}),
            ),
        ]);
        let (first, second) = (week(&weeks, "2026-11-09"), week(&weeks, "2026-11-16"));
        assert_eq!((first.issues_opened, first.issues_closed), (1, 0));
        assert_eq!((second.issues_opened, second.issues_closed), (1, 1));
    }

    #[test]
    fn pull_requests_have_a_lead_time_when_they_are_merged() {
        let pull = |number: u64, merged: Value, closed: Value| {
            let body = json!({
                "number": number, "created_at": "2026-11-10T08:00:00Z",
                "merged_at": merged, "closed_at": closed,
            });
            ("pull_request", body)
        };
        let (next, soon) = (json!("2026-11-17T08:00:00Z"), json!("2026-11-10T09:30:59Z"));
        let weeks = counted(&[
            pull(1, next.clone(), next.clone()),
            pull(2, soon.clone(), soon),
            pull(3, Value::Null, next),
            pull(4, Value::Null, Value::Null),
        ]);
        let first = week(&weeks, "2026-11-09");
        assert_eq!(
            (first.pull_requests_opened, first.pull_requests_merged),
            (4, 1)
        );
        assert_eq!(first.lead_time.median(), Some(90));
        let second = week(&weeks, "2026-11-16");
        assert_eq!(
            (second.pull_requests_merged, second.pull_requests_closed),
            (1, 1)
        );
        assert_eq!(second.lead_time.median(), Some(7 * 24 * 60));
    }

    #[test]
    fn the_review_time_ends_with_the_first_review_by_another_person() {
        let review = |number: u64, by: u64, at: Value| {
            let url = format!("https://api.github.com/repos/octocat/hello/pulls/{number}");
            let body = json!({"user": {"id": by}, "submitted_at": at, "pull_request_url": url});
            ("review", body)
        };
        let pull = |number: u64| {
            let body = json!({
                "number": number, "created_at": "2026-11-10T08:00:00Z", "user": {"id": 1},
            });
            ("pull_request", body)
        };
        // In any order, and with reviews of pull requests that are not there.
        let weeks = counted(&[
            review(7, 2, json!("2026-11-10T12:00:00Z")),
            review(7, 1, json!("2026-11-10T08:05:00Z")),
            review(7, 3, json!("2026-11-10T10:00:00Z")),
            pull(7),
            pull(8),
            review(8, 1, json!("2026-11-10T09:00:00Z")),
            review(8, 2, Value::Null),
            review(9, 2, json!("2026-11-10T09:00:00Z")),
        ]);
        let review = week(&weeks, "2026-11-09").review_time;
        assert_eq!((review.count(), review.median()), (1, Some(120)));
    }

    #[test]
    fn events_and_languages_count_by_name() {
        let event = |name: &str| {
            (
                "event",
                json!({"type": name, "created_at": "2026-11-10T08:00:00Z"}),
            )
        };
        let weeks = counted(&[
            event("PushEvent"),
            event("PushEvent"),
            event("WatchEvent"),
            (
                "languages",
                json!({"Rust": 900, "Shell": 100, "C": "many", "type": -1}),
            ),
        ]);
        let events = week(&weeks, "2026-11-09").events;
        let expected = [("PushEvent".to_owned(), 2), ("WatchEvent".to_owned(), 1)];
        assert_eq!(events, BTreeMap::from(expected));
        let expected = [("Rust".to_owned(), 900), ("Shell".to_owned(), 100)];
        assert_eq!(weeks.into_languages(), BTreeMap::from(expected));
    }

    #[test]
    fn what_is_missing_or_wrong_is_not_counted() {
        let wrong = [
            json!(null),
            json!([]),
            json!({}),
            json!({"created_at": 7, "closed_at": "soon", "number": "7", "user": []}),
            json!({"commit": {"committer": {"date": "2026-13-45T00:00:00Z"}}}),
            json!({"commit": null, "type": {}, "pull_request_url": "https://x/"}),
            json!({"submitted_at": "2026-11-10T08:00:00Z", "pull_request_url": "/pulls/x"}),
        ];
        for kind in KINDS {
            let all: Vec<_> = wrong.iter().map(|body| (kind, body.clone())).collect();
            let weeks = counted(&all);
            assert_eq!(weeks.total(), Activity::default(), "{kind}");
        }
        let mut counter = Counter::new("octocat");
        counter.see("issue", "not JSON");
        assert_eq!(counter.finish(), Some(Weeks::default()));
        assert_eq!(Counter::new("octocat").finish(), None);
        // One wrong field costs one figure.
        let weeks = counted(&[(
            "issue",
            json!({"created_at": false, "closed_at": "2026-11-10T08:00:00Z"}),
        )]);
        assert_eq!(week(&weeks, "2026-11-09").issues_closed, 1);
        // A merge before the opening has no lead time.
        let weeks = counted(&[(
            "pull_request",
            json!({"created_at": "2026-11-10T08:00:00Z", "merged_at": "2026-11-10T07:00:00Z"}),
        )]);
        let total = weeks.total();
        assert_eq!(
            (total.pull_requests_merged, total.lead_time.count()),
            (1, 0)
        );
    }
}
