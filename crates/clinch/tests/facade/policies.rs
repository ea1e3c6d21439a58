//! What `build` refuses, and what routes promise.

use std::time::Duration;

use clinch::types::{Probed, Settled};
use clinch::{Backend, Call, Clinch, Done, Fail, Retry, Route, testing};
use clinch_core::{Effect, ErrorKind, code};
use clinch_protect::{DestinationConfig, QueueAge};

const SECOND: Duration = Duration::from_secs(1);

async fn yes(_: Call<u32>) -> Result<Done<u32>, Retry> {
    Ok(Done::new(1))
}

fn refusal(route: Route<u32, u32>) -> String {
    let builder = Clinch::builder().backend(Backend::memory());
    let Err(error) = builder.handle(&route, yes).build() else {
        panic!("it must be refused");
    };
    assert_eq!(error.kind(), ErrorKind::Invalid);
    error.to_string()
}

#[tokio::test]
async fn core_4_what_contradicts_itself_is_refused_at_build() {
    let unsafe_route = || Route::new("pay", "charge");
    assert!(refusal(unsafe_route().hedge(SECOND)).contains("hedge"));
    assert!(refusal(unsafe_route().natural().ordered().hedge(SECOND)).contains("hedge"));
    assert!(refusal(unsafe_route().fallback(|_| Some(1))).contains("natural"));
    let keyed = unsafe_route().keyed(Duration::from_secs(86_400));
    assert!(refusal(keyed.fallback(|_| Some(1))).contains("natural"));
    assert!(refusal(unsafe_route().keyed(SECOND)).contains("key_ttl"));
    assert!(refusal(unsafe_route().timeout(Duration::ZERO)).contains("must"));
    assert!(refusal(Route::new("no good", "charge")).contains("domain"));
    let Err(error) = Clinch::builder().build() else {
        panic!("a backend must be named");
    };
    assert!(error.to_string().contains("backend"));
    let unlike = Clinch::builder().backend(Backend::memory());
    let unlike = unlike.remote(&unsafe_route().natural());
    let unlike = unlike.handle(&unsafe_route(), yes).build();
    assert!(unlike.is_err(), "the same route, repeatable and not");
    let twice = Clinch::builder().backend(Backend::memory());
    let twice = twice
        .handle(&unsafe_route(), yes)
        .handle(&unsafe_route(), yes);
    assert!(twice.build().is_err(), "two handlers of one route");
    let late = unsafe_route()
        .keyed(Duration::from_secs(100))
        .timeout(Duration::from_secs(150));
    assert!(refusal(late).contains("total_timeout"));
    let stray = Clinch::builder().backend(Backend::memory());
    let stray = stray.destination("nobody", DestinationConfig::default());
    assert!(
        stray.build().is_err(),
        "guards that nobody uses are a typing error"
    );
}

#[tokio::test]
async fn a_fallback_answers_when_the_last_attempt_was_used() {
    let route: Route<u32, u32> = Route::new("rates", "read").natural().max_attempts(2);
    let route = route.fallback(|input: u32| (input > 5).then_some(0));
    let broken = |_: Call<u32>| async { Err::<u32, _>(Retry::unknown("it broke")) };
    let test = testing::start(Clinch::builder().handle(&route, broken)).expect("it starts");
    let with = test.clinch.start(route.request("a", "1", &7), SECOND / 10);
    let without = test.clinch.start(route.request("b", "1", &3), SECOND / 10);
    let advance = test.advance(SECOND);
    let (with, without, ()) = tokio::join!(with, without, advance);
    let with = with.expect("accepted").op_id();
    let without = without.expect("accepted").op_id();
    assert_eq!(test.assert_completed(&route, with).await.value, 0);
    assert_eq!(test.attempts(with).await, 2);
    let failure = test.assert_failed(&route, without).await;
    assert_eq!(failure.code, code::RETRY_EXHAUSTED);
}

#[tokio::test]
async fn an_unknown_effect_is_probed_and_typed() {
    let route: Route<u32, String> = Route::new("pay", "charge");
    let lost = |_: Call<u32>| async { Err::<String, _>(Retry::unknown("it broke")) };
    let found = |call: Call<u32>| async move {
        let done = Done::new(format!("found {}", call.input)).txn_id("tx_1");
        Ok::<_, Retry>(Probed::Succeeded(done))
    };
    let builder = Clinch::builder().handle(&route, lost).probe(&route, found);
    let test = testing::start(builder).expect("it starts");
    let handle = test
        .clinch
        .start(route.request("a", "1", &7), Duration::ZERO);
    let op_id = handle.await.expect("accepted").op_id();
    let done = test.assert_completed(&route, op_id).await;
    assert_eq!(
        (done.value.as_str(), done.provider_txn_id.as_deref()),
        ("found 7", Some("tx_1"))
    );
    assert_eq!(test.attempts(op_id).await, 1);
}

