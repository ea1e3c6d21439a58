//! Notifications to other processes, and from them.
//!
//! A notification inside a commit would make commits wait for each other. One task sends
//! notifications after the commit: one statement at a time, with everything that was announced
//! since the last. A lost notification costs latency only: every wait has a bound.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use clinch_core::ports::{Clock, Notice};
use clinch_core::{Domain, OpId};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::Shared;
use crate::link::Link;
use crate::listen::Subscriber;
use crate::query::Query;

/// Settled operations that wait to be sent. Beyond that, readers are told to look at everything.
const WAITING_MAX: usize = 1_024;
/// Bytes of one notification: below the server's limit of 8,000.
const MESSAGE_MAX: usize = 7_000;

/// Announcements since the last notification.
#[derive(Debug, Default)]
struct Waiting {
    /// Domains in which a row may be due, and from when on.
    due: BTreeMap<Domain, i64>,
    settled: Vec<OpId>,
    recovery: bool,
    /// There is a new stream.
    stream: bool,
    /// Too much to list: readers look at everything.
    lagged: bool,
}

/// Announcements that wait to be sent to other processes.
#[derive(Debug)]
pub(crate) struct Notifier {
    own: String,
    waiting: Mutex<Waiting>,
    ready: Arc<Notify>,
}

/// The announcements of another process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    notices: Vec<Notice>,
    due: Vec<(Domain, i64)>,
    stream: bool,
}

impl Notifier {
    pub(crate) fn new(instance: Uuid) -> Self {
        Self {
            own: instance.simple().to_string()[..12].to_owned(),
            waiting: Mutex::default(),
            ready: Arc::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends notices to other processes. `due` says from when on rows of a domain are due.
    pub(crate) fn announce(&self, notices: &[Notice], due: &BTreeMap<Domain, i64>) {
        if notices.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        for (domain, at) in due {
            let first = waiting.due.entry(domain.clone()).or_insert(*at);
            *first = (*first).min(*at);
        }
        for notice in notices {
            match notice {
                Notice::Settled(op) if waiting.settled.len() < WAITING_MAX => {
                    waiting.settled.push(*op);
                }
                Notice::Recovery => waiting.recovery = true,
                Notice::Due(_) => {}
                Notice::Settled(_) | Notice::Lagged => waiting.lagged = true,
            }
        }
        drop(waiting);
        self.ready.notify_one();
    }

    /// Tells other processes that there is a new stream.
    pub(crate) fn announce_stream(&self) {
        self.waiting().stream = true;
        self.ready.notify_one();
    }

    fn words(&self) -> Vec<String> {
        let waiting = std::mem::take(&mut *self.waiting());
        let mut words = Vec::new();
        words.extend(waiting.stream.then(|| "t".to_owned()));
        words.extend(waiting.recovery.then(|| "r".to_owned()));
        words.extend(waiting.lagged.then(|| "l".to_owned()));
        let due = waiting.due.into_iter();
        words.extend(due.map(|(domain, at)| format!("d{at}:{domain}")));
        if !waiting.lagged {
            let settled = waiting.settled.into_iter();
            words.extend(settled.map(|op| format!("s{}", op.0.simple())));
        }
        words
    }

    /// Notifications that a caller's transaction sends with its commit. They name no process, so
    /// that this one hears them as well.
    pub(crate) fn as_anyone(&self, notices: &[Notice], due: &BTreeMap<Domain, i64>) -> Vec<String> {
        let mut words: Vec<String> = due
            .iter()
            .map(|(domain, at)| format!("d{at}:{domain}"))
            .collect();
        words.extend(notices.contains(&Notice::Recovery).then(|| "r".to_owned()));
        messages("caller", &words)
    }

    fn messages(&self, words: &[String]) -> Vec<String> {
        messages(&self.own, words)
    }

    /// Reads a notification; `None`: this process sent it.
    fn understand(&self, message: &str) -> Option<Heard> {
        let mut words = message.split(' ');
        if words.next() == Some(self.own.as_str()) {
            return None;
        }
        let mut heard = Heard::default();
        for word in words {
            if heard.take(word).is_none() {
                heard.notices.push(Notice::Lagged);
            }
        }
        Some(heard)
    }
}

fn messages(from: &str, words: &[String]) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    for word in words {
        match messages.last_mut() {
            Some(last) if last.len() + word.len() < MESSAGE_MAX => {
                last.push(' ');
                last.push_str(word);
            }
            _ => messages.push(format!("{from} {word}")),
        }
    }
    messages
}

impl Heard {
    /// `None`: it is of another release.
    fn take(&mut self, word: &str) -> Option<()> {
        let (kind, rest) = word.split_at_checked(1)?;
        match kind {
            "d" => {
                let (at, domain) = rest.split_once(':')?;
                let domain = Domain::new(domain).ok()?;
                self.due.push((domain.clone(), at.parse().ok()?));
                self.notices.push(Notice::Due(domain));
            }
            "s" => {
                let op = Uuid::try_parse(rest).ok()?;
                self.notices.push(Notice::Settled(OpId(op)));
            }
            "r" => self.notices.push(Notice::Recovery),
            "t" => self.stream = true,
            _ => return None,
        }
        Some(())
    }
}

/// Sends what gathers, until the store is dropped.
pub(crate) async fn send(shared: Weak<Shared>) {
    let Some(ready) = shared.upgrade().map(|shared| shared.notifier.ready.clone()) else {
        return;
    };
    loop {
        ready.notified().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let messages = shared.notifier.messages(&shared.notifier.words());
        if messages.is_empty() {
            continue;
        }
        let _ = shared.run(Query::Say, &[&messages]).await;
    }
}

#[async_trait]
impl Subscriber for Shared {
    const CHANNEL: &'static str = "clinch";

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    async fn notified(&self, message: &str) {
        if let Some(heard) = self.notifier.understand(message) {
            self.heard(heard).await;
        }
    }

    async fn reconnected(&self, client: Arc<tokio_postgres::Client>) -> bool {
        self.reconnected_session(client).await;
        self.horizon.forget();
        self.own_rows.forget();
        self.news.tell(vec![Notice::Lagged]);
        true
    }
}

impl Shared {
    /// Another process said something.
    async fn heard(&self, heard: Heard) {
        for (domain, at) in &heard.due {
            for stream in self.names.streams(|stream| stream.domain == *domain) {
                self.horizon.lower(stream, *at);
                self.own_rows.announced(stream);
            }
        }
        let is_lagged = heard.notices.contains(&Notice::Lagged);
        if is_lagged {
            self.horizon.forget();
            self.own_rows.forget();
        }
        if heard.stream || is_lagged {
            self.learn().await;
        }
        self.news.tell(heard.notices);
    }

    /// Reads the streams anew. If that fails they are read with the next row.
    pub(crate) async fn learn(&self) {
        if let Ok(client) = self.client().await {
            let _ = self.names.load(&Link::Pooled(&client)).await;
        }
    }
}
