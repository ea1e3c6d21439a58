//! Every case of the area.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ErrorKind;
use clinch_core::ports::{RateLimiter, Reason};
use clinch_protect::RateConfig;

use super::{LimiterCase, LimiterSubject};
use crate::case::{Failure, Verdict};
use crate::concurrent::together;
use crate::fixtures::secs;

macro_rules! limiter_area {
    ($($run:ident: [$($id:literal),*],)+) => {
        &[$(LimiterCase {
            name: concat!("limiter::", stringify!($run)),
            proves: &[$($id),*],
            run: |subject| Box::pin($run(subject)),
        }),+]
    };
}

const CASES: &[LimiterCase] = limiter_area! {
    nodes_share_one_rate_exactly: ["COL-8"],
    no_stretch_has_more_than_the_rate: ["COL-8"],
    a_burst_of_one_spaces_calls: ["COL-8"],
    a_wait_is_bounded_and_a_rejection_reserves_nothing: ["COL-8"],
    a_used_up_rate_closes_the_room: ["COL-8"],
    a_pause_closes_every_node_by_push: ["COL-8"],
    a_shorter_pause_does_not_end_a_longer_one: ["COL-8"],
    after_a_pause_the_burst_is_spent: ["COL-8"],
    a_node_that_starts_learns_of_the_pause: ["COL-8"],
    the_end_of_a_pause_by_hand_opens_every_node: ["CORE-15", "COL-8"],
    destinations_have_rates_of_their_own: ["COL-8"],
    a_rate_of_nothing_and_a_bad_name_are_refused: ["COL-8"],
};

/// Every case of the area `limiter::`.
pub fn limiter_cases() -> Vec<LimiterCase> {
    CASES.to_vec()
}

/// How often a pause is repeated before a node counts as not listening: seconds, on a real server.
const SAYS_MAX: u32 = 5_000;

type Node = Arc<dyn RateLimiter>;

/// No waiting: a call that is not free now is rejected.
fn at_once(permits: u32, per: Duration) -> RateConfig {
    RateConfig {
        wait_max: Duration::ZERO,
        ..RateConfig::new(permits, per)
    }
}

async fn granted(node: &Node, asks: usize) -> usize {
    let mut granted = 0;
    for _ in 0..asks {
        granted += usize::from(node.reserve().await.is_ok());
    }
    granted
}

async fn nodes_share_one_rate_exactly(subject: LimiterSubject) -> Verdict {
    let rate = at_once(50, secs(3_600));
    let nodes = [
        subject.node("psp", Some(&rate)).await?,
        subject.node("psp", Some(&rate)).await?,
    ];
    let granted = together(64, |number| {
        let node = nodes[number % 2].clone();
        async move { Ok(granted(&node, 4).await) }
    });
    let granted: usize = granted.await?.iter().sum();
    ensure_eq!(granted, 50, "granted to 64 callers on two nodes");
    Ok(())
}

async fn no_stretch_has_more_than_the_rate(subject: LimiterSubject) -> Verdict {
    let node = subject.node("psp", Some(&at_once(10, secs(1_000)))).await?;
    ensure_eq!(granted(&node, 20).await, 10, "granted at first");
    // Half of the bucket is refilled, but the period is not over.
    subject.advance(secs(500)).await;
    ensure_eq!(granted(&node, 20).await, 0, "granted within the stretch");
    subject.advance(secs(501)).await;
    ensure_eq!(granted(&node, 20).await, 10, "granted in the next");
    Ok(())
}

async fn a_burst_of_one_spaces_calls(subject: LimiterSubject) -> Verdict {
    let rate = RateConfig {
        burst: Some(1),
        ..at_once(10, secs(1_000))
    };
    let node = subject.node("psp", Some(&rate)).await?;
    for _ in 0..3 {
        ensure_eq!(granted(&node, 5).await, 1, "granted at once");
        subject.advance(secs(50)).await;
        ensure_eq!(granted(&node, 5).await, 0, "granted too close");
        subject.advance(secs(51)).await;
    }
    Ok(())
}

async fn a_wait_is_bounded_and_a_rejection_reserves_nothing(subject: LimiterSubject) -> Verdict {
    let rate = RateConfig {
        burst: Some(1),
        wait_max: secs(150),
        ..RateConfig::new(10, secs(1_000))
    };
    let node = subject.node("psp", Some(&rate)).await?;
    let wait = || async {
        let refused = |_| Failure::new("a wait within the bound was refused");
        node.reserve().await.map_err(refused)
    };
    ensure_eq!(wait().await?, Duration::ZERO, "the first waits for nobody");
    let second = wait().await?;
    ensure!(
        second <= secs(100) && second > secs(80),
        "the second waits its turn: {second:?}"
    );
    for _ in 0..5 {
        let Err(rejection) = node.reserve().await else {
            return Err(Failure::new("a wait beyond the bound was handed out"));
        };
        ensure_eq!(rejection.reason, Reason::RateLimited, "why");
        let after = rejection.after;
        ensure!(
            after <= secs(50) && after > secs(30),
            "worth trying when the wait is within the bound: {after:?}"
        );
    }
    subject.advance(secs(100)).await;
    let third = wait().await?;
    ensure!(third <= secs(100), "rejections took its place: {third:?}");
    Ok(())
}

