//! Errors and warnings that name the missing piece.

use std::time::Duration;

use clinch::{Backend, Call, Clinch, Error, Retry, Route};

use crate::telemetry::Lines;

fn echo() -> Route<u32, u32> {
    Route::new("demo", "echo").natural()
}

async fn answered(call: Call<u32>) -> Result<u32, Retry> {
    Ok(call.input)
}

async fn busy(_: Call<u32>) -> Result<u32, Retry> {
    Err(Retry::not_applied("busy"))
}

fn names(error: &Error, pieces: &[&str]) {
    let text = error.to_string();
    for piece in pieces {
        assert!(text.contains(piece), "{piece} is missing in: {text}");
    }
}

#[tokio::test]
async fn without_a_backend_build_names_both_ways_to_give_one() {
    let built = Clinch::builder().handle(&echo(), answered).build();
    let error = built.err().expect("refused");
    names(
        &error,
        &["Builder::backend", "Backend::open", "Backend::memory"],
    );
}

/// Every way to accept an operation names the route and what declares it.
#[tokio::test]
async fn a_route_that_is_not_declared_is_named_with_what_declares_it() {
    let clinch = Clinch::builder()
        .backend(Backend::memory())
        .build()
        .expect("built");
    let request = || echo().request("e", "1", &1);
    let batch = clinch.batch::<u32>(None).await.expect("a batch");
    let one = |results: Vec<clinch::Result<_>>| results.into_iter().next().expect("one");
    let errors = [
        clinch.start(request(), Duration::ZERO).await.err(),
        one(clinch.submit(vec![request()]).await.expect("a list")).err(),
        one(batch.add(vec![request()]).await.expect("a list")).err(),
        clinch.prepare(request()).err(),
    ];
    for error in errors {
        let error = error.expect("refused");
        names(
            &error,
            &["\"demo\"", "\"echo\"", "Builder::handle", "Builder::remote"],
        );
        assert_eq!(error.context("code"), Some("unknown_route"));
        assert_eq!(error.context("domain"), Some("demo"));
    }
    let on_complete = clinch.batch(Some(request())).await.err().expect("refused");
    names(&on_complete, &["\"demo\"", "Builder::handle"]);
}

/// How often it was said that nothing runs.
fn told(lines: &Lines) -> usize {
    let text = lines.text();
    let told = text.lines().filter(|line| line.contains("not_running"));
    let told: Vec<_> = told.collect();
    let says_what_to_do = |line: &&str| line.contains("WARN") && line.contains("Clinch::run");
    assert!(told.iter().all(says_what_to_do), "{told:?}");
    told.len()
}

/// A process that answers at once, or only accepts, needs no runners. One that waits in vain does.
#[tokio::test]
async fn work_that_nothing_runs_is_reported_once() {
    let lines = Lines::default();
    let _listening = lines.capture();
    let built = |route: &Route<u32, u32>| {
        let builder = Clinch::builder().backend(Backend::memory());
        builder.handle(route, busy).build().expect("built")
    };

    let clinch = built(&echo());
    for key in ["1", "2", "3"] {
        let handle = clinch
            .start(echo().request("e", key, &1), Duration::ZERO)
            .await;
        assert!(handle.expect("accepted").settled().is_none());
    }
    assert_eq!(told(&lines), 1, "said once, not for every request");
    drop(clinch);
    assert_eq!(told(&lines), 1);

    let clinch = built(&echo());
    clinch
        .submit(vec![echo().request("e", "1", &1)])
        .await
        .expect("accepted");
    assert_eq!(told(&lines), 1, "run may be called after it");
    drop(clinch);
    assert_eq!(told(&lines), 2, "it was not");
}

#[tokio::test]
async fn who_runs_or_only_accepts_is_told_nothing() {
    let lines = Lines::default();
    let _listening = lines.capture();
    let now = Duration::ZERO;
    let memory = || Clinch::builder().backend(Backend::memory());

    let inline = memory().handle(&echo(), answered).build().expect("built");
    let settled = inline
        .start(echo().request("e", "1", &1), Duration::from_secs(5))
        .await;
    assert!(settled.expect("accepted").settled().is_some());
    inline.measure().await.expect("measured");

    let accepts = memory().remote(&echo()).build().expect("built");
    accepts
        .start(echo().request("e", "1", &1), now)
        .await
        .expect("accepted");

    let pumped = memory().handle(&echo(), busy).build().expect("built");
    pumped.pump(1).await.expect("a step");
    pumped
        .start(echo().request("e", "1", &1), now)
        .await
        .expect("accepted");

    let own_runners = memory().handle(&echo(), busy).build().expect("built");
    own_runners.runtime().recover().await.expect("a step");
    own_runners
        .start(echo().request("e", "1", &1), now)
        .await
        .expect("accepted");

    let runs = memory().handle(&echo(), busy).build().expect("built");
    let running = tokio::spawn({
        let runs = runs.clone();
        async move { runs.run().await }
    });
    runs.start(echo().request("e", "1", &1), now)
        .await
        .expect("accepted");
    runs.stop();
    running.await.expect("it ends");
    drop((inline, accepts, pumped, own_runners, runs));
    assert_eq!(told(&lines), 0);
}

#[cfg(not(feature = "postgres"))]
#[tokio::test]
async fn core_16_a_feature_that_is_off_is_named_with_the_line_that_turns_it_on() {
    let opened = Backend::open("postgres://ann:s3cret@db/shop", "store").await;
    let error = opened.err().expect("refused");
    names(&error, &["features = [\"postgres\"]", "Cargo.toml"]);
    assert!(!error.to_string().contains("s3cret"));
}
