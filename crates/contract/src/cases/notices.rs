//! Notices: a waiting reader is woken by the commit, not by the clock.

use std::pin::pin;
use std::time::Duration;

use clinch_core::ports::{NewOperation, Notice};
use clinch_core::protocol::Event;
use clinch_core::{OpId, Retry};

use crate::calls::Calls;
use crate::case::{Case, Failure, Verdict};
use crate::concurrent::until_it_waits;
use crate::fixtures::{FOREVER, LANE, NATURAL, PROBED, domain, run_at, secs};
use crate::world::World;

pub(super) const CASES: &[Case] = area!(
    "notices",
    Store {
        settled_wakes_who_waits: ["CORE-8", "COL-13"],
        every_way_to_the_end_is_settled: ["CORE-8"],
        an_accept_says_that_the_domain_is_due: ["COL-13"],
        a_later_due_time_is_news_too: ["COL-7", "COL-13"],
        a_freed_lane_says_that_the_domain_is_due: ["COL-13"],
        a_resumed_domain_is_due: ["COL-13"],
        what_needs_recovery_is_news: ["COL-13", "RUN-5"],
        news_between_two_calls_is_not_missed: ["CORE-8"],
        a_new_reader_hears_from_its_call_on: [],
        every_reader_hears_everything: [],
        a_wait_ends: [],
        falling_behind_is_said: [],
    }
);

/// All notices that a waiting reader gets while `commit` runs.
async fn woken_by(w: &World, commit: impl Future<Output = Verdict>) -> Verdict<Vec<Notice>> {
    let mut waiting = pin!(w.notices.news(0, FOREVER));
    until_it_waits(waiting.as_mut()).await?;
    commit.await?;
    let (mut news, seen) = waiting.await?;
    // One call need not return all notices of a commit.
    let (more, _) = w.notices.news(seen, Duration::ZERO).await?;
    news.extend(more);
    Ok(news)
}

async fn settled_wakes_who_waits(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let op = attempt.op_id;
    let news = woken_by(&w, async {
        w.settle_ok(&attempt).await??;
        Ok(())
    })
    .await?;
    ensure!(news.contains(&Notice::Settled(op)), "got {news:?}");
    Ok(())
}

async fn every_way_to_the_end_is_settled(w: World) -> Verdict {
    let refused = w.live(NATURAL).await?;
    let recorded = w.live(NATURAL).await?;
    let canceled = w.pending(NATURAL).await?;
    let news = woken_by(&w, async {
        w.settle_fail(&refused).await??;
        w.record_ok(&recorded).await?;
        w.finalize(recorded.op_id).await??;
        w.cancel(canceled).await?;
        Ok(())
    })
    .await?;
    for op in [refused.op_id, recorded.op_id, canceled] {
        let said = news
            .iter()
            .filter(|notice| **notice == Notice::Settled(op))
            .count();
        ensure_eq!(said, 1, "{op} is settled, once");
    }
    Ok(())
}

async fn due(domain_name: &str, news: &[Notice]) -> Verdict {
    let notice = Notice::Due(domain(domain_name)?);
    ensure!(news.contains(&notice), "expected {notice:?}, got {news:?}");
    Ok(())
}

async fn an_accept_says_that_the_domain_is_due(w: World) -> Verdict {
    let news = woken_by(&w, async {
        w.pending(NATURAL).await?;
        Ok(())
    })
    .await?;
    due(NATURAL, &news).await
}

async fn a_later_due_time_is_news_too(w: World) -> Verdict {
    let later = w.now().await? + secs(100);
    let new = NewOperation {
        options: run_at(later),
        ..w.op(NATURAL)?
    };
    let news = woken_by(&w, async {
        w.take_in(&new).await?;
        Ok(())
    })
    .await?;
    due(NATURAL, &news).await?;
    let attempt = w.live(NATURAL).await?;
    let news = woken_by(&w, async {
        w.retry(&attempt, Retry::not_applied("busy").after(secs(50)))
            .await??;
        Ok(())
    })
    .await?;
    due(NATURAL, &news).await
}

async fn a_freed_lane_says_that_the_domain_is_due(w: World) -> Verdict {
    let (head, next) = (w.op_for(LANE, "order-1")?, w.op_for(LANE, "order-1")?);
    w.accept_all(&[head.clone(), next]).await?;
    let attempt = w.begun(head.op_id).await?;
    let news = woken_by(&w, async {
        w.settle_ok(&attempt).await??;
        Ok(())
    })
    .await?;
    due(LANE, &news).await
}

