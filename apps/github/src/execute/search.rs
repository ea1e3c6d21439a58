//! Checks the results of a search for repositories: it must be complete, and of the run's user.

use clinch::{Fail, Refusal};

use super::bad_answer;
use crate::items::Items;
use crate::model::PageJob;

/// Results that GitHub shows of one search.
const RESULTS_MAX: u64 = 1_000;

/// Refuses results that are only a part of what was searched for, or of another user. `size` is the
/// number of items of a page.
pub(super) fn check(
    job: &PageJob,
    items: &Items,
    link: Option<&str>,
    size: u32,
) -> Result<(), Refusal> {
    let Some(found) = &items.found else {
        return Ok(());
    };
    if found.total_count > RESULTS_MAX {
        let message = format!(
            "the search finds {} repositories, and GitHub shows {RESULTS_MAX} of them; narrow it",
            found.total_count
        );
        return Err(Fail::new("search_too_broad", message).into());
    }
    if found.incomplete_results {
        return Err(bad_answer("GitHub ran out of time before its search ended"));
    }
    let user = &job.run_id.login;
    let is_foreign = |full_name: &str| {
        let owner = full_name.split('/').next().unwrap_or_default();
        !owner.eq_ignore_ascii_case(user)
    };
    let names = items.repositories.iter().map(|one| one.full_name.as_str());
    if let Some(other) = names.into_iter().find(|name| is_foreign(name)) {
        let message = format!("the search found {other}, which {user} does not own");
        return Err(Fail::new("search_foreign", message).into());
    }
    let before = u64::from(job.page.saturating_sub(1)) * u64::from(size);
    let read = before + items.rows.len() as u64;
    if link.is_none() && read < found.total_count {
        let message = format!(
            "GitHub's search ended after {read} of {} repositories",
            found.total_count
        );
        return Err(bad_answer(message));
    }
    Ok(())
}
