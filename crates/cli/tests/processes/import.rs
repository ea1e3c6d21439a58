//! `clinch dlq import`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clinch::{Backend, Call, Clinch, Fail, Route};
use clinch_core::ports::{
    DeadLetter, Inspect as _, Journal as _, LetterFilter, LetterOrder, Recovery as _,
};
use clinch_sqlite::{Settings, Sqlite};
use clinch_system::{FileJournal, SystemClock};

use crate::support::{Folder, Server, document, refused, run};

/// Dead letters of operations that a provider refused.
async fn letters(path: &Path, count: usize) -> Vec<DeadLetter> {
    let clock = Arc::new(SystemClock::new());
    let sqlite = Sqlite::open(path, Settings::default(), clock).expect("opens");
    let charge: Route<u64, ()> = Route::new("payments", "charge");
    let clinch = Clinch::builder()
        .backend(Backend::new(sqlite.clone()))
        .handle(&charge, |_: Call<u64>| async {
            Err::<(), _>(Fail::new("declined", "no money"))
        })
        .build()
        .expect("valid");
    for number in 0..count {
        let key = format!("order-{number}");
        let request = charge.request(&key, "a", &5_000);
        let handle = clinch.start(request, Duration::from_secs(30)).await;
        assert!(handle.expect("accepted").settled().is_some());
    }
    let (all, order) = (LetterFilter::all(), LetterOrder::NewestFirst);
    let listed = sqlite.dead_letters(&all, order, None, 100).await;
    let listed = listed.expect("reads").items;
    let ids: Vec<_> = listed.iter().map(|letter| letter.op_id).collect();
    let rows = sqlite.get(&ids).await.expect("reads");
    let filed = listed.into_iter().zip(rows).map(|(letter, row)| {
        let row = row.expect("its operation");
        DeadLetter {
            op_id: letter.op_id,
            keys: letter.keys,
            failure: letter.failure,
            attempts: letter.attempts,
            payload: row.payload,
            content_hash: row.content_hash,
            failed_at: letter.failed_at,
            late_ok: letter.late_ok,
        }
    });
    filed.collect()
}

async fn file(path: &Path, letters: &[DeadLetter]) {
    let journal = FileJournal::open(path).await.expect("a journal");
    let records = letters
        .iter()
        .map(|one| serde_json::to_vec(one).expect("JSON"));
    let records: Vec<_> = records.collect();
    journal.append(&records).await.expect("written");
}

#[test]
fn out_6_filed_dead_letters_are_read_back_once_however_often_it_is_done() {
    let folder = Folder::new("import");
    let lost = folder.0.join("lost.db");
    let log = folder.0.join("filed.log");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let filed = runtime.block_on(async {
        let filed = letters(&lost, 3).await;
        file(&log, &filed).await;
        filed
    });
    assert_eq!(filed.len(), 3);
    std::fs::copy(&log, folder.0.join("copy.log")).expect("copied");
    let import = |name: &str| run(&folder.0, &["dlq", "import", name, "-o", "json"]);
    let first = import("filed.log");
    assert_eq!(first.status.code(), Some(0));
    let first = document(&first);
    assert_eq!(
        (&first["imported"], &first["already_there"]),
        (&3.into(), &0.into())
    );
    let forgotten = document(&import("filed.log"));
    assert_eq!(
        (&forgotten["imported"], &forgotten["already_there"]),
        (&0.into(), &0.into())
    );
    let again = document(&import("copy.log"));
    assert_eq!(
        (&again["imported"], &again["already_there"]),
        (&0.into(), &3.into())
    );
    let server = Server::start(&folder.0, "127.0.0.1:0");
    let listed = ["dlq", "ls", "-o", "json", "--url", &server.url()];
    let listed = document(&run(&folder.0, &listed));
    assert_eq!(listed["dead_letters"].as_array().map(Vec::len), Some(3));
    // A running server has its own file locked.
    let (code, said) = refused(&run(&folder.0, &["dlq", "import", "clinch-dlq.log"]));
    assert_eq!(code, Some(4), "{said}");
}

#[test]
fn out_6_damaged_letters_are_counted_and_kept() {
    let folder = Folder::new("import-damaged");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let log = folder.0.join("filed.log");
    runtime.block_on(async {
        let filed = letters(&folder.0.join("lost.db"), 2).await;
        file(&log, &filed).await;
        let journal = FileJournal::open(&log).await.expect("a journal");
        journal
            .append(&[b"canary-4f1d".to_vec()])
            .await
            .expect("written");
    });
    for (imported, known) in [(2, 0), (0, 0)] {
        let ran = run(&folder.0, &["dlq", "import", "filed.log", "-o", "json"]);
        assert_eq!(ran.status.code(), Some(1));
        let (_, said) = refused(&ran);
        assert!(
            said.contains("keep the file") && !said.contains("canary"),
            "{said}"
        );
        let ran = document(&ran);
        assert_eq!(
            (&ran["imported"], &ran["already_there"]),
            (&imported.into(), &known.into())
        );
        assert_eq!(ran["unreadable"], 1);
    }
    assert_eq!(
        refused(&run(&folder.0, &["dlq", "import", "none.log"])).0,
        Some(3)
    );
    assert!(!folder.0.join("none.log").exists(), "no journal is made");
    std::fs::write(folder.0.join("text.log"), "not a journal").expect("a file");
    let (code, said) = refused(&run(&folder.0, &["dlq", "import", "text.log"]));
    assert_eq!(code, Some(1));
    assert!(said.contains("not a journal"), "{said}");
}
