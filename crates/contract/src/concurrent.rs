//! Concurrent callers, and calls that wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::case::{Failure, Verdict};

/// Runs `count` callers that start together. Returns their results in no particular order.
pub(crate) async fn together<T, C, F>(count: usize, caller: C) -> Verdict<Vec<T>>
where
    T: Send + 'static,
    C: Fn(usize) -> F,
    F: Future<Output = Verdict<T>> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(count));
    let mut callers = JoinSet::new();
    for number in 0..count {
        let (barrier, call) = (barrier.clone(), caller(number));
        callers.spawn(async move {
            barrier.wait().await;
            call.await
        });
    }
    let mut results = Vec::with_capacity(count);
    while let Some(joined) = callers.join_next().await {
        let result = joined.map_err(|lost| Failure::new(format!("a caller was lost: {lost}")))?;
        results.push(result?);
    }
    Ok(results)
}

/// How often a call is polled before it counts as waiting: enough for a call that needs a few polls
/// to reach its wait.
const LOOKS: usize = 200;

/// Polls a call until it waits. A call that returns instead fails the case.
pub(crate) async fn until_it_waits<T: std::fmt::Debug>(
    mut call: Pin<&mut (impl Future<Output = T> + ?Sized)>,
) -> Verdict {
    let looks = async {
        for _ in 0..LOOKS {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        early = call.as_mut() => Err(Failure::new(format!("the call did not wait: {early:?}"))),
        () = looks => Ok(()),
    }
}
