//! A substitute answer for when the provider gives none.
//!
//! Off unless a route sets one, and for natural routes only: the provider may have applied the call
//! of an operation that completes with a fallback.

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

/// An answer that a function makes from the command; see [`from_fn`].
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
