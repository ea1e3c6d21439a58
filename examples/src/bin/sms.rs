//! Sending messages through a carrier that takes ten a second and may not be asked twice.
#![forbid(unsafe_code)]

use std::time::Duration;

use clinch::policy::{DestinationConfig, RateConfig};
use clinch::types::{Builder, Request};
use clinch::{Backend, Call, Clinch, Done, Retry, Route};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Sms {
    to: String,
    text: String,
}

/// A text that is sent twice annoys: unsafe, the default, says so. What may have been sent is
/// held for a person and never sent again by itself.
fn route() -> Route<Sms, String> {
    Route::new("sms", "send")
        .destination("carrier")
        .timeout(Duration::from_secs(5))
}

fn carrier_limits() -> DestinationConfig {
    DestinationConfig {
        rate: Some(RateConfig::new(10, Duration::from_secs(1))),
        ..DestinationConfig::default()
    }
}

fn with_carrier<F, Fut>(builder: Builder, send: F) -> Builder
where
    F: Fn(Call<Sms>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Done<String>, Retry>> + Send + 'static,
{
    builder
        .destination("carrier", carrier_limits())
        .handle(&route(), send)
}

fn welcome(customer: usize) -> Request<String> {
    let sms = Sms {
        to: format!("+8210{customer:08}"),
        text: "Welcome!".to_owned(),
    };
    route().request(format!("customer-{customer}"), "welcome", &sms)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> clinch::Result<()> {
    let builder = Clinch::builder().backend(Backend::memory());
    let clinch = with_carrier(builder, |call| async move {
        println!(
            "sending {} letters to {}",
            call.input.text.len(),
            call.input.to
        );
        Ok(Done::new("queued".to_owned()))
    })
    .build()?;
    let running = clinch.clone();
    tokio::spawn(async move { running.run().await });
    for accepted in clinch.submit((0..30).map(welcome).collect()).await? {
        let route = route();
        clinch
            .wait(&route, accepted?, Duration::from_secs(60))
            .await?;
    }
    println!("30 messages, no more than 10 a second");
    clinch.stop();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use clinch::ports::Clock;
    use clinch::testing;

    use super::*;

    #[tokio::test]
    async fn core_20_the_carrier_is_never_asked_for_more_than_it_takes() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let clock: Arc<Mutex<Option<Arc<dyn Clock>>>> = Arc::default();
        let (at, when) = (sent.clone(), clock.clone());
        let builder = with_carrier(Clinch::builder(), move |_| {
            let now = when
                .lock()
                .expect("a clock")
                .as_ref()
                .expect("set")
                .monotonic();
            at.lock().expect("a list").push(now);
            async { Ok(Done::new("queued".to_owned())) }
        });
        let test = testing::start(builder).expect("it starts");
        *clock.lock().expect("a clock") = Some(test.clock().clone());
        let accepted = test.clinch.submit((0..100).map(welcome).collect()).await;
        for op_id in accepted.expect("accepted") {
            let op_id = op_id.expect("valid");
            test.assert_completed(&route(), op_id).await;
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

    #[tokio::test]
    async fn what_may_have_been_sent_is_never_sent_again() {
        let builder = with_carrier(Clinch::builder(), |_| async {
            Err(Retry::unknown("the line went dead"))
        });
        let test = testing::start(builder).expect("it starts");
        let handle = test
            .clinch
            .start(welcome(7), Duration::ZERO)
            .await
            .expect("accepted");
        test.advance(Duration::from_secs(24 * 60 * 60)).await;
        let row = test.operation(handle.op_id()).await;
        assert!(row.state.hold.is_some(), "held for a person");
        assert_eq!(row.state.attempts, 1);
    }
}
