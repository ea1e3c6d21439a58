//! Every case of the area.

use std::time::Duration;

use clinch_core::policy::{QuotaReading, QuotaRules, Reservation};

use super::{Budget, KEY, QuotaCase, reading};
use crate::case::Verdict;
use crate::concurrent::together;
use crate::fixtures::secs;

macro_rules! quota_area {
    ($($run:ident: [$($id:literal),*],)+) => {
        &[$(QuotaCase {
            name: concat!("quota::", stringify!($run)),
            proves: &[$($id),*],
            run: |subject| Box::pin($run(Budget { subject })),
        }),+]
    };
}

const CASES: &[QuotaCase] = quota_area! {
    one_request_at_a_time_while_nothing_is_known: ["COL-8"],
    an_answer_that_says_nothing_lets_the_next_one_ask: ["COL-8"],
    an_ask_that_is_never_answered_blocks_nobody_for_long: ["COL-8"],
    a_known_budget_is_spent_to_its_reserve: ["COL-8"],
    the_reserve_is_at_most_a_tenth_of_the_limit: ["COL-8"],
    concurrent_callers_never_take_more_than_there_is: ["COL-8"],
    several_permits_are_all_or_nothing: ["COL-8"],
    more_permits_than_a_window_has_are_refused: ["COL-8"],
    no_permits_and_bad_keys_are_refused: ["COL-8"],
    an_exhausted_budget_waits_for_its_reset: ["COL-8"],
    after_the_reset_nothing_is_known: ["COL-8"],
    the_least_remaining_of_a_window_counts: ["COL-8"],
    what_cost_nothing_is_given_back: ["COL-8"],
    windows_that_end_close_together_are_one: ["COL-8"],
    an_answer_of_an_older_window_changes_nothing: ["COL-8"],
    an_answer_of_a_newer_window_begins_it: ["COL-8"],
    a_reset_in_the_past_begins_no_window: ["COL-8"],
    a_missing_reset_begins_no_window: ["COL-8"],
    a_missing_reset_still_lowers_a_known_window: ["COL-8"],
    nothing_left_without_a_reset_waits_a_little: ["COL-8"],
    a_reset_nobody_can_believe_begins_no_window: ["COL-8"],
    a_negative_remaining_is_none: ["COL-8"],
    no_wait_is_longer_than_its_bound: ["COL-8"],
    retry_after_stops_everybody: ["COL-8"],
    a_shorter_retry_after_does_not_end_a_longer_one: ["COL-8"],
    keys_have_budgets_of_their_own: ["COL-8"],
};

/// Every case of the area `quota::`.
pub fn quota_cases() -> Vec<QuotaCase> {
    CASES.to_vec()
}

const HOUR: Duration = secs(3_600);

/// The clock of a real server also runs by itself.
fn is_about(got: Duration, expected: Duration) -> bool {
    got <= expected && got + secs(10) >= expected
}

async fn one_request_at_a_time_while_nothing_is_known(b: Budget) -> Verdict {
    let granted = together(32, |_| {
        let b = b.clone();
        async move { b.is_granted(1).await }
    })
    .await?;
    let granted = granted.iter().filter(|granted| **granted).count();
    ensure_eq!(granted, 1, "granted while nothing is known");
    Ok(())
}

async fn an_answer_that_says_nothing_lets_the_next_one_ask(b: Budget) -> Verdict {
    for _ in 0..3 {
        ensure!(b.is_granted(1).await?, "the next one asks");
        ensure!(!b.is_granted(1).await?, "one at a time");
        b.tell(QuotaReading::default()).await?;
    }
    Ok(())
}

async fn an_ask_that_is_never_answered_blocks_nobody_for_long(b: Budget) -> Verdict {
    let bound = QuotaRules::default().answer_within;
    ensure!(b.is_granted(1).await?, "the first asks");
    let wait = b.wait(1).await?;
    ensure!(is_about(wait, bound), "waits {wait:?} for the answer");
    b.advance(bound + secs(1)).await;
    ensure!(b.is_granted(1).await?, "the next one asks");
    ensure!(!b.is_granted(1).await?, "one at a time");
    Ok(())
}

async fn a_known_budget_is_spent_to_its_reserve(b: Budget) -> Verdict {
    b.says(5_000, 140, HOUR).await?;
    ensure_eq!(b.left().await?, 40, "granted of 140 with a reserve of 100");
    Ok(())
}

async fn the_reserve_is_at_most_a_tenth_of_the_limit(b: Budget) -> Verdict {
    b.says(60, 60, HOUR).await?;
    ensure_eq!(b.left().await?, 54, "granted of a limit of 60");
    b.says(5, 5, HOUR + secs(100)).await?;
    ensure_eq!(b.left().await?, 5, "granted of a limit of 5");
    Ok(())
}

