//! The result of a runner's step.

use std::time::Duration;

/// The result of one step of a runner, and when to run the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanned {
    /// Rows that were handled.
    pub found: usize,
    /// Until something is due. `None`: until a notice comes.
    pub next: Option<Duration>,
}

impl Scanned {
    /// There may be more work now.
    pub(crate) fn more(found: usize) -> Self {
        Self {
            found,
            next: Some(Duration::ZERO),
        }
    }

    pub(crate) fn nothing_to_do() -> Self {
        Self {
            found: 0,
            next: None,
        }
    }
}
