//! What an error of a handler means for its operation.

use std::io;

use clinch_core::{Fail, Retry};

/// How an attempt ends that is not done: tried again, or refused for good.
///
/// ```
/// use clinch::{Fail, Refusal, Retry};
///
/// fn judge(status: u16) -> Result<(), Refusal> {
///     match status {
///         200 => Ok(()),
///         429 => Err(Retry::not_applied("busy").into()),
///         402 => Err(Fail::new("card_declined", "the card was declined").into()),
///         // It may have been applied: never a Fail.
///         _ => Err(Retry::unknown("the provider broke").into()),
///     }
/// }
/// assert!(matches!(judge(503), Err(Refusal::Retry(_))));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Not settled; try again if that is allowed.
    Retry(Retry),
    /// The provider refused for good.
    Fail(Fail),
}

/// Says what an error means. Implement it for the error type of your client, once.
///
/// ```
/// use clinch::{Fail, Refusal, Retry};
/// use clinch::types::Classify;
///
/// enum PspError {
///     Declined(String),
///     RetryAfter(std::time::Duration),
///     Timeout,
/// }
///
/// impl Classify for PspError {
///     fn classify(self) -> Refusal {
///         match self {
///             Self::Declined(why) => Fail::new("declined", why).into(),
///             Self::RetryAfter(pause) => Retry::not_applied("throttled").retry_after(pause).into(),
///             Self::Timeout => Retry::unknown("timeout").into(),
///         }
///     }
/// }
/// assert!(matches!(PspError::Timeout.classify(), Refusal::Retry(_)));
/// ```
pub trait Classify {
    /// What the error means for the operation. In doubt, return [`Retry::unknown`]: the call may
    /// have been applied.
    fn classify(self) -> Refusal;
}

impl From<Retry> for Refusal {
    fn from(retry: Retry) -> Self {
        Self::Retry(retry)
    }
}

impl From<Fail> for Refusal {
    fn from(fail: Fail) -> Self {
        Self::Fail(fail)
    }
}

impl Classify for Refusal {
    fn classify(self) -> Refusal {
        self
    }
}

impl Classify for Retry {
    fn classify(self) -> Refusal {
        self.into()
    }
}

impl Classify for Fail {
    fn classify(self) -> Refusal {
        self.into()
    }
}

impl Classify for std::convert::Infallible {
    fn classify(self) -> Refusal {
        match self {}
    }
}

/// A refused connection means that no request was sent; after every other connection error it is
/// unknown whether the request arrived.
impl Classify for io::Error {
    fn classify(self) -> Refusal {
        match self.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::AddrNotAvailable => {
                Retry::not_applied("the connection was refused").into()
            }
            _ => Retry::unknown("the connection broke").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clinch_core::Applied;

    use super::*;

    #[test]
    fn an_error_that_says_nothing_leaves_the_effect_open() {
        let applied = |kind| match io::Error::from(kind).classify() {
            Refusal::Retry(retry) => retry.applied,
            Refusal::Fail(_) => panic!("an error of a connection is no refusal"),
        };
        assert_eq!(applied(io::ErrorKind::ConnectionRefused), Applied::No);
        assert_eq!(applied(io::ErrorKind::ConnectionReset), Applied::Unknown);
        assert_eq!(applied(io::ErrorKind::TimedOut), Applied::Unknown);
    }
}
