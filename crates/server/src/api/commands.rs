//! Commands out of request bodies.

use axum::http::{HeaderMap, StatusCode};
use clinch_core::ports::is_traceparent;
use clinch_core::{BizKey, Command, Domain, EventType, IdemKey, Keys, Options, Payload, Priority};
use serde_json::value::RawValue;

use super::app::App;
use super::caller::Caller;
use super::fields::Fields;
use super::problem::Problem;

/// What a command's fields are refused with.
pub(crate) const INVALID: &str = "invalid_command";

/// What a command takes from its request besides its body.
#[derive(Debug, Clone, Default)]
pub(crate) struct Around {
    pub(crate) idem_key: Option<String>,
    pub(crate) trace: Option<String>,
    pub(crate) payload_max: usize,
}

impl App {
    /// A command out of a request: the whole body, or one of a list. Every command that a caller
    /// asks for comes through here: an operation, an item of a bulk call, a member or the end of a
    /// batch, and what a remote worker spawns.
    ///
    /// - The caller may touch operations of its domain and event type.
    /// - It is not internal to an application, whoever asks.
    pub(super) fn command(
        &self,
        caller: &Caller,
        text: &str,
        around: &Around,
    ) -> Result<Command, Problem> {
        let command = read(text, around)?;
        let Keys {
            domain, event_type, ..
        } = &command.keys;
        caller.may_touch(domain, event_type)?;
        self.refuse_internal(domain, event_type)?;
        Ok(command)
    }
}

fn read(text: &str, around: &Around) -> Result<Command, Problem> {
    let mut fields = Fields::parse(text, INVALID)?;
    let keys = keys(&mut fields, around)?;
    let payload = fields.raw("payload");
    let payload = payload.ok_or_else(|| fields.refuse("payload", "is missing; null is allowed"))?;
    let payload = payload_of(payload, around.payload_max)?;
    let priority = fields.small("priority")?.unwrap_or_default();
    let options = Options {
        run_at: fields.time("run_at")?,
        deadline: fields.time("deadline")?,
        priority: Priority::new(priority).map_err(|invalid| fields.invalid(&invalid))?,
        labels: fields.labels("labels")?,
        trace: around.trace.clone(),
    };
    options
        .validate()
        .map_err(|invalid| fields.invalid(&invalid))?;
    fields.finish()?;
    Ok(Command {
        keys,
        payload,
        options,
    })
}

fn keys(fields: &mut Fields<'_>, around: &Around) -> Result<Keys, Problem> {
    let domain = fields.required("domain")?;
    let event_type = fields.required("event_type")?;
    let biz_key = fields.required("biz_key")?;
    let idem_key = match (fields.text("idem_key")?, around.idem_key.clone()) {
        (Some(body), Some(header)) if body != header => {
            let problem = "differs from the Idempotency-Key header; send one of them";
            return Err(fields.refuse("idem_key", problem));
        }
        (body, header) => body.or(header),
    };
    let missing = "is missing; send it in the body or as the Idempotency-Key header";
    let idem_key = idem_key.ok_or_else(|| fields.refuse("idem_key", missing))?;
    let invalid = |invalid| Problem::invalid(INVALID, &invalid);
    Ok(Keys {
        domain: Domain::new(domain).map_err(invalid)?,
        event_type: EventType::new(event_type).map_err(invalid)?,
        biz_key: BizKey::new(biz_key).map_err(invalid)?,
        idem_key: IdemKey::new(idem_key).map_err(invalid)?,
    })
}

/// A payload by the strict reader; too long in either form is 413.
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
            return Err(refuse("is there twice with different values"));
        }
        found = Some(key);
    }
    Ok(found)
}

/// What stands before the closing quote, which must end the text.
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
