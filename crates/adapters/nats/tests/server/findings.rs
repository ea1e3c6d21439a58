//! What is said about a server, and what is not.

use std::sync::Arc;

use clinch_core::ErrorKind;
use clinch_nats::{Level, NatsBus, Settings};
use clinch_system::SystemClock;
use clinch_testbed::{Kind, Server, shared};

use crate::world::{bus, settings};

pub(crate) async fn of_a_server() {
    let url = shared(Kind::Nats).expect("a server");
    let found = bus(&url, &settings()).await.check().await;
    let worst = found.iter().map(|finding| finding.level).max();
    assert_eq!(worst, Some(Level::Note), "{found:?}");
    let says = |word: &str| found.iter().any(|finding| finding.what.contains(word));
    for word in [
        "NATS server 2.",
        "JetStream is on",
        "1 replica",
        "disk",
        "sync_interval",
    ] {
        assert!(says(word), "nothing about {word}: {found:?}");
    }
    let unlike = Settings {
        replicas: 3,
        ..settings()
    };
    let clock = Arc::new(SystemClock::new());
    let refused = NatsBus::connect(&url, unlike, clock).await;
    let error = refused.expect_err("one server cannot hold three replicas");
    assert!(error.to_string().contains("replicas"), "{error}");
}

async fn refused(url: &str) -> clinch_core::Error {
    let clock = Arc::new(SystemClock::new());
    let refused = NatsBus::connect(url, settings(), clock).await;
    refused.expect_err("no connection")
}

pub(crate) async fn no_credential_in_an_error() {
    let arguments = ["--user", "clinch", "--pass", "right-secret"];
    let server = Server::start_with(Kind::Nats, &arguments).expect("a server");
    let port = server.port();
    let url = |secret: &str| format!("nats://clinch:{secret}@127.0.0.1:{port}");
    let error = refused(&url("wrong-secret")).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let mut errors = vec![error];
    let works = bus(&url("right-secret"), &settings()).await;
    assert!(!format!("{works:?}").contains("secret"));
    drop(server);
    errors.push(refused(&url("right-secret")).await);
    errors.push(refused("no address with-secret").await);
    for error in errors {
        let mut said = format!("{error} {error:?}");
        let mut cause = std::error::Error::source(&error);
        while let Some(deeper) = cause {
            said += &format!("{deeper} {deeper:?}");
            cause = deeper.source();
        }
        assert!(!said.contains("secret"), "{said}");
    }
}

pub(crate) async fn another_stream() {
    let url = shared(Kind::Nats).expect("a server");
    let settings = settings();
    let other = async_nats::connect(&url).await.expect("a connection");
    let name = &settings.prefix;
    let config = format!(r#"{{"name":"{name}","subjects":["{name}.x"],"retention":"limits"}}"#);
    let create = format!("$JS.API.STREAM.CREATE.{name}");
    other
        .request(create, config.into())
        .await
        .expect("an answer");
    let clock = Arc::new(SystemClock::new());
    let error = NatsBus::connect(&url, settings, clock).await;
    let error = error.expect_err("it is not ours");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
