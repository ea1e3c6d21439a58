//! The shared connection for commands, which reconnects when it breaks, and the connections of
//! blocking reads.

use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Cmd, FromRedisValue, RedisError, RedisResult, ScriptInvocation,
};
use tokio::sync::Mutex;

use crate::Settings;
use crate::clock::{Backoff, Moment, now, within};
use crate::error::must_reconnect;
use crate::source::Source;

/// Maximum commands in flight; further commands wait.
const IN_FLIGHT_MAX: usize = 256;

pub(crate) struct Link {
    source: Source,
    answer_within: Duration,
    block_max: Duration,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    /// Distinguishes a connection from its successors.
    epoch: u64,
    connection: Option<MultiplexedConnection>,
    backoff: Backoff,
    /// Why there is no connection, and until when no reconnect is tried.
    down: Option<(RedisError, Moment)>,
}

#[derive(Clone, Copy)]
enum Order<'a> {
    Script(&'a ScriptInvocation<'a>),
    Command(&'a Cmd),
}

impl Link {
    pub(crate) fn new(source: Source, settings: &Settings) -> Self {
        Self {
            source,
            answer_within: settings.answer_within,
            block_max: settings.block_max,
            slot: Mutex::default(),
        }
    }

    async fn connect(&self, answer_within: Duration) -> RedisResult<MultiplexedConnection> {
        let client = self.client().await?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.answer_within))
            .set_response_timeout(Some(answer_within))
            .set_concurrency_limit(IN_FLIGHT_MAX);
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    async fn client(&self) -> RedisResult<redis::Client> {
        let client = within(self.answer_within, self.source.client()).await;
        client.unwrap_or_else(|| Err(timed_out()))
    }

    async fn get(&self) -> RedisResult<(MultiplexedConnection, u64)> {
        let mut slot = self.slot.lock().await;
        if let Some(connection) = &slot.connection {
            return Ok((connection.clone(), slot.epoch));
        }
        if let Some((error, until)) = &slot.down
            && now() < *until
        {
            return Err(error.clone());
        }
        match self.connect(self.answer_within).await {
            Ok(connection) => {
                slot.epoch += 1;
                slot.down = None;
                slot.backoff.reset();
                slot.connection = Some(connection.clone());
                Ok((connection, slot.epoch))
            }
            Err(error) => {
                let pause = slot.backoff.next();
                slot.down = Some((error.clone(), now() + pause));
                Err(error)
            }
        }
    }

    async fn forget(&self, epoch: u64) {
        let mut slot = self.slot.lock().await;
        if slot.epoch == epoch {
            slot.connection = None;
        }
    }

    pub(crate) async fn script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> RedisResult<T> {
        self.send(Order::Script(script)).await
    }

    pub(crate) async fn command<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        self.send(Order::Command(command)).await
    }

    /// A command that was sent on a broken connection is sent once more: every script may run
    /// twice.
    async fn send<T: FromRedisValue>(&self, order: Order<'_>) -> RedisResult<T> {
        let mut is_second = false;
        loop {
            let (mut connection, epoch) = self.get().await?;
            let answer = match order {
                Order::Script(script) => script.invoke_async(&mut connection).await,
                Order::Command(command) => command.query_async(&mut connection).await,
            };
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if must_reconnect(&error) {
                self.forget(epoch).await;
                if !is_second && !error.is_timeout() {
                    is_second = true;
                    continue;
                }
            }
            return Err(error);
        }
    }

    pub(crate) async fn ping(&self) -> RedisResult<()> {
        let _: String = self.command(&redis::cmd("PING")).await?;
        Ok(())
    }

    /// A connection for one blocking read at a time: its answers may take as long as a block.
    pub(crate) async fn reader(&self) -> RedisResult<MultiplexedConnection> {
        self.connect(self.block_max + self.answer_within).await
    }

    pub(crate) async fn pubsub(&self, channel: &str) -> RedisResult<PubSub> {
        let client = self.client().await?;
        let subscribed = within(self.answer_within, async {
            let mut pubsub = client.get_async_pubsub().await?;
            pubsub.subscribe(channel).await?;
            Ok(pubsub)
        });
        subscribed.await.unwrap_or_else(|| Err(timed_out()))
    }
}

fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}
