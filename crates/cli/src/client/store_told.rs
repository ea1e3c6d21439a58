//! What a server tells of its store.

use hyper::HeaderMap;

/// The header that it is told in.
const HEADER: &str = "clinch-store";

/// A store as its server names it: `ID; kind=sqlite`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreTold {
    /// Random; the same for every server on the store.
    pub(crate) id: String,
    /// `sqlite`, `postgres`, `mysql` or `memory`.
    pub(crate) kind: String,
}

impl StoreTold {
    /// `None`: it is not told, or not as we know it.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(HEADER)?.to_str().ok()?;
        let (id, kind) = text.split_once("; kind=")?;
        Some(Self {
            id: id.to_owned(),
            kind: kind.to_owned(),
        })
    }
}
