//! What the writer keeps between its commits is never older than the file (CORE-9, RUN-2). Two stores
//! on one file stand for two processes.

use std::time::Duration;

use clinch_contract::Calls;
use clinch_core::ports::{
    Accepted, Amendment, Answer, AnswerBody, BeginRequest, Domains, Ids, Inspect, NewOperation,
    NewPause, StoredOk,
};
use clinch_core::protocol::Event;
use clinch_core::{OpId, Status};
use clinch_sqlite::{Fault, Sqlite};
use clinch_system::SystemIds;

use crate::common::{
    Folder, integrity, levels, on_a_runtime, open, operation, routes, shrink_levels, worker,
};

fn begin(op_id: OpId) -> BeginRequest {
    BeginRequest {
        op_id,
        attempt_id: SystemIds.attempt_id(),
        worker: worker("kept"),
        lease: Duration::from_secs(30),
    }
}

fn answer(op_id: OpId) -> Answer {
    Answer {
        op_id,
        fence: Some(1),
        worker: worker("kept"),
        body: AnswerBody::Ok(StoredOk::default()),
        attempt_id: None,
    }
}

/// Accepts an operation that begins in the same commit, so that the store keeps its row.
async fn running(store: &Sqlite, number: usize) -> OpId {
    let mut new = operation("natural", number);
    new.begin = Some(begin(new.op_id));
    let accepted = store.accept(&[new.clone()], &routes()).await;
    assert!(matches!(
        accepted.expect("accepted")[..],
        [Accepted::New { .. }]
    ));
    new.op_id
}

async fn events(store: &Sqlite, op_id: OpId) -> Vec<String> {
    let lines = store.ledger(op_id).await.expect("a ledger");
    lines.into_iter().map(|line| line.event).collect()
}

#[test]
fn run_2_a_settle_sees_what_another_process_did_to_the_row() {
    let folder = Folder::new("kept");
    on_a_runtime(async {
        let (ours, other) = (open(&folder), open(&folder));
        let op_id = running(&ours, 1).await;
        let cancel = Amendment {
            op_id,
            event: Event::Cancel,
            ok: None,
            checkpoint: None,
            by: worker("other"),
            reason: "no longer wanted".to_owned(),
            attempt_id: None,
        };
        let told = other.amend(&[cancel], &routes()).await.expect("written");
        assert!(told[0].as_ref().is_ok_and(|row| row.state.cancel_requested));
        let settled = ours.settle(&[answer(op_id)], &routes()).await;
        let settled = settled.expect("written")[0].clone().expect("settled");
        assert_eq!(settled.state.status, Status::Completed);
        assert!(settled.state.cancel_requested, "the request is not undone");
        let events = events(&ours, op_id).await;
        let canceled = events.iter().filter(|event| *event == "Cancel").count();
        assert_eq!(canceled, 1, "{events:?}");
    });
}

#[test]
fn run_2_an_answer_counts_once_whichever_process_settles_first() {
    let folder = Folder::new("kept");
    on_a_runtime(async {
        let (ours, other) = (open(&folder), open(&folder));
        let op_id = running(&ours, 1).await;
        let first = other.settle(&[answer(op_id)], &routes()).await;
        assert!(first.expect("written")[0].is_ok());
        let again = ours.settle(&[answer(op_id)], &routes()).await;
        let again = again.expect("written");
        let row = ours.get(&[op_id]).await.expect("reads").remove(0);
        let row = row.expect("the operation");
        assert_eq!(row.state.status, Status::Completed);
        assert_eq!(
            row.state.version, 4,
            "accept, begin, answer, final: {again:?}"
        );
        let views = ours.domains().await.expect("domains");
        let counts = views[0].counts;
        assert_eq!((counts.live, counts.completed), (0, 1));
    });
}

#[test]
fn run_2_a_commit_that_failed_leaves_nothing_behind() {
    let folder = Folder::new("kept");
    on_a_runtime(async {
        let store = open(&folder);
        let op_id = running(&store, 1).await;
        for fault in [Fault::MidCommit, Fault::BeforeCommit] {
            store.fail_next(fault);
            let failed = store.settle(&[answer(op_id)], &routes()).await;
            assert!(failed.is_err());
        }
        let lost = operation("natural", 2);
        store.fail_next(Fault::MidCommit);
        let failed = store.accept(std::slice::from_ref(&lost), &routes()).await;
        assert!(failed.is_err());
        let accepted = store.accept(&[lost], &routes()).await.expect("accepted");
        assert!(matches!(accepted[..], [Accepted::New { .. }]));
        let settled = store.settle(&[answer(op_id)], &routes()).await;
        assert!(settled.expect("written")[0].is_ok());
        let counts = store.domains().await.expect("domains")[0].counts;
        assert_eq!((counts.pending, counts.live, counts.completed), (1, 0, 1));
        assert_eq!(integrity(&folder), "ok");
    });
}

#[test]
fn core_9_keys_that_another_process_took_are_known_through_every_merge() {
    const ROUNDS: usize = 60;
    let folder = Folder::new("kept");
    on_a_runtime(async {
        let stores = [open(&folder), open(&folder)];
        // Each store merges the new keys of both, about every third commit.
        shrink_levels(&stores[0], 40, 150);
        let mut all: Vec<NewOperation> = Vec::new();
        for round in 0..ROUNDS {
            let ours = &stores[round % 2];
            let new: Vec<_> = (0..15)
                .map(|n| operation("natural", round * 15 + n))
                .collect();
            let accepted = ours.accept(&new, &routes()).await.expect("accepted");
            let is_new = |one: &Accepted| matches!(one, Accepted::New { .. });
            assert!(accepted.iter().all(is_new), "round {round}");
            all.extend(new);
            let other = &stores[(round + 1) % 2];
            let known = other.accept(&all, &routes()).await.expect("answered");
            let is_known = |one: &Accepted| matches!(one, Accepted::Known(_));
            assert!(known.iter().all(is_known), "round {round}");
            let keys: Vec<_> = all.iter().map(|new| new.keys.clone()).collect();
            let found = other.find(&keys).await.expect("reads");
            assert!(found.iter().all(Option::is_some), "round {round}");
        }
        let [_, mid, rest] = levels(&stores[0]);
        assert!(mid > 0 && rest > 0, "keys were merged");
        assert_eq!(integrity(&folder), "ok");
    });
}

#[test]
fn run_2_a_pause_by_another_process_is_seen_at_once() {
    let folder = Folder::new("kept");
    on_a_runtime(async {
        let (ours, other) = (open(&folder), open(&folder));
        let settled = running(&ours, 1).await;
        let domain = operation("natural", 2).keys.domain;
        other
            .pause(&domain, &NewPause::default())
            .await
            .expect("paused");
        let mut new = operation("natural", 2);
        new.begin = Some(begin(new.op_id));
        let accepted = ours.accept(&[new], &routes()).await.expect("accepted");
        let [Accepted::New { state, .. }] = &accepted[..] else {
            panic!("{accepted:?}");
        };
        assert_eq!(
            state.status,
            Status::Pending,
            "a paused domain begins nothing"
        );
        let ended = ours.settle(&[answer(settled)], &routes()).await;
        assert!(ended.expect("written")[0].is_ok());
        let view = &ours.domains().await.expect("domains")[0];
        assert!(view.paused, "the pause is not undone by our commit");
    });
}
