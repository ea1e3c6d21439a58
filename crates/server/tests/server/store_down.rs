//! A store that fails every read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use clinch_core::ports::{ApiKey, ApiKeys};
use clinch_core::{Error, ErrorKind, Result, Timestamp};
use clinch_memory::Memory;
use clinch_server::Role;

use crate::harness::{Provider, ROUTES, Running, parts, store};

/// Keys that cannot be read once `is_down` is set.
struct Unreadable {
    keys: Memory,
    is_down: Arc<AtomicBool>,
}

impl Unreadable {
    fn check(&self) -> Result<()> {
        match self.is_down.load(Ordering::SeqCst) {
            true => Err(Error::new(ErrorKind::Unavailable, "the store is down")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl ApiKeys for Unreadable {
    async fn create(&self, keys: &[ApiKey]) -> Result<Vec<bool>> {
        self.keys.create(keys).await
    }

    async fn list(&self) -> Result<Vec<ApiKey>> {
        self.check()?;
        self.keys.list().await
    }

    async fn revoke(&self, ids: &[String], at: Timestamp) -> Result<Vec<bool>> {
        self.keys.revoke(ids, at).await
    }

    async fn find(&self, hashes: &[[u8; 32]]) -> Result<Vec<Option<ApiKey>>> {
        self.check()?;
        self.keys.find(hashes).await
    }
}

/// It is unknown whether there are keys: only routes that need no key are answered.
#[tokio::test]
async fn core_16_every_route_is_503_while_the_keys_cannot_be_read() {
    let (memory, provider) = (store(), Provider::default());
    let is_down = Arc::new(AtomicBool::new(false));
    let mut parts = parts(&memory, &provider);
    parts.keys = Arc::new(Unreadable {
        keys: memory.clone(),
        is_down: is_down.clone(),
    });
    let server = Running::of(ROUTES, parts, memory, provider, &Role::ALL).await;
    let api = server.get("/openapi.json").await.body;
    is_down.store(true, Ordering::SeqCst);
    // Keys that were read are cached for a moment.
    while server.get("/v1/domains").await.status == 200 {
        tokio::task::yield_now().await;
    }
    let mut asked = 0;
    for (path, item) in api["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("methods") {
            let is_described = operation["responses"]["503"].is_object();
            if !is_described || path == "/readyz" {
                continue;
            }
            let reply = server.send(&method.to_uppercase(), path, &[], "").await;
            let reply = reply.is_problem(503, "unavailable");
            assert_eq!(reply.header("retry-after"), Some("1"), "{method} {path}");
            asked += 1;
        }
    }
    assert!(asked > 20, "{asked}");
    assert_eq!(server.get("/healthz").await.status, 200);
    is_down.store(false, Ordering::SeqCst);
    assert_eq!(server.get("/v1/domains").await.status, 200);
}
