//! What happened in one week, and in all weeks of a place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::durations::Durations;
use super::week::Week;

/// Weeks of a place that are kept one by one, up to the present; earlier ones are summed up. Ten
/// years.
pub(crate) const WEEKS_MAX: usize = 520;
/// Weeks after the present that are kept one by one: a commit has the date that its author's clock
/// said.
const FUTURE_WEEKS_MAX: usize = 52;
/// Names that one place counts apart, of languages or of a week's types of events. GitHub has
/// about twenty types of events.
const NAMES_MAX: usize = 100;
/// A longer name is counted as another.
const NAME_BYTES_MAX: usize = 64;
/// Stands for all names that are not counted apart.
const OTHER: &str = "other";

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What happened in a week.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// Commits, by the date of the committer.
    #[serde(skip_serializing_if = "is_zero")]
    pub commits: u64,
    /// Commits whose author is the user.
    #[serde(skip_serializing_if = "is_zero")]
    pub own_commits: u64,
    /// Issues opened.
    #[serde(skip_serializing_if = "is_zero")]
    pub issues_opened: u64,
    /// Issues closed.
    #[serde(skip_serializing_if = "is_zero")]
    pub issues_closed: u64,
    /// Pull requests opened.
    #[serde(skip_serializing_if = "is_zero")]
    pub pull_requests_opened: u64,
    /// Pull requests merged.
    #[serde(skip_serializing_if = "is_zero")]
    pub pull_requests_merged: u64,
    /// Pull requests closed without a merge.
    #[serde(skip_serializing_if = "is_zero")]
    pub pull_requests_closed: u64,
    /// From the opening to the merge, of the pull requests that were merged in this week.
    #[serde(skip_serializing_if = "Durations::is_empty")]
    pub lead_time: Durations,
    /// From the opening to the first review by another person, of the pull requests whose first
    /// review was in this week.
    #[serde(skip_serializing_if = "Durations::is_empty")]
    pub review_time: Durations,
    /// The user's events by type.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub events: BTreeMap<String, u64>,
}

impl Activity {
    /// Adds what happened elsewhere, or in another week.
    pub fn merge(&mut self, other: &Self) {
        self.commits += other.commits;
        self.own_commits += other.own_commits;
        self.issues_opened += other.issues_opened;
        self.issues_closed += other.issues_closed;
        self.pull_requests_opened += other.pull_requests_opened;
        self.pull_requests_merged += other.pull_requests_merged;
        self.pull_requests_closed += other.pull_requests_closed;
        self.lead_time.merge(&other.lead_time);
        self.review_time.merge(&other.review_time);
        for (name, count) in &other.events {
            add_named(&mut self.events, name, *count);
        }
    }
}

/// Adds to a name's count. Long names, and names beyond [`NAMES_MAX`], count as one.
fn add_named(counts: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    let is_known = counts.contains_key(name);
    let fits = counts.len() < NAMES_MAX && name.len() <= NAME_BYTES_MAX;
    let name = if is_known || fits { name } else { OTHER };
    let sum = counts.entry(name.to_owned()).or_default();
    *sum = sum.saturating_add(count);
}

/// The weeks of a place, or of several.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Weeks {
    weeks: BTreeMap<Week, Activity>,
    /// Earlier weeks, summed up.
    before: Activity,
    /// Weeks far in the future, summed up.
    after: Activity,
    /// Bytes of code by language.
    languages: BTreeMap<String, u64>,
}

impl Weeks {
    /// The activity of a week, to be changed.
    pub(crate) fn at(&mut self, week: Week) -> &mut Activity {
        self.weeks.entry(week).or_default()
    }

    pub(crate) fn add_event(&mut self, week: Week, name: &str) {
        add_named(&mut self.at(week).events, name, 1);
    }

    pub(crate) fn add_language(&mut self, name: &str, bytes: u64) {
        add_named(&mut self.languages, name, bytes);
    }

