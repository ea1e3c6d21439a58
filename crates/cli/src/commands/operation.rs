//! The operation document: the members that the command line reads, and how they are shown.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::record::state_style;
use crate::output::table::{Column, at};
use crate::output::text::{Cell, Style};

/// The members that are shown first.
pub(crate) const FIRST: &[&str] = &[
    "op_id",
    "state",
    "phase",
    "domain",
    "event_type",
    "biz_key",
    "idem_key",
    "attempts",
    "effect",
    "hold",
    "failure",
    "last_error",
    "result",
    "accepted_at",
    "started_at",
    "finished_at",
    "next_attempt_at",
    "destination",
    "outbound_key",
];

/// Columns of a list of operations.
pub(crate) const COLUMNS: &[Column] = &[
    Column::id("OP_ID", |op| at(op, &["/op_id"])),
    Column::new("STATE", state).at_least(19).whole(),
    Column::new("DOMAIN", |op| at(op, &["/domain"])),
    Column::new("EVENT_TYPE", |op| at(op, &["/event_type"])),
    Column::new("BIZ_KEY", |op| at(op, &["/biz_key"])),
    Column::new("ATTEMPTS", |op| at(op, &["/attempts"])),
    Column::time("ACCEPTED_AT", |op| at(op, &["/accepted_at"])),
    Column::new("WHY", why).kept(),
];

/// Why it failed, or why it does not run now, until when, and the last error.
pub(crate) fn why(operation: &Value) -> Cell {
    let text = |pointer: &str| operation.pointer(pointer).and_then(Value::as_str);
    let reason = text("/failure/code").or_else(|| text("/hold/reason"));
    let mut why = reason.unwrap_or_default().to_owned();
    if let Some(until) = text("/hold/until") {
        why.push_str(&format!(" until {until}"));
    }
    if let Some(error) = text("/failure/message").or_else(|| text("/last_error/message")) {
        let colon = if why.is_empty() { "" } else { ": " };
        why.push_str(&format!("{colon}{error}"));
    }
    Cell::new(&why)
}

/// `IN_PROGRESS/held`, in its colour.
pub(crate) fn state(operation: &Value) -> Cell {
    let text = |member: &str| operation.get(member).and_then(Value::as_str);
    match (text("state").unwrap_or_default(), text("phase")) {
        (state, Some("held")) => Cell::new(&format!("{state}/held")).styled(Style::Warn),
        (state, Some(phase)) => Cell::new(&format!("{state}/{phase}")),
        (state, None) => Cell::new(state).styled(state_style(state)),
    }
}

/// The members that decide how a command continues.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Brief {
    /// The operation.
    pub(crate) op_id: String,
    /// Its state.
    pub(crate) state: String,
    /// Grows with every change.
    #[serde(default)]
    pub(crate) version: Option<u64>,
}

impl Brief {
    /// Reads the members of an operation document.
    pub(crate) fn read(document: &RawValue) -> Option<Self> {
        serde_json::from_str(document.get()).ok()
    }

    /// COMPLETED: 0, FAILED: 1, otherwise 5.
    pub(crate) fn exit(&self) -> Exit {
        match self.state.as_str() {
            "COMPLETED" => Exit::Ok,
            "FAILED" => Exit::Failed,
            _ => Exit::Unsettled,
        }
    }
}

/// Parses an id of an operation or a batch. An invalid id is a usage error, not a missing
/// operation.
pub(crate) fn op_id(text: &str) -> Result<String, String> {
    let id = uuid::Uuid::parse_str(text);
    id.map(|id| id.hyphenated().to_string())
        .map_err(|_| "an id is a UUID, such as 01917f5e-0000-7000-8000-000000000000".to_owned())
}

/// Parses an id of an operation, or the first 8 or more digits of one, which the server completes.
pub(crate) fn op_id_or_prefix(text: &str) -> Result<String, String> {
    let is_prefix = text.parse::<clinch_core::OpIdPrefix>().is_ok();
    match uuid::Uuid::parse_str(text) {
        Ok(id) => Ok(id.hyphenated().to_string()),
        Err(_) if is_prefix => Ok(text.to_owned()),
        Err(_) => Err(
            "an id is a UUID, such as 01917f5e-0000-7000-8000-000000000000, or its \
             first 8 or more digits"
                .to_owned(),
        ),
    }
}

/// The error for an answer that is not an operation.
pub(crate) fn expected(client: &crate::client::Client) -> CliError {
    client.not_clinch("the answer is not an operation")
}
