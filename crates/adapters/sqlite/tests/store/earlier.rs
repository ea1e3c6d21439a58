//! Dead letters and documents of an earlier release (OUT-6).

use std::sync::Arc;

use clinch_contract::StorePorts;
use clinch_contract::earlier::{make_letters, read_letters};

use clinch_core::ports::{
    DeadLetter, Document, DocumentFilter, DocumentName, DocumentSink, LetterView,
};

use crate::common::{Folder, on_a_runtime, open, operation};

/// A letter as the release before wrote it: the whole of it, with its payload.
fn whole(view: &LetterView) -> String {
    let sample = operation("natural", 1);
    let letter = DeadLetter {
        op_id: view.op_id,
        keys: view.keys.clone(),
        failure: view.failure.clone(),
        attempts: view.attempts,
        payload: sample.payload,
        content_hash: sample.content_hash,
        failed_at: view.failed_at,
        late_ok: view.late_ok,
    };
    serde_json::to_string(&letter).expect("JSON")
}

/// What else it left of a letter.
const AS_BEFORE: &str = "UPDATE clinch_dead_letter SET status = NULL, mark = NULL, seq = NULL, \
    domain = NULL, event_type = NULL, biz_key = NULL, idem_key = NULL, code = NULL, \
    fingerprint = NULL, late_ok = 0; UPDATE clinch_domain SET dead_letters_open = 0";

#[test]
fn out_6_dead_letters_of_an_earlier_release_are_completed_when_the_file_is_opened() {
    on_a_runtime(async {
        let folder = Folder::new("earlier");
        let sqlite = open(&folder);
        let ports = StorePorts::of(&Arc::new(sqlite.clone()));
        make_letters(&ports).await.expect("letters");
        let made = read_letters(&ports).await.expect("read");
        assert_eq!(made.1, 3, "open ones");
        let conn = sqlite.connect().expect("a connection");
        conn.execute_batch(AS_BEFORE).expect("as before");
        for view in &made.0 {
            let sql = "UPDATE clinch_dead_letter SET letter = ?2 WHERE op_id = ?1";
            let values = (view.op_id.0.as_bytes().as_slice(), whole(view));
            conn.execute(sql, values).expect("a letter");
        }
        drop((conn, ports, sqlite));
        let ports = StorePorts::of(&Arc::new(open(&folder)));
        assert_eq!(read_letters(&ports).await.expect("read"), made);
    });
}

/// The file as schema 12 left it.
const WITHOUT_LISTS: &str = "DROP INDEX clinch_document_resource; PRAGMA user_version = 12";

#[test]
fn out_6_documents_of_an_earlier_release_are_listed_when_the_file_is_opened() {
    on_a_runtime(async {
        let folder = Folder::new("earlier-documents");
        let sqlite = open(&folder);
        let documents = ["a", "b"].map(|id| Document {
            id: id.to_owned(),
            kind: "issue".to_owned(),
            user: "ann".to_owned(),
            resource: format!("repo:{id}"),
            body: "{}".to_owned(),
        });
        let stored = sqlite.upsert("main", &documents).await;
        stored.expect("documents");
        let conn = sqlite.connect().expect("a connection");
        conn.execute_batch(WITHOUT_LISTS).expect("as before");
        drop((conn, sqlite));
        let sqlite = open(&folder);
        let filter = DocumentFilter {
            user: Some("ann".to_owned()),
            kind: None,
            resource: Some("repo:b".to_owned()),
        };
        let listed = sqlite.list("main", &filter, None, 10).await;
        assert_eq!(listed.expect("a list"), [DocumentName::from(&documents[1])]);
    });
}
