//! Reads commands from request bodies.

use axum::http::{HeaderMap, StatusCode};
use clinch_core::ports::is_traceparent;
use clinch_core::{
    BizKey, Command, Domain, EventType, IdemKey, Invalid, Keys, Labels, Options, Payload, Priority,
};
use serde_json::value::RawValue;

use super::app::App;
use super::body;
use super::caller::Caller;
use super::problem::Problem;
use super::submit::SubmitDocument;
use super::values::TimeValue;

/// The error code of a refused command.
pub(crate) const INVALID: &str = "invalid_command";

/// What a command takes from its request besides the body.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandContext {
    pub(crate) idem_key: Option<String>,
    pub(crate) trace: Option<String>,
    pub(crate) payload_max: usize,
}

impl App {
    /// Reads a command: the body of a request, or an item of a list. Every command of a caller
    /// passes here: an operation, an item of a bulk request, a member of a batch, the `on_complete`
    /// of a batch, and what a remote worker spawns.
    ///
    /// - The caller may touch operations of the domain and event type.
    /// - The command is not internal to an application, whichever key the caller has.
    pub(super) fn command(
        &self,
        caller: &Caller,
        text: &str,
        context: &CommandContext,
    ) -> Result<Command, Problem> {
        let command = read(text, context)?;
        let Keys {
            domain, event_type, ..
        } = &command.keys;
        caller.may_touch(domain, event_type)?;
        self.refuse_internal(domain, event_type)?;
        Ok(command)
    }
}

fn read(text: &str, context: &CommandContext) -> Result<Command, Problem> {
    let invalid = |invalid: Invalid| Problem::invalid(INVALID, &invalid);
    let document: SubmitDocument<'_> = body::read(text, INVALID)?;
    let idem_key = idem_key(document.idem_key, context)?;
    let keys = Keys {
        domain: Domain::new(document.domain).map_err(invalid)?,
        event_type: EventType::new(document.event_type).map_err(invalid)?,
        biz_key: BizKey::new(document.biz_key).map_err(invalid)?,
        idem_key: IdemKey::new(idem_key).map_err(invalid)?,
    };
    let payload = payload_of(document.payload, context.payload_max)?;
    let priority = document.priority.unwrap_or_default();
    let options = Options {
        run_at: document.run_at.map(|TimeValue(at)| at),
        deadline: document.deadline.map(|TimeValue(at)| at),
        priority: Priority::new(priority).map_err(invalid)?,
        labels: Labels::new(document.labels.unwrap_or_default()).map_err(invalid)?,
        trace: context.trace.clone(),
    };
    options.validate().map_err(invalid)?;
    Ok(Command {
        keys,
        payload,
        options,
    })
}

/// The idempotency key of the body, or else of the header.
fn idem_key(of_body: Option<String>, context: &CommandContext) -> Result<String, Problem> {
    let problem = match (of_body, context.idem_key.clone()) {
        (Some(body), Some(header)) if body != header => {
            "differs from the Idempotency-Key header; send one of them"
        }
        (Some(key), _) | (None, Some(key)) => return Ok(key),
        (None, None) => "is missing; send it in the body or as the Idempotency-Key header",
    };
    Err(body::refuse(INVALID, "idem_key", problem))
}

/// Reads a payload by the strict reader. A payload that is too long, as sent or in canonical form,
/// is answered 413.
pub(crate) fn payload_of(raw: &RawValue, bytes_max: usize) -> Result<Payload, Problem> {
    let too_large = |bytes: usize| {
        let detail = format!("payload is {bytes} bytes long; at most {bytes_max} are allowed");
        Problem::too_large(detail).field("payload")
    };
    if raw.get().len() > bytes_max {
        return Err(too_large(raw.get().len()));
    }
    let payload = Payload::parse(raw.get(), usize::MAX);
    let payload = payload.map_err(|invalid| Problem::invalid(INVALID, &invalid))?;
    if payload.as_bytes().len() > bytes_max {
        return Err(too_large(payload.as_bytes().len()));
    }
    Ok(payload)
}

/// The `Idempotency-Key` header, bare or quoted.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let refuse = |problem: &str| {
        let detail = format!("the Idempotency-Key header {problem}");
        Problem::new(StatusCode::BAD_REQUEST, INVALID, detail).field("idem_key")
    };
    let mut found = None;
    for header in headers.get_all("idempotency-key") {
        let text = std::str::from_utf8(header.as_bytes());
        let text = text.map_err(|_| refuse("is not text"))?.trim();
        let key = match text.strip_prefix('"') {
            Some(quoted) => unquote(quoted).ok_or_else(|| refuse("ends within its quotes"))?,
            None => text.to_owned(),
        };
        if found.as_ref().is_some_and(|found| *found != key) {
            return Err(refuse("is given twice with different values"));
        }
        found = Some(key);
    }
    Ok(found)
}

/// The text before the closing quote, which must be the last character.
fn unquote(text: &str) -> Option<String> {
    let mut key = String::with_capacity(text.len());
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return chars.as_str().is_empty().then_some(key),
            '\\' => key.push(chars.next()?),
            other => key.push(other),
        }
    }
}

/// The caller's W3C `traceparent`, if it is valid.
pub(crate) fn trace(headers: &HeaderMap) -> Option<String> {
    let parent = headers.get("traceparent")?.to_str().ok()?;
    is_traceparent(parent).then(|| parent.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(header: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", header.parse().expect("a header"));
        idempotency_key(&headers).unwrap_or_else(|problem| Some(problem.code.to_owned()))
    }

    #[test]
    fn the_idempotency_key_is_bare_or_quoted() {
        assert_eq!(key("c0ffee").as_deref(), Some("c0ffee"));
        assert_eq!(key("\"c0ffee\"").as_deref(), Some("c0ffee"));
        assert_eq!(key(r#""a\"b\\c""#).as_deref(), Some(r#"a"b\c"#));
        assert_eq!(key("\"c0ffee").as_deref(), Some(INVALID));
        assert_eq!(key("\"a\" b").as_deref(), Some(INVALID));
    }
}
