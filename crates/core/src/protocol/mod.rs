//! The whole behaviour of an operation, as a pure function.
//!
//! [`State`] is what the guards read, [`Event`] is what can happen, and [`State::apply`] is the
//! table of the protocol: it reads no clock and does no I/O. A store makes every change of a row by
//! it (or by equivalent SQL), as one compare-and-set on the row's version. The files are the
//! columns of the table: [`begin`](self), attempts, answers, holds, cancel. `wait` is the only way
//! into waiting, so that no column can forget cancel, deadline, used-up attempts or poison.

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
    Due, Hold, HoldThen, Inherited, LastError, Phase, Refund, State, Status, Verdict, WriteAhead,
};
