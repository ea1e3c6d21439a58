//! Storing, replacing and removing.

use clinch_core::ErrorKind;
use clinch_core::ports::{
    DOCUMENT_BYTES_MAX, DOCUMENT_ID_BYTES_MAX, DOCUMENT_NAME_BYTES_MAX, DOCUMENTS_MAX, Document,
    DocumentFilter,
};

use super::{DocumentsSubject, MAIN, all, document, numbered, plain};
use crate::Fault;
use crate::case::Verdict;
use crate::concurrent::together;
use crate::port::PortCase;

pub(super) const CASES: &[PortCase<DocumentsSubject>] = port_area!("documents" {
    what_is_stored_is_found: [],
    the_same_id_again_replaces: [],
    storing_twice_is_storing_once: [],
    of_two_with_one_id_in_a_call_the_later_counts: [],
    concurrent_callers_store_the_same: [],
    collections_do_not_see_each_other: [],
    ids_are_told_apart_by_their_bytes: [],
    bad_documents_are_refused_and_none_is_stored: [],
    the_largest_call_is_taken: [],
    clearing_removes_what_the_filter_matches: [],
    clearing_removes_any_number: [],
});

pub(super) const TRANSACTIONAL: &[PortCase<DocumentsSubject>] = port_area!("documents" {
    a_call_that_fails_stores_nothing: [],
    a_call_whose_end_is_unknown_is_ambiguous: [],
});

pub(super) const EXACT: &[PortCase<DocumentsSubject>] = port_area!("documents" {
    bodies_are_kept_to_the_byte: [],
});

async fn what_is_stored_is_found(s: DocumentsSubject) -> Verdict {
    ensure_eq!(s.everything().await?, [], "at first");
    let stored = [
        document("a", "issue", "ann", "repo/1"),
        document("b", "", "", ""),
        document("c", "it's \"x\"", "%_\\", "{r} $1 ?"),
    ];
    s.store(&stored).await?;
    ensure_eq!(s.everything().await?, stored, "as they were stored");
    s.store(&[]).await?;
    ensure_eq!(s.everything().await?, stored, "nothing more was stored");
    Ok(())
}

async fn the_same_id_again_replaces(s: DocumentsSubject) -> Verdict {
    s.store(&[plain("a"), plain("b")]).await?;
    let changed = Document {
        body: "{\"new\":true}".into(),
        ..document("a", "pull", "bob", "other")
    };
    s.store(&[changed.clone(), plain("c")]).await?;
    let expected = [changed.clone(), plain("b"), plain("c")];
    ensure_eq!(s.everything().await?, expected, "all of it is replaced");
    let of = |user: &str| DocumentFilter {
        user: Some(user.into()),
        ..all()
    };
    ensure_eq!(s.ids(&of("ann")).await?, ["b", "c"], "of the old user");
    ensure_eq!(s.ids(&of("bob")).await?, ["a"], "of the new user");
    let counts = s.documents.count(MAIN, None).await?;
    let expected = [("issue".to_owned(), 2), ("pull".to_owned(), 1)];
    ensure_eq!(counts, expected.into(), "of each kind");
    Ok(())
}

async fn storing_twice_is_storing_once(s: DocumentsSubject) -> Verdict {
    let stored = numbered(0..50);
    for _ in 0..3 {
        s.store(&stored).await?;
    }
    ensure_eq!(s.everything().await?, stored, "once each");
    let counts = s.documents.count(MAIN, None).await?;
    ensure_eq!(counts, [("issue".to_owned(), 50)].into(), "counted once");
    Ok(())
}

async fn of_two_with_one_id_in_a_call_the_later_counts(s: DocumentsSubject) -> Verdict {
    let with = |id: &str, body: &str| Document {
        body: body.into(),
        ..plain(id)
    };
    for first in ["1", "2"] {
        let call = [
            with("a", first),
            with("b", "3"),
            with("a", "4"),
            with("b", "5"),
            with("a", "6"),
        ];
        s.store(&call).await?;
        let expected = [with("a", "6"), with("b", "5")];
        ensure_eq!(s.everything().await?, expected, "the last of each");
    }
    Ok(())
}

