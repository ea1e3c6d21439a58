//! Delivering webhooks: signed, tried again, in order per receiver. A receiver that stays away
//! costs only its own events: after the last try an event becomes a dead letter, and the next one
//! follows.
//!
//! ```sh
//! cargo run -p clinch-examples --bin webhook
//! ```
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use clinch::policy::{Backoff, RetryRules};
use clinch::types::{Builder, Request};
use clinch::{Backend, Call, Clinch, Done, Fail, Refusal, Retry, Route};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

const TRIES: u32 = 5;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Event {
    /// Where it goes. Its secret is looked up when it is sent: no secret is ever in a payload.
    receiver: String,
    body: String,
}

/// Receivers recognize an event by its id, so repeating one is harmless. In order: one event of a
/// receiver at a time.
fn route() -> Route<Event, ()> {
    Route::new("webhooks", "deliver")
        .natural()
        .ordered()
        .destination("receivers")
        .retry(RetryRules {
            max_attempts: TRIES,
            backoff: Backoff::new(Duration::from_secs(10), Duration::from_secs(3_600)),
            ..RetryRules::WORKER
        })
}

/// The event of a change, known by the change's own id.
fn event(receiver: &str, change: u32, body: &str) -> Request<()> {
    let event = Event {
        receiver: receiver.to_owned(),
        body: body.to_owned(),
    };
    route().request(receiver, format!("change-{change}"), &event)
}

/// What goes over the wire.
#[derive(Debug, Clone)]
struct Delivery {
    receiver: String,
    /// The same at every try.
    id: String,
    body: String,
    signature: String,
}

