//! The store that a server names in its answers.

use hyper::HeaderMap;

/// The response header.
const HEADER: &str = "clinch-store";

/// A store as its server names it: `ID; kind=sqlite`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreTold {
    /// The store id: random, the same for every server on the store.
    pub(crate) id: String,
    /// `sqlite`, `postgres`, `mysql` or `memory`.
    pub(crate) kind: String,
}

impl StoreTold {
    /// `None`: the header is missing or has an unknown form.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(HEADER)?.to_str().ok()?;
        let (id, kind) = text.split_once("; kind=")?;
        Some(Self {
            id: id.to_owned(),
            kind: kind.to_owned(),
        })
    }
}
