//! Running attempts.

mod attempt;
mod worker;

pub(crate) use attempt::Begun;
