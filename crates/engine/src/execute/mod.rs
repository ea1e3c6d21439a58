//! Running attempts.

mod attempt;
mod claims;
mod remote;
mod worker;

pub(crate) use attempt::Begun;
pub use remote::LeaseRequest;
