//! Scanning and counting.

use std::collections::BTreeMap;

use clinch_core::ErrorKind;
use clinch_core::ports::{DOCUMENTS_MAX, Document, DocumentFilter};

use super::{
    DocumentsSubject, IDS, MAIN, all, disordered, document, filters, mixed, numbered, plain,
};
use crate::case::Verdict;
use crate::concurrent::together;
use crate::port::PortCase;

pub(super) const CASES: &[PortCase<DocumentsSubject>] = port_area!("documents" {
    a_scan_is_in_the_order_of_bytes: [],
    every_narrowing_narrows: [],
    pages_follow_each_other: [],
    a_page_goes_on_after_any_id: [],
    a_scan_gives_at_most_its_limit: [],
    a_scan_sees_every_commit_that_returned: [],
    kinds_are_counted_of_one_user_and_of_all: [],
    what_cannot_be_looked_for_is_refused: [],
});

async fn a_scan_is_in_the_order_of_bytes(s: DocumentsSubject) -> Verdict {
    s.store(&disordered()).await?;
    ensure_eq!(s.ids(&all()).await?, IDS, "in order");
    let filters = [
        (Some("ann"), None),
        (None, Some("issue")),
        (Some("ann"), Some("issue")),
    ];
    for (user, kind) in filters {
        let filter = DocumentFilter {
            user: user.map(str::to_owned),
            kind: kind.map(str::to_owned),
            resource: None,
        };
        ensure_eq!(s.ids(&filter).await?, IDS, "in order with {filter:?}");
    }
    Ok(())
}

async fn every_narrowing_narrows(s: DocumentsSubject) -> Verdict {
    let stored = mixed();
    s.store(&stored).await?;
    s.documents
        .upsert("other", &[document("x", "k1", "u1", "r1")])
        .await?;
    for filter in filters() {
        let expected: Vec<_> = stored
            .iter()
            .filter(|document| filter.matches(document))
            .cloned()
            .collect();
        let found = s.scan(MAIN, &filter).await?;
        ensure_eq!(found, expected, "with {filter:?}");
    }
    Ok(())
}

async fn pages_follow_each_other(s: DocumentsSubject) -> Verdict {
    let stored = mixed();
    s.store(&stored).await?;
    for filter in filters() {
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = s.documents.scan(MAIN, &filter, after.as_deref(), 3);
            let page = page.await?;
            after = page.last().map(|last| last.id.clone());
            let is_last = page.len() < 3;
            ensure!(page.len() <= 3, "a page of {}", page.len());
            found.extend(page);
            if is_last {
                break;
            }
        }
        let matching = stored.iter().filter(|document| filter.matches(document));
        let expected: Vec<_> = matching.cloned().collect();
        ensure_eq!(found, expected, "each once with {filter:?}");
    }
    Ok(())
}

async fn a_page_goes_on_after_any_id(s: DocumentsSubject) -> Verdict {
    s.store(&["a", "c", "e"].map(plain)).await?;
    for (after, expected) in [
        ("", vec!["a", "c", "e"]),
        ("A", vec!["a", "c", "e"]),
        ("a", vec!["c", "e"]),
        ("b", vec!["c", "e"]),
        ("e", vec![]),
        ("\u{10ffff}", vec![]),
    ] {
        let page = s.documents.scan(MAIN, &all(), Some(after), 10).await?;
        let ids: Vec<_> = page.iter().map(|document| document.id.as_str()).collect();
        ensure_eq!(ids, expected, "after {after:?}");
    }
    Ok(())
}

async fn a_scan_gives_at_most_its_limit(s: DocumentsSubject) -> Verdict {
    for part in numbered(0..DOCUMENTS_MAX + 1).chunks(DOCUMENTS_MAX) {
        s.store(part).await?;
    }
    let of_one = DocumentFilter {
        user: Some("ann".into()),
        kind: Some("issue".into()),
        resource: None,
    };
    for filter in [all(), of_one] {
        for (limit, expected) in [(0, 0), (1, 1), (7, 7), (usize::MAX, DOCUMENTS_MAX)] {
            let page = s.documents.scan(MAIN, &filter, None, limit).await?;
            ensure_eq!(page.len(), expected, "with a limit of {limit}");
        }
    }
    Ok(())
}

async fn a_scan_sees_every_commit_that_returned(s: DocumentsSubject) -> Verdict {
    let seen = together(8, |caller| {
        let s = s.clone();
        async move {
            let of_mine = DocumentFilter {
                user: Some(format!("u{caller}")),
                ..all()
            };
            for round in 0..20_usize {
                let stored = Document {
                    user: format!("u{caller}"),
                    body: round.to_string(),
                    ..plain(&format!("{caller}"))
                };
                s.store(std::slice::from_ref(&stored)).await?;
                let found = s.scan(MAIN, &of_mine).await?;
                ensure_eq!(found, [stored], "in round {round}");
                let counts = s.documents.count(MAIN, of_mine.user.as_deref()).await?;
                ensure_eq!(counts.len(), 1, "kinds in round {round}");
            }
            Ok(())
        }
    });
    seen.await.map(|_| ())
}

async fn kinds_are_counted_of_one_user_and_of_all(s: DocumentsSubject) -> Verdict {
    ensure_eq!(
        s.documents.count(MAIN, None).await?,
        BTreeMap::new(),
        "at first"
    );
    let mut stored = mixed();
    stored.push(document("x", "", "u1", "r1"));
    s.store(&stored).await?;
    s.documents
        .upsert("other", &[document("x", "k1", "u1", "r1")])
        .await?;
    for user in [None, Some("u1"), Some("u2"), Some("U1"), Some("nobody")] {
        let mut expected = BTreeMap::new();
        for document in &stored {
            if user.is_none_or(|user| user == document.user) {
                *expected.entry(document.kind.clone()).or_default() += 1;
            }
        }
        let counts = s.documents.count(MAIN, user).await?;
        ensure_eq!(counts, expected, "of {user:?}");
    }
    Ok(())
}

async fn what_cannot_be_looked_for_is_refused(s: DocumentsSubject) -> Verdict {
    let of_nul = DocumentFilter {
        resource: Some("a\0b".into()),
        ..all()
    };
    let sink = &s.documents;
    let answers = [
        sink.scan("", &all(), None, 1).await.map(|_| ()),
        sink.scan(MAIN, &of_nul, None, 1).await.map(|_| ()),
        sink.scan(MAIN, &all(), Some("\0"), 1).await.map(|_| ()),
        sink.count("", None).await.map(|_| ()),
        sink.count(MAIN, Some("a\0b")).await.map(|_| ()),
        sink.clear("", &all()).await,
        sink.clear(MAIN, &of_nul).await,
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let is_invalid = answer.is_err_and(|error| error.kind() == ErrorKind::Invalid);
        ensure!(is_invalid, "call {number} is refused");
    }
    Ok(())
}