/// HMAC-SHA256 of id and body: a receiver can tell that we sent it, and that nobody changed it.
fn signature(secret: &[u8], id: &str, body: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else {
        return String::new();
    };
    mac.update(id.as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    let digest = mac.finalize().into_bytes();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The secret of a receiver.
fn secret(receiver: &str) -> Vec<u8> {
    format!("the secret of {receiver}").into_bytes()
}

/// `post` sends a delivery and gives the receiver's status, or nothing if none came.
fn delivered_by<F, Fut>(builder: Builder, post: F) -> Builder
where
    F: Fn(Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<u16>> + Send + 'static,
{
    let post = Arc::new(post);
    builder.handle(&route(), move |call: Call<Event>| {
        let post = post.clone();
        async move {
            let Event { receiver, body } = call.input.clone();
            let id = call.key().to_owned();
            let signature = signature(&secret(&receiver), &id, &body);
            let delivery = Delivery {
                receiver,
                id,
                body,
                signature,
            };
            judged(post(delivery).await)
        }
    })
}

/// `own`: one receiver's trouble must not open the breaker for all others.
fn judged(status: Option<u16>) -> Result<Done<()>, Refusal> {
    match status {
        Some(200..=299) => Ok(Done::new(())),
        Some(410) => Err(Fail::new("gone", "the receiver wants no more events").into()),
        Some(status) => Err(Retry::not_applied(format!("http_{status}")).own().into()),
        None => Err(Retry::unknown("no answer").own().into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> clinch::Result<()> {
    let builder = Clinch::builder().backend(Backend::memory());
    let clinch = delivered_by(builder, |delivery| async move {
        println!(
            "POST to {}: {}, {} signed {}",
            delivery.receiver, delivery.id, delivery.body, delivery.signature
        );
        Some(204)
    })
    .build()?;
    let running = clinch.clone();
    tokio::spawn(async move { running.run().await });
    let events = (1..=3).map(|change| event("shop.example", change, &format!("change {change}")));
    for op_id in clinch.submit(events.collect()).await? {
        clinch
            .wait(&route(), op_id?, Duration::from_secs(10))
            .await?;
    }
    clinch.stop();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use clinch::testing::{self, Test};
    use clinch::types::OpId;

    use super::*;

    type Log = Arc<Mutex<Vec<Delivery>>>;

    /// A receiver answers by its name and the number of the try.
    fn started(answer: fn(&Delivery, usize) -> Option<u16>) -> (Test, Log) {
        let log = Log::default();
        let book = log.clone();
        let builder = delivered_by(Clinch::builder(), move |delivery| {
            let mut book = book.lock().expect("a log");
            book.push(delivery.clone());
            let tries = book.iter().filter(|one| one.id == delivery.id).count();
            let status = answer(&delivery, tries);
            async move { status }
        });
        (testing::start(builder).expect("it starts"), log)
    }

    async fn sent(test: &Test, events: Vec<Request<()>>) -> Vec<OpId> {
        let accepted = test.clinch.submit(events).await.expect("accepted");
        accepted
            .into_iter()
            .map(|one| one.expect("valid"))
            .collect()
    }

    /// The bodies that a receiver got, repeats included.
    fn bodies(log: &Log, receiver: &str) -> Vec<String> {
        let log = log.lock().expect("a log");
        let of_it = log.iter().filter(|delivery| delivery.receiver == receiver);
        of_it.map(|delivery| delivery.body.clone()).collect()
    }

    #[tokio::test]
    async fn core_13_each_receiver_gets_its_events_in_order_and_signed() {
        // The first try of every third event gets no answer.
        let (test, log) = started(|delivery, tries| {
            let is_lost = delivery.body.ends_with('3') && tries == 1;
            (!is_lost).then_some(204)
        });
        let events = (1..=9).flat_map(|n| ["a", "b"].map(|to| event(to, n, &format!("{to}{n}"))));
        for op_id in sent(&test, events.collect()).await {
            test.assert_completed(&route(), op_id).await;
        }
        for receiver in ["a", "b"] {
            let expected = [1, 2, 3, 3, 4, 5, 6, 7, 8, 9].map(|n| format!("{receiver}{n}"));
            assert_eq!(bodies(&log, receiver), expected);
        }
        for one in log.lock().expect("a log").iter() {
            let right = signature(&secret(&one.receiver), &one.id, &one.body);
            assert_eq!(one.signature, right);
            assert_ne!(
                one.signature,
                signature(b"another secret", &one.id, &one.body)
            );
            assert_ne!(
                one.signature,
                signature(&secret(&one.receiver), &one.id, "changed")
            );
        }
    }

    #[tokio::test]
    async fn an_event_that_nobody_takes_becomes_a_dead_letter_and_the_next_one_follows() {
        let (test, log) = started(|delivery, _| match delivery.body.as_str() {
            "poison" => Some(500),
            _ => Some(204),
        });
        let mut events = vec![event("bad", 1, "poison"), event("bad", 2, "next")];
        events.extend((1..=20).map(|n| event(&format!("good-{n}"), 1, "hello")));
        let ops = sent(&test, events).await;
        // The others do not wait for it.
        test.advance(Duration::from_secs(1)).await;
        for op_id in &ops[2..] {
            assert!(test.operation(*op_id).await.state.is_terminal());
        }
        let failure = test.assert_failed(&route(), ops[0]).await;
        assert_eq!(failure.code, "retry_exhausted");
        test.assert_completed(&route(), ops[1]).await;
        let expected = ["poison", "poison", "poison", "poison", "poison", "next"];
        assert_eq!(bodies(&log, "bad"), expected);
        let letters = letters(&test).await;
        assert_eq!(letters, 1, "for a person to look at, and to redrive");
    }

    async fn letters(test: &Test) -> u64 {
        let domains = test.clinch.runtime().ports().domains.domains().await;
        let domains = domains.expect("counted");
        domains
            .iter()
            .map(|view| view.counts.dead_letters_open)
            .sum()
    }

    #[tokio::test]
    async fn a_receiver_that_is_gone_is_asked_once() {
        let (test, log) = started(|_, _| Some(410));
        let ops = sent(&test, vec![event("gone", 1, "hello")]).await;
        let failure = test.assert_failed(&route(), ops[0]).await;
        assert_eq!(
            (failure.code.as_str(), bodies(&log, "gone").len()),
            ("gone", 1)
        );
    }
}
