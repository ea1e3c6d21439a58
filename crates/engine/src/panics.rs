//! A panic in a task becomes an error of that task; the process continues.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs `task` and returns an error if it panics. State that the task shared with others must
/// survive the panic: the locks of this crate ignore poisoning, and rows change only by commits.
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
