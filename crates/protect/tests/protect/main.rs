//! The guards and the chain, on a clock that moves when it is told to.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "shuttle"),
    expect(
        clippy::expect_used,
        clippy::panic,
        reason = "tests say what they rely on"
    )
)]
// The locks of shuttle work under its scheduler only; see `tests/shuttle.rs`.
#![cfg(not(feature = "shuttle"))]

mod breaker;
mod budget;
mod bulkhead;
mod cap;
mod chain;
mod defaults;
mod destination;
mod fallback;
mod hedge;
mod operator;
mod order;
mod rate;
mod support;
