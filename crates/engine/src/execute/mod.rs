//! Running attempts.

mod attempt;
mod claims;
mod hints;
mod in_hand;
mod leases;
mod remote;
mod reservation;
mod worker;

pub(crate) use attempt::{Begun, InlineRoom};
pub(crate) use claims::Rest;
pub(crate) use in_hand::{DueNews, Leases};
pub use remote::{LeaseRequest, Leased, LeasedAttempt, Report, Reported};
pub(crate) use reservation::{Reservation, Reservations};