    /// Adds the weeks of another place.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (week, activity) in &other.weeks {
            self.at(*week).merge(activity);
        }
        self.before.merge(&other.before);
        self.after.merge(&other.after);
        for (name, bytes) in &other.languages {
            self.add_language(name, *bytes);
        }
    }

    /// Sums up the weeks that are not kept one by one, seen from the present week.
    pub(crate) fn fold(&mut self, present: Week) {
        let future = self.weeks.range(present.plus(1)..);
        let last = future.map(|(week, _)| *week).nth(FUTURE_WEEKS_MAX);
        if let Some(last) = last {
            let later = self.weeks.split_off(&last);
            later.values().for_each(|week| self.after.merge(week));
        }
        self.fold_before(present.plus(1 - WEEKS_MAX as i64));
    }

    /// Halves the number of weeks that are kept one by one; false: there are too few.
    pub(crate) fn halve(&mut self) -> bool {
        let middle = self.weeks.keys().nth(self.weeks.len() / 2).copied();
        let middle = middle.filter(|_| self.weeks.len() > 1);
        middle.is_some_and(|middle| {
            self.fold_before(middle);
            true
        })
    }

    fn fold_before(&mut self, first: Week) {
        let kept = self.weeks.split_off(&first);
        let earlier = std::mem::replace(&mut self.weeks, kept);
        earlier.values().for_each(|week| self.before.merge(week));
    }

    /// The latest `count` weeks up to the present one, also those without any activity.
    pub(crate) fn latest(&self, present: Week, count: usize) -> Vec<(Week, Activity)> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let weeks = (0..count).rev().map(|ago| present.plus(-ago));
        let activity = |week: Week| self.weeks.get(&week).cloned().unwrap_or_default();
        weeks.map(|week| (week, activity(week))).collect()
    }

    /// Everything, whenever it happened.
    pub(crate) fn total(&self) -> Activity {
        let mut total = self.before.clone();
        self.weeks.values().for_each(|week| total.merge(week));
        total.merge(&self.after);
        total
    }

    pub(crate) fn into_languages(self) -> BTreeMap<String, u64> {
        self.languages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn week(text: &str) -> Week {
        text.parse().expect("a week")
    }

    /// One commit in each of these weeks.
    fn commits(weeks: impl IntoIterator<Item = Week>) -> Weeks {
        let mut all = Weeks::default();
        weeks.into_iter().for_each(|week| all.at(week).commits += 1);
        all
    }

    #[test]
    fn old_and_absurd_weeks_are_summed_up_and_nothing_is_lost() {
        let present = week("2026-11-16");
        let weeks = (-1_000..1_000).map(|ago| present.plus(ago));
        let mut all = commits(weeks);
        all.fold(present);
        assert_eq!(all.weeks.len(), WEEKS_MAX + FUTURE_WEEKS_MAX);
        assert_eq!((all.before.commits, all.after.commits), (481, 947));
        assert_eq!(all.total().commits, 2_000);
        let before = all.clone();
        all.fold(present);
        assert_eq!(all, before, "folding twice changes nothing");
        let latest = all.latest(present, WEEKS_MAX);
        assert_eq!(latest.len(), WEEKS_MAX);
        assert!(latest.iter().all(|(_, activity)| activity.commits == 1));
        assert_eq!(latest.last().map(|(week, _)| *week), Some(present));
    }

    #[test]
    fn commits_of_the_future_do_not_drive_out_the_present() {
        let present = week("2026-11-16");
        let mut all = commits((0..600).map(|ahead| present.plus(ahead)));
        all.fold(present);
        let latest = all.latest(present, 2);
        let counts: Vec<u64> = latest.iter().map(|(_, one)| one.commits).collect();
        assert_eq!(counts, [0, 1]);
        assert_eq!(all.total().commits, 600);
    }

    #[test]
    fn halving_keeps_the_latest_weeks_and_ends() {
        let present = week("2026-11-16");
        let mut all = commits((0..9).map(|ago| present.plus(-ago)));
        assert!(all.halve());
        assert_eq!(all.weeks.len(), 5);
        while all.halve() {}
        assert_eq!(all.weeks.keys().collect::<Vec<_>>(), [&present]);
        assert_eq!(all.total().commits, 9);
    }

    #[test]
    fn names_are_bounded_in_number_and_length() {
        let mut all = Weeks::default();
        for n in 0..150 {
            all.add_language(&format!("language {n:03}"), 2);
        }
        all.add_language(&"x".repeat(1_000), 5);
        all.add_language("language 000", u64::MAX);
        assert_eq!(all.languages.len(), NAMES_MAX + 1);
        assert_eq!(all.languages.get(OTHER), Some(&105));
        assert_eq!(all.languages.get("language 000"), Some(&u64::MAX));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut all = commits([week("2026-11-16"), week("2026-11-09")]);
        all.at(week("2026-11-16")).lead_time.add(90);
        all.add_event(week("2026-11-16"), "PushEvent");
        all.add_language("Rust", 7);
        let text = serde_json::to_string(&all).expect("JSON");
        assert_eq!(serde_json::from_str::<Weeks>(&text).ok(), Some(all));
        assert!(!text.contains("issues_opened"), "{text}");
    }
}