async fn concurrent_callers_never_take_more_than_there_is(b: Budget) -> Verdict {
    b.says(1_000, 1_000, HOUR).await?;
    let granted = together(64, |_| {
        let b = b.clone();
        async move {
            let mut mine = 0;
            while b.is_granted(1).await? {
                mine += 1;
            }
            Ok(mine)
        }
    })
    .await?;
    ensure_eq!(granted.iter().sum::<u64>(), 900, "granted in all");
    Ok(())
}

async fn several_permits_are_all_or_nothing(b: Budget) -> Verdict {
    b.says(100, 25, HOUR).await?;
    ensure!(b.is_granted(10).await?, "ten of fifteen");
    ensure!(!b.is_granted(10).await?, "ten of five");
    ensure!(b.is_granted(5).await?, "five of five");
    ensure!(!b.is_granted(1).await?, "one of none");
    Ok(())
}

async fn more_permits_than_a_window_has_are_refused(b: Budget) -> Verdict {
    b.says(100, 100, HOUR).await?;
    ensure!(
        b.is_invalid(KEY, 91).await,
        "91 of a hundred with ten in reserve"
    );
    ensure!(b.is_granted(90).await?, "90 are there");
    Ok(())
}

async fn no_permits_and_bad_keys_are_refused(b: Budget) -> Verdict {
    ensure!(b.is_invalid(KEY, 0).await, "no permits");
    ensure!(b.is_invalid("", 1).await, "an empty key");
    ensure!(b.is_invalid("a\nb", 1).await, "a control character");
    ensure!(b.is_invalid(&"k".repeat(1_000), 1).await, "a long key");
    let told = b.subject.quota.update("", &QuotaReading::default()).await;
    ensure!(told.is_err(), "an answer for an empty key");
    Ok(())
}

async fn an_exhausted_budget_waits_for_its_reset(b: Budget) -> Verdict {
    b.says(100, 10, secs(600)).await?;
    let wait = b.wait(1).await?;
    ensure!(is_about(wait, secs(600)), "waits {wait:?} for the reset");
    b.advance(secs(300)).await;
    let wait = b.wait(1).await?;
    ensure!(is_about(wait, secs(300)), "waits {wait:?} half way");
    Ok(())
}

async fn after_the_reset_nothing_is_known(b: Budget) -> Verdict {
    b.says(100, 0, secs(600)).await?;
    b.advance(secs(601)).await;
    ensure!(b.is_granted(1).await?, "one asks");
    ensure!(!b.is_granted(1).await?, "one at a time");
    Ok(())
}

async fn the_least_remaining_of_a_window_counts(b: Budget) -> Verdict {
    let reset_at = Some(b.subject.control.now().await + HOUR);
    for remaining in [50, 30, 45, 99] {
        b.tell(reading(100, remaining, reset_at)).await?;
    }
    ensure_eq!(b.left().await?, 20, "granted of 30 with a reserve of 10");
    b.tell(reading(100, 30, reset_at)).await?;
    ensure_eq!(b.left().await?, 0, "a late answer gives nothing back");
    Ok(())
}

async fn what_cost_nothing_is_given_back(b: Budget) -> Verdict {
    let reset_at = Some(b.subject.control.now().await + HOUR);
    b.tell(reading(100, 15, reset_at)).await?;
    ensure_eq!(b.left().await?, 5, "granted of 15 with a reserve of 10");
    let free = |remaining| QuotaReading {
        unspent: 2,
        ..reading(100, remaining, reset_at)
    };
    b.tell(free(15)).await?;
    ensure_eq!(b.left().await?, 2, "granted again");
    b.tell(free(11)).await?;
    ensure_eq!(b.left().await?, 1, "no more than the answer leaves");
    Ok(())
}

async fn windows_that_end_close_together_are_one(b: Budget) -> Verdict {
    let reset_at = b.subject.control.now().await + HOUR;
    b.tell(reading(100, 10, Some(reset_at))).await?;
    b.tell(reading(100, 90, Some(reset_at + secs(1)))).await?;
    b.tell(reading(100, 90, Some(reset_at - secs(1)))).await?;
    ensure_eq!(b.left().await?, 0, "granted of a spent window");
    Ok(())
}

async fn an_answer_of_an_older_window_changes_nothing(b: Budget) -> Verdict {
    let now = b.subject.control.now().await;
    b.tell(reading(100, 50, Some(now + HOUR * 2))).await?;
    b.tell(reading(100, 1, Some(now + HOUR))).await?;
    b.tell(reading(100, 1, Some(now - HOUR))).await?;
    ensure_eq!(b.left().await?, 40, "granted of the newer window");
    Ok(())
}

async fn an_answer_of_a_newer_window_begins_it(b: Budget) -> Verdict {
    let now = b.subject.control.now().await;
    b.tell(reading(100, 0, Some(now + HOUR))).await?;
    ensure!(!b.is_granted(1).await?, "the old one is spent");
    b.tell(reading(100, 30, Some(now + HOUR * 2))).await?;
    ensure_eq!(b.left().await?, 20, "granted of the new one");
    Ok(())
}

