//! Request bodies: JSON objects, read into the structs that OpenAPI describes.
//!
//! Reading takes two steps. [`Members::parse`] splits the object into its members and leaves each
//! value as text, so that a payload is parsed once, by the strict reader of the core.
//! [`Members::take`] deserializes a struct from them. An error names the member and what the
//! member must be, and never quotes its value: a body may hold secrets.

use std::collections::BTreeMap;
use std::fmt;

use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde::de::{Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::problem::Problem;

/// The error code of a refused body, unless the body is a command.
pub(crate) const INVALID_REQUEST: &str = "invalid_request";
/// Characters of an unknown member name that an error repeats.
const NAME_CHARS_MAX: usize = 64;

/// Reads a body into its struct. `code` is the error code of a refused member.
///
/// Refused are text that is not a JSON object, an object that names a member twice, members that
/// are missing or of another type, and members that the struct does not have: a member that is
/// silently ignored is a mistake that its sender never notices.
pub(crate) fn read<'a, T: Deserialize<'a>>(
    text: &'a str,
    code: &'static str,
) -> Result<T, Problem> {
    let mut members = Members::parse(text)?;
    let document = members.take(code)?;
    members.refuse_all_but(&[], code)?;
    Ok(document)
}

/// The refusal of one member.
pub(crate) fn refuse(code: &'static str, member: &str, problem: &str) -> Problem {
    let detail = format!("{member} {problem}");
    Problem::new(StatusCode::BAD_REQUEST, code, detail).field(member)
}

/// The members of a JSON object by name; the values are still text.
#[derive(Clone, Default)]
pub(crate) struct Members<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Members<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, Problem> {
        serde_json::from_str(text).map_err(|error: serde_json::Error| {
            let problem = match error.classify() {
                serde_json::error::Category::Data if error.to_string().starts_with("duplicate") => {
                    "the body names a member twice"
                }
                serde_json::error::Category::Data => "the body must be a JSON object",
                _ => "the body is not JSON",
            };
            let (line, column) = (error.line(), error.column());
            Problem::request(format!("{problem} (line {line}, column {column})"))
        })
    }

    /// Removes a member. `null` counts as absent.
    pub(crate) fn remove(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.remove(name).filter(|value| value.get() != "null")
    }

    /// Moves the members of these names out.
    pub(crate) fn split_off(&mut self, names: &[&str]) -> Self {
        let all = std::mem::take(&mut self.0).into_iter();
        let (named, others) = all.partition(|(name, _)| names.contains(&name.as_str()));
        self.0 = others;
        Self(named)
    }

    /// Adds the members of `other`.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The names, shortened to what an answer may repeat.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        let short = |name: &String| name.chars().take(NAME_CHARS_MAX).collect();
        self.0.keys().map(short)
    }

    /// Deserializes a struct from its members and removes them; other members stay.
    pub(crate) fn take<T: Deserialize<'a>>(&mut self, code: &'static str) -> Result<T, Problem> {
        let read = T::deserialize(StructReader(self));
        read.map_err(|refusal| refuse(code, &refusal.member, &refusal.problem))
    }

    /// Refuses the first member with another name than these.
    pub(crate) fn refuse_all_but(&self, names: &[&str], code: &'static str) -> Result<(), Problem> {
        match self.names().find(|name| !names.contains(&name.as_str())) {
            Some(name) => Err(refuse(code, &name, "is not a known field")),
            None => Ok(()),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
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
        deserializer.deserialize_map(ObjectVisitor)
    }
}

/// Why a member was refused.
#[derive(Debug)]
pub(super) struct Refusal {
    member: String,
    problem: String,
}

