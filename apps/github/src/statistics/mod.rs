//! What happened in a user's repositories, week by week.
//!
//! `count` computes the weeks of one place (a repository, or the user) from its documents, without
//! any input or output. `places` keeps one record of weeks for each place: the end of a run marks
//! the places whose documents changed, and the statistics compute the marked places again and
//! remove the marks. A mark that was not worked off, because the statistics were given up or the
//! run was canceled, is worked off after the next run. The figures of a user are the sum of its
//! places, computed when they are asked for.

mod activity;
mod count;
mod durations;
mod lenient;
mod places;
mod records;
mod week;

pub use activity::Activity;
pub use durations::Durations;
pub use places::WeeklyStatistics;
pub(crate) use places::{SeenPlaces, WEEKS_MAX};
pub use records::Figures;
pub use week::Week;
