//! Locks. A lock is a hash with owner, fence and end, judged on the server's
//! clock. Only its owner releases it.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{LockManager, Tenure};
use clinch_core::{Error, ErrorKind, Result, WorkerId};

use crate::error::ours;
use crate::{Redis, Settings, micros};

/// Maximum length of a lock's name, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Named locks on one server. A lock is a convenience: if the server loses its data, two owners may
/// hold it. The fence still grows, because it is at least the server's time.
#[derive(Debug, Clone)]
pub struct RedisLocks {
    redis: Redis,
}

impl RedisLocks {
    /// Connects.
    pub async fn connect(url: &str, settings: Settings) -> Result<Self> {
        Ok(Self::on(&Redis::connect(url, settings).await?))
    }

    /// Locks on a connected server.
    pub fn on(redis: &Redis) -> Self {
        Self {
            redis: redis.clone(),
        }
    }
}

fn check(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let problem = "the name of a lock must be 1 to 256 bytes";
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    Ok(())
}

#[async_trait]
impl LockManager for RedisLocks {
    async fn take(&self, name: &str, owner: &WorkerId, ttl: Duration) -> Result<Option<Tenure>> {
        check(name)?;
        let shared = &self.redis.shared;
        let mut take = shared.scripts.lock_take.key(shared.keys.lock(name));
        take.arg(self.redis.offset())
            .arg(owner.as_str())
            .arg(micros(ttl));
        let (is_ours, value): (bool, u64) = self.redis.run(&take).await.map_err(ours)?;
        Ok(is_ours.then_some(Tenure { fence: value }))
    }

    async fn release(&self, name: &str, owner: &WorkerId) -> Result<bool> {
        check(name)?;
        let shared = &self.redis.shared;
        let mut release = shared.scripts.lock_release.key(shared.keys.lock(name));
        release.arg(self.redis.offset()).arg(owner.as_str()).arg("");
        self.redis.run(&release).await.map_err(ours)
    }
}

/// A name that no other process has.
pub(crate) fn fresh_owner() -> Result<String> {
    let mut bytes = [0; 16];
    let no_chance = |_| {
        Error::new(
            ErrorKind::Internal,
            "the operating system returned no random bytes",
        )
    };
    getrandom::fill(&mut bytes).map_err(no_chance)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
