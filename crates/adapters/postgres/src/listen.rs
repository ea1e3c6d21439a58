//! Notifications of the server, on a connection that does nothing else.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::Clock;
use clinch_core::{Error, ErrorKind, Result};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::connect::Address;
use crate::error;

/// Pauses between attempts to connect again: from the first, twice as long each time.
const RECONNECT: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(1);

/// Handles the notifications of one channel.
#[async_trait]
pub(crate) trait Subscriber: Send + Sync {
    /// The channel.
    const CHANNEL: &'static str;

    /// Times the pauses between attempts to connect.
    fn clock(&self) -> Arc<dyn Clock>;

    /// A notification came.
    async fn notified(&self, message: &str);

    /// The connection was lost and is there again: notifications were missed. False: nothing
    /// could be made up for, and the connection is made anew later.
    async fn reconnected(&self, client: Arc<Client>) -> bool;
}

/// A connection that listens, and what it hears.
pub(crate) struct Listener {
    /// Kept: the connection ends with it.
    client: Arc<Client>,
    heard: UnboundedReceiver<AsyncMessage>,
}

impl Listener {
    /// Connects, and listens on the subscriber's channel.
    pub(crate) async fn connect<S: Subscriber>(address: &Address) -> Result<Self> {
        let connected = tokio::time::timeout(address.timeout, listen(address, S::CHANNEL)).await;
        connected.unwrap_or_else(|_| {
            let message = "PostgreSQL does not answer";
            Err(Error::new(ErrorKind::Unavailable, message))
        })
    }

    /// The connection, for what lasts as long as it does.
    pub(crate) fn client(&self) -> Arc<Client> {
        self.client.clone()
    }

    /// Hands notifications to the subscriber, and connects again when the connection breaks,
    /// until the subscriber is gone.
    pub(crate) async fn run<S: Subscriber>(self, subscriber: Weak<S>, address: Address) {
        let (mut listener, mut pause) = (Some(self), RECONNECT);
        loop {
            if let Some(listener) = listener.take() {
                pause = RECONNECT;
                listener.hear(&subscriber).await;
            }
            let Some(clock) = subscriber.upgrade().map(|one| one.clock()) else {
                return;
            };
            clock.sleep(pause).await;
            pause = (pause * 2).min(RECONNECT_MAX);
            listener = Self::connect::<S>(&address).await.ok();
            if let (Some(there), Some(subscriber)) = (&listener, subscriber.upgrade())
                && !subscriber.reconnected(there.client()).await
            {
                listener = None;
            }
        }
    }

    /// Until the connection breaks, or the subscriber is gone.
    async fn hear<S: Subscriber>(mut self, subscriber: &Weak<S>) {
        while let Some(message) = self.heard.recv().await {
            let AsyncMessage::Notification(message) = message else {
                continue;
            };
            match subscriber.upgrade() {
                Some(subscriber) => subscriber.notified(message.payload()).await,
                None => return,
            }
        }
    }
}

async fn listen(address: &Address, channel: &'static str) -> Result<Listener> {
    let (sender, heard) = tokio::sync::mpsc::unbounded_channel();
    let client = match &address.tls {
        Some(tls) => {
            let connected = address.config.connect(tls.clone()).await;
            drive(connected.map_err(error::sql)?, sender)
        }
        None => {
            let connected = address.config.connect(NoTls).await;
            drive(connected.map_err(error::sql)?, sender)
        }
    };
    let text = format!("LISTEN {channel}");
    client.batch_execute(&text).await.map_err(error::sql)?;
    Ok(Listener {
        client: Arc::new(client),
        heard,
    })
}

fn drive<S, T>(
    (client, mut connection): (Client, tokio_postgres::Connection<S, T>),
    heard: UnboundedSender<AsyncMessage>,
) -> Client
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        let mut next = std::future::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(Ok(message)) = (&mut next).await {
            if heard.send(message).is_err() {
                return;
            }
        }
    });
    client
}
