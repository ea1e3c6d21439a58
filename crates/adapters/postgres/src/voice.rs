//! Telling other processes, and hearing them.
//!
//! A notification inside a commit would make commits wait for each other, so news is sent
//! after it: by one task, one statement at a time, with everything that has gathered
//! meanwhile. What is lost costs latency: every wait has a bound.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use clinch_core::ports::Notice;
use clinch_core::{Domain, OpId};
use tokio::sync::Notify;
use tokio_postgres::AsyncMessage;
use uuid::Uuid;

use crate::Shared;
use crate::connect::{self, Address, Listener};
use crate::link::Link;
use crate::query::Query;

/// Ends that wait to be told; more are told as "look at everything".
const WAITING_MAX: usize = 1_024;
/// Bytes of one notification: below the server's limit of 8,000.
const MESSAGE_MAX: usize = 7_000;
/// Pauses between attempts to listen again: from the first, twice as long each time.
const RECONNECT: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

/// What waits to be sent.
#[derive(Debug, Default)]
struct Waiting {
    /// Domains in which a row may be due, and from when on.
    due: BTreeMap<Domain, i64>,
    settled: Vec<OpId>,
    recovery: bool,
    /// There is a new stream.
    stream: bool,
    /// Look at everything.
    lagged: bool,
}

/// News on their way out.
#[derive(Debug)]
pub(crate) struct Voice {
    own: String,
    waiting: Mutex<Waiting>,
    ready: Arc<Notify>,
}

/// What another process said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    notices: Vec<Notice>,
    due: Vec<(Domain, i64)>,
    stream: bool,
}

impl Voice {
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

    /// Tells the others. `due` says from when on rows of a domain are due.
    pub(crate) fn say(&self, notices: &[Notice], due: &BTreeMap<Domain, i64>) {
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

    /// Tells the others that there is a new stream.
    pub(crate) fn say_stream(&self) {
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

    /// News as notifications that nobody takes for its own: they come with a commit that is
    /// still ahead.
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

    /// What another process said; `None`: it was us.
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
pub(crate) async fn speak(shared: Weak<Shared>) {
    let Some(ready) = shared.upgrade().map(|shared| shared.voice.ready.clone()) else {
        return;
    };
    loop {
        ready.notified().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let messages = shared.voice.messages(&shared.voice.words());
        if messages.is_empty() {
            continue;
        }
        if let Ok(client) = shared.client().await {
            let _ = Link::Pooled(&client).run(Query::Say, &[&messages]).await;
        }
    }
}

/// Hears what others say, and connects again when that breaks.
pub(crate) async fn listen(shared: Weak<Shared>, address: Address, first: Listener) {
    let mut listener = Some(first);
    let mut pause = RECONNECT;
    loop {
        if let Some(listener) = listener.take() {
            pause = RECONNECT;
            hear(&shared, listener).await;
        }
        let Some(clock) = shared.upgrade().map(|shared| shared.clock.clone()) else {
            return;
        };
        clock.sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MAX);
        listener = connect::listener(&address).await.ok();
        if listener.is_some() {
            // Whatever was said meanwhile was missed.
            tell(&shared, vec![Notice::Lagged]);
        }
    }
}

/// Until the connection breaks, or the store is gone.
async fn hear(shared: &Weak<Shared>, mut listener: Listener) {
    while let Some(message) = listener.heard.recv().await {
        let AsyncMessage::Notification(message) = message else {
            continue;
        };
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if let Some(heard) = shared.voice.understand(message.payload()) {
            shared.heard(heard).await;
        }
    }
}

fn tell(shared: &Weak<Shared>, notices: Vec<Notice>) {
    if let Some(shared) = shared.upgrade() {
        shared.horizon.forget();
        shared.news.tell(notices);
    }
}

impl Shared {
    /// Another process said something.
    async fn heard(&self, heard: Heard) {
        for (domain, at) in &heard.due {
            for stream in self.names.streams(|stream| stream.domain == *domain) {
                self.horizon.lower(stream, *at);
            }
        }
        let is_lagged = heard.notices.contains(&Notice::Lagged);
        if is_lagged {
            self.horizon.forget();
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
