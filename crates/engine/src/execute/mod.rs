//! Running attempts.

mod attempt;
mod claims;
mod hints;
mod remote;
mod reservation;
mod worker;

pub(crate) use attempt::{Begun, InlineRoom};
pub(crate) use claims::Rest;
pub use remote::LeaseRequest;
pub(crate) use reservation::{Reservation, Reservations};
