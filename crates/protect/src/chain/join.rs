//! Joins the outcomes of several copies, none of which was Ok.

use clinch_core::{Applied, Outcome, Retry};

/// Unknown beats fail, fail beats not applied, not applied beats not called.
///
/// - Of two retries the longer delay counts, and a pause stays a pause.
/// - A copy that was not called is ignored next to one that was: its delay was for a permit.
pub(super) fn join(ended: Option<Outcome>, outcome: Outcome) -> Outcome {
    let Some(ended) = ended else { return outcome };
    // If both rank equal, the earlier one is kept.
    let (strong, weak) = if rank(&outcome) > rank(&ended) {
        (outcome, ended)
    } else {
        (ended, outcome)
    };
    match (strong, weak) {
        (Outcome::Retry(strong), Outcome::Retry(weak)) if !is_forgotten(&strong, &weak) => {
            Outcome::Retry(Retry {
                after: strong.after.max(weak.after),
                pauses: strong.pauses || weak.pauses,
                ..strong
            })
        }
        (strong, _) => strong,
    }
}

fn is_forgotten(strong: &Retry, weak: &Retry) -> bool {
    weak.applied == Applied::NotCalled && strong.applied != Applied::NotCalled
}

fn rank(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Ok(_) => 4,
        Outcome::Retry(retry) => match retry.applied {
            Applied::Unknown => 3,
            Applied::No => 1,
            Applied::NotCalled => 0,
        },
        Outcome::Fail(_) => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clinch_core::Fail;
    use std::time::Duration;

    fn second(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn unknown_beats_fail_beats_not_applied_beats_not_called() {
        let order = [
            Outcome::Retry(Retry::not_called("a")),
            Outcome::Retry(Retry::not_applied("b")),
            Outcome::Fail(Fail::new("c", "")),
            Outcome::Retry(Retry::unknown("d")),
        ];
        for (place, strong) in order.iter().enumerate() {
            for weak in &order[..=place] {
                assert_eq!(join(Some(strong.clone()), weak.clone()), *strong);
                assert_eq!(join(Some(weak.clone()), strong.clone()), *strong);
            }
        }
    }

    #[test]
    fn the_longest_delay_and_any_pause_are_kept() {
        let long = Outcome::Retry(Retry::not_applied("later").retry_after(second(9)));
        let short = Outcome::Retry(Retry::unknown("reset").after(second(1)));
        let none = Outcome::Retry(Retry::unknown("reset"));
        let expected = Outcome::Retry(Retry::unknown("reset").retry_after(second(9)));
        for unknown in [short, none] {
            assert_eq!(join(Some(long.clone()), unknown.clone()), expected);
            assert_eq!(join(Some(unknown), long.clone()), expected);
        }
    }

    #[test]
    fn the_delay_of_a_copy_without_a_permit_is_forgotten() {
        let refused = Outcome::Retry(Retry::not_called("breaker_open").after(second(30)));
        let unknown = Outcome::Retry(Retry::unknown("reset"));
        assert_eq!(join(Some(refused.clone()), unknown.clone()), unknown);
        assert_eq!(join(Some(unknown.clone()), refused.clone()), unknown);
        let soon = Outcome::Retry(Retry::not_called("rate_limited").after(second(1)));
        let both = join(Some(soon), refused);
        let expected = Retry::not_called("rate_limited").after(second(30));
        assert_eq!(both, Outcome::Retry(expected));
    }
}
