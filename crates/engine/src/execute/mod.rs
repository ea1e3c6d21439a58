//! Running attempts.

mod attempt;
mod claims;
mod hints;
mod in_hand;
mod leases;
mod remote;
mod worker;

pub(crate) use attempt::Begun;
pub(crate) use claims::{OnTheWay, Rest};
pub(crate) use in_hand::{DueNews, Leases};
pub use remote::{LeaseRequest, Leased, LeasedAttempt, Report, Reported};
