//! Listing documents without their bodies.

use clinch_core::ErrorKind;
use clinch_core::ports::{DOCUMENTS_MAX, Document, DocumentFilter, DocumentName};

use super::{
    DocumentsSubject, IDS, MAIN, all, disordered, document, filters, mixed, numbered, plain,
};
use crate::case::Verdict;
use crate::concurrent::together;
use crate::port::PortCase;

pub(super) const CASES: &[PortCase<DocumentsSubject>] = port_area!("documents" {
    a_list_names_what_a_scan_finds: [],
    a_list_is_in_the_order_of_bytes: [],
    a_list_goes_on_after_any_id: [],
    a_list_gives_at_most_its_limit: [],
    a_list_sees_every_commit_that_returned: [],
    what_cannot_be_listed_is_refused: [],
});

fn names<'d>(documents: impl IntoIterator<Item = &'d Document>) -> Vec<DocumentName> {
    documents.into_iter().map(DocumentName::from).collect()
}

fn filter(user: Option<&str>, kind: Option<&str>, resource: Option<&str>) -> DocumentFilter {
    DocumentFilter {
        user: user.map(str::to_owned),
        kind: kind.map(str::to_owned),
        resource: resource.map(str::to_owned),
    }
}

async fn a_list_names_what_a_scan_finds(s: DocumentsSubject) -> Verdict {
    ensure_eq!(s.list(MAIN, &all(), 3).await?, [], "at first");
    let mut stored = mixed();
    stored.push(document("x", "it's \"x\"", "%_\\", "{r} $1 ?"));
    s.store(&stored).await?;
    let other = [document("x", "k1", "u1", "r1")];
    s.documents.upsert("other", &other).await?;
    for filter in filters() {
        let matching = stored.iter().filter(|document| filter.matches(document));
        let expected = names(matching);
        for page_size in [3, 400] {
            let found = s.list(MAIN, &filter, page_size).await?;
            ensure_eq!(found, expected, "pages of {page_size} with {filter:?}");
        }
        let scanned = s.scan(MAIN, &filter).await?;
        ensure_eq!(names(&scanned), expected, "a scan with {filter:?}");
    }
    Ok(())
}

async fn a_list_is_in_the_order_of_bytes(s: DocumentsSubject) -> Verdict {
    s.store(&disordered()).await?;
    for user in [None, Some("ann")] {
        for kind in [None, Some("issue")] {
            for resource in [None, Some("repo")] {
                let filter = filter(user, kind, resource);
                let found = s.list(MAIN, &filter, 400).await?;
                let ids: Vec<_> = found.iter().map(|name| name.id.as_str()).collect();
                ensure_eq!(ids, IDS, "in order with {filter:?}");
            }
        }
    }
    Ok(())
}

async fn a_list_goes_on_after_any_id(s: DocumentsSubject) -> Verdict {
    let mut stored = ["a", "c", "e"].map(plain);
    stored[1].kind = "pull".to_owned();
    s.store(&stored).await?;
    let of_resource = filter(Some("ann"), None, Some("repo"));
    for filter in [all(), filter(Some("ann"), None, None), of_resource] {
        for (after, expected) in [
            ("", vec!["a", "c", "e"]),
            ("A", vec!["a", "c", "e"]),
            ("a", vec!["c", "e"]),
            ("b", vec!["c", "e"]),
            ("e", vec![]),
            ("\u{10ffff}", vec![]),
        ] {
            let page = s.documents.list(MAIN, &filter, Some(after), 10).await?;
            let ids: Vec<_> = page.iter().map(|name| name.id.as_str()).collect();
            ensure_eq!(ids, expected, "after {after:?} with {filter:?}");
        }
    }
    Ok(())
}

async fn a_list_gives_at_most_its_limit(s: DocumentsSubject) -> Verdict {
    for part in numbered(0..DOCUMENTS_MAX + 1).chunks(DOCUMENTS_MAX) {
        s.store(part).await?;
    }
    let filters = [
        all(),
        filter(Some("ann"), None, None),
        filter(Some("ann"), Some("issue"), None),
        filter(Some("ann"), None, Some("repo")),
        filter(Some("ann"), Some("issue"), Some("repo")),
    ];
    for filter in filters {
        for (limit, expected) in [(0, 0), (1, 1), (7, 7), (usize::MAX, DOCUMENTS_MAX)] {
            let page = s.documents.list(MAIN, &filter, None, limit).await?;
            ensure_eq!(page.len(), expected, "limit {limit} with {filter:?}");
        }
    }
    Ok(())
}

async fn a_list_sees_every_commit_that_returned(s: DocumentsSubject) -> Verdict {
    let seen = together(8, |caller| {
        let s = s.clone();
        async move {
            let user = format!("u{caller}");
            let of_mine = filter(Some(&user), None, Some("repo"));
            let mut stored = Vec::new();
            for round in 0..10_usize {
                let one = document(&format!("{caller}-{round}"), "issue", &user, "repo");
                s.store(std::slice::from_ref(&one)).await?;
                stored.push(one);
                let found = s.list(MAIN, &of_mine, 400).await?;
                ensure_eq!(found, names(&stored), "in round {round}");
            }
            Ok(())
        }
    });
    seen.await.map(|_| ())
}

async fn what_cannot_be_listed_is_refused(s: DocumentsSubject) -> Verdict {
    let of_nul = filter(None, Some("a\0b"), None);
    let long = "n".repeat(256);
    let sink = &s.documents;
    let answers = [
        sink.list("", &all(), None, 1).await,
        sink.list(&long, &all(), None, 1).await,
        sink.list("a\0b", &all(), None, 1).await,
        sink.list(MAIN, &of_nul, None, 1).await,
        sink.list(MAIN, &all(), Some("\0"), 1).await,
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let is_invalid = answer.is_err_and(|error| error.kind() == ErrorKind::Invalid);
        ensure!(is_invalid, "call {number} is refused");
    }
    Ok(())
}