impl Refusal {
    fn missing(member: &str) -> Self {
        let problem = match member {
            "payload" => "is missing; null is allowed",
            "fence" => "is missing; send the fence of the delivery",
            "token" => "is missing; send the token that the lease gave out with this delivery",
            "filter" => "is missing; {} selects every dead letter",
            _ => "is missing",
        };
        Self {
            member: member.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Refusal {}

impl serde::de::Error for Refusal {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            member: String::new(),
            problem: message.to_string(),
        }
    }

    fn missing_field(member: &'static str) -> Self {
        Self::missing(member)
    }
}

/// Deserializes a struct from the members that it declares.
struct StructReader<'m, 'a>(&'m mut Members<'a>);

impl<'de> Deserializer<'de> for StructReader<'_, 'de> {
    type Error = Refusal;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        declared: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let member = |name: &&'static str| {
            let value = self.0.0.remove(*name)?;
            Some((*name, Member { name, value }))
        };
        visitor.visit_map(MapDeserializer::new(declared.iter().filter_map(member)))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Refusal> {
        Err(serde::de::Error::custom("only structs are request bodies"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Deserializes the value of one member. A failure leaves the other members readable.
#[derive(Clone, Copy)]
struct Member<'a> {
    name: &'static str,
    value: &'a RawValue,
}

impl Member<'_> {
    fn refuse(self, expected: &str) -> Refusal {
        if self.value.get() == "null" {
            return Refusal::missing(self.name);
        }
        Refusal {
            member: self.name.to_owned(),
            problem: format!("must be {expected}"),
        }
    }
}

impl<'de> IntoDeserializer<'de, Refusal> for Member<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Member<'de> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let expected = expected(&visitor);
        let mut json = serde_json::Deserializer::from_str(self.value.get());
        let value = json.deserialize_any(visitor);
        value.map_err(|_| self.refuse(&expected))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.value.get() {
            "null" => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// How serde_json gives a [`RawValue`] away.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let expected = expected(&visitor);
        let mut json = serde_json::Deserializer::from_str(self.value.get());
        let value = json.deserialize_newtype_struct(name, visitor);
        value.map_err(|_| self.refuse(&expected))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let refuse = || match variants {
            [others @ .., last] => self.refuse(&format!("{} or {last}", others.join(", "))),
            [] => self.refuse("left out"),
        };
        // serde_json would take `{"ok": null}` for `"ok"`.
        if !self.value.get().starts_with('"') {
            return Err(refuse());
        }
        let mut json = serde_json::Deserializer::from_str(self.value.get());
        json.deserialize_enum(name, variants, visitor)
            .map_err(|_| refuse())
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// What a visitor expects, in the words of an API.
fn expected<'de>(visitor: &impl Visitor<'de>) -> String {
    struct Expecting<'v, V>(&'v V);
    impl<'de, V: Visitor<'de>> fmt::Display for Expecting<'_, V> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.expecting(f)
        }
    }
    let expected = Expecting(visitor).to_string();
    match expected.as_str() {
        // The only small number of a body is a priority.
        "i8" => "a whole number between -10 and 10".to_owned(),
        "u64" => "a whole number that is not negative".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list of strings".to_owned(),
        "a map" => "an object of strings".to_owned(),
        _ => expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Choice {
        One,
        Two,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample<'a> {
        text: String,
        number: Option<u64>,
        small: Option<i8>,
        names: Option<Vec<String>>,
        choice: Option<Choice>,
        #[serde(borrow)]
        payload: &'a RawValue,
    }

    fn refused(body: &str) -> (String, serde_json::Value) {
        let problem = read::<Sample<'_>>(body, "invalid_command").expect_err(body);
        let document = serde_json::to_value(problem.document()).expect("JSON");
        assert!(!problem.detail.contains("secret"), "{}", problem.detail);
        (problem.detail, document["field"].clone())
    }

    #[test]
    fn values_are_read_and_raw_ones_are_left_as_they_are() {
        let body = r#" {"payload": {"b":1.0, "a":12345678901234567890 } , "text":"\u0061",
            "number": null, "small": -10, "choice": "two", "names": ["x"]}"#;
        let sample: Sample<'_> = read(body, INVALID_REQUEST).expect("valid");
        assert_eq!((sample.text.as_str(), sample.number), ("a", None));
        assert_eq!(sample.small, Some(-10));
        assert_eq!(sample.choice, Some(Choice::Two));
        assert_eq!(sample.names.as_deref(), Some(&["x".to_owned()][..]));
        let raw = r#"{"b":1.0, "a":12345678901234567890 }"#;
        assert_eq!(sample.payload.get(), raw);
        let null: Sample<'_> =
            read(r#"{"text":"","payload":null}"#, INVALID_REQUEST).expect("valid");
        assert_eq!(null.payload.get(), "null");
    }

    #[test]
    fn a_refusal_names_the_member_and_never_its_value() {
        for (body, field, detail) in [
            (r#"{"payload":1}"#, "text", "text is missing"),
            (r#"{"text":null,"payload":1}"#, "text", "text is missing"),
            (
                r#"{"text":["secret"],"payload":1}"#,
                "text",
                "text must be a string",
            ),
            (
                r#"{"text":""}"#,
                "payload",
                "payload is missing; null is allowed",
            ),
            (
                r#"{"text":"","payload":1,"number":"secret"}"#,
                "number",
                "number must be a whole number that is not negative",
            ),
            (
                r#"{"text":"","payload":1,"number":-1}"#,
                "number",
                "number must be a whole number that is not negative",
            ),
            (
                r#"{"text":"","payload":1,"small":1.0}"#,
                "small",
                "small must be a whole number between -10 and 10",
            ),
            (
                r#"{"text":"","payload":1,"names":["a",7]}"#,
                "names",
                "names must be a list of strings",
            ),
            (
                r#"{"text":"","payload":1,"choice":"secret"}"#,
                "choice",
                "choice must be one or two",
            ),
            (
                r#"{"text":"","payload":1,"choice":{"one":null}}"#,
                "choice",
                "choice must be one or two",
            ),
            (
                r#"{"text":"","payload":1,"txet":1}"#,
                "txet",
                "txet is not a known field",
            ),
        ] {
            assert_eq!(refused(body), (detail.to_owned(), field.into()), "{body}");
        }
    }

    #[test]
    fn a_body_is_one_object_that_names_no_member_twice() {
        for body in [
            "",
            "{",
            "[]",
            "7",
            "null",
            "{} {}",
            r#"["", 1, [], "one", 1]"#,
        ] {
            assert_eq!(refused(body).1, serde_json::Value::Null, "{body}");
        }
        for body in [
            r#"{"text":"","text":"","payload":1}"#,
            r#"{"x":1,"\u0078":1}"#,
        ] {
            let (detail, _) = refused(body);
            assert!(
                detail.starts_with("the body names a member twice"),
                "{detail}"
            );
        }
    }
}
