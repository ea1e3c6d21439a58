//! Moving documents to another collection.

use std::collections::BTreeSet;

use clinch_core::ErrorKind;
use clinch_core::ports::{
    DOCUMENT_BYTES_MAX, DOCUMENT_ID_BYTES_MAX, DOCUMENT_NAME_BYTES_MAX, DOCUMENTS_MAX, Document,
    DocumentFilter, DocumentName,
};

use super::{DocumentsSubject, MAIN, all, document, mixed, numbered, plain};
use crate::Fault;
use crate::case::Verdict;
use crate::concurrent::together;
use crate::port::PortCase;

pub(super) const CASES: &[PortCase<DocumentsSubject>] = port_area!("documents" {
    relocated_documents_are_in_the_other_collection_only: [],
    a_relocated_document_replaces_one_with_its_id: [],
    ids_that_are_not_there_are_not_relocated: [],
    without_ids_nothing_is_relocated: [],
    the_largest_relocation_is_taken: [],
    of_callers_that_relocate_the_same_each_document_counts_once: [],
    bad_relocations_are_refused_and_none_is_moved: [],
});

pub(super) const TRANSACTIONAL: &[PortCase<DocumentsSubject>] = port_area!("documents" {
    a_relocation_that_fails_moves_nothing: [],
    a_relocation_whose_end_is_unknown_is_ambiguous: [],
    relocations_back_and_forth_lose_no_document: [],
});

const GONE: &str = "gone";

