//! A backup taken under load is a snapshot of the file; in a restored file the effect of every open
//! operation is unknown (OUT-7).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clinch_core::ports::{
    Answer, AnswerBody, Bus, Dequeue, Domains, Filter, Ids, Inspect, StoredOk, Topic,
};
use clinch_core::{Effect, ErrorKind};
use clinch_sqlite::{BackupKeys, Existing, Restored, Settings, Sqlite};
use clinch_system::SystemIds;

use crate::common::{
    Folder, clock, levels, on_a_runtime, open, operation, routes, shrink_levels, worker,
};
use clinch_contract::Calls;

/// Accepts, begins, and settles half of what it began, until it is stopped.
async fn load(sqlite: Sqlite, stop: Arc<AtomicBool>) {
    let routes = Arc::new(routes());
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let new: Vec<_> = (number..number + 20)
            .map(|n| operation("unsafe", n))
            .collect();
        number += 20;
        sqlite.accept(&new, &routes).await.expect("accepted");
        let dequeue = Dequeue {
            topics: vec![Topic::of(&new[0].keys.domain)],
            max: 10,
            wait: Duration::ZERO,
            visibility: Duration::from_secs(30),
            worker: worker("load"),
            attempts: (0..10).map(|_| SystemIds.attempt_id()).collect(),
            routes: routes.clone(),
            only: routes.clone(),
        };
        let taken = sqlite.dequeue(&dequeue).await.expect("deliveries");
        let answers: Vec<_> = taken
            .iter()
            .step_by(2)
            .map(|delivery| Answer {
                op_id: delivery.hint.op_id,
                fence: Some(1),
                worker: worker("load"),
                body: AnswerBody::Ok(StoredOk::default()),
                attempt_id: None,
            })
            .collect();
        sqlite.settle(&answers, &routes).await.expect("settled");
    }
}

#[test]
fn run_11_a_backup_under_load_restores_consistent_with_every_open_effect_unknown() {
    let folder = Folder::new("backup");
    on_a_runtime(async {
        let sqlite = open(&folder);
        shrink_levels(&sqlite, 15, 60);
        let before: Vec<_> = (0..50).map(|n| operation("natural", n)).collect();
        sqlite.accept(&before, &routes()).await.expect("accepted");
        let stop = Arc::new(AtomicBool::new(false));
        let loading = tokio::spawn(load(sqlite.clone(), stop.clone()));
        let copy = folder.0.join("copy.db");
        for round in 0..3 {
            let _ = std::fs::remove_file(&copy);
            sqlite
                .backup(copy.clone(), Existing::Refuse)
                .await
                .expect("a backup");
            check(&folder, &copy, round, before.len()).await;
        }
        stop.store(true, Ordering::Relaxed);
        loading.await.expect("no panic");
        let taken = sqlite
            .backup(copy, Existing::Refuse)
            .await
            .expect_err("the target exists");
        assert_eq!(taken.kind(), ErrorKind::Invalid);
    });
}

#[test]
fn out_7_backups_to_one_target_at_once_never_mix() {
    let folder = Folder::new("backups");
    let copy = folder.0.join("copy.db");
    on_a_runtime(async {
        let sqlite = open(&folder);
        let new: Vec<_> = (0..500).map(|n| operation("natural", n)).collect();
        sqlite.accept(&new, &routes()).await.expect("accepted");
    });
    let (source, settings) = (folder.file(), Settings::default());
    let ended: Vec<_> = std::thread::scope(|scope| {
        let take = || Sqlite::copy(&source, &copy, Existing::Replace, &settings);
        let all: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
        all.into_iter()
            .map(|one| one.join().expect("no panic"))
            .collect()
    });
    let refused = ended.iter().filter_map(|one| one.as_ref().err());
    assert!(
        refused
            .clone()
            .all(|error| error.kind() == ErrorKind::Conflict)
    );
    assert!(refused.count() < ended.len(), "one gets through");
    let restored = folder.0.join("restored.db");
    let restore = |existing| restore(&copy, &restored, existing, BackupKeys::Revoke);
    assert_eq!(restore(Existing::Refuse).expect("a sound copy").open, 500);
    let there = restore(Existing::Refuse).expect_err("it exists");
    assert_eq!(there.kind(), ErrorKind::Invalid);
    // A process that has the file open prevents the restore.
    let holder = Sqlite::open(&restored, settings.clone(), clock()).expect("opens");
    let held = restore(Existing::Replace).expect_err("it is open");
    assert_eq!(held.kind(), ErrorKind::Conflict);
    drop(holder);
}

async fn check(folder: &Folder, copy: &std::path::Path, round: usize, accepted_before: usize) {
    let target = folder.0.join(format!("restored-{round}.db"));
    let clock = clock();
    let settings = Settings::default();
    let restored = restore(copy, &target, Existing::Refuse, BackupKeys::Revoke);
    let restored = restored.expect("restores");
    let conn = rusqlite::Connection::open(&target).expect("opens");
    let check = "PRAGMA integrity_check";
    let verdict: String = conn.query_row(check, [], |row| row.get(0)).expect("checks");
    assert_eq!(verdict, "ok");
    drop(conn);
    let sqlite = Sqlite::open(&target, settings, clock).expect("opens");
    let (mut rows, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let filter = Filter::default();
        let page = sqlite
            .list(&filter, cursor.as_deref(), 1_000)
            .await
            .expect("lists");
        rows.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let open: Vec<_> = rows.iter().filter(|row| !row.state.is_terminal()).collect();
    assert!(
        open.len() >= accepted_before,
        "what was there before is in it"
    );
    assert_eq!(restored.open, open.len());
    assert!(open.iter().all(|row| row.state.effect == Effect::Unknown));
    assert!(rows.iter().all(|row| row.state.check().is_ok()));
    let counted: u64 = sqlite
        .domains()
        .await
        .expect("reads")
        .iter()
        .map(|view| view.counts.pending + view.counts.live + view.counts.completed)
        .sum();
    assert_eq!(counted as usize, rows.len(), "counters equal the rows");
    let keys: i64 = levels(&sqlite).iter().sum();
    assert_eq!(keys as usize, rows.len(), "each has its key");
    let asked: Vec<_> = rows.iter().map(|row| row.keys.clone()).collect();
    let found = sqlite.find(&asked).await.expect("reads");
    assert!(found.iter().all(Option::is_some), "each is known");
}

pub(crate) fn restore(
    copy: &std::path::Path,
    target: &std::path::Path,
    existing: Existing,
    unknown: BackupKeys,
) -> clinch_core::Result<Restored> {
    let (settings, clock, routes) = (Settings::default(), clock(), routes());
    Sqlite::restore(copy, target, existing, &settings, &clock, &routes, unknown)
}
