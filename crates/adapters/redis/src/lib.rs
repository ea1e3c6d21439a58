//! Redis 7 as the server that many nodes share: [`RedisBus`] carries hints on streams,
//! [`RedisLocks`] elects leaders, [`RedisLimiter`] caps the calls of a destination over all nodes,
//! and [`RedisQuota`] spends the budgets that providers grant.
//!
//! The store is the truth, not Redis: data that Redis loses costs latency. Every change is one
//! script on the server's clock, so that nodes with wrong clocks agree.
//!
//! - `{prefix}:s:<domain>` is a stream of hints with one consumer group. Acked entries are deleted;
//!   nothing is ever trimmed.
//! - `{prefix}:delayed` is a set sorted by due time. One node at a time, the scheduler, moves due
//!   hints to their streams, under a fence. It sleeps until the next one is due and is woken by
//!   Pub/Sub.
//! - A waiting reader blocks in `XREADGROUP BLOCK` on a connection of its own.
//!
//! An idle node sends nothing except those reads and the scheduler's lock renewal.
#![forbid(unsafe_code)]

mod bus;
mod check;
mod clock;
mod counters;
mod depth;
mod error;
mod hub;
mod keys;
mod limiter;
mod link;
mod locks;
mod quota;
mod scheduler;
mod scripts;
mod settings;
mod source;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::Result;
use redis::ScriptInvocation;
use tokio::sync::broadcast;

pub use bus::RedisBus;
pub use check::{Finding, Weight};
pub use clinch_core::policy::Rate;
pub use clinch_core::ports::Depth;
pub use counters::LeaderWatcher;
pub use limiter::RedisLimiter;
pub use locks::RedisLocks;
pub use quota::RedisQuota;
pub use settings::{Settings, TestClock};

use counters::Counters;
use hub::{Event, Hub};
use keys::Keys;
use link::Link;
use scripts::Scripts;

#[doc(hidden)]
pub use scheduler::{Scheduler, Tick};

/// A server and its settings. Cheap to clone; clones share its connections.
#[derive(Clone)]
pub struct Redis {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    keys: Keys,
    scripts: Scripts,
    link: Arc<Link>,
    hub: Hub,
    counters: Counters,
}

impl Redis {
    /// Connects. The address is `redis://[user:password@]host[:port][/db]`, `rediss://` for
    /// the same over TLS, or `redis+sentinel://[user:password@]host:port,…/master[/db]`.
    pub async fn connect(url: &str, settings: Settings) -> Result<Self> {
        settings.validate()?;
        let source = source::Source::parse(url)?;
        let link = Arc::new(Link::new(source, &settings));
        link.ping().await.map_err(|e| error::translate(&e))?;
        let keys = Keys::new(&settings.prefix);
        let hub = Hub::start(link.clone(), keys.channel());
        let shared = Shared {
            scripts: Scripts::new(),
            settings,
            keys,
            link,
            hub,
            counters: Counters::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    fn offset(&self) -> u64 {
        self.shared.settings.test_clock.offset_us()
    }

    fn events(&self) -> broadcast::Receiver<Event> {
        self.shared.hub.subscribe()
    }

    /// The server's clock, as the scripts see it. For tests.
    #[doc(hidden)]
    pub async fn now_us(&self) -> Result<u64> {
        let answer: redis::RedisResult<(u64, u64)> =
            self.shared.link.command(&redis::cmd("TIME")).await;
        let (seconds, micros) = answer.map_err(|e| error::translate(&e))?;
        Ok(seconds * 1_000_000 + micros + self.offset())
    }

    /// Runs a script; its first argument is the offset of the clock.
    async fn run<T: redis::FromRedisValue>(
        &self,
        invocation: &ScriptInvocation<'_>,
    ) -> redis::RedisResult<T> {
        self.shared.link.script(invocation).await
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("prefix", &self.shared.settings.prefix)
            .finish_non_exhaustive()
    }
}

/// Whole microseconds, the unit of the scripts. Lua would round numbers above 2^53.
fn micros(duration: Duration) -> u64 {
    /// 142 years. Added to the clock's own 56 years it is still exact in Lua.
    const MICROS_MAX: u128 = 1 << 52;
    u64::try_from(duration.as_micros().min(MICROS_MAX)).unwrap_or(1 << 52)
}

fn millis(duration: Duration) -> u64 {
    micros(duration) / 1_000
}
