//! Alerts to a web hook. Whoever raises one never waits for it.

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

/// Alerts that wait to be sent: who gets more at once needs no further one.
const WAITING_MAX: usize = 256;
/// Times that one is tried.
const TRIES_MAX: u32 = 5;
/// The first pause between tries; doubles.
const PAUSE: Duration = Duration::from_secs(1);

/// The engine's end.
#[derive(Clone)]
pub(crate) struct Alerts(mpsc::Sender<Value>);

/// The sender's end.
pub(crate) struct Notes(mpsc::Receiver<Value>);

pub(crate) fn channel() -> (Alerts, Notes) {
    let (notes, waiting) = mpsc::channel(WAITING_MAX);
    (Alerts(notes), Notes(waiting))
}

/// An alert holds no payload and no key: the message is ours.
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
        let full = |_| Error::new(ErrorKind::Full, "too many alerts wait to be sent");
        self.0.try_send(document(note)).map_err(full)
    }
}

impl Notes {
    /// Sends what comes until the server stops, then what is left, each once.
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
                tracing::error!(target: "clinch", code = %note["code"], "an alert was not taken: {}", error.message());
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
