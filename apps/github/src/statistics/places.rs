//! Which places have to be computed again, and their computation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use clinch::Result;
use clinch::ports::{DOCUMENTS_MAX, DocumentFilter};

use super::activity::Activity;
pub(crate) use super::activity::WEEKS_MAX;
use super::count::{Counter, KINDS};
use super::records::Place;
use super::week::Week;
use crate::collector::{Collector, Inner};
use crate::model::{Job, JobState, RunId, Space};

/// Documents that are read at once, with their bodies.
const SCAN: usize = 200;

/// The weekly figures of a user or of one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeeklyStatistics {
    /// The latest weeks up to the present one, oldest first.
    pub weeks: Vec<(Week, Activity)>,
    /// The sum of these weeks.
    pub total: Activity,
    /// The sum of all weeks.
    pub all_time: Activity,
    /// Bytes of code by language.
    pub languages: BTreeMap<String, u64>,
    /// Number of repositories with documents.
    pub repositories: u64,
    /// Repositories, or the user, whose documents changed since their figures were computed.
    pub stale: u64,
}

/// The places of a run's jobs.
#[derive(Debug, Default)]
pub(crate) struct SeenPlaces {
    /// Of all its jobs.
    visited: BTreeSet<String>,
    /// Of jobs that stored documents which count.
    changed: BTreeSet<String>,
}

impl SeenPlaces {
    pub(crate) fn see(&mut self, job: &Job) {
        let place = job.resource.split('#').next().unwrap_or_default();
        self.visited.insert(place.to_owned());
        let stored = job.done.as_ref().is_some_and(|done| done.documents > 0);
        // A failed job may have stored documents before it failed.
        let may_have_changed = stored || job.state == JobState::Failed;
        if may_have_changed && KINDS.contains(&job.kind.document()) {
            self.changed.insert(place.to_owned());
        }
    }

    /// Whether it was a run through the repositories.
    fn has_repositories(&self) -> bool {
        self.visited.iter().any(|place| place.starts_with("repo:"))
    }
}

impl Inner {
    /// Marks the places whose documents a run or repair has changed. `is_whole`: the run has
    /// visited every repository that the user has.
    pub(crate) async fn mark_changed(
        &self,
        run_id: &RunId,
        seen: &SeenPlaces,
        is_whole: bool,
    ) -> Result<()> {
        let (space, login) = (run_id.space, &run_id.login);
        let mut stale: BTreeSet<&str> = seen.changed.iter().map(String::as_str).collect();
        let known = match is_whole && seen.has_repositories() {
            true => self.records.places(space, login).await?,
            false => Vec::new(),
        };
        // A repository that was renamed or transferred has left its documents to its new name.
        let is_left = |place: &&Place| {
            let is_visited = seen.visited.contains(&place.name);
            place.repository().is_some() && !is_visited && !place.is_empty
        };
        stale.extend(
            known
                .iter()
                .filter(is_left)
                .map(|place| place.name.as_str()),
        );
        self.records.mark_places(space, login, stale).await
    }

    /// Computes the weeks of the marked places. `kinds`: those that the user has documents of.
    pub(crate) async fn count_marked(
        &self,
        run_id: &RunId,
        kinds: &BTreeMap<String, u64>,
    ) -> Result<()> {
        let (space, login) = (run_id.space, run_id.login.as_str());
        if !self.records.are_places_listed(space, login).await? {
            // An earlier release stored documents without marks. The first run has only marks.
            if run_id.number > 1 {
                self.mark_all(space, login).await?;
            }
            self.records.note_places_listed(space, login).await?;
        }
        let places = self.records.places(space, login).await?;
        let stale: Vec<&Place> = places.iter().filter(|place| place.is_stale).collect();
        let taken = AtomicUsize::new(0);
        // The store reads the documents of one place while those of another are counted.
        let lane = || async {
            while let Some(place) = stale.get(taken.fetch_add(1, Ordering::Relaxed)) {
                self.count_place(space, login, place, kinds).await?;
            }
            Ok::<_, clinch::Error>(())
        };
        tokio::try_join!(lane(), lane(), lane(), lane())?;
        Ok(())
    }