#[tokio::test]
async fn a_refusal_comes_back_typed_and_a_mismatch_is_an_error() {
    let route: Route<u32, u32> = Route::new("pay", "charge");
    let declined = |_: Call<u32>| async { Err::<u32, _>(Fail::new("declined", "no")) };
    let test = testing::start(Clinch::builder().handle(&route, declined)).expect("it starts");
    let handle = test
        .clinch
        .start(route.request("a", "1", &7), SECOND)
        .await
        .expect("accepted");
    let Some(Settled::Failed(failure)) = handle.settled() else {
        panic!("settled within the budget");
    };
    assert_eq!(
        (failure.code.as_str(), failure.effect),
        ("declined", Effect::None)
    );
    let other = test.clinch.start(route.request("a", "1", &8), SECOND).await;
    assert_eq!(
        other.expect_err("another input").kind(),
        ErrorKind::Mismatch
    );
}

#[tokio::test]
async fn an_answer_and_what_follows_it_are_one() {
    let ship: Route<u32, u32> = Route::new("shop", "ship").natural();
    let charge: Route<u32, u32> = Route::new("shop", "charge").natural();
    let next = ship.clone();
    let charged = move |call: Call<u32>| {
        let done = Done::new(call.input).then(next.request(call.biz_key(), "after", &call.input));
        async { Ok::<_, Retry>(done) }
    };
    let builder = Clinch::builder()
        .handle(&charge, charged)
        .handle(&ship, yes);
    let test = testing::start(builder).expect("it starts");
    let handle = test
        .clinch
        .start(charge.request("order-1", "a", &7), SECOND);
    assert!(handle.await.expect("accepted").settled().is_some());
    let follow = test
        .clinch
        .start(ship.request("order-1", "after", &7), SECOND);
    assert!(
        follow.await.expect("accepted").replayed(),
        "accepted by the charge"
    );
}

#[tokio::test]
async fn one_providers_trouble_is_not_anothers() {
    let limit = Duration::from_secs(30);
    let down: Route<u32, u32> = Route::new("pay", "down").natural().destination("a");
    let up: Route<u32, u32> = Route::new("pay", "up").natural().destination("b");
    let builder = Clinch::builder()
        .shed(QueueAge { limit })
        .handle(&down, |_: Call<u32>| async {
            Err::<u32, _>(Retry::not_applied("down"))
        })
        .handle(&up, yes);
    let test = testing::start(builder).expect("it starts");
    let broken = (0..200).map(|n| down.request(format!("order-{n}"), "a", &n));
    test.clinch
        .submit(broken.collect())
        .await
        .expect("accepted");
    for minute in 0..10 {
        test.advance(Duration::from_secs(60)).await;
        let request = up.request(format!("up-{minute}"), "a", &minute);
        let handle = test.clinch.start(request, SECOND).await;
        let handle = handle.expect("it is not shed for another's outage");
        assert!(
            handle.settled().is_some(),
            "it does not wait for another's outage"
        );
    }
}

#[tokio::test]
async fn a_poll_that_is_not_ready_does_not_open_the_breaker() {
    let route: Route<u32, u32> = Route::new("jobs", "poll").natural().max_attempts(100);
    let builder = Clinch::builder().handle(&route, |call: Call<u32>| async move {
        match call.attempt() {
            50 => Ok(call.input),
            _ => Err(Retry::not_applied("not ready").after(Duration::from_secs(5))),
        }
    });
    let test = testing::start(builder).expect("it starts");
    let handle = test
        .clinch
        .start(route.request("a", "1", &7), Duration::ZERO)
        .await;
    let op_id = handle.expect("accepted").op_id();
    assert_eq!(test.assert_completed(&route, op_id).await.value, 7);
    assert_eq!(test.attempts(op_id).await, 50);
}

#[tokio::test]
async fn a_fallback_answers_while_others_wait_at_the_same_destination() {
    let read: Route<u32, u32> = Route::new("a-rates", "read").natural();
    let read = read.destination("psp").fallback(|_| Some(0));
    let write: Route<u32, u32> = Route::new("b-rates", "write").natural().destination("psp");
    let broken = |_: Call<u32>| async { Err::<u32, _>(Retry::not_applied("down")) };
    let builder = Clinch::builder()
        .handle(&read, broken)
        .handle(&write, broken);
    let test = testing::start(builder).expect("it starts");
    let fill = (0..20).map(|n| write.request(format!("order-{n}"), "a", &n));
    test.clinch.submit(fill.collect()).await.expect("accepted");
    test.advance(SECOND).await;
    let writes = test
        .clinch
        .submit(vec![write.request("late", "a", &1)])
        .await;
    let late = writes.expect("accepted").remove(0).expect("valid");
    let reads = test
        .clinch
        .submit(vec![read.request("rate", "a", &1)])
        .await;
    let rate = reads.expect("accepted").remove(0).expect("valid");
    test.advance(SECOND).await;
    let answered = test.clinch.look(&read, rate).await.expect("there");
    assert!(matches!(answered.settled(), Some(Settled::Completed(done)) if done.value == 0));
    assert_eq!(test.operation(late).await.state.fence, 0, "never claimed");
}