async fn concurrent_callers_store_the_same(s: DocumentsSubject) -> Verdict {
    let stored = numbered(0..60);
    let calls = together(12, |caller| {
        let (s, mut mine) = (s.clone(), stored.clone());
        mine.rotate_left(caller * 5);
        if caller % 2 == 0 {
            mine.reverse();
        }
        async move {
            for _ in 0..4 {
                s.store(&mine).await?;
            }
            Ok(())
        }
    });
    calls.await?;
    ensure_eq!(s.everything().await?, stored, "once each");
    Ok(())
}

async fn collections_do_not_see_each_other(s: DocumentsSubject) -> Verdict {
    let names = ["main", "Main", "mai", "main2", "\u{e4}"];
    for (number, name) in names.into_iter().enumerate() {
        let mine = Document {
            body: number.to_string(),
            ..plain("a")
        };
        s.documents.upsert(name, &[mine]).await?;
    }
    s.documents.clear("main", &all()).await?;
    for (number, name) in names.into_iter().enumerate() {
        let found = s.scan(name, &all()).await?;
        let bodies: Vec<_> = found.into_iter().map(|document| document.body).collect();
        let expected = match number {
            0 => vec![],
            _ => vec![number.to_string()],
        };
        ensure_eq!(bodies, expected, "of {name:?}");
        let counts = s.documents.count(name, None).await?;
        ensure_eq!(counts.len(), expected.len(), "kinds of {name:?}");
    }
    Ok(())
}

async fn ids_are_told_apart_by_their_bytes(s: DocumentsSubject) -> Verdict {
    let ids = ["a", "A", "a ", "\u{e4}", "a\u{308}", "ss", "\u{df}"];
    let mut stored = ids.map(plain);
    s.store(&stored).await?;
    stored.sort_by(|one, other| one.id.cmp(&other.id));
    ensure_eq!(s.everything().await?, stored, "each is its own");
    Ok(())
}

async fn bad_documents_are_refused_and_none_is_stored(s: DocumentsSubject) -> Verdict {
    let long_id = "i".repeat(DOCUMENT_ID_BYTES_MAX + 1);
    let wide_id = "\u{e4}".repeat(DOCUMENT_ID_BYTES_MAX / 2 + 1);
    let long = "n".repeat(DOCUMENT_NAME_BYTES_MAX + 1);
    let with_body = |body: String| Document { body, ..plain("a") };
    let bad = [
        ("an empty id", vec![plain("")]),
        ("a long id", vec![plain(&long_id)]),
        ("an id of too many bytes", vec![plain(&wide_id)]),
        ("a long kind", vec![document("a", &long, "u", "r")]),
        ("a long user", vec![document("a", "k", &long, "r")]),
        ("a long resource", vec![document("a", "k", "u", &long)]),
        ("a NUL in an id", vec![plain("a\0b")]),
        ("a NUL in a body", vec![with_body("\0".into())]),
        (
            "a long body",
            vec![with_body("1".repeat(DOCUMENT_BYTES_MAX + 1))],
        ),
        ("too many", numbered(0..DOCUMENTS_MAX)),
    ];
    for (what, documents) in bad {
        let call: Vec<_> = [plain("good")].into_iter().chain(documents).collect();
        let stored = s.documents.upsert(MAIN, &call).await;
        let is_invalid = stored.is_err_and(|error| error.kind() == ErrorKind::Invalid);
        ensure!(is_invalid, "{what} is refused");
        ensure_eq!(s.everything().await?, [], "nothing of it is stored");
    }
    for collection in ["", &long, "a\0b"] {
        let stored = s.documents.upsert(collection, &[plain("a")]).await;
        let is_invalid = stored.is_err_and(|error| error.kind() == ErrorKind::Invalid);
        ensure!(is_invalid, "a collection of {} bytes", collection.len());
    }
    Ok(())
}

async fn the_largest_call_is_taken(s: DocumentsSubject) -> Verdict {
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
    s.documents.upsert(&name, &stored).await?;
    ensure!(s.scan(&name, &all()).await? == stored, "all of it is there");
    Ok(())
}

