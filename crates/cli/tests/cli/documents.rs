//! Documents as the API sends them.

pub(crate) const OP: &str = "01917f5e-0000-7000-8000-000000000001";
pub(crate) const OTHER: &str = "01917f5e-0000-7000-8000-000000000002";

/// An operation in a state, `IN_PROGRESS/held` with its phase.
pub(crate) fn operation(op_id: &str, standing: &str) -> String {
    let (state, phase) = match standing.split_once('/') {
        Some((state, phase)) => (state, format!("\"{phase}\"")),
        None => (standing, "null".to_owned()),
    };
    let (hold, failure, result) = match standing {
        "COMPLETED" => (
            "null",
            "null",
            r#"{"provider_txn_id":"tx_9","payload":{"z":1.50,"a":2}}"#,
        ),
        "FAILED" => (
            "null",
            r#"{"code":"http_402","message":"card refused","cause":null,"effect":"none"}"#,
            "null",
        ),
        "IN_PROGRESS/held" => (
            r#"{"reason":"effect_unknown","until":null}"#,
            "null",
            "null",
        ),
        _ => ("null", "null", "null"),
    };
    format!(
        r#"{{"op_id":"{op_id}","domain":"payments","event_type":"charge","biz_key":"order-123","idem_key":"c0ffee","state":"{state}","phase":{phase},"attempts":1,"seq":7,"version":4,"priority":0,"labels":{{"team":"shop"}},"run_at":null,"deadline":null,"accepted_at":"2026-11-15T08:00:00.123Z","started_at":null,"finished_at":null,"next_attempt_at":null,"effect":"none","cancel_requested":false,"hold":{hold},"redrive_of":null,"redriven_by":null,"batch_id":null,"trace_id":"7f","result":{result},"failure":{failure}}}"#
    )
}

/// A page of operations.
pub(crate) fn page(operations: &[String], next: Option<&str>) -> String {
    let next = next.map_or("null".to_owned(), |next| format!("\"{next}\""));
    format!(
        r#"{{"operations":[{}],"next_cursor":{next}}}"#,
        operations.join(",")
    )
}
