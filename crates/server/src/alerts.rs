//! Alerts to a webhook. Raising an alert never waits for the delivery.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch::{Error, Result};
use clinch_core::ErrorKind;
use clinch_core::ports::{Alert, AlertNote, Clock, Severity};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::outbound::Outbound;

/// Alerts that wait for delivery; an alert past this number is dropped, since the receiver has
/// enough to act on.
const WAITING_MAX: usize = 256;
/// Attempts to deliver one alert.
const TRIES_MAX: u32 = 5;
/// The delay before the second attempt; doubles with each attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// The engine's end of the queue.
#[derive(Clone)]
pub(crate) struct Alerts(mpsc::Sender<Value>);

/// The sender's end of the queue.
pub(crate) struct AlertQueue(mpsc::Receiver<Value>);

pub(crate) fn channel() -> (Alerts, AlertQueue) {
    let (notes, waiting) = mpsc::channel(WAITING_MAX);
    (Alerts(notes), AlertQueue(waiting))
}

/// An alert holds no payload and no key: the server writes its message.
fn document(note: &AlertNote) -> Value {
    json!({
        "source": "clinch",
        "severity": match note.severity {
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        },
        "code": note.code,
        "message": note.message,
        "op_id": note.op_id.map(|op_id| op_id.to_string()),
    })
}

#[async_trait]
impl Alert for Alerts {
    async fn raise(&self, note: &AlertNote) -> Result<()> {
        let full = |_| Error::new(ErrorKind::Full, "the alert queue is full");
        self.0.try_send(document(note)).map_err(full)
    }
}

impl AlertQueue {
    /// Delivers alerts until the server stops; then tries each remaining alert once.
    pub(crate) async fn send(
        mut self,
        to: Arc<dyn Outbound>,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
    ) {
        loop {
            let note = tokio::select! {
                biased;
                note = self.0.recv() => note,
                () = stop.cancelled() => self.0.try_recv().ok(),
            };
            let Some(note) = note else { return };
            send_one(&note, &*to, &*clock, &stop).await;
        }
    }
}

async fn send_one(note: &Value, to: &dyn Outbound, clock: &dyn Clock, stop: &CancellationToken) {
    let mut pause = PAUSE;
    for tried in 1..=TRIES_MAX {
        match to.post(note.to_string().into_bytes()).await {
            Ok(()) => return,
            Err(error) if tried == TRIES_MAX || stop.is_cancelled() => {
                tracing::error!(target: "clinch", code = %note["code"], "alert not delivered: {}", error.message());
                return;
            }
            Err(_) => {}
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = clock.sleep(pause) => {}
        }
        pause *= 2;
    }
}