async fn clearing_removes_what_the_filter_matches(s: DocumentsSubject) -> Verdict {
    let mut stored = Vec::new();
    for number in 0..27 {
        let pick = |of: [&'static str; 3], by: usize| of[number / by % 3];
        let (kind, user) = (pick(["k1", "k2", "k3"], 1), pick(["u1", "u2", "u3"], 3));
        let resource = pick(["r1", "r2", "r3"], 9);
        stored.push(document(&format!("{number:02}"), kind, user, resource));
    }
    let some = |text: &str| Some(text.to_owned());
    let filters = [
        (some("u1"), some("k1"), some("r1")),
        (some("u1"), None, some("r2")),
        (None, some("k2"), some("r1")),
        (some("u2"), some("k1"), None),
        (some("u3"), None, None),
        (None, some("k3"), None),
        (None, None, some("r3")),
        (some("nobody"), None, None),
        (None, None, None),
    ];
    s.store(&stored).await?;
    for (user, kind, resource) in filters {
        let filter = DocumentFilter {
            user,
            kind,
            resource,
        };
        s.documents.clear(MAIN, &filter).await?;
        stored.retain(|document| !filter.matches(document));
        ensure_eq!(s.everything().await?, stored, "after {filter:?}");
    }
    ensure!(stored.is_empty(), "the last filter matches everything");
    Ok(())
}

async fn clearing_removes_any_number(s: DocumentsSubject) -> Verdict {
    const MANY: usize = DOCUMENTS_MAX * 2 + 500;
    for part in numbered(0..MANY).chunks(DOCUMENTS_MAX) {
        s.store(part).await?;
    }
    let kept = document("n00007x", "pull", "bob", "repo");
    s.store(std::slice::from_ref(&kept)).await?;
    let filter = DocumentFilter {
        kind: Some("issue".into()),
        ..all()
    };
    s.documents.clear(MAIN, &filter).await?;
    ensure_eq!(s.everything().await?, [kept], "what is left");
    Ok(())
}

async fn a_call_that_fails_stores_nothing(s: DocumentsSubject) -> Verdict {
    let old = plain("a");
    s.store(std::slice::from_ref(&old)).await?;
    for fault in [Fault::BeforeCommit, Fault::MidCommit] {
        s.fail_next(fault)?;
        let call = [document("a", "pull", "bob", "other"), plain("b")];
        let stored = s.documents.upsert(MAIN, &call).await;
        let is_clear = stored.is_err_and(|error| error.kind() != ErrorKind::Ambiguous);
        ensure!(is_clear, "{fault:?} is told");
        let left = s.everything().await?;
        ensure!(left == std::slice::from_ref(&old), "after {fault:?}");
    }
    Ok(())
}

async fn a_call_whose_end_is_unknown_is_ambiguous(s: DocumentsSubject) -> Verdict {
    s.fail_next(Fault::AfterCommit)?;
    let call = [plain("a"), plain("b")];
    let stored = s.documents.upsert(MAIN, &call).await;
    let is_unclear = stored.is_err_and(|error| error.kind() == ErrorKind::Ambiguous);
    ensure!(is_unclear, "nobody knows");
    ensure_eq!(s.everything().await?, call, "it happened");
    Ok(())
}

async fn bodies_are_kept_to_the_byte(s: DocumentsSubject) -> Verdict {
    let long = format!("\"{}\"", "\u{1f600}".repeat(20_000));
    let bodies = [
        "{ \"b\" : 1.0,\r\n\t\"a\" : 1e400, \"b\" : 2 }",
        "12345678901234567890.10",
        "\"\\u00e9\u{e9} \\/ it's \\\\ \u{feff}\u{10ffff}\"",
        "  null  ",
        &long,
    ];
    let number = |(number, body): (usize, &&str)| Document {
        body: (*body).to_owned(),
        ..plain(&number.to_string())
    };
    let stored: Vec<_> = bodies.iter().enumerate().map(number).collect();
    s.store(&stored).await?;
    for (found, stored) in s.everything().await?.iter().zip(&stored) {
        ensure!(found.body == stored.body, "the body of {}", stored.id);
    }
    Ok(())
}
