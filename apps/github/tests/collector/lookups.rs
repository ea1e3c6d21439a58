//! Whose a token is: a lookup that hangs is that of one user.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch::ports::Clock as _;
use clinch::testing::{ManualClock, advance};
use clinch_github::fake::{Fake, Setup};
use clinch_github::{ApiAnswer, ApiRequest, Broken, Start, Token, Transport};
use clinch_memory::Memory;

use crate::lab::{Ambiguous, Lab, assert_whole, budgets, collector};
use crate::tenants::{OWN, add, settings, world};

/// The transport's own timeout.
const TIMEOUT: Duration = Duration::from_secs(15);

/// An API that does not answer requests with one token.
struct Hanging {
    fake: Fake,
    clock: Arc<ManualClock>,
    token: Token,
}

#[async_trait]
impl Transport for Hanging {
    async fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken> {
        if request.token.as_ref() == Some(&self.token) {
            self.clock.sleep(TIMEOUT).await;
            return Err(Broken::Lost("timeout".to_owned()));
        }
        self.fake.get(request).await
    }
}

#[tokio::test]
async fn col_17_a_lookup_that_hangs_delays_no_other_user() {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let fake = Fake::new(world(), Setup::default(), clock.clone());
    let transport = Arc::new(Hanging {
        fake: fake.clone(),
        clock: clock.clone(),
        token: Token::new(OWN),
    });
    let sink = Arc::new(memory.clone());
    let (collector, clinch) = collector(settings("1"), &memory, sink, transport, &clock).await;
    let lab = Lab {
        quota: budgets(&clock),
        records: Arc::new(Ambiguous::new(&memory)),
        clock,
        memory,
        fake,
        collector,
        clinch,
    };
    add(&lab, "octocat", OWN).await;
    add(&lab, "hubot", "fake-hubot-1").await;
    let hangs = lab.collector.start_with("octocat", &Start::default()).await;
    hangs.expect("it begins");
    advance(&lab.clock, Duration::from_secs(1)).await;
    let run = lab.run("hubot").await;
    assert_whole(&run);
    let took = run.completed_at.expect("ended").since(run.created_at);
    assert!(took < TIMEOUT, "{took:?}");
}
