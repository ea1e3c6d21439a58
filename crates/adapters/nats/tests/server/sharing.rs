//! Several processes on one stream: each bus here has a connection of its own, as each
//! process has.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{Bus, Clock};
use clinch_nats::Settings;
use clinch_system::SystemClock;
use clinch_testbed::{Kind, shared};
use futures_util::StreamExt;

use crate::world::{LONG, ask, bus, hint, publication, publish, settings, take};

fn url() -> String {
    shared(Kind::Nats).expect("a server")
}

pub(crate) async fn what_a_dead_process_had_goes_to_another() {
    let settings = settings();
    let (one, two) = (bus(&url(), &settings).await, bus(&url(), &settings).await);
    let hints = publish(&one, 1).await;
    assert_eq!(take(&one, 1).await[0].redeliveries, 0);
    drop(one);
    let got = take(&two, 1).await;
    assert_eq!((&got[0].hint, got[0].redeliveries), (&hints[0], 1));
}

pub(crate) async fn a_loan_lasts_while_it_is_extended() {
    let settings = settings();
    let (one, two) = (bus(&url(), &settings).await, bus(&url(), &settings).await);
    let clock = SystemClock::new();
    publish(&one, 1).await;
    let receipts = [take(&one, 1).await[0].receipt.clone()];
    let start = clock.monotonic();
    // Past the visibility timeout and the server's margin.
    while clock.monotonic() - start < Duration::from_secs(8) {
        let extended = one.extend(&receipts, Duration::from_secs(1)).await;
        extended.expect("extended");
        let theirs = two
            .dequeue(&ask(&["a"], 9, Duration::from_millis(400)))
            .await;
        assert_eq!(theirs.expect("a dequeue"), [], "it is on loan to the other");
    }
    one.ack(&receipts).await.expect("acked");
}

pub(crate) async fn a_delay_outlives_its_holder() {
    let settings = settings();
    let (one, two) = (bus(&url(), &settings).await, bus(&url(), &settings).await);
    let (clock, late) = (SystemClock::new(), hint("a"));
    let delay = Duration::from_secs(3);
    let start = clock.monotonic();
    one.publish(&[publication(&late, delay)])
        .await
        .expect("published");
    let none = one.dequeue(&ask(&["a"], 9, Duration::ZERO)).await;
    assert_eq!(none.expect("a dequeue"), [], "it is early");
    drop(one);
    let got = take(&two, 1).await;
    assert_eq!(got[0].hint, late);
    // The wall clock counts milliseconds.
    assert!(clock.monotonic() - start + Duration::from_millis(1) >= delay);
}

pub(crate) async fn each_hint_goes_to_one_process() {
    let settings = settings();
    let (one, two) = (bus(&url(), &settings).await, bus(&url(), &settings).await);
    let hints = publish(&one, 2_000).await;
    let drain = |bus: clinch_nats::NatsBus| async move {
        let (mut mine, mut ask) = (Vec::new(), ask(&["a"], 37, Duration::ZERO));
        ask.visibility = LONG;
        loop {
            let taken = bus.dequeue(&ask).await.expect("a dequeue");
            if taken.is_empty() {
                return mine;
            }
            let receipts: Vec<_> = taken.iter().map(|taken| taken.receipt.clone()).collect();
            bus.ack(&receipts).await.expect("acked");
            mine.extend(taken.into_iter().map(|taken| taken.hint.op_id));
        }
    };
    let (mut all, rest) = tokio::join!(drain(one), drain(two));
    all.extend(rest);
    assert_eq!(all.len(), hints.len(), "deliveries");
    let distinct: BTreeSet<_> = all.into_iter().collect();
    assert_eq!(distinct.len(), hints.len(), "distinct hints");
}

pub(crate) async fn idle_sends_nothing() {
    let server = clinch_testbed::Server::start(Kind::Nats).expect("a server");
    let bus = bus(&server.url(), &settings()).await;
    let mut ask = ask(&["a", "b", "c"], 9, Duration::from_millis(200));
    ask.visibility = Settings::default().visibility;
    // It looks around first, and hangs up its bells.
    assert_eq!(bus.dequeue(&ask).await.expect("a dequeue"), []);
    let other = async_nats::connect(server.url())
        .await
        .expect("a connection");
    let mut sent = other.subscribe("$JS.>").await.expect("a subscription");
    other.flush().await.expect("flushed");
    for _ in 0..5 {
        assert_eq!(bus.dequeue(&ask).await.expect("a dequeue"), []);
    }
    // What it sent is heard before this.
    publish(&bus, 1).await;
    let heard = tokio::time::timeout(Duration::from_millis(200), sent.next()).await;
    let heard = heard
        .ok()
        .flatten()
        .map(|message| message.subject.to_string());
    assert_eq!(heard, None, "an idle bus sends nothing");
    assert_eq!(take(&bus, 1).await.len(), 1, "and it listens");
}

pub(crate) async fn what_nobody_took() {
    let settings = settings();
    let (one, two) = (bus(&url(), &settings).await, bus(&url(), &settings).await);
    // A call that is cut short leaves its bell behind.
    let short = Duration::from_millis(100);
    let mut long = ask(&["a"], 9, short);
    long.visibility = LONG;
    assert_eq!(one.dequeue(&long).await.expect("a dequeue"), []);
    let hints = publish(&two, 1).await;
    let clock = Arc::new(SystemClock::new());
    let got = tokio::select! {
        got = take(&two, 1) => got,
        () = clock.sleep(LONG) => panic!("the hint stays with who does not want it"),
    };
    assert_eq!(got[0].hint, hints[0]);
}

pub(crate) async fn what_is_no_hint() {
    let settings = settings();
    let bus = bus(&url(), &settings).await;
    let other = async_nats::connect(url()).await.expect("a connection");
    let waiting = tokio::spawn({
        let bus = bus.clone();
        async move { take(&bus, 1).await }
    });
    for junk in ["", "{}", "\u{0}", "{\"hint\":{}}"] {
        let subject = format!("{}.a._", settings.prefix);
        let stored = other.request(subject, junk.into()).await;
        assert!(stored.expect("an answer").status.is_none());
    }
    let hints = publish(&bus, 1).await;
    let got = waiting.await.expect("no panic");
    assert_eq!(got[0].hint, hints[0]);
    let info = format!("$JS.API.STREAM.INFO.{}", settings.prefix);
    let info = other.request(info, "".into()).await.expect("an answer");
    let info: serde_json::Value = serde_json::from_slice(&info.payload).expect("JSON");
    assert_eq!(info["state"]["messages"], 1, "nothing but the hint on loan");
}

pub(crate) async fn what_a_stream_holds() {
    let settings = settings();
    let bus = bus(&url(), &settings).await;
    let depth = || async {
        let depth = bus.depth().await.expect("an answer").expect("it counts");
        (depth.waiting, depth.on_loan)
    };
    assert_eq!(depth().await, (0, 0));
    // Of a domain that nobody has asked for yet, too.
    let other = publication(&hint("b"), Duration::ZERO);
    bus.publish(&[other]).await.expect("published");
    publish(&bus, 5).await;
    assert_eq!(depth().await, (6, 0));
    let mut long = ask(&["a"], 2, LONG);
    long.visibility = LONG;
    let taken = bus.dequeue(&long).await.expect("a dequeue");
    let on_loan = taken.len() as u64;
    assert_eq!(depth().await, (6 - on_loan, on_loan));
    bus.ack(&[taken[0].receipt.clone()]).await.expect("acked");
    assert_eq!(depth().await, (6 - on_loan, on_loan - 1));
}
