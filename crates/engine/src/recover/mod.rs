//! What watches every arrow of the path. Each runner is one step that can be repeated at any
//! time on any number of nodes: scan, change by compare-and-set, say when to look again.

mod dead_letters;
mod finalizer;
mod prober;
mod pruner;
mod reaper;
mod spill;
mod undeclared;

use std::time::Duration;

pub use dead_letters::ImportedLetters;
pub(crate) use spill::Unread;

/// What one step of a runner found, and when it is worth looking again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanned {
    /// Rows that were handled.
    pub found: usize,
    /// Until something is due; `None`: until news.
    pub next: Option<Duration>,
}

impl Scanned {
    /// There may be more at once.
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
