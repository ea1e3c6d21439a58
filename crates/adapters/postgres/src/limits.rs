//! Limiters that every node on one database shares, and how they hear of each other's pauses.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::Clock;
use tokio::task::AbortHandle;

use crate::Postgres;
use crate::Rate;
use crate::limiter::{Inner, PostgresLimiter};
use crate::listen::{Listener, Subscriber};

/// Makes the limiters of one process. It holds one connection, which listens and asks nothing.
#[derive(Clone)]
pub struct PostgresLimits {
    hub: Arc<Hub>,
    _task: Arc<Task>,
}

struct Hub {
    store: Postgres,
    limiters: Mutex<Vec<Weak<Inner>>>,
}

struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl PostgresLimits {
    /// Listens on a store that is connected.
    pub async fn on(store: &Postgres) -> Result<Self> {
        let address = store.shared.listen.clone();
        let listener = Listener::connect::<Hub>(&address).await?;
        let hub = Arc::new(Hub {
            store: store.clone(),
            limiters: Mutex::default(),
        });
        let task = tokio::spawn(listener.run(Arc::downgrade(&hub), address));
        Ok(Self {
            hub,
            _task: Arc::new(Task(task.abort_handle())),
        })
    }

    /// The limiter of a destination; it learns of a pause that runs already. Without a rate it
    /// knows pauses only.
    ///
    /// - `Invalid`: the rate or the name makes no sense.
    pub async fn limiter(&self, destination: &str, rate: Option<Rate>) -> Result<PostgresLimiter> {
        let limiter = PostgresLimiter::new(self, &self.hub.store, destination, rate)?;
        // Heard from now on, so that nothing is missed between the look and the first word.
        self.hub.limiters().push(Arc::downgrade(&limiter.inner));
        limiter.inner.look().await?;
        Ok(limiter)
    }
}

impl Hub {
    fn limiters(&self) -> MutexGuard<'_, Vec<Weak<Inner>>> {
        let limiters = self.limiters.lock();
        limiters.unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are in use.
    fn living(&self) -> Vec<Arc<Inner>> {
        let mut limiters = self.limiters();
        limiters.retain(|limiter| limiter.strong_count() > 0);
        limiters.iter().filter_map(Weak::upgrade).collect()
    }

    fn heard(&self, said: &str) {
        let Some((lasting, destination)) = said.split_once(' ') else {
            return;
        };
        let Ok(lasting) = lasting.parse().map(Duration::from_micros) else {
            return;
        };
        let living = self.living().into_iter();
        for limiter in living.filter(|one| one.destination == destination) {
            limiter.paused_for(lasting);
        }
    }
}

#[async_trait]
impl Subscriber for Hub {
    const CHANNEL: &'static str = "clinch_pause";

    fn clock(&self) -> Arc<dyn Clock> {
        self.store.shared.clock.clone()
    }

    async fn notified(&self, message: &str) {
        self.heard(message);
    }

    async fn reconnected(&self, _: Arc<tokio_postgres::Client>) -> bool {
        let mut all_know = true;
        for limiter in self.living() {
            all_know &= limiter.look().await.is_ok();
        }
        all_know
    }
}

impl fmt::Debug for PostgresLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLimits").finish_non_exhaustive()
    }
}
