//! Finds operations that got lost between two stages. Each runner repeats one step, which may run
//! at any time on any number of nodes: scan, change by compare-and-set, say when to scan again.

mod dead_letters;
mod finalizer;
mod presence;
mod prober;
mod pruner;
mod reaper;
mod spill;
mod undeclared;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use crate::settle::Settler;

use presence::OtherProcesses;

pub use dead_letters::ImportedLetters;
pub(crate) use spill::Unread;

/// Finds lost operations, and settles them with the code of the settle stage.
pub(crate) struct Recoverer {
    settler: Arc<Settler>,
    probe_permits: Arc<Semaphore>,
    /// This process has raised an alert about the spill file.
    spill_paged: AtomicBool,
    /// An alert about the store's clock was raised since the clock was last right.
    clock_ahead: AtomicBool,
    processes: OtherProcesses,
}

impl Deref for Recoverer {
    type Target = Settler;
    fn deref(&self) -> &Settler {
        &self.settler
    }
}

impl Recoverer {
    pub(crate) fn new(settler: Arc<Settler>) -> Self {
        Self {
            probe_permits: Arc::new(Semaphore::new(settler.config.probes.max(1))),
            settler,
            spill_paged: AtomicBool::new(false),
            clock_ahead: AtomicBool::new(false),
            processes: OtherProcesses::default(),
        }
    }

    /// Returns true if this changed the flag.
    fn set_clock_ahead(&self, ahead: bool) -> bool {
        self.clock_ahead.swap(ahead, Ordering::SeqCst) != ahead
    }

    /// True once in a process: a record that is stuck raises one alert, not one in every pass.
    fn is_first_page_about_the_spill(&self) -> bool {
        !self.spill_paged.swap(true, Ordering::SeqCst)
    }
}
