//! What the calls of a document sink cost beside many documents of the same user.

use clinch_core::ports::{DOCUMENTS_MAX, Document, DocumentFilter, DocumentName, DocumentSink};

use super::{Cost, Examined};
use crate::case::{Failure, Verdict};

/// Resources of the user: most of the documents are of others than the one that is listed.
const RESOURCES: usize = 400;
/// Documents of each kind in a resource.
const OF_A_KIND: usize = 10;
const KINDS: [&str; 3] = ["commit", "issue", "pull"];
const COLLECTION: &str = "main";
const USER: &str = "ann";

/// Fills an empty sink: documents of one user, of many resources. Their ids are in the order of the
/// kinds, and those of a resource are not neighbours in it.
pub async fn fill_documents(sink: &dyn DocumentSink) -> Result<(), Failure> {
    let mut documents = Vec::new();
    for kind in KINDS {
        for number in 0..OF_A_KIND {
            for resource in 0..RESOURCES {
                documents.push(Document {
                    id: format!("{kind}:{number:04}-{resource:04}"),
                    kind: kind.to_owned(),
                    user: USER.to_owned(),
                    resource: format!("repo:{resource:04}"),
                    body: "{}".to_owned(),
                });
            }
        }
    }
    for part in documents.chunks(DOCUMENTS_MAX) {
        sink.upsert(COLLECTION, part).await?;
    }
    Ok(())
}

/// Makes the calls and returns what each cost.
pub async fn measure_documents(
    sink: &dyn DocumentSink,
    examined: &dyn Examined,
) -> Result<Vec<Cost>, Failure> {
    let filter = |kind: Option<&str>, resource: Option<&str>| DocumentFilter {
        user: Some(USER.to_owned()),
        kind: kind.map(str::to_owned),
        resource: resource.map(str::to_owned),
    };
    let mut measuring = Measuring {
        sink,
        examined,
        costs: Vec::new(),
    };
    let some = Some("repo:0200");
    let of_kind = filter(Some("pull"), some);
    let lists = [
        ("list of documents", DocumentFilter::default(), 20, 20),
        ("list of a kind", filter(Some("pull"), None), 20, 20),
        ("list of a resource", filter(None, some), 100, 30),
        ("list of a resource's kind", of_kind.clone(), 100, 10),
        ("list of no resource", filter(None, Some("none")), 100, 0),
    ];
    for (call, filter, limit, expected) in lists {
        let found = measuring.list(call, &filter, limit).await?;
        ensure_eq!(found.len(), expected, "{call}");
    }
    let scanned = measuring
        .scan("scan of a resource's kind", &of_kind)
        .await?;
    ensure_eq!(scanned, 10, "scan of a resource's kind");
    let found = sink.list(COLLECTION, &of_kind, None, 100).await?;
    let ids: Vec<String> = found.into_iter().map(|name| name.id).collect();
    measuring.relocate("relocate", &ids, ids.len()).await?;
    measuring.relocate("relocate again", &ids, 0).await?;
    Ok(measuring.costs)
}

struct Measuring<'m> {
    sink: &'m dyn DocumentSink,
    examined: &'m dyn Examined,
    costs: Vec<Cost>,
}

impl Measuring<'_> {
    fn add(&mut self, call: &'static str, returned: usize, before: u64, after: u64) {
        self.costs.push(Cost {
            call,
            returned: returned as u64,
            examined: after.saturating_sub(before),
            search: 0,
        });
    }

    async fn list(
        &mut self,
        call: &'static str,
        filter: &DocumentFilter,
        limit: usize,
    ) -> Verdict<Vec<DocumentName>> {
        let before = self.examined.examined().await;
        let found = self.sink.list(COLLECTION, filter, None, limit).await?;
        let after = self.examined.examined().await;
        self.add(call, found.len(), before, after);
        Ok(found)
    }

    async fn scan(&mut self, call: &'static str, filter: &DocumentFilter) -> Verdict<usize> {
        let before = self.examined.examined().await;
        let found = self.sink.scan(COLLECTION, filter, None, 100).await?;
        let after = self.examined.examined().await;
        self.add(call, found.len(), before, after);
        Ok(found.len())
    }

    async fn relocate(&mut self, call: &'static str, ids: &[String], expected: usize) -> Verdict {
        let before = self.examined.examined().await;
        let moved = self.sink.relocate(COLLECTION, "gone", ids).await?;
        let after = self.examined.examined().await;
        ensure_eq!(moved, expected as u64, "{call}");
        self.add(call, ids.len(), before, after);
        Ok(())
    }
}
