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
    "result",
    "accepted_at",
    "started_at",
    "finished_at",
    "next_attempt_at",
];

/// Columns of a list of operations.
pub(crate) const COLUMNS: &[Column] = &[
    Column::id("OP_ID", |op| at(op, &["/op_id"])),
    Column::new("STATE", state).at_least(19),
    Column::new("DOMAIN", |op| at(op, &["/domain"])),
    Column::new("EVENT_TYPE", |op| at(op, &["/event_type"])),
    Column::new("BIZ_KEY", |op| at(op, &["/biz_key"])),
    Column::new("WHY", |op| at(op, &["/failure/code", "/hold/reason"])),
    Column::new("ATTEMPTS", |op| at(op, &["/attempts"])),
    Column::new("ACCEPTED_AT", |op| at(op, &["/accepted_at"])),
];

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

/// The error for an answer that is not an operation.
pub(crate) fn expected(client: &crate::client::Client) -> CliError {
    client.not_clinch("the answer is not an operation")
}
