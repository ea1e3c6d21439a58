//! Translates the driver's errors. The results never contain an address, a password or a payload.

use std::error::Error as _;
use std::sync::Arc;

use clinch_core::{Error, ErrorKind};
use redis::RedisError;

/// The group or its stream is gone: the server lost its data.
pub(crate) fn is_group_lost(error: &RedisError) -> bool {
    error.code() == Some("NOGROUP")
}

/// A blocking read ended because its stream was deleted.
pub(crate) fn is_unblocked(error: &RedisError) -> bool {
    error.code() == Some("UNBLOCKED")
}

pub(crate) fn is_group_there(error: &RedisError) -> bool {
    error.code() == Some("BUSYGROUP")
}

/// The connection can no longer be used.
pub(crate) fn must_reconnect(error: &RedisError) -> bool {
    let moved = ["READONLY", "MASTERDOWN"];
    error.is_io_error()
        || error.is_unrecoverable_error()
        || error.code().is_some_and(|code| moved.contains(&code))
}

/// The type in which the driver wraps its causes.
type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Client and server do not agree on TLS, or one of them does not speak it.
fn is_handshake(error: &RedisError) -> bool {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<Cause>());
    let io = cause.and_then(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::InvalidData)
}

pub(crate) fn translate(error: &RedisError) -> Error {
    if error.is_timeout() {
        return Error::new(ErrorKind::Unavailable, "redis did not answer in time");
    }
    if is_handshake(error) {
        let message = "TLS to redis failed; its certificate must name this host and come from a \
                       root that this system trusts (SSL_CERT_FILE names another file of roots)";
        return Error::new(ErrorKind::Unavailable, message);
    }
    if error.is_io_error() {
        return Error::new(ErrorKind::Unavailable, "redis cannot be reached");
    }
    let code = error.code().unwrap_or("none");
    let (kind, message) = match code {
        "LOADING" | "MASTERDOWN" | "READONLY" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY"
        | "NOREPLICAS" | "NOGROUP" | "UNBLOCKED" => {
            (ErrorKind::Unavailable, "redis takes no commands now")
        }
        "OOM" => (
            ErrorKind::Full,
            "redis is out of memory; raise maxmemory or drain it",
        ),
        "MISCONF" => (
            ErrorKind::Unavailable,
            "redis refuses writes: it cannot save to its disk",
        ),
        "NOAUTH" | "WRONGPASS" | "NOPERM" => (
            ErrorKind::Invalid,
            "redis refuses these credentials; check user and password",
        ),
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => (
            ErrorKind::Invalid,
            "redis refuses these credentials; check user and password",
        ),
        _ if error.kind() == redis::ErrorKind::MasterNameNotFoundBySentinel => (
            ErrorKind::Unavailable,
            "no sentinel knows a master of this name",
        ),
        _ => (ErrorKind::Internal, "redis gave an unexpected answer"),
    };
    let error = Error::new(kind, message);
    if code == "none" {
        error
    } else {
        error.with("code", code)
    }
}

/// [`translate`] for `map_err`.
pub(crate) fn ours(error: RedisError) -> Error {
    translate(&error)
}
