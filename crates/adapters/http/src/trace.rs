//! The call as a span of the operation's trace (W3C Trace Context).

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use clinch_core::ports::is_traceparent;

/// Generates span ids that are unique here and, in all likelihood, elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    state: RandomState,
    count: AtomicU64,
}

impl Spans {
    /// A `traceparent` that is a child of `parent`. `None` if `parent` is not valid, as the
    /// standard requires.
    pub(crate) fn child(&self, parent: &str) -> Option<String> {
        if !is_traceparent(parent) {
            return None;
        }
        let mut parts = parent.split('-').skip(1);
        let (trace, flags) = (parts.next()?, parts.nth(1)?);
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        // Zero is not a valid id.
        let own = self.state.hash_one(count).max(1);
        Some(format!("00-{trace}-{own:016x}-{flags}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_keeps_the_trace_and_has_a_span_of_its_own() {
        let spans = Spans::default();
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let (first, second) = (spans.child(parent), spans.child(parent));
        let first = first.expect("valid");
        assert!(
            first.starts_with(&parent[..36]) && first.ends_with("-01"),
            "{first}"
        );
        assert_ne!(first, parent);
        assert_ne!(Some(first), second);
        for wrong in [
            "",
            "00-0-0-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert_eq!(spans.child(wrong), None, "{wrong}");
        }
    }
}
