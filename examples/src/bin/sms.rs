//! Sending messages through a carrier that takes ten a second, and through a second one if the
//! first certainly did not send. A message that the first carrier may have sent goes to nobody
//! else: it is held for a person.
//!
//! ```sh
//! cargo run -p clinch-examples --bin sms
//! ```
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use clinch::policy::{DestinationConfig, RateConfig};
use clinch::types::{Builder, Request};
use clinch::{Backend, Call, Clinch, Done, Fail, Refusal, Retry, Route};
use serde::{Deserialize, Serialize};

/// Calls of a busy carrier before the other one is asked.
const PATIENCE: u32 = 3;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Sms {
    to: String,
    text: String,
}

/// How a message ended at a carrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Sent {
    Here,
    /// The other carrier has it now: an operation of its own, under the same keys.
    HandedOver,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carrier {
    First,
    Second,
}

impl Carrier {
    fn name(self) -> &'static str {
        match self {
            Self::First => "carrier",
            Self::Second => "second-carrier",
        }
    }

    /// A text that is sent twice annoys: unsafe, the default, says so. What may have been sent is
    /// held for a person and never sent again by itself.
    fn route(self) -> Route<Sms, Sent> {
        let event_type = match self {
            Self::First => "send",
            Self::Second => "send-elsewhere",
        };
        Route::new("sms", event_type)
            .destination(self.name())
            .timeout(Duration::from_secs(5))
    }

    /// The first carrier has no breaker: a message that it does not take goes to the second one,
    /// and does not wait until the first is well.
    fn limits(self) -> DestinationConfig {
        let rate = Some(RateConfig::new(10, Duration::from_secs(1)));
        match self {
            Self::First => DestinationConfig {
                rate,
                breaker: None,
                ..DestinationConfig::default()
            },
            Self::Second => DestinationConfig {
                rate,
                ..DestinationConfig::default()
            },
        }
    }
}

/// What a carrier says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Queued,
    /// It did not send, and may do so later.
    Busy,
    /// It does not send to this number.
    Refused,
    /// The line went dead: nobody knows whether it sent.
    Silence,
}

/// The outcome of a call. Only what was certainly not sent is handed over.
fn judged(carrier: Carrier, reply: Reply, call: &Call<Sms>) -> Result<Done<Sent>, Refusal> {
    let is_patient = carrier == Carrier::Second || call.attempt() < PATIENCE;
    match reply {
        Reply::Queued => Ok(Done::new(Sent::Here)),
        Reply::Silence => Err(Retry::unknown("the line went dead").into()),
        Reply::Busy if is_patient => Err(Retry::not_applied("busy").into()),
        Reply::Refused if carrier == Carrier::Second => {
            Err(Fail::new("no_carrier", "no carrier sends to this number").into())
        }
        // The commit that ends this operation accepts the other one: a crash loses neither.
        Reply::Busy | Reply::Refused => {
            let idem_key = call.envelope().command.keys.idem_key.as_str();
            let elsewhere = Carrier::Second
                .route()
                .request(call.biz_key(), idem_key, &call.input);
            Ok(Done::new(Sent::HandedOver).then(elsewhere))
        }
    }
}

fn with_carriers<F, Fut>(builder: Builder, send: F) -> Builder
where
    F: Fn(Carrier, Sms) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Reply> + Send + 'static,
{
    let send = Arc::new(send);
    [Carrier::First, Carrier::Second]
        .into_iter()
        .fold(builder, |builder, carrier| {
            let send = send.clone();
            builder
                .destination(carrier.name(), carrier.limits())
                .handle(&carrier.route(), move |call: Call<Sms>| {
                    let reply = send(carrier, call.input.clone());
                    async move { judged(carrier, reply.await, &call) }
                })
        })
}

