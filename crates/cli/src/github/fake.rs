//! A fake GitHub, to try the collector.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::ports::{Clock, DocumentFilter};
use clinch_github::fake::{BASE, Fake, Served, Setup, Size, World, serve};
use clinch_github::{
    ApiAnswer, ApiRequest, Broken, Collector, JobKind, Settings, Space, Token, TokenReader,
    Transport, with_needed,
};
use clinch_system::SystemClock;
use serde_json::Value;
use tokio::net::TcpListener;

use super::{Http, api_url};
use crate::error::CliError;

/// Documents that are read at once.
const PAGE: usize = 500;

/// A world with all streams: some of them cost a request for each item, and budgets are limited.
const SMALL: Size = Size {
    users: 3,
    repositories: 12,
    documents: 1_500,
};

/// A fake GitHub on its own port.
pub(crate) struct FakeHub {
    fake: Fake,
    served: Served,
    /// Kinds of documents that are collected from it.
    kinds: BTreeSet<&'static str>,
}

/// Comparison of the stored documents with the fake's world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Equality {
    /// Documents that are equal in both.
    pub(crate) equal: u64,
    /// Documents in the world.
    pub(crate) of: u64,
    /// Documents that only the store has.
    pub(crate) extra: u64,
}

impl Equality {
    pub(crate) fn is_whole(self) -> bool {
        self.equal == self.of && self.extra == 0
    }
}

impl FakeHub {
    /// Generates the world of a seed, with what these streams collect, and serves it on loopback.
    pub(crate) async fn start(seed: u64, streams: &[JobKind]) -> Result<Self, CliError> {
        let failed = |error| CliError::failed(format!("the fake cannot listen: {error}"));
        let world = match streams.iter().all(|kind| kind.is_default()) {
            true => World::generate(seed, &Size::demo()),
            false => World::generate(seed, &SMALL).with_streams(),
        };
        let kinds = with_needed(streams).into_iter().map(JobKind::document);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let fake = Fake::new(world, Setup::default(), clock);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
        let served = serve(listener, fake.clone()).map_err(failed)?;
        Ok(Self {
            fake,
            served,
            kinds: kinds.collect(),
        })
    }

    /// Its address.
    pub(crate) fn base(&self) -> &str {
        &self.served.base
    }

    /// The users of its world.
    pub(crate) fn logins(&self) -> Vec<String> {
        self.fake.with_world(|world| world.logins())
    }

    /// The settings with the fake's address and one of its tokens.
    pub(crate) fn settings(&self, settings: Settings) -> Result<Settings, CliError> {
        let tokens = self.logins();
        let token = |login: &String| Token::new(format!("fake-{login}-1"));
        Ok(Settings {
            api_url: api_url(BASE)?,
            tokens: tokens.iter().map(token).collect(),
            token_reader: TokenReader::default(),
            app: None,
            ..settings
        })
    }

    /// Sends requests over HTTP to the current port. The address in the requests stays the same, so
    /// that known pages are recognized after a restart.
    pub(crate) fn transport(&self, clock: Arc<dyn Clock>) -> Result<Arc<dyn Transport>, CliError> {
        Ok(Arc::new(FixedAddress {
            inner: Http::new(clock, &self.served.base, false)?,
            base: self.served.base.clone(),
        }))
    }

    /// Compares every document of its users with its world.
    pub(crate) async fn compare(&self, collector: &Collector) -> Result<Equality, CliError> {
        // Kind, user, resource and content.
        type Whole = (String, String, String, String);
        let mut world: BTreeSet<Whole> = self.fake.with_world(|world| {
            let named = |item: clinch_github::fake::Item| {
                let (kind, user) = (item.kind.as_str().to_owned(), item.user.to_lowercase());
                let body = item.body.to_string();
                (kind, user, item.resource.to_lowercase(), body)
            };
            let items = world.items();
            let collected = items.filter(|item| self.kinds.contains(item.kind.as_str()));
            collected.map(named).collect()
        });
        let mut equality = Equality {
            equal: 0,
            of: world.len() as u64,
            extra: 0,
        };
        for login in self.logins() {
            let filter = DocumentFilter {
                user: Some(login.to_lowercase()),
                ..DocumentFilter::default()
            };
            let mut after: Option<String> = None;
            loop {
                let page = collector
                    .documents(Space::Main, &filter, after.as_deref(), PAGE)
                    .await?;
                after = page.last().map(|last| last.id.clone());
                let is_last = page.len() < PAGE;
                for document in page {
                    let body: Value = serde_json::from_str(&document.body).unwrap_or_default();
                    let resource = document.resource.to_lowercase();
                    let body = body.to_string();
                    match world.remove(&(document.kind, document.user, resource, body)) {
                        true => equality.equal += 1,
                        false => equality.extra += 1,
                    }
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(equality)
    }

    pub(crate) async fn stop(self) {
        self.served.stop().await;
    }
}

/// Maps the fake's fixed address to its current port.
struct FixedAddress {
    inner: Http,
    base: String,
}

#[async_trait]
impl Transport for FixedAddress {
    async fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken> {
        let request = ApiRequest {
            url: request.url.replacen(BASE, &self.base, 1),
            ..request.clone()
        };
        let mut answer = self.inner.get(&request).await?;
        for name in ["link", "location"] {
            if let Some(value) = answer.headers.get_mut(name) {
                *value = value.replace(&self.base, BASE);
            }
        }
        Ok(answer)
    }
}
