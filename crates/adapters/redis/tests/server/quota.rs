//! Budgets: under contention, and against the rules themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clinch_core::policy::{QuotaReading, QuotaRules, QuotaState, Reservation, SplitMix};
use clinch_core::ports::Quota;
use clinch_core::{ErrorKind, Timestamp};
use clinch_redis::{Redis, RedisQuota};

use crate::support::{ask_raw, connect, fresh, raw, secs, url};

async fn now(redis: &Redis) -> Timestamp {
    let micros = redis.now_us().await.expect("an answer");
    Timestamp::from_millis(i64::try_from(micros / 1_000).expect("a moment"))
}

/// Counts calls of one window, and says what is left like a provider.
struct Provider {
    limit: u64,
    calls: AtomicU64,
    reset_at: Timestamp,
}

impl Provider {
    fn call(&self) -> QuotaReading {
        let calls = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let left = i64::try_from(self.limit).expect("small") - i64::try_from(calls).expect("small");
        QuotaReading {
            limit: Some(self.limit),
            remaining: Some(left),
            reset_at: Some(self.reset_at),
            retry_after: None,
            unspent: 0,
        }
    }
}

pub(crate) async fn col_8_64_reservers_never_exceed_the_quota() {
    let settings = fresh();
    let redis = connect(&settings).await;
    let provider = Arc::new(Provider {
        limit: 1_000,
        calls: AtomicU64::new(0),
        reset_at: now(&redis).await + secs(3_600),
    });
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..64_u64 {
        // Two nodes, each with connections of its own.
        let node = match number % 2 {
            0 => redis.clone(),
            _ => connect(&settings).await,
        };
        let quota = RedisQuota::on(&node, QuotaRules::default());
        let provider = provider.clone();
        callers.spawn(async move {
            loop {
                match quota.reserve("token", 1).await.expect("an answer") {
                    Reservation::Granted => {
                        let reading = provider.call();
                        // Answers overtake each other.
                        for _ in 0..number % 7 {
                            tokio::task::yield_now().await;
                        }
                        quota.update("token", &reading).await.expect("told");
                    }
                    // The first answer is awaited.
                    Reservation::WaitFor(wait) if wait <= secs(60) => {
                        tokio::task::yield_now().await;
                    }
                    Reservation::WaitFor(_) => return,
                }
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended.expect("a caller");
    }
    let calls = provider.calls.load(Ordering::SeqCst);
    assert_eq!(
        calls, 900,
        "all but the reserve of a tenth, and not one more"
    );
}

fn draw(rng: &mut SplitMix, below: u64) -> u64 {
    rng.next_u64() % below
}

/// Whole steps of ten seconds, ends of windows in between: what passes on the real clock
/// meanwhile changes no answer.
fn reading(rng: &mut SplitMix, now: Timestamp) -> QuotaReading {
    let moment = |steps: u64| now + secs(5) + secs(10 * steps);
    let reset_at = match draw(rng, 8) {
        0 => None,
        1 => Some(now - secs(25)),
        2 => Some(now + secs(1_000_000)),
        3 => Some(now - secs(1_000_000)),
        4 => Some(moment(draw(rng, 3)) + secs(1)),
        _ => Some(moment(draw(rng, 3))),
    };
    let (limit, remaining, pause) = (draw(rng, 40), draw(rng, 45), draw(rng, 4));
    let mut said = |in_ten: u64| draw(rng, 10) < in_ten;
    QuotaReading {
        limit: said(8).then_some(limit),
        remaining: said(9).then(|| i64::try_from(remaining).expect("small") - 5),
        reset_at,
        retry_after: said(1).then(|| secs(10 * pause)),
        unspent: u32::try_from(pause).expect("small"),
    }
}

pub(crate) async fn col_8_the_scripts_agree_with_the_rules() {
    let settings = fresh();
    let redis = connect(&settings).await;
    let rules = QuotaRules::default();
    let quota = RedisQuota::on(&redis, rules.clone());
    let (mut granted, mut waited) = (0, 0);
    for seed in 0..60_u64 {
        let mut rng = SplitMix::new(seed);
        let key = format!("key-{seed}");
        let mut state = QuotaState::default();
        let mut at = now(&redis).await;
        for step in 0..60 {
            match draw(&mut rng, 5) {
                0 => {
                    let by = secs(10 * draw(&mut rng, 3));
                    settings.test_clock.advance(by);
                    at = at + by;
                }
                1 => {
                    let reading = reading(&mut rng, at);
                    state.update(&reading, at, &rules);
                    quota.update(&key, &reading).await.expect("told");
                }
                _ => {
                    let permits = u32::try_from(1 + draw(&mut rng, 3)).expect("small");
                    let expected = state.reserve(permits, at, &rules);
                    let got = quota.reserve(&key, permits).await;
                    let said = format!("seed {seed} step {step}: {expected:?}, got {got:?}");
                    match (expected, got) {
                        (Ok(Reservation::Granted), Ok(Reservation::Granted)) => granted += 1,
                        (Ok(Reservation::WaitFor(a)), Ok(Reservation::WaitFor(b))) => {
                            assert!(a.abs_diff(b) < secs(5), "{said}");
                            waited += 1;
                        }
                        (Err(_), Err(error)) => {
                            assert_eq!(error.kind(), ErrorKind::Invalid, "{said}");
                        }
                        _ => panic!("{said}"),
                    }
                }
            }
        }
    }
    assert!(
        granted > 100 && waited > 100,
        "{granted} granted, {waited} waited"
    );
}

pub(crate) async fn col_8_a_budget_is_forgotten_when_it_is_over() {
    let settings = fresh();
    let redis = connect(&settings).await;
    let quota = RedisQuota::on(&redis, QuotaRules::default());
    let mut raw = raw(&url()).await;
    let key = format!("{}:quota:{{token}}", settings.prefix);
    quota.reserve("token", 1).await.expect("an answer");
    let left: i64 = ask_raw(&mut raw, &["PTTL", &key]).await;
    assert!(left > 0 && left <= 31_000, "kept for {left} ms");
    quota
        .update("token", &QuotaReading::default())
        .await
        .expect("told");
    let there: u64 = ask_raw(&mut raw, &["EXISTS", &key]).await;
    assert_eq!(there, 0, "nothing is known, nothing is kept");
    let reading = QuotaReading {
        limit: Some(u64::MAX),
        remaining: Some(i64::MAX),
        reset_at: Some(now(&redis).await + Duration::from_secs(60)),
        retry_after: None,
        unspent: 0,
    };
    quota.update("token", &reading).await.expect("told");
    let got = quota.reserve("token", u32::MAX).await.expect("an answer");
    assert_eq!(got, Reservation::Granted, "numbers past what Lua counts");
}
