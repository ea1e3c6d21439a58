//! The connection: one inbox for every answer, read by one task, so that the server's messages are
//! handled in order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, Message, ServerInfo, Subscriber};
use clinch_core::{Error, ErrorKind, Result};
use tokio::sync::{oneshot, watch};

use crate::Settings;
use crate::address::Address;
use crate::clock::within;
use crate::error::{connecting, no_connection, silent};

/// Timeout of an answer: far above what a working server needs.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(5);
/// A connection that answers no ping for about two of these intervals is closed.
const PING_EVERY: Duration = Duration::from_secs(10);
/// The first pause between reconnects; it doubles.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);
/// Upper bound of that pause.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(2);

pub(crate) struct Link {
    client: Client,
    inbox: String,
    last_id: AtomicU64,
    /// The callers that wait for an answer, by message id.
    asked: Mutex<HashMap<u64, oneshot::Sender<Message>>>,
}

/// What the reader task listens to.
pub(crate) struct ReaderInput {
    pub(crate) inbox: Subscriber,
    /// Counts lost connections.
    pub(crate) losses: watch::Receiver<u64>,
}

impl Link {
    pub(crate) async fn open(url: &str, settings: &Settings) -> Result<(Self, ReaderInput)> {
        let address = Address::parse(url)?;
        let losses = Arc::new(watch::Sender::new(0_u64));
        let heard = losses.subscribe();
        let mut options = ConnectOptions::new()
            .name("clinch")
            .connection_timeout(ANSWER_MAX)
            .ping_interval(PING_EVERY)
            .max_reconnects(None)
            .reconnect_delay_callback(|tries| {
                let doublings = u32::try_from(tries.min(10)).unwrap_or(10);
                (RECONNECT_PAUSE * (1 << doublings)).min(RECONNECT_PAUSE_MAX)
            })
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected) {
                    losses.send_modify(|count| *count += 1);
                }
                std::future::ready(())
            });
        if let Some(credentials) = &settings.credentials {
            let unreadable = |_| Error::new(ErrorKind::Invalid, "the NATS credentials are damaged");
            options = options.credentials(credentials).map_err(unreadable)?;
        }
        let options = address.log_in(options);
        let client = options.connect(address.servers).await;
        let client = client.map_err(|error| connecting(&error))?;
        let inbox = client.new_inbox();
        let subscriber = client.subscribe(format!("{inbox}.*")).await;
        let link = Self {
            client,
            inbox,
            last_id: AtomicU64::new(0),
            asked: Mutex::default(),
        };
        let input = ReaderInput {
            inbox: subscriber.map_err(|_| no_connection())?,
            losses: heard,
        };
        Ok((link, input))
    }

    pub(crate) fn server(&self) -> ServerInfo {
        self.client.server_info()
    }

    /// An id for a message that expects an answer.
    pub(crate) fn id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The id of the message that an inbox subject answers.
    pub(crate) fn id_of(&self, subject: &str) -> Option<u64> {
        let id = subject.strip_prefix(&self.inbox)?.strip_prefix('.')?;
        id.parse().ok()
    }

    /// Sends without waiting for an answer.
    pub(crate) async fn send(&self, subject: String, body: impl Into<Vec<u8>>) -> Result<()> {
        self.check()?;
        let sent = self.client.publish(subject, body.into().into()).await;
        sent.map_err(|_| no_connection())
    }

    /// Sends a message whose answers go to this id.
    pub(crate) async fn send_as(
        &self,
        id: u64,
        subject: String,
        body: impl Into<Vec<u8>>,
    ) -> Result<()> {
        self.check()?;
        let reply = format!("{}.{id}", self.inbox);
        let body = body.into().into();
        let sent = self.client.publish_with_reply(subject, reply, body).await;
        sent.map_err(|_| no_connection())
    }

    /// Sends a message. The answer is awaited separately, so that many messages can be in flight in
    /// order.
    pub(crate) async fn ask(
        &self,
        subject: String,
        body: impl Into<Vec<u8>>,
    ) -> Result<Question<'_>> {
        let (sender, answer) = oneshot::channel();
        let question = Question {
            link: self,
            id: self.id(),
            answer,
        };
        self.asked().insert(question.id, sender);
        self.send_as(question.id, subject, body).await?;
        Ok(question)
    }

    /// Passes an answer to the caller that waits for it. Returns the message if no caller does.
    pub(crate) fn answer(&self, id: u64, message: Message) -> Option<Message> {
        let Some(asker) = self.asked().remove(&id) else {
            return Some(message);
        };
        let _ = asker.send(message);
        None
    }

    /// No further answer will come.
    pub(crate) fn give_up(&self) {
        self.asked().clear();
    }

    /// Without a connection the client would buffer messages, so this fails instead.
    fn check(&self) -> Result<()> {
        match self.client.connection_state() {
            State::Connected => Ok(()),
            _ => Err(no_connection()),
        }
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Message>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message in flight whose answer is awaited.
pub(crate) struct Question<'a> {
    link: &'a Link,
    id: u64,
    answer: oneshot::Receiver<Message>,
}

impl Question<'_> {
    pub(crate) async fn answered(mut self) -> Result<Message> {
        match within(ANSWER_MAX, &mut self.answer).await {
            Some(Ok(message)) => Ok(message),
            Some(Err(_)) => Err(no_connection()),
            None => Err(silent()),
        }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.link.asked().remove(&self.id);
    }
}
