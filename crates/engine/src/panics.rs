//! A panic in a task is an answer, not the end of the process.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The task panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs `task`, and says so if it panics. What the task shared with others must survive
/// that: locks here are poison-proof, and rows are changed by commits only.
pub(crate) async fn caught<T>(task: impl Future<Output = T> + Send) -> Result<T, Panicked> {
    Caught(Box::pin(task)).await
}

struct Caught<'a, T>(Pin<Box<dyn Future<Output = T> + Send + 'a>>);

impl<T> Future for Caught<'_, T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let poll = AssertUnwindSafe(|| self.0.as_mut().poll(cx));
        match catch_unwind(poll) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    }
}
