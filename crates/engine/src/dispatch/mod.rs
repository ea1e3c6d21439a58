//! Announces queue rows on the bus. With a store that is its own bus, the relay and the sweeper
//! have nothing to do.

mod relay;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::Base;

/// Announces due rows on the bus.
pub(crate) struct Relay {
    base: Arc<Base>,
    /// An alert about the bus was raised since it last took a hint.
    bus_down: AtomicBool,
}

impl Deref for Relay {
    type Target = Base;
    fn deref(&self) -> &Base {
        &self.base
    }
}

impl Relay {
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self {
            base,
            bus_down: AtomicBool::new(false),
        }
    }

    /// Returns true if this changed the flag.
    fn set_bus_down(&self, down: bool) -> bool {
        self.bus_down.swap(down, Ordering::SeqCst) != down
    }
}