fn texts(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn ids_of(documents: &[Document]) -> Vec<String> {
    documents
        .iter()
        .map(|document| document.id.clone())
        .collect()
}

impl DocumentsSubject {
    async fn relocate(&self, ids: &[String]) -> Verdict<u64> {
        Ok(self.documents.relocate(MAIN, GONE, ids).await?)
    }

    /// Everything that is in the first collection, and in the second.
    async fn ensure_in(&self, main: &[Document], gone: &[Document], when: &str) -> Verdict {
        ensure_eq!(self.everything().await?, main, "left {when}");
        ensure_eq!(self.scan(GONE, &all()).await?, gone, "moved {when}");
        Ok(())
    }
}

async fn relocated_documents_are_in_the_other_collection_only(s: DocumentsSubject) -> Verdict {
    let stored = mixed();
    s.store(&stored).await?;
    let (moved, left): (Vec<_>, Vec<_>) = stored
        .into_iter()
        .partition(|document| document.user == "u1");
    let mut ids = ids_of(&moved);
    ids.reverse();
    ensure_eq!(s.relocate(&ids).await?, moved.len() as u64, "moved");
    s.ensure_in(&left, &moved, "with their bodies").await?;
    let of_user = DocumentFilter {
        user: Some("u1".into()),
        ..all()
    };
    for (collection, expected) in [(MAIN, &[][..]), (GONE, &moved[..])] {
        let listed = s.list(collection, &of_user, 400).await?;
        let expected: Vec<_> = expected.iter().map(DocumentName::from).collect();
        ensure_eq!(listed, expected, "listed in {collection}");
        let counts = s.documents.count(collection, Some("u1")).await?;
        let counted: u64 = counts.values().sum();
        ensure_eq!(counted, expected.len() as u64, "counted in {collection}");
    }
    ensure_eq!(s.relocate(&ids).await?, 0, "they are not there any more");
    s.ensure_in(&left, &moved, "by the same call again").await?;
    let back = s.documents.relocate(GONE, MAIN, &ids).await?;
    ensure_eq!(back, moved.len() as u64, "moved back");
    ensure_eq!(s.everything().await?, mixed(), "as before");
    Ok(())
}

async fn a_relocated_document_replaces_one_with_its_id(s: DocumentsSubject) -> Verdict {
    let new = Document {
        body: "{\"new\":true}".into(),
        ..document("a", "pull", "bob", "other")
    };
    let kept = document("b", "issue", "ann", "kept");
    let old = [plain("a"), kept.clone()];
    s.documents.upsert(GONE, &old).await?;
    s.store(&[new.clone(), plain("b")]).await?;
    ensure_eq!(s.relocate(&texts(&["a"])).await?, 1, "moved");
    s.ensure_in(&[plain("b")], &[new, kept], "all of it")
        .await?;
    let counts = s.documents.count(GONE, None).await?;
    let expected = [("issue".to_owned(), 1), ("pull".to_owned(), 1)];
    ensure_eq!(counts, expected.into(), "of each kind");
    Ok(())
}

async fn ids_that_are_not_there_are_not_relocated(s: DocumentsSubject) -> Verdict {
    let elsewhere = plain("elsewhere");
    s.documents
        .upsert("other", std::slice::from_ref(&elsewhere))
        .await?;
    s.documents.upsert(GONE, &[plain("there")]).await?;
    s.store(&["A", "a", "b"].map(plain)).await?;
    let ids = texts(&["elsewhere", "a", "a ", "there", "a", "nowhere"]);
    ensure_eq!(s.relocate(&ids).await?, 1, "moved");
    let (left, moved) = (["A", "b"].map(plain), ["a", "there"].map(plain));
    s.ensure_in(&left, &moved, "of those that are there")
        .await?;
    ensure_eq!(s.scan("other", &all()).await?, [elsewhere], "elsewhere");
    Ok(())
}

async fn without_ids_nothing_is_relocated(s: DocumentsSubject) -> Verdict {
    let stored = ["a", "b"].map(plain);
    s.store(&stored).await?;
    ensure_eq!(s.relocate(&[]).await?, 0, "moved");
    s.ensure_in(&stored, &[], "without ids").await
}

async fn the_largest_relocation_is_taken(s: DocumentsSubject) -> Verdict {
    let name = "\u{e4}".repeat(DOCUMENT_NAME_BYTES_MAX / 2);
    let largest = Document {
        id: "i".repeat(DOCUMENT_ID_BYTES_MAX),
        kind: name.clone(),
        user: name.clone(),
        resource: name.clone(),
        body: format!("\"{}\"", "x".repeat(DOCUMENT_BYTES_MAX - 2)),
    };
    let mut stored = numbered(0..DOCUMENTS_MAX - 1);
    stored.insert(0, largest);
    s.store(&stored).await?;
    let moved = s.documents.relocate(MAIN, &name, &ids_of(&stored)).await?;
    ensure_eq!(moved, DOCUMENTS_MAX as u64, "moved");
    ensure!(s.everything().await?.is_empty(), "nothing is left");
    ensure!(s.scan(&name, &all()).await? == stored, "all of it is there");
    Ok(())
}

async fn of_callers_that_relocate_the_same_each_document_counts_once(
    s: DocumentsSubject,
) -> Verdict {
    let stored = numbered(0..60);
    s.store(&stored).await?;
    let calls = together(8, |caller| {
        let (s, mut mine) = (s.clone(), ids_of(&stored));
        mine.rotate_left(caller * 7);
        if caller % 2 == 0 {
            mine.reverse();
        }
        async move {
            let mut moved = 0;
            for part in mine.chunks(20) {
                moved += s.relocate(part).await?;
            }
            Ok(moved)
        }
    });
    let moved: u64 = calls.await?.into_iter().sum();
    ensure_eq!(moved, stored.len() as u64, "by all callers");
    s.ensure_in(&[], &stored, "once each").await
}

async fn bad_relocations_are_refused_and_none_is_moved(s: DocumentsSubject) -> Verdict {
    let stored = ["a", "b"].map(plain);
    s.store(&stored).await?;
    let long = "n".repeat(DOCUMENT_NAME_BYTES_MAX + 1);
    let long_id = "i".repeat(DOCUMENT_ID_BYTES_MAX + 1);
    let many: Vec<_> = ids_of(&numbered(0..DOCUMENTS_MAX));
    let bad = [
        ("the same collection", MAIN, MAIN, vec![]),
        ("from no collection", "", GONE, vec![]),
        ("to no collection", MAIN, "", vec![]),
        ("from a long name", &long, GONE, vec![]),
        ("to a long name", MAIN, &long, vec![]),
        ("from a NUL", "a\0b", GONE, vec![]),
        ("to a NUL", MAIN, "a\0b", vec![]),
        ("an empty id", MAIN, GONE, texts(&[""])),
        ("a long id", MAIN, GONE, vec![long_id]),
        ("a NUL in an id", MAIN, GONE, texts(&["a\0b"])),
        ("too many ids", MAIN, GONE, many),
    ];
    for (what, from, to, more) in bad {
        let mut ids = texts(&["a"]);
        ids.extend(more);
        let moved = s.documents.relocate(from, to, &ids).await;
        let is_invalid = moved.is_err_and(|error| error.kind() == ErrorKind::Invalid);
        ensure!(is_invalid, "{what} is refused");
        s.ensure_in(&stored, &[], "by a refused call").await?;
    }
    Ok(())
}

async fn a_relocation_that_fails_moves_nothing(s: DocumentsSubject) -> Verdict {
    let (stored, old) = (["a", "b"].map(plain), document("a", "pull", "bob", "other"));
    s.store(&stored).await?;
    s.documents.upsert(GONE, std::slice::from_ref(&old)).await?;
    for fault in [Fault::BeforeCommit, Fault::MidCommit] {
        s.fail_next(fault)?;
        let moved = s.documents.relocate(MAIN, GONE, &texts(&["a", "b"])).await;
        let is_clear = moved.is_err_and(|error| error.kind() != ErrorKind::Ambiguous);
        ensure!(is_clear, "{fault:?} is told");
        s.ensure_in(&stored, std::slice::from_ref(&old), "by a failed call")
            .await?;
    }
    Ok(())
}

async fn a_relocation_whose_end_is_unknown_is_ambiguous(s: DocumentsSubject) -> Verdict {
    let stored = ["a", "b"].map(plain);
    s.store(&stored).await?;
    s.fail_next(Fault::AfterCommit)?;
    let moved = s.documents.relocate(MAIN, GONE, &texts(&["a", "b"])).await;
    let is_unclear = moved.is_err_and(|error| error.kind() == ErrorKind::Ambiguous);
    ensure!(is_unclear, "nobody knows");
    s.ensure_in(&[], &stored, "in the end").await
}

async fn relocations_back_and_forth_lose_no_document(s: DocumentsSubject) -> Verdict {
    let stored = numbered(0..40);
    s.store(&stored).await?;
    let calls = together(8, |caller| {
        let (s, mut mine) = (s.clone(), ids_of(&stored));
        mine.rotate_left(caller * 5);
        async move {
            for round in 0..6 {
                let (from, to) = match (caller + round) % 2 {
                    0 => (MAIN, GONE),
                    _ => (GONE, MAIN),
                };
                s.documents.relocate(from, to, &mine).await?;
            }
            Ok(())
        }
    });
    calls.await?;
    let mut found = ids_of(&s.everything().await?);
    found.extend(ids_of(&s.scan(GONE, &all()).await?));
    ensure_eq!(found.len(), stored.len(), "each is in one collection");
    let found: BTreeSet<_> = found.into_iter().collect();
    let expected: BTreeSet<_> = ids_of(&stored).into_iter().collect();
    ensure_eq!(found, expected, "each is there");
    Ok(())
}
