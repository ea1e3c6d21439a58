//! Reading request bodies, field by field.
//!
//! Members stay raw text until someone asks for them: a payload is parsed once, by the strict
//! reader, and an error names the field and nothing that stands in it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use axum::http::StatusCode;
use clinch_core::{Invalid, Labels, Timestamp};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::problem::Problem;
use crate::config::Span;

/// The members of an object that nobody has asked for yet.
pub(crate) struct Fields<'a> {
    /// What an error is called: `invalid_command` or `invalid_request`.
    code: &'static str,
    members: BTreeMap<String, &'a RawValue>,
}

struct Members<'a>(BTreeMap<String, &'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if members.insert(name, value).is_some() {
                        return Err(serde::de::Error::custom("duplicate member name"));
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

impl<'a> Fields<'a> {
    /// The members of a JSON object.
    pub(crate) fn parse(text: &'a str, code: &'static str) -> Result<Self, Problem> {
        let members = serde_json::from_str::<Members<'a>>(text).map_err(|error| {
            let problem = match error.classify() {
                serde_json::error::Category::Data if error.to_string().starts_with("duplicate") => {
                    "the body names a member twice"
                }
                serde_json::error::Category::Data => "the body must be a JSON object",
                _ => "the body is not JSON",
            };
            let place = format!("line {}, column {}", error.line(), error.column());
            Problem::request(format!("{problem} ({place})"))
        })?;
        Ok(Self {
            code,
            members: members.0,
        })
    }

    /// A refusal of one field.
    pub(crate) fn refuse(&self, field: &str, problem: &str) -> Problem {
        let detail = format!("{field} {problem}");
        Problem::new(StatusCode::BAD_REQUEST, self.code, detail).field(field)
    }

    /// A refusal by the vocabulary.
    pub(crate) fn invalid(&self, invalid: &Invalid) -> Problem {
        Problem::invalid(self.code, invalid)
    }

    /// The raw text of a member; one that is `null` counts as given.
    pub(crate) fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
        self.members.remove(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    fn value<T: Deserialize<'a>>(&mut self, name: &str, what: &str) -> Result<Option<T>, Problem> {
        let Some(raw) = self.members.remove(name).filter(|raw| raw.get() != "null") else {
            return Ok(None);
        };
        let value = serde_json::from_str(raw.get());
        value.map(Some).map_err(|_| self.refuse(name, what))
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        self.value(name, "must be a string")
    }

    pub(crate) fn required(&mut self, name: &str) -> Result<String, Problem> {
        let text = self.text(name)?;
        text.ok_or_else(|| self.refuse(name, "is missing"))
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        self.value(name, "must be a whole number that is not negative")
    }

    pub(crate) fn small(&mut self, name: &str) -> Result<Option<i8>, Problem> {
        self.value(name, "must be a whole number between -10 and 10")
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, Problem> {
        self.value(name, "must be true or false")
    }

    pub(crate) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, Problem> {
        self.value(name, "must be a list of strings")
    }

    pub(crate) fn list(&mut self, name: &str) -> Result<Option<Vec<&'a RawValue>>, Problem> {
        self.value(name, "must be a list")
    }

    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Fields<'a>>, Problem> {
        let Some(raw) = self.members.remove(name).filter(|raw| raw.get() != "null") else {
            return Ok(None);
        };
        let inner = Self::parse(raw.get(), self.code);
        inner
            .map(Some)
            .map_err(|_| self.refuse(name, "must be an object that names no member twice"))
    }

    /// `"5s"`, or a number of seconds.
    pub(crate) fn span(&mut self, name: &str) -> Result<Option<Duration>, Problem> {
        let what = "must be a duration such as \"500ms\" or \"5s\", or a number of seconds";
        let Some(raw) = self.members.remove(name).filter(|raw| raw.get() != "null") else {
            return Ok(None);
        };
        let secs = serde_json::from_str::<f64>(raw.get()).ok();
        let secs = secs.and_then(|secs| Duration::try_from_secs_f64(secs).ok());
        let text = || {
            serde_json::from_str::<Span>(raw.get())
                .ok()
                .map(|span| span.0)
        };
        let span = secs.or_else(text);
        span.map(Some).ok_or_else(|| self.refuse(name, what))
    }

    /// An RFC 3339 moment.
    pub(crate) fn time(&mut self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let time = super::time::read(&text);
        time.map(Some)
            .ok_or_else(|| self.refuse(name, "must be a moment such as \"2026-11-15T08:00:00Z\""))
    }

    pub(crate) fn labels(&mut self, name: &str) -> Result<Labels, Problem> {
        let what = "must be an object of strings";
        let labels: BTreeMap<String, String> = self.value(name, what)?.unwrap_or_default();
        Labels::new(labels).map_err(|invalid| self.invalid(&invalid))
    }

    /// The names of what nobody asked for.
    pub(crate) fn names(self) -> Vec<String> {
        let short = |name: &String| name.chars().take(64).collect();
        self.members.keys().map(short).collect()
    }

    /// Refuses what nobody asked for: a member that is silently ignored is a mistake that
    /// nobody notices.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.members.keys().next() {
            Some(name) => {
                let short: String = name.chars().take(64).collect();
                Err(self.refuse(&short, "is not a known field"))
            }
            None => Ok(()),
        }
    }
}
