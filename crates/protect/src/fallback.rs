//! An answer of our own where the provider gives none.
//!
//! Off unless a route sets one, and for natural routes only: an operation that completes with
//! a fallback may also have had its effect.

use clinch_core::ports::Fallback;
use clinch_core::{Command, Payload};

/// The same answer for every command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant(
    /// The answer.
    pub Payload,
);

impl Fallback for Constant {
    fn fallback(&self, _command: &Command) -> Option<Payload> {
        Some(self.0.clone())
    }
}

/// An answer that is made from the command; see [`from_fn`].
#[derive(Debug, Clone, Copy)]
pub struct FromFn<F>(F);

/// A fallback from a function. `None` leaves the attempt as it ended.
pub fn from_fn<F>(answer: F) -> FromFn<F>
where
    F: Fn(&Command) -> Option<Payload> + Send + Sync,
{
    FromFn(answer)
}

impl<F> Fallback for FromFn<F>
where
    F: Fn(&Command) -> Option<Payload> + Send + Sync,
{
    fn fallback(&self, command: &Command) -> Option<Payload> {
        (self.0)(command)
    }
}