fn welcome(customer: usize) -> Request<Sent> {
    let sms = Sms {
        to: format!("+8210{customer:08}"),
        text: "Welcome!".to_owned(),
    };
    Carrier::First
        .route()
        .request(format!("customer-{customer}"), "welcome", &sms)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> clinch::Result<()> {
    let builder = Clinch::builder().backend(Backend::memory());
    let clinch = with_carriers(builder, |carrier, sms| async move {
        println!(
            "{}: {} letters to {}",
            carrier.name(),
            sms.text.len(),
            sms.to
        );
        match carrier {
            Carrier::First if sms.to.ends_with('3') => Reply::Busy,
            Carrier::First if sms.to.ends_with('7') => Reply::Refused,
            Carrier::First if sms.to.ends_with("29") => Reply::Silence,
            _ => Reply::Queued,
        }
    })
    .build()?;
    let running = clinch.clone();
    tokio::spawn(async move { running.run().await });
    let route = Carrier::First.route();
    for accepted in clinch.submit((0..30).map(welcome).collect()).await? {
        let handle = clinch
            .wait(&route, accepted?, Duration::from_secs(10))
            .await?;
        if handle.settled().is_none() {
            println!(
                "{} may have been sent: for a person to look at",
                handle.op_id()
            );
        }
    }
    clinch.stop();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use clinch::ports::Clock;
    use clinch::testing;
    use clinch::types::OpId;

    use super::*;

    #[tokio::test]
    async fn core_20_the_carrier_is_never_asked_for_more_than_it_takes() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let clock: Arc<Mutex<Option<Arc<dyn Clock>>>> = Arc::default();
        let (at, when) = (sent.clone(), clock.clone());
        let builder = with_carriers(Clinch::builder(), move |_, _| {
            let now = when
                .lock()
                .expect("a clock")
                .as_ref()
                .expect("set")
                .monotonic();
            at.lock().expect("a list").push(now);
            async { Reply::Queued }
        });
        let test = testing::start(builder).expect("it starts");
        *clock.lock().expect("a clock") = Some(test.clock().clone());
        let accepted = test.clinch.submit((0..100).map(welcome).collect()).await;
        for op_id in accepted.expect("accepted") {
            let op_id = op_id.expect("valid");
            test.assert_completed(&Carrier::First.route(), op_id).await;
            assert_eq!(test.attempts(op_id).await, 1);
        }
        let sent = sent.lock().expect("a list");
        assert_eq!(sent.len(), 100);
        let second = Duration::from_secs(1);
        for (first, at) in sent.iter().enumerate() {
            let within = sent[first..].iter().filter(|other| **other < *at + second);
            assert!(within.count() <= 10);
        }
        let whole = *sent.last().expect("the last") - sent[0];
        assert!(whole >= second * 8, "a hundred took {whole:?}");
    }

    type Log = Arc<Mutex<Vec<(Carrier, String)>>>;

    /// One message; the carriers reply by the number of their call. Gives all calls.
    async fn one_message(replies: fn(Carrier, usize) -> Reply) -> (testing::Test, OpId, Log) {
        let log = Log::default();
        let book = log.clone();
        let builder = with_carriers(Clinch::builder(), move |carrier, sms| {
            let mut book = book.lock().expect("a log");
            book.push((carrier, sms.to));
            let calls = book.iter().filter(|(one, _)| *one == carrier).count();
            let reply = replies(carrier, calls);
            async move { reply }
        });
        let test = testing::start(builder).expect("it starts");
        let handle = test.clinch.start(welcome(7), Duration::ZERO).await;
        let op_id = handle.expect("accepted").op_id();
        (test, op_id, log)
    }

    fn carriers(log: &Log) -> Vec<Carrier> {
        let log = log.lock().expect("a log");
        log.iter().map(|(carrier, _)| *carrier).collect()
    }

    #[tokio::test]
    async fn core_6_what_may_have_been_sent_is_sent_by_nobody_else() {
        let (test, op_id, log) = one_message(|_, _| Reply::Silence).await;
        test.assert_held(op_id).await;
        test.advance(Duration::from_secs(3_600)).await;
        assert_eq!(carriers(&log), [Carrier::First], "held for a person");
    }

    /// Also if the carrier was busy before: one unknown call is enough.
    #[tokio::test]
    async fn a_busy_carrier_that_falls_silent_is_not_replaced() {
        let (test, op_id, log) = one_message(|_, call| match call {
            1 => Reply::Busy,
            _ => Reply::Silence,
        })
        .await;
        test.assert_held(op_id).await;
        assert_eq!(carriers(&log), [Carrier::First, Carrier::First]);
    }

    #[tokio::test]
    async fn a_refusal_and_lasting_trouble_go_to_the_second_carrier() {
        let (test, op_id, log) = one_message(|carrier, _| match carrier {
            Carrier::First => Reply::Refused,
            Carrier::Second => Reply::Queued,
        })
        .await;
        let done = test.assert_completed(&Carrier::First.route(), op_id).await;
        assert_eq!(done.value, Sent::HandedOver);
        test.advance(Duration::from_secs(60)).await;
        assert_eq!(carriers(&log), [Carrier::First, Carrier::Second]);

        let (test, _, log) = one_message(|carrier, call| match (carrier, call) {
            (Carrier::First, _) | (_, 1..=3) => Reply::Busy,
            (Carrier::Second, _) => Reply::Queued,
        })
        .await;
        test.advance(Duration::from_secs(3_600)).await;
        let (first, second) = ([Carrier::First; 3], [Carrier::Second; 4]);
        assert_eq!(carriers(&log), [first.as_slice(), &second].concat());
    }

    #[tokio::test]
    async fn the_second_carrier_may_fall_silent_too() {
        let (test, op_id, log) = one_message(|carrier, _| match carrier {
            Carrier::First => Reply::Refused,
            Carrier::Second => Reply::Silence,
        })
        .await;
        test.assert_completed(&Carrier::First.route(), op_id).await;
        test.advance(Duration::from_secs(3_600)).await;
        assert_eq!(
            carriers(&log),
            [Carrier::First, Carrier::Second],
            "and nobody sends it again"
        );
        let sms = Sms {
            to: "+821000000007".to_owned(),
            text: "Welcome!".to_owned(),
        };
        let elsewhere = Carrier::Second
            .route()
            .request("customer-7", "welcome", &sms);
        let elsewhere = test
            .clinch
            .start(elsewhere, Duration::ZERO)
            .await
            .expect("known");
        assert!(elsewhere.replayed());
        test.assert_held(elsewhere.op_id()).await;
    }
}
