//! Running attempts.

mod attempt;
mod claims;
mod worker;

pub(crate) use attempt::Begun;
