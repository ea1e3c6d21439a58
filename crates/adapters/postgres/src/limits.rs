//! Limiters that every node on one database shares, and how they hear of each other's pauses.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use clinch_core::Result;
use tokio::task::AbortHandle;
use tokio_postgres::AsyncMessage;

use crate::Postgres;
use crate::Rate;
use crate::connect::{self, Listener};
use crate::limiter::{Inner, PostgresLimiter};

/// Where pauses are told.
const CHANNEL: &str = "clinch_pause";
/// Pauses between attempts to listen again: from the first, twice as long each time.
const RECONNECT: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

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
        let first = connect::listener_of(&store.shared.listen, CHANNEL).await?;
        let hub = Arc::new(Hub {
            store: store.clone(),
            limiters: Mutex::default(),
        });
        let task = tokio::spawn(listen(Arc::downgrade(&hub), first));
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

/// Hears what others say, and connects again when that breaks.
async fn listen(hub: Weak<Hub>, first: Listener) {
    let (mut listener, mut pause) = (Some(first), RECONNECT);
    loop {
        if let Some(listener) = listener.take() {
            pause = RECONNECT;
            hear(&hub, listener).await;
        }
        let Some(store) = hub.upgrade().map(|hub| hub.store.clone()) else {
            return;
        };
        store.clock().sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MAX);
        listener = connect::listener_of(&store.shared.listen, CHANNEL)
            .await
            .ok();
        if listener.is_none() {
            continue;
        }
        // Whatever was said meanwhile was missed.
        for limiter in hub.upgrade().iter().flat_map(|hub| hub.living()) {
            if limiter.look().await.is_err() {
                listener = None;
            }
        }
    }
}

/// Until the connection breaks, or nobody wants to know.
async fn hear(hub: &Weak<Hub>, mut listener: Listener) {
    while let Some(message) = listener.heard.recv().await {
        let AsyncMessage::Notification(message) = message else {
            continue;
        };
        match hub.upgrade() {
            Some(hub) => hub.heard(message.payload()),
            None => return,
        }
    }
}

impl fmt::Debug for PostgresLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLimits").finish_non_exhaustive()
    }
}
