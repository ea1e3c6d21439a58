//! Operations, keys and routes for an adapter's own tests.
//!
//! Each function panics on invalid arguments: tests call it with constants.

use clinch_core::policy::{EventTypes, Routes, Rules, Safety};
use clinch_core::ports::NewOperation;
use clinch_core::{Domain, Keys, OpId, Payload, WorkerId};

use crate::fixtures;

/// Bytes of a payload in a test.
const PAYLOAD_MAX: usize = 100_000;

#[expect(clippy::panic, reason = "a test fails by panicking")]
fn valid<T, E: std::fmt::Debug>(made: Result<T, E>) -> T {
    match made {
        Ok(made) => made,
        Err(error) => panic!("not valid: {error:?}"),
    }
}

/// Keys that differ by `number`, with the event type `call`.
pub fn keys(domain: &str, number: usize) -> Keys {
    let (biz_key, idem_key) = (format!("order-{number}"), format!("key-{number}"));
    valid(fixtures::keys(domain, &biz_key, &idem_key))
}

/// A payload.
pub fn payload(text: &str) -> Payload {
    valid(Payload::parse(text, PAYLOAD_MAX))
}

/// An operation whose keys and payload differ by `number`.
pub fn operation(op_id: OpId, domain: &str, number: usize) -> NewOperation {
    let payload = payload(&format!("{{\"n\":{number}}}"));
    operation_of(op_id, keys(domain, number), &payload)
}

/// An operation with these keys and this payload, and default options.
pub fn operation_of(op_id: OpId, keys: Keys, payload: &Payload) -> NewOperation {
    fixtures::operation(op_id, keys, payload)
}

/// `natural` may be repeated, `unsafe` may not.
pub fn routes() -> Routes {
    let rules = |safety| Rules {
        safety,
        ..Rules::default()
    };
    let domain = |name| valid(Domain::new(name));
    Routes::new()
        .with(domain("natural"), EventTypes::Any, rules(Safety::Natural))
        .with(domain("unsafe"), EventTypes::Any, rules(Safety::Unsafe))
}

/// A worker.
pub fn worker(name: &str) -> WorkerId {
    valid(WorkerId::new(name))
}

/// Runs a test on a runtime of its own.
pub fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    valid(runtime).block_on(work)
}