    /// Computes the weeks of one place.
    async fn count_place(
        &self,
        space: Space,
        login: &str,
        place: &Place,
        kinds: &BTreeMap<String, u64>,
    ) -> Result<()> {
        let mut counter = Counter::new(login);
        for kind in KINDS.iter().filter(|kind| kinds.contains_key(**kind)) {
            self.count_kind(space, login, &place.name, kind, &mut counter)
                .await?;
        }
        let present = Week::of_seconds(self.clock.now().as_millis() / 1_000);
        let weeks = counter.finish().map(|mut weeks| {
            weeks.fold(present);
            weeks
        });
        // If the place was marked again, the statistics of that run or repair compute it.
        self.records.note_weeks(space, login, place, weeks).await?;
        Ok(())
    }

    async fn count_kind(
        &self,
        space: Space,
        login: &str,
        place: &str,
        kind: &str,
        counter: &mut Counter,
    ) -> Result<()> {
        let filter = DocumentFilter {
            user: Some(login.to_owned()),
            kind: Some(kind.to_owned()),
            resource: Some(place.to_owned()),
        };
        let mut after = None;
        loop {
            let page = self
                .sink(space)
                .scan(space.collection(), &filter, after.as_deref(), SCAN)
                .await?;
            for document in &page {
                counter.see(kind, &document.body);
            }
            match page.last() {
                Some(last) if page.len() == SCAN => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Marks every place of a user that has documents.
    async fn mark_all(&self, space: Space, login: &str) -> Result<()> {
        let filter = DocumentFilter {
            user: Some(login.to_owned()),
            ..DocumentFilter::default()
        };
        let (mut places, mut after) = (BTreeSet::new(), None);
        loop {
            let page = self
                .sink(space)
                .list(space.collection(), &filter, after.as_deref(), DOCUMENTS_MAX)
                .await?;
            let is_last = page.len() < DOCUMENTS_MAX;
            after = page.last().map(|one| one.id.clone());
            places.extend(page.into_iter().map(|one| one.resource));
            if is_last {
                break;
            }
        }
        let places = places.iter().map(String::as_str);
        self.records.mark_places(space, login, places).await
    }
}

impl Collector {
    /// The latest `weeks` weeks of a user, or of one of its repositories, named with or without its
    /// owner. `None`: there is no such repository.
    pub async fn weekly(
        &self,
        login: &str,
        space: Space,
        repository: Option<&str>,
        weeks: usize,
    ) -> Result<Option<WeeklyStatistics>> {
        let login = login.to_ascii_lowercase();
        let records = &self.inner.records;
        let mut places = records.places(space, &login).await?;
        if let Some(wanted) = repository {
            let is_it = |full: &str| {
                let name = full.rsplit('/').next().unwrap_or_default();
                full.eq_ignore_ascii_case(wanted) || name.eq_ignore_ascii_case(wanted)
            };
            places.retain(|place| !place.is_empty && place.repository().is_some_and(is_it));
            if places.is_empty() {
                return Ok(None);
            }
        }
        let sum = records.weeks(space, &login, &places).await?;
        let present = Week::of_seconds(self.inner.clock.now().as_millis() / 1_000);
        let weeks = sum.latest(present, weeks.min(WEEKS_MAX));
        let mut total = Activity::default();
        weeks.iter().for_each(|(_, one)| total.merge(one));
        let has_documents = |place: &&Place| place.repository().is_some() && !place.is_empty;
        Ok(Some(WeeklyStatistics {
            weeks,
            total,
            all_time: sum.total(),
            languages: sum.into_languages(),
            repositories: places.iter().filter(has_documents).count() as u64,
            stale: places.iter().filter(|place| place.is_stale).count() as u64,
        }))
    }
}