async fn a_used_up_rate_closes_the_room(subject: LimiterSubject) -> Verdict {
    let node = subject.node("psp", Some(&at_once(3, secs(3_600)))).await?;
    ensure!(!node.room().is_closed(), "closed before any call");
    granted(&node, 4).await;
    let room = node.room();
    ensure!(room.is_closed(), "open with nothing left: {room:?}");
    ensure_eq!(room.reason, Some(Reason::RateLimited), "why");
    Ok(())
}

async fn a_pause_closes_every_node_by_push(subject: LimiterSubject) -> Verdict {
    let rate = at_once(100, secs(1));
    let hears = [
        subject.node("psp", None).await?,
        subject.node("psp", Some(&rate)).await?,
    ];
    let other = subject.node("bank", None).await?;
    let says = subject.node("psp", Some(&rate)).await?;
    ensure!(
        hears.iter().all(|node| !node.room().is_closed()),
        "closed before the pause"
    );
    // Repeated, as a subscription may take a moment. The other nodes do not poll.
    let mut says_left = SAYS_MAX;
    while !hears.iter().all(|node| node.room().is_closed()) {
        ensure!(says_left > 0, "the other nodes were told by nobody");
        says_left -= 1;
        says.pause(secs(60)).await;
        tokio::task::yield_now().await;
    }
    for node in &hears {
        ensure_eq!(node.room().reason, Some(Reason::Paused), "why");
        let Err(rejection) = node.reserve().await else {
            return Err(Failure::new("a call was let through a pause"));
        };
        ensure_eq!(rejection.reason, Reason::Paused, "why");
        let after = rejection.after;
        ensure!(
            after <= secs(61) && after > secs(30),
            "when it ends: {after:?}"
        );
    }
    ensure!(other.reserve().await.is_ok(), "another destination goes on");
    Ok(())
}

async fn the_end_of_a_pause_by_hand_opens_every_node(subject: LimiterSubject) -> Verdict {
    let rate = at_once(10, secs(1_000));
    let hears = subject.node("psp", Some(&rate)).await?;
    let says = subject.node("psp", Some(&rate)).await?;
    says.pause(secs(3_600)).await;
    let mut says_left = SAYS_MAX;
    while !hears.room().is_closed() {
        ensure!(says_left > 0, "the other node was told by nobody");
        says_left -= 1;
        says.pause(secs(3_600)).await;
        tokio::task::yield_now().await;
    }
    ensure!(says.is_shared(), "it does not say that others share it");
    while hears.room().is_closed() {
        ensure!(says_left > 0, "the other node does not hear of the end");
        says_left -= 1;
        ensure!(says.resume().await, "the pause could not be ended");
        tokio::task::yield_now().await;
    }
    let started = subject.node("psp", Some(&rate)).await?;
    ensure!(
        !started.room().is_closed(),
        "the server still knows a pause"
    );
    ensure_eq!(granted(&says, 3).await, 1, "calls at the end of the pause");
    Ok(())
}

async fn a_shorter_pause_does_not_end_a_longer_one(subject: LimiterSubject) -> Verdict {
    let rate = at_once(100, secs(1));
    let one = subject.node("psp", Some(&rate)).await?;
    one.pause(secs(600)).await;
    one.pause(secs(1)).await;
    one.pause(Duration::ZERO).await;
    let started = subject.node("psp", Some(&rate)).await?;
    for node in [one, started] {
        let left = node.room().again_in.unwrap_or_default();
        ensure!(left > secs(300), "{left:?} are left");
    }
    Ok(())
}

async fn after_a_pause_the_burst_is_spent(subject: LimiterSubject) -> Verdict {
    let rate = at_once(10, secs(1_000));
    let one = subject.node("psp", Some(&rate)).await?;
    one.pause(secs(100)).await;
    subject.advance(secs(101)).await;
    // A node that starts afterwards remembers no pause, but the server does.
    for when in ["at the end of the pause", "a spacing later"] {
        let node = subject.node("psp", Some(&rate)).await?;
        ensure_eq!(granted(&node, 20).await, 1, "granted {when}");
        subject.advance(secs(101)).await;
    }
    Ok(())
}

async fn a_node_that_starts_learns_of_the_pause(subject: LimiterSubject) -> Verdict {
    subject.node("psp", None).await?.pause(secs(60)).await;
    let started = subject.node("psp", None).await?;
    ensure_eq!(started.room().reason, Some(Reason::Paused), "why");
    Ok(())
}

async fn destinations_have_rates_of_their_own(subject: LimiterSubject) -> Verdict {
    let rate = at_once(5, secs(3_600));
    for destination in ["psp", "bank", "PSP"] {
        let node = subject.node(destination, Some(&rate)).await?;
        ensure_eq!(granted(&node, 9).await, 5, "granted to {destination}");
    }
    Ok(())
}

async fn a_rate_of_nothing_and_a_bad_name_are_refused(subject: LimiterSubject) -> Verdict {
    let good = at_once(5, secs(1));
    let nothing = RateConfig {
        permits: 0,
        burst: Some(1),
        ..good.clone()
    };
    let no_burst = RateConfig {
        burst: Some(0),
        ..good.clone()
    };
    let long = "x".repeat(1_000);
    for (destination, rate) in [
        ("psp", &nothing),
        ("psp", &no_burst),
        ("", &good),
        (long.as_str(), &good),
    ] {
        let refused = subject.node(destination, Some(rate)).await;
        let kind = refused.err().map(|error| error.kind());
        ensure_eq!(kind, Some(ErrorKind::Invalid), "{rate:?}");
    }
    Ok(())
}
