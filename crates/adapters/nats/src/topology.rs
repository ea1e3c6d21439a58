//! Stream and consumers: looked up, created if missing, and looked up again after a lost
//! connection, since a server can come back empty.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use crate::call::apart;
use crate::loans::MARGIN;
use crate::shared::Shared;
use crate::wire::nanos;

/// Maximum hints of a topic that are on loan or delayed at once. The server delivers no more until
/// some come back. Each costs the server about a hundred bytes.
const OUTSTANDING_MAX: u32 = 100_000;
/// Maximum pulls of all processes that wait at one consumer: two for each process.
const WAITING_MAX: u32 = 4_096;

impl Shared {
    /// Makes sure that the stream exists.
    pub(crate) async fn know_stream(self: &Arc<Self>) -> Result<()> {
        if self.state().stream_known {
            return Ok(());
        }
        let shared = self.clone();
        apart(async move { shared.look_up_stream().await }).await
    }

    async fn look_up_stream(&self) -> Result<()> {
        let _turn = self.topology.lock().await;
        let losses = {
            let state = self.state();
            if state.stream_known {
                return Ok(());
            }
            state.losses
        };
        let prefix = &self.settings.prefix;
        let call = format!("STREAM.INFO.{prefix}");
        let stream = match self.api(&call, String::new()).await? {
            Err(refusal) if refusal.code == 404 => self.create_stream().await?,
            other => other?,
        };
        check_stream(&stream, prefix)?;
        let created = stream["created"].as_str().unwrap_or_default();
        let mut state = self.state();
        state.stream_is(created);
        state.stream_known = state.losses == losses;
        Ok(())
    }

    /// The stream may be gone: check before the next use.
    pub(crate) fn doubt_stream(&self) {
        let mut state = self.state();
        state.stream_known = false;
        for consumer in state.consumers.values_mut() {
            consumer.ack_wait = None;
        }
    }

    async fn create_stream(&self) -> Result<Value> {
        let prefix = &self.settings.prefix;
        let config = json!({
            "name": prefix,
            "subjects": [format!("{prefix}.>")],
            "retention": "workqueue",
            "storage": "file",
            "discard": "old",
            "max_msgs": self.settings.hints_max,
            "num_replicas": self.settings.replicas,
        });
        let call = format!("STREAM.CREATE.{prefix}");
        Ok(self.api(&call, config.to_string()).await??)
    }

    /// Makes sure that the topic's consumer exists.
    pub(crate) async fn know_consumer(self: &Arc<Self>, name: &str) -> Result<()> {
        self.know_stream().await?;
        if self.state().consumer(name).ack_wait.is_some() {
            return Ok(());
        }
        let _turn = self.topology.lock().await;
        let losses = self.state().losses;
        let prefix = &self.settings.prefix;
        let call = format!("CONSUMER.INFO.{prefix}.{name}");
        let consumer = match self.api(&call, String::new()).await? {
            Err(refusal) if refusal.code == 404 => self.create_consumer(name).await?,
            other => other?,
        };
        let ack_wait = consumer["config"]["ack_wait"].as_u64();
        let mut state = self.state();
        if state.losses == losses {
            state.consumer(name).ack_wait = ack_wait.map(Duration::from_nanos);
        }
        Ok(())
    }

    async fn create_consumer(&self, name: &str) -> Result<Value> {
        let prefix = &self.settings.prefix;
        let request = json!({
            "stream_name": prefix,
            "config": {
                "durable_name": name,
                "filter_subject": format!("{prefix}.{name}.>"),
                "deliver_policy": "all",
                "ack_policy": "explicit",
                "ack_wait": nanos(self.settings.visibility + MARGIN),
                "max_deliver": -1,
                "max_ack_pending": OUTSTANDING_MAX,
                "max_waiting": WAITING_MAX,
            },
        });
        let call = format!("CONSUMER.DURABLE.CREATE.{prefix}.{name}");
        match self.api(&call, request.to_string()).await? {
            Ok(consumer) => Ok(consumer),
            Err(refusal) => {
                // The stream was deleted between the two calls.
                if refusal.code == 404 {
                    self.doubt_stream();
                }
                Err(refusal.into())
            }
        }
    }
}

/// Refuses a stream of this name that belongs to another program: one of the two would lose
/// messages.
fn check_stream(stream: &Value, prefix: &str) -> Result<()> {
    let config = &stream["config"];
    let ours = json!([format!("{prefix}.>")]);
    if config["retention"] == "workqueue" && config["subjects"] == ours {
        return Ok(());
    }
    let problem = "the NATS server has a stream of that name which is not ours; \
                   set another prefix";
    Err(Error::new(ErrorKind::Invalid, problem).with("stream", prefix))
}
