//! Fresh instances, each under a prefix of its own, and the suite's hands on them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{
    Control, Fault, LimiterControl, LimiterSubject, QuotaControl, QuotaSubject, StorePorts, Subject,
};
use clinch_core::policy::QuotaRules;
use clinch_core::ports::RateLimiter;
use clinch_core::{OpId, Timestamp};
use clinch_memory::ManualClock;
use clinch_protect::RateConfig;
use clinch_redis::{
    Rate, Redis, RedisBus, RedisLimiter, RedisLocks, RedisQuota, Settings, TestClock,
};
use clinch_sqlite::Sqlite;

use crate::Opened;

fn fresh() -> Settings {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    Settings::with_prefix(format!("contract-{}-{number}", std::process::id()))
}

struct Hands {
    bus: RedisBus,
    sqlite: Option<(Arc<ManualClock>, Arc<Folder>)>,
}

/// A folder that goes with its last user.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Opened<Arc<Self>> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("clinch-redis-contract-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|error| format!("cannot make a folder: {error}"))?;
        Ok(Arc::new(Self(path)))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) async fn on_redis(url: &str) -> Opened {
    let said = |error: clinch_core::Error| error.to_string();
    let redis = Redis::connect(url, fresh()).await.map_err(said)?;
    let bus = RedisBus::on(&redis).map_err(said)?;
    let locks = Arc::new(RedisLocks::on(&redis));
    Ok(Subject {
        store: None,
        bus: Some(Arc::new(bus.clone())),
        queue: None,
        locks: Some(locks),
        control: Arc::new(Hands { bus, sqlite: None }),
    })
}

pub(crate) async fn with_sqlite(url: &str) -> Opened {
    let bus = RedisBus::connect(url, fresh());
    let bus = bus.await.map_err(|error| error.to_string())?;
    open(bus, Arc::new(ManualClock::default()), Folder::new()?)
}

fn open(bus: RedisBus, clock: Arc<ManualClock>, folder: Arc<Folder>) -> Opened {
    let file = folder.0.join("clinch.db");
    let sqlite = Sqlite::open(file, clinch_sqlite::Settings::default(), clock.clone());
    let port = Arc::new(sqlite.map_err(|error| error.to_string())?);
    Ok(Subject {
        store: Some(StorePorts {
            store: port.clone(),
            outbox: port.clone(),
            recovery: port.clone(),
            batches: port.clone(),
            domains: port.clone(),
            inspect: port.clone(),
            notices: port,
        }),
        bus: Some(Arc::new(bus.clone())),
        queue: None,
        locks: None,
        control: Arc::new(Hands {
            bus,
            sqlite: Some((clock, folder)),
        }),
    })
}

#[async_trait]
impl Control for Hands {
    async fn advance(&self, by: Duration) {
        if let Some((clock, _)) = &self.sqlite {
            clock.advance(by);
        }
        self.bus.advance(by).await.expect("the server is there");
    }

    async fn corrupt(&self, _op: OpId) {
        unreachable!("no case of a bus damages a row");
    }

    async fn arm(&self, _fault: Fault) {
        unreachable!("faults are not among the capabilities");
    }

    /// The store's file as a killed process leaves it; the bus goes on.
    async fn crash(&self) -> Subject {
        let (clock, from) = self.sqlite.as_ref().expect("only stores crash");
        let to = Folder::new().expect("a folder");
        for name in ["clinch.db", "clinch.db-wal"] {
            let file = from.0.join(name);
            if file.exists() {
                std::fs::copy(file, to.0.join(name)).expect("a copy");
            }
        }
        open(self.bus.clone(), clock.clone(), to).expect("what was committed opens")
    }
}

struct Watch {
    redis: Redis,
    clock: TestClock,
}

#[async_trait]
impl QuotaControl for Watch {
    async fn now(&self) -> Timestamp {
        let micros = self.redis.now_us().await.expect("the server is there");
        Timestamp::from_millis(i64::try_from(micros / 1_000).expect("a moment"))
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

pub(crate) async fn quota(url: &str) -> Opened<QuotaSubject> {
    let settings = fresh();
    let clock = settings.test_clock.clone();
    let redis = Redis::connect(url, settings).await;
    let redis = redis.map_err(|error| error.to_string())?;
    Ok(QuotaSubject {
        quota: Arc::new(RedisQuota::on(&redis, QuotaRules::default())),
        control: Arc::new(Watch { redis, clock }),
    })
}

/// Each node has connections of its own.
struct Limiters {
    url: String,
    settings: Settings,
}

#[async_trait]
impl LimiterControl for Limiters {
    async fn node(
        &self,
        destination: &str,
        rate: Option<&RateConfig>,
    ) -> clinch_core::Result<Arc<dyn RateLimiter>> {
        let rate = rate.map(|rate| Rate {
            permits: rate.permits,
            per: rate.per,
            burst: rate.burst.unwrap_or(rate.permits),
            wait_max: rate.wait_max,
        });
        let settings = self.settings.clone();
        let limiter = RedisLimiter::connect(&self.url, settings, destination, rate).await?;
        Ok(Arc::new(limiter))
    }

    async fn advance(&self, by: Duration) {
        self.settings.test_clock.advance(by);
    }
}

pub(crate) async fn limiters(url: &str) -> Opened<LimiterSubject> {
    Ok(Arc::new(Limiters {
        url: url.to_owned(),
        settings: fresh(),
    }))
}
