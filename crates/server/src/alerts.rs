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

use crate::letter_alerts::LetterAlerts;
use crate::outbound::Outbound;
use crate::telemetry::UNDELIVERED;

/// Alerts that wait for delivery; an alert past this number is dropped, since the receiver has
/// enough to act on.
const WAITING_MAX: usize = 256;
/// Attempts to deliver one alert.
const TRIES_MAX: u32 = 5;
/// The delay before the second attempt; doubles with each attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// Dead letters after the first one are summed up for this long: one alert a minute for each
/// domain and code is as many as a person reads.
const SUM_UP_AFTER: Duration = Duration::from_secs(60);

/// The engine's end of the queue.
#[derive(Clone)]
pub(crate) struct Alerts {
    notes: mpsc::Sender<Value>,
    letters: Arc<LetterAlerts>,
}

/// The sender's end of the queue.
pub(crate) struct AlertQueue {
    notes: mpsc::Receiver<Value>,
    letters: Arc<LetterAlerts>,
}

pub(crate) fn channel(clock: Arc<dyn Clock>) -> (Alerts, AlertQueue) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let letters = Arc::new(LetterAlerts::new(clock, SUM_UP_AFTER));
    let alerts = Alerts {
        notes: sender,
        letters: letters.clone(),
    };
    let queue = AlertQueue {
        notes: receiver,
        letters,
    };
    (alerts, queue)
}

/// The alert of `clinch doctor --test-alert`.
pub fn test_alert() -> Vec<u8> {
    let message = "this is a test: `clinch doctor --test-alert` sent it";
    let note = AlertNote::new(Severity::Warning, "test", message);
    document(&note).to_string().into_bytes()
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
        "domain": note.domain,
        "failure_code": note.failure_code,
        "count": note.count,
    })
}

#[async_trait]
impl Alert for Alerts {
    async fn raise(&self, note: &AlertNote) -> Result<()> {
        let full = |_| Error::new(ErrorKind::Full, "the alert queue is full");
        self.notes.try_send(document(note)).map_err(full)
    }

    /// The first of a domain and code is sent at once; the next ones are summed up.
    async fn dead_letter(&self, note: &AlertNote) -> Result<()> {
        match self.letters.is_first(note) {
            true => self.raise(note).await,
            false => Ok(()),
        }
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
                note = self.notes.recv() => note,
                () = stop.cancelled() => self.notes.try_recv().ok(),
                sums = self.letters.next_sums() => {
                    for sum in sums {
                        send_one(&document(&sum), &*to, &*clock, &stop).await;
                    }
                    continue;
                }
            };
            let Some(note) = note else { break };
            send_one(&note, &*to, &*clock, &stop).await;
        }
        for sum in self.letters.rest() {
            send_one(&document(&sum), &*to, &*clock, &stop).await;
        }
    }
}

async fn send_one(note: &Value, to: &dyn Outbound, clock: &dyn Clock, stop: &CancellationToken) {
    let mut pause = PAUSE;
    for tried in 1..=TRIES_MAX {
        match to.post(note.to_string().into_bytes()).await {
            Ok(()) => return,
            Err(error) if tried == TRIES_MAX || stop.is_cancelled() => {
                metrics::counter!(UNDELIVERED).increment(1);
                let code = note["code"].as_str().unwrap_or_default();
                tracing::error!(target: "clinch", code, "alert not delivered: {}", error.message());
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
