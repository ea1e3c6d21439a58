//! Running attempts.

mod attempt;
mod claims;
mod hints;
mod remote;
mod worker;

pub(crate) use attempt::Begun;
pub(crate) use claims::{OnTheWay, Rest};
pub use remote::LeaseRequest;
