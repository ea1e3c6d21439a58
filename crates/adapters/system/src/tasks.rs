//! Background tasks.

use std::pin::Pin;

use clinch_core::ports::Spawner;
use clinch_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;

/// Runs tasks on a tokio runtime. They end with it: a runtime that shuts down drops unfinished
/// tasks.
#[derive(Debug, Clone)]
pub struct TokioSpawner {
    handle: Handle,
}

impl TokioSpawner {
    /// On this runtime.
    pub fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// On the runtime that runs the caller; `Invalid` if none does.
    pub fn current() -> Result<Self> {
        let outside = |error| {
            let message = "this must be called on a tokio runtime";
            Error::new(ErrorKind::Invalid, message).caused_by(error)
        };
        Handle::try_current().map(Self::new).map_err(outside)
    }
}

impl Spawner for TokioSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.handle.spawn(task);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn a_task_runs_in_the_background() {
        assert!(TokioSpawner::current().is_err());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (tell, told) = oneshot::channel();
            let spawner = TokioSpawner::current().expect("inside a runtime");
            spawner.spawn(Box::pin(async move {
                let _ = tell.send(7);
            }));
            assert_eq!(told.await, Ok(7));
        });
    }
}
