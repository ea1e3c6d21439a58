//! Connections are used again, but not by calls that cannot afford it.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::Outcome;
use clinch_core::policy::Safety;
use clinch_http::{HttpClient, HttpExecutor};

use crate::support::{Provider, Told, call, client, executor_on, keyed, route};

/// On which connection a call arrives.
async fn connection(executor: &HttpExecutor, provider: &mut Provider) -> usize {
    assert!(matches!(call(executor).await, Outcome::Ok(_)));
    let (on, _) = provider.request().await;
    // The connection's task sees the end of the exchange when it next runs.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    on
}

#[tokio::test]
async fn calls_one_after_the_other_share_a_connection() {
    let mut provider = Provider::start([]).await;
    let client = client();
    let executor = |path| executor_on(&client, route(provider.url(path))).safety(keyed());
    let (first, second) = (executor("/a"), executor("/b"));
    for _ in 0..20 {
        assert_eq!(connection(&first, &mut provider).await, 0);
        assert_eq!(connection(&second.clone(), &mut provider).await, 0);
    }
}

#[tokio::test]
async fn an_idle_connection_serves_only_calls_that_may_be_repeated_and_not_for_ever() {
    let mut provider = Provider::start([]).await;
    let clock = Told::new(Duration::MAX);
    let client = HttpClient::builder(clock.clone())
        .build()
        .expect("a client");
    let executor = executor_on(&client, route(provider.url("/")));
    let later =
        |seconds| *clock.ahead.lock().expect("not poisoned") += Duration::from_secs(seconds);
    let natural = executor.clone().safety(Safety::Natural);
    let keyed = executor.clone().safety(keyed());
    assert_eq!(connection(&executor, &mut provider).await, 0);
    assert_eq!(connection(&executor, &mut provider).await, 0);
    later(2);
    assert_eq!(connection(&executor, &mut provider).await, 1);
    later(20);
    // The one that was used last.
    assert_eq!(connection(&natural, &mut provider).await, 1);
    later(20);
    assert_eq!(connection(&keyed, &mut provider).await, 1);
    later(31);
    assert_eq!(connection(&keyed, &mut provider).await, 2);
}

#[tokio::test]
async fn many_calls_at_once_all_get_through() {
    let provider = Provider::start([]).await;
    let executor = Arc::new(executor_on(&client(), route(provider.url("/"))));
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let executor = executor.clone();
            tokio::spawn(async move { call(&executor).await })
        })
        .collect();
    for call in calls {
        assert!(matches!(call.await.expect("no panic"), Outcome::Ok(_)));
    }
}
