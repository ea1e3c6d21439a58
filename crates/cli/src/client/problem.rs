//! Refusals: RFC 9457 problem documents.

use std::fmt;

use hyper::StatusCode;
use hyper::header::{HeaderMap, RETRY_AFTER};
use serde::Deserialize;

use super::ApiKey;
use crate::exit::Exit;

/// Longest excerpt of an answer that is not a problem document; enough to recognize the sender.
const EXCERPT_CHARS_MAX: usize = 120;

/// A refusal of the server.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    /// HTTP status of the answer.
    pub(crate) status: u16,
    /// Stable identifier, for programs.
    pub(crate) code: String,
    /// Explanation for people.
    pub(crate) detail: String,
    op_id: Option<String>,
    retry_after: Option<String>,
}

#[derive(Deserialize)]
struct Document {
    code: String,
    detail: Option<String>,
    title: Option<String>,
    field: Option<String>,
    op_id: Option<String>,
}

impl Problem {
    /// Reads any answer that is not a success, whoever sent it.
    pub(super) fn read(
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        key: Option<&ApiKey>,
    ) -> Self {
        let masked = |text: &str| match key {
            Some(key) => key.masked(text),
            None => text.to_owned(),
        };
        let retry_after = headers.get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok());
        let document = serde_json::from_slice::<Document>(body);
        let (code, detail, op_id) = match document {
            Ok(document) => {
                let detail = document.detail.or(document.title).unwrap_or_default();
                let detail = match document.field {
                    Some(field) if !detail.contains(&field) => format!("{field}: {detail}"),
                    _ => detail,
                };
                (document.code, detail, document.op_id)
            }
            Err(_) => (
                format!("http_{}", status.as_u16()),
                excerpt(status, body),
                None,
            ),
        };
        Self {
            status: status.as_u16(),
            code: masked(&code),
            detail: masked(&detail),
            op_id: op_id.as_deref().map(masked),
            retry_after: retry_after.map(masked),
        }
    }

    /// 404 is "not found"; 409 and a known key with another payload are a conflict. Other refusals
    /// of the input are a usage error; everything else is a failure.
    pub(crate) fn exit(&self) -> Exit {
        match (self.status, self.code.as_str()) {
            (404, _) => Exit::NotFound,
            (409, _) | (_, "idempotency_mismatch") => Exit::Conflict,
            (400 | 413 | 415 | 422, _) => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    /// Whether the refusal is about this operation only: another may succeed.
    pub(crate) fn concerns_one(&self) -> bool {
        matches!(self.status, 404 | 409)
    }

    fn advice(&self) -> Option<String> {
        match (self.status, &self.op_id, &self.retry_after) {
            (401, ..) => Some("give a key by CLINCH_API_KEY or --api-key".to_owned()),
            (403, ..) => Some("use a key with the scope for this".to_owned()),
            (_, Some(op_id), _) if self.code == "idempotency_mismatch" => {
                Some(format!("the operation with these keys is {op_id}"))
            }
            (300..=399, ..) => Some("redirects are not followed: check --url".to_owned()),
            (429 | 503, _, Some(after)) => Some(format!("try again in {after} s")),
            (429 | 503, ..) => Some("try again later".to_owned()),
            _ => None,
        }
    }
}

/// The answer comes from a proxy or another server.
fn excerpt(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text: String = text.trim().chars().take(EXCERPT_CHARS_MAX).collect();
    match (text.as_str(), status.canonical_reason()) {
        ("", reason) => reason.unwrap_or("no reason given").to_owned(),
        _ => text,
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)?;
        match self.advice() {
            Some(advice) => write!(f, " ({advice})"),
            None => Ok(()),
        }
    }
}