async fn a_reset_in_the_past_begins_no_window(b: Budget) -> Verdict {
    let now = b.subject.control.now().await;
    b.tell(reading(100, 50, Some(now - secs(60)))).await?;
    ensure!(b.is_granted(1).await?, "nothing is known: one asks");
    b.tell(reading(100, 50, Some(now - secs(60)))).await?;
    ensure!(!b.is_granted(1).await?, "it is not the answer to the ask");
    Ok(())
}

async fn a_missing_reset_begins_no_window(b: Budget) -> Verdict {
    ensure!(b.is_granted(1).await?, "one asks");
    b.tell(reading(100, 50, None)).await?;
    ensure!(b.is_granted(1).await?, "the next one asks");
    ensure!(!b.is_granted(1).await?, "one at a time");
    Ok(())
}

async fn a_missing_reset_still_lowers_a_known_window(b: Budget) -> Verdict {
    b.says(100, 90, HOUR).await?;
    b.tell(reading(100, 13, None)).await?;
    ensure_eq!(b.left().await?, 3, "granted of 13");
    Ok(())
}

async fn nothing_left_without_a_reset_waits_a_little(b: Budget) -> Verdict {
    let bound = QuotaRules::default().answer_within;
    b.tell(reading(100, 0, None)).await?;
    let wait = b.wait(1).await?;
    ensure!(is_about(wait, bound), "waits {wait:?}");
    b.advance(bound + secs(1)).await;
    ensure!(b.is_granted(1).await?, "then one asks");
    Ok(())
}

async fn a_reset_nobody_can_believe_begins_no_window(b: Budget) -> Verdict {
    let now = b.subject.control.now().await;
    let far = secs(1_000 * 365 * 86_400);
    for reset_at in [now + far, now - far] {
        b.tell(reading(100, 50, Some(reset_at))).await?;
        ensure!(b.is_granted(1).await?, "nothing is known: one asks");
        ensure!(!b.is_granted(1).await?, "one at a time");
        b.tell(QuotaReading::default()).await?;
    }
    b.says(100, 50, HOUR).await?;
    ensure_eq!(b.left().await?, 40, "a later answer is believed");
    Ok(())
}

async fn a_negative_remaining_is_none(b: Budget) -> Verdict {
    b.says(100, -7, HOUR).await?;
    ensure!(!b.is_granted(1).await?, "nothing is left");
    let now = b.subject.control.now().await;
    b.tell(reading(100, i64::MIN, Some(now + HOUR * 2))).await?;
    ensure!(!b.is_granted(1).await?, "nothing is left of the next");
    Ok(())
}

async fn no_wait_is_longer_than_its_bound(b: Budget) -> Verdict {
    let bound = QuotaRules::default().wait_max;
    b.says(100, 0, HOUR * 20).await?;
    ensure!(b.wait(1).await? <= bound, "a reset twenty hours away");
    let retry_after = Some(Duration::MAX);
    b.tell(QuotaReading {
        retry_after,
        ..QuotaReading::default()
    })
    .await?;
    ensure!(b.wait(1).await? <= bound, "a retry-after without end");
    b.advance(QuotaRules::default().window_max + secs(1)).await;
    ensure!(b.is_granted(1).await?, "it ends all the same");
    Ok(())
}

async fn retry_after_stops_everybody(b: Budget) -> Verdict {
    b.says(5_000, 5_000, HOUR).await?;
    stay_away(&b, secs(120)).await?;
    let wait = b.wait(1).await?;
    ensure!(is_about(wait, secs(120)), "waits {wait:?}");
    b.advance(secs(121)).await;
    ensure!(b.is_granted(1).await?, "the budget is still there");
    ensure!(b.is_granted(1).await?, "and known");
    Ok(())
}

async fn a_shorter_retry_after_does_not_end_a_longer_one(b: Budget) -> Verdict {
    stay_away(&b, secs(120)).await?;
    stay_away(&b, secs(5)).await?;
    stay_away(&b, Duration::ZERO).await?;
    b.advance(secs(60)).await;
    ensure!(!b.is_granted(1).await?, "the longer one still runs");
    Ok(())
}

async fn stay_away(b: &Budget, lasting: Duration) -> Verdict {
    let reading = QuotaReading {
        retry_after: Some(lasting),
        ..QuotaReading::default()
    };
    b.tell(reading).await
}

async fn keys_have_budgets_of_their_own(b: Budget) -> Verdict {
    b.says(100, 0, HOUR).await?;
    let other = b.subject.quota.reserve("token-2", 1).await?;
    ensure_eq!(other, Reservation::Granted, "another key");
    Ok(())
}
