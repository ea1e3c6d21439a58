//! The whole behaviour of an operation, as a pure function.
//!
//! [`State`] is what guards look at, [`Event`] is what can happen, and [`State::apply`] is
//! the table of the protocol: it reads no clock and does no I/O. A store performs every
//! change of a row by it (or by SQL that says the same), as one compare-and-set on the
//! row's version. The files are the columns of the table: [`begin`](self), attempts,
//! answers, holds, cancel; `wait` is the one way into waiting, so that cancel, deadline,
//! used-up attempts and poison cannot be forgotten by any of them.

mod answer;
mod apply;
mod attempt;
mod begin;
mod cancel;
mod event;
mod hold;
mod lane;
mod state;
mod wait;

pub use apply::{IllegalTransition, Why};
pub use event::{Action, Begin, Effects, Event, LaneStand, ProbeAnswer, Resolution};
pub use lane::Lane;
pub use state::{
    Due, Hold, HoldThen, Inherited, Phase, Refund, State, Status, Verdict, WriteAhead,
};
