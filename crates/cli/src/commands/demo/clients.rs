//! Clients that submit payments, some of them several times, and record the acknowledgements.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clinch_core::policy::SplitMix;
use serde::Deserialize;
use serde_json::json;

use crate::client::{Base, Client, Request};
use crate::error::CliError;

/// Tries of one submission before the client gives up: the server does not come back.
const TRIES_MAX: usize = 600;

/// The acknowledgements: the payment's key and its operation.
pub(crate) type Acknowledged = HashMap<String, String>;

pub(crate) struct Clients {
    url: String,
    domain: String,
    payments: usize,
    seed: u64,
    next: AtomicUsize,
    /// Number of acknowledged payments.
    pub(crate) accepted: AtomicUsize,
    /// Number of repeated acknowledgements of the same payment.
    pub(crate) repeated: AtomicUsize,
}

#[derive(Deserialize)]
struct Operation {
    op_id: String,
}

impl Clients {
    pub(crate) fn new(url: String, domain: &str, payments: usize, seed: u64) -> Self {
        Self {
            url,
            domain: domain.to_owned(),
            payments,
            seed,
            next: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            repeated: AtomicUsize::new(0),
        }
    }

    /// Submits every payment, with this number of concurrent clients.
    pub(crate) async fn submit_all(
        self: Arc<Self>,
        clients: usize,
    ) -> Result<Acknowledged, CliError> {
        let running: Vec<_> = (0..clients)
            .map(|number| tokio::spawn(self.clone().submit_some(number as u64)))
            .collect();
        let mut told = Acknowledged::new();
        for client in running {
            let some = client.await;
            let some = some.map_err(|_| CliError::failed("a client task failed".to_owned()))?;
            told.extend(some?);
        }
        Ok(told)
    }

    async fn submit_some(self: Arc<Self>, number: u64) -> Result<Acknowledged, CliError> {
        let base = Base::parse(&self.url).map_err(CliError::usage)?;
        let mut client = Client::new(base, None);
        let mut chance = SplitMix::new(self.seed ^ (number << 32));
        let mut told = Acknowledged::new();
        loop {
            let payment = self.next.fetch_add(1, Ordering::SeqCst);
            if payment >= self.payments {
                return Ok(told);
            }
            let key = format!("order-{payment}");
            let op_id = self.submit(&mut client, payment).await?;
            self.accepted.fetch_add(1, Ordering::SeqCst);
            // Like a client that did not get the answer, or a user who clicked twice.
            if chance.next_u64().is_multiple_of(10) {
                let again = self.submit(&mut client, payment).await?;
                self.repeated.fetch_add(1, Ordering::SeqCst);
                if again != op_id {
                    let message = format!("{key} is both {op_id} and {again}");
                    return Err(CliError::failed(message));
                }
            }
            told.insert(key, op_id);
        }
    }

    /// Submits with the payment's own key until it is acknowledged, as a careful client does.
    async fn submit(&self, client: &mut Client, payment: usize) -> Result<String, CliError> {
        let body = json!({
            "domain": self.domain,
            "event_type": "charge",
            "biz_key": format!("order-{payment}"),
            "idem_key": "charge",
            "payload": {"amount": payment},
        });
        let body = body.to_string().into_bytes();
        for _ in 0..TRIES_MAX {
            let request = Request::post("/v1/operations", body.clone()).at_once();
            match client.send(request).await {
                Ok(answer) => {
                    let operation: Operation = serde_json::from_str(answer.document.get())
                        .map_err(|error| CliError::failed(format!("unexpected answer: {error}")))?;
                    return Ok(operation.op_id);
                }
                Err(error) if error.is_transient() => {
                    crate::clock::pause(Duration::from_millis(100)).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(CliError::failed("the server does not come back".to_owned()))
    }
}
