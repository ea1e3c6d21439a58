//! The records of the statistics: counts of documents, and for each place its weeks and whether they
//! are up to date.

use std::collections::BTreeMap;

use clinch::Result;
use clinch::ports::{Expected, RecordList, RecordWrite};
use clinch::types::Timestamp;
use serde::{Deserialize, Serialize};

use super::activity::Weeks;
use crate::model::Space;
use crate::records::{CollectorRecords, parse, text, write};

/// Places that are read or marked at once.
const PLACES_AT_ONCE: usize = 500;
/// Records of weeks that are read at once: one may be large.
const WEEKS_AT_ONCE: usize = 20;

/// Largest record of weeks. The store takes 1 MiB.
const WEEKS_BYTES_MAX: usize = 1_000_000;

/// What is known of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct PlaceState {
    /// Its documents changed since its weeks were computed.
    is_stale: bool,
    /// It has no documents any more.
    is_empty: bool,
}

/// Statistics of a user, or of all users.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Number of documents by kind.
    pub documents: BTreeMap<String, u64>,
    /// The run or repair that they were last computed for.
    pub made_for: String,
    /// Number of runs and repairs that they were computed for.
    pub runs: u64,
    /// When they were computed.
    pub updated_at: Timestamp,
}

/// A place whose weeks are computed, or will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// `repo:octocat/hello`, or `user:octocat`.
    pub(crate) name: String,
    pub(crate) is_stale: bool,
    pub(crate) is_empty: bool,
    version: u64,
}

impl Place {
    /// `octocat/hello`, if it is a repository.
    pub(crate) fn repository(&self) -> Option<&str> {
        self.name.strip_prefix("repo:")
    }
}

/// The keys of one user's records of a sort.
fn prefix(sort: &str, space: Space, login: &str) -> String {
    format!("{}/{sort}/{login}/", space.collection())
}

/// Tells that all places of a user have been listed once.
fn listed_key(space: Space, login: &str) -> String {
    format!("{}/weeks-listed/{login}", space.collection())
}

fn place_write(
    key: String,
    expected: Expected,
    (is_stale, is_empty): (bool, bool),
) -> Result<RecordWrite> {
    write(key, expected, &PlaceState { is_stale, is_empty })
}

fn figures_key(space: Space, login: Option<&str>) -> String {
    let space = space.collection();
    match login {
        Some(login) => format!("{space}/figures/user/{login}"),
        None => format!("{space}/figures/all"),
    }
}

impl CollectorRecords {
    /// Every place of a user.
    pub(crate) async fn places(&self, space: Space, login: &str) -> Result<Vec<Place>> {
        let prefix = prefix("place", space, login);
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let list = RecordList {
                prefix: prefix.clone(),
                descending: false,
                after,
                limit: PLACES_AT_ONCE,
            };
            let found = self.records.list_records(&list).await?;
            let is_last = found.len() < PLACES_AT_ONCE;
            after = found.last().map(|record| record.key.clone());
            for record in &found {
                let name = record.key.strip_prefix(&prefix).unwrap_or_default();
                let PlaceState { is_stale, is_empty } = parse(record)?;
                all.push(Place {
                    name: name.to_owned(),
                    is_stale,
                    is_empty,
                    version: record.version,
                });
            }
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Marks places: their weeks have to be computed again.
    pub(crate) async fn mark_places<'a>(
        &self,
        space: Space,
        login: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<()> {
        let prefix = prefix("place", space, login);
        // Every mark is a new version, so that a computation that began before does not remove it.
        let mark =
            |name: &str| place_write(format!("{prefix}{name}"), Expected::Anything, (true, false));
        let writes: Result<Vec<RecordWrite>> = names.into_iter().map(mark).collect();
        for writes in writes?.chunks(PLACES_AT_ONCE) {
            self.records.write_records(writes).await?;
        }
        Ok(())
    }

    /// Stores the weeks of a marked place and removes the mark. False: the place was marked again
    /// meanwhile, and nothing is stored. `None`: the place has no documents.
    pub(crate) async fn note_weeks(
        &self,
        space: Space,
        login: &str,
        place: &Place,
        weeks: Option<Weeks>,
    ) -> Result<bool> {
        let name = &place.name;
        let is_empty = weeks.is_none();
        let body = match weeks {
            Some(mut weeks) => {
                let mut body = text(&weeks)?;
                while body.len() > WEEKS_BYTES_MAX && weeks.halve() {
                    body = text(&weeks)?;
                }
                Some(body)
            }
            None => None,
        };
        let writes = [
            place_write(
                prefix("place", space, login) + name,
                Expected::Version(place.version),
                (false, is_empty),
            )?,
            RecordWrite {
                key: prefix("weeks", space, login) + name,
                expected: Expected::Anything,
                body,
            },
        ];
        self.records.write_records(&writes).await
    }

    /// The sum of the weeks of these places.
    pub(crate) async fn weeks<'a>(
        &self,
        space: Space,
        login: &str,
        places: impl IntoIterator<Item = &'a Place>,
    ) -> Result<Weeks> {
        let prefix = prefix("weeks", space, login);
        let places = places.into_iter().filter(|place| !place.is_empty);
        let keys: Vec<String> = places
            .map(|place| format!("{prefix}{}", place.name))
            .collect();
        let mut sum = Weeks::default();
        for keys in keys.chunks(WEEKS_AT_ONCE) {
            let found = self.records.read_records(keys).await?;
            for record in found.iter().flatten() {
                sum.merge(&parse(record)?);
            }
        }
        Ok(sum)
    }

    /// Whether all places of a user have been listed once.
    pub(crate) async fn are_places_listed(&self, space: Space, login: &str) -> Result<bool> {
        let found = self.read::<bool>(listed_key(space, login)).await?;
        Ok(found.is_some())
    }

    pub(crate) async fn note_places_listed(&self, space: Space, login: &str) -> Result<()> {
        let write = write(listed_key(space, login), Expected::Anything, &true)?;
        self.records.write_records(&[write]).await?;
        Ok(())
    }

    /// Statistics of a user, or of all users.
    pub(crate) async fn figures(
        &self,
        space: Space,
        login: Option<&str>,
    ) -> Result<Option<Figures>> {
        let found = self.read(figures_key(space, login)).await?;
        Ok(found.map(|(figures, _)| figures))
    }

    /// Records statistics. A run that they were computed for already is not counted again.
    pub(crate) async fn note_figures(
        &self,
        space: Space,
        login: Option<&str>,
        figures: &Figures,
    ) -> Result<()> {
        let next = |before: Option<Figures>| {
            let before = before.unwrap_or_default();
            let again = before.made_for == figures.made_for;
            let runs = before.runs + u64::from(!again);
            let figures = Figures {
                runs,
                ..figures.clone()
            };
            Some((figures, ()))
        };
        self.change(figures_key(space, login), next).await?;
        Ok(())
    }
}