async fn a_resumed_domain_is_due(w: World) -> Verdict {
    w.pending(NATURAL).await?;
    w.pause(NATURAL, true).await?;
    let news = woken_by(&w, w.pause(NATURAL, false)).await?;
    due(NATURAL, &news).await
}

async fn what_needs_recovery_is_news(w: World) -> Verdict {
    let recorded = w.live(NATURAL).await?;
    let news = woken_by(&w, async {
        w.record_ok(&recorded).await?;
        Ok(())
    })
    .await?;
    ensure!(
        news.contains(&Notice::Recovery),
        "a recorded outcome: {news:?}"
    );
    let held = w.live(PROBED).await?;
    let news = woken_by(&w, async {
        w.retry(&held, Retry::unknown("timeout")).await??;
        Ok(())
    })
    .await?;
    ensure!(news.contains(&Notice::Recovery), "a held row: {news:?}");
    Ok(())
}

/// Reads until there are no more notices.
async fn drain(w: &World, mut seen: u64) -> Verdict<(Vec<Notice>, u64)> {
    let mut all = Vec::new();
    for _ in 0..100_000 {
        let (news, next) = w.notices.news(seen, Duration::ZERO).await?;
        seen = next;
        if news.is_empty() {
            return Ok((all, seen));
        }
        all.extend(news);
    }
    Err(Failure::new("the news never end"))
}

async fn news_between_two_calls_is_not_missed(w: World) -> Verdict {
    let (_, mut seen) = drain(&w, 0).await?;
    for _ in 0..10 {
        let op = w.completed(NATURAL).await?.op_id;
        let (news, next) = drain(&w, seen).await?;
        seen = next;
        let heard = news.contains(&Notice::Settled(op)) || news.contains(&Notice::Lagged);
        ensure!(heard, "{op} settled between two calls: {news:?}");
    }
    ensure_eq!(drain(&w, seen).await?.0, [], "nothing is said twice");
    Ok(())
}

async fn a_new_reader_hears_from_its_call_on(w: World) -> Verdict {
    let before: OpId = w.completed(NATURAL).await?.op_id;
    let attempt = w.live(NATURAL).await?;
    let news = woken_by(&w, async {
        w.settle_ok(&attempt).await??;
        Ok(())
    })
    .await?;
    ensure!(
        !news.contains(&Notice::Settled(before)),
        "old news: {news:?}"
    );
    Ok(())
}

async fn every_reader_hears_everything(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let mut call = Box::pin(w.notices.news(0, FOREVER));
        until_it_waits(call.as_mut()).await?;
        waiting.push(call);
    }
    w.settle_ok(&attempt).await??;
    for call in waiting {
        let (mut news, seen) = call.await?;
        news.extend(drain(&w, seen).await?.0);
        ensure!(
            news.contains(&Notice::Settled(attempt.op_id)),
            "a reader heard {news:?}"
        );
    }
    Ok(())
}

async fn a_wait_ends(w: World) -> Verdict {
    // Short, since the wait of a real adapter may use a real clock.
    let wait = Duration::from_millis(50);
    let (news, ()) = tokio::join!(w.notices.news(0, wait), async {
        tokio::task::yield_now().await;
        w.advance(secs(1)).await;
    });
    ensure_eq!(news?.0, [], "nothing happened");
    Ok(())
}

async fn falling_behind_is_said(w: World) -> Verdict {
    let (_, seen) = drain(&w, 0).await?;
    let mut ops = Vec::new();
    for _ in 0..60 {
        let mut new = Vec::new();
        for _ in 0..100 {
            new.push(w.op(NATURAL)?);
        }
        w.accept_all(&new).await?;
        let cancel = |new: &NewOperation| w.amendment(new.op_id, Event::Cancel);
        let cancels: Result<Vec<_>, _> = new.iter().map(cancel).collect();
        w.store.amend(&cancels?, &w.routes).await?;
        ops.extend(new.iter().map(|new| new.op_id));
    }
    let (news, _) = drain(&w, seen).await?;
    let lagged = news
        .iter()
        .filter(|notice| **notice == Notice::Lagged)
        .count();
    let heard: std::collections::BTreeSet<OpId> = news
        .iter()
        .filter_map(|notice| match notice {
            Notice::Settled(op) => Some(*op),
            _ => None,
        })
        .collect();
    let all = ops.iter().all(|op| heard.contains(op));
    ensure!(
        all || lagged > 0,
        "{} of 6,000 were heard and nothing was said",
        heard.len()
    );
    ensure!(lagged <= 1, "it lagged once and said so {lagged} times");
    Ok(())
}
