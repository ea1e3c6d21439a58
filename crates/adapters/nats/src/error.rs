//! Translates errors of the client and the server. The results contain no address: it may hold a
//! password.

use async_nats::{ConnectError, ConnectErrorKind};
use clinch_core::{Error, ErrorKind};
use serde::Deserialize;

pub(crate) fn unavailable(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unavailable, what)
}

pub(crate) fn silent() -> Error {
    unavailable("the NATS server does not answer")
}

pub(crate) fn no_connection() -> Error {
    unavailable("no connection to the NATS server")
}

/// Uses only the kind: the underlying error may name the address.
pub(crate) fn connecting(error: &ConnectError) -> Error {
    let invalid = |what| Error::new(ErrorKind::Invalid, what);
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            invalid("the NATS server refuses our credentials")
        }
        kind => unavailable(format!("no connection to the NATS server: {kind}")),
    }
}

/// An error of the JetStream API.
#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    #[serde(default)]
    pub(crate) code: u16,
    #[serde(default)]
    pub(crate) err_code: u32,
    #[serde(default)]
    description: String,
}

/// `insufficient resources`, `maximum messages exceeded`, `maximum bytes exceeded`.
const FULL: [u32; 3] = [10023, 10077, 10047];

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let kind = match (refusal.code, refusal.err_code) {
            (_, code) if FULL.contains(&code) => ErrorKind::Full,
            (503, _) => ErrorKind::Unavailable,
            (404, _) => ErrorKind::Unavailable,
            (400, _) => ErrorKind::Invalid,
            _ => ErrorKind::Unavailable,
        };
        let message = format!("the NATS server refuses: {}", refusal.description);
        Error::new(kind, message).with("err_code", refusal.err_code)
    }
}
