//! A switch at the very moment when a run begins.

use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch::ports::{Document, DocumentFilter, DocumentSink as _};
use clinch::testing::advance;
use clinch::types::ErrorKind;
use clinch_github::{RunStatus, Space, Start, SwitchLimits};
use clinch_memory::Memory;

use crate::lab::assert_whole;
use crate::switch::TwoSinks;

/// An event that the API does not show any more: no run would read it again.
async fn put_event(memory: &Memory, space: Space) {
    let event = Document {
        id: "event:1".to_owned(),
        kind: "event".to_owned(),
        user: "octocat".to_owned(),
        resource: "user:octocat".to_owned(),
        body: r#"{"id":"1"}"#.to_owned(),
    };
    let put = memory.upsert(space.collection(), &[event]).await;
    put.expect("stored");
}

async fn has_event(memory: &Memory, space: Space) -> bool {
    let events = DocumentFilter {
        kind: Some("event".to_owned()),
        ..DocumentFilter::default()
    };
    let found = memory.scan(space.collection(), &events, None, 1_000).await;
    let found = found.expect("read");
    found.iter().any(|one| one.id == "event:1")
}

fn trial() -> Start {
    Start {
        space: Space::Shadow,
        ..Start::default()
    }
}

#[tokio::test]
async fn col_18_a_switch_while_a_run_begins_deletes_nothing_of_the_real_documents() {
    let lab = TwoSinks::start().await;
    assert_whole(&lab.run(Start::default()).await);
    put_event(&lab.old, Space::Main).await;
    lab.records.switch_after_the_next_look("shadow");
    let run = lab.run(Start::default()).await;
    assert_whole(&run);
    assert_eq!(run.run_id.to_string(), "octocat.2");
    assert!(!run.is_trial && !run.is_full, "{run:?}");
    assert!(run.pages.not_modified > 0, "its cursors are there: {run:?}");
    assert!(has_event(&lab.old, Space::Main).await);
}

#[tokio::test]
async fn col_18_a_way_back_while_a_run_begins_deletes_nothing_of_the_shadow() {
    let lab = TwoSinks::switched().await;
    put_event(&lab.new.memory, Space::Shadow).await;
    lab.records.switch_after_the_next_look("main");
    let run = lab.run(Start::default()).await;
    assert_whole(&run);
    assert_eq!(run.run_id.to_string(), "octocat.shadow.2");
    assert!(!run.is_trial && !run.is_full, "{run:?}");
    assert!(has_event(&lab.new.memory, Space::Shadow).await);
}

#[tokio::test]
async fn col_18_a_trial_deletes_nothing_of_a_shadow_that_became_live_before_it_was_planned() {
    let lab = TwoSinks::start().await;
    assert_whole(&lab.run(Start::default()).await);
    assert_whole(&lab.run(trial()).await);
    put_event(&lab.new.memory, Space::Shadow).await;
    lab.records.switch_after_the_next_look("shadow");
    let run = lab.run(trial()).await;
    assert_whole(&run);
    assert_eq!(run.run_id.to_string(), "octocat.shadow.2");
    assert!(!run.is_trial, "it stores into the live documents: {run:?}");
    assert!(has_event(&lab.new.memory, Space::Shadow).await);
}

#[tokio::test]
async fn col_18_nobody_switches_to_a_shadow_in_which_a_trial_deletes() {
    for is_canceled in [false, true] {
        let lab = TwoSinks::start().await;
        assert_whole(&lab.run(Start::default()).await);
        assert_whole(&lab.run(trial()).await);
        lab.new.holds_deletes.store(true, Ordering::SeqCst);
        let begun = lab.collector.start_with("octocat", &trial()).await;
        let id = begun.expect("it begins").run_id;
        advance(&lab.clock, Duration::from_secs(1)).await;
        if is_canceled {
            let canceled = lab.collector.cancel(&id, "a test").await;
            assert_eq!(canceled.expect("canceled").status, RunStatus::Canceled);
        }
        let limits = SwitchLimits::default();
        let refused = lab.collector.switch_to(Space::Shadow, limits).await;
        let refused = refused.expect_err("it deletes");
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.message().contains("octocat.shadow.2"), "{refused}");
        let live = lab.collector.switch().await.expect("read").live;
        assert_eq!(live, Space::Main);

        lab.new.release();
        advance(&lab.clock, Duration::from_secs(1)).await;
        if !is_canceled {
            assert_whole(&lab.end(&id).await);
        }
        let switched = lab.collector.switch_to(Space::Shadow, limits).await;
        assert_eq!(switched.expect("switched").live, Space::Shadow);
    }
}
