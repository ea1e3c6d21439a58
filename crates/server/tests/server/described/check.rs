//! What the OpenAPI document must say of each operation, parameter, schema and field: a sentence
//! and an example that fits. The tests of the server and of the whole `clinch serve` use this.

use std::collections::BTreeSet;

use serde_json::Value;

/// Words below which a sentence says nothing that the name does not say.
const WORDS_MIN: usize = 3;

/// Everything that is missing or wrong, a line each.
pub(crate) fn problems(document: &Value) -> Vec<String> {
    let mut api = Api {
        document,
        problems: Vec::new(),
    };
    api.check();
    api.problems
}

struct Api<'a> {
    document: &'a Value,
    problems: Vec<String>,
}

impl Api<'_> {
    fn schemas(&self) -> Vec<(String, Value)> {
        let schemas = self.document["components"]["schemas"].as_object();
        let schemas = schemas.expect("schemas").iter();
        schemas
            .map(|(name, schema)| (name.clone(), schema.clone()))
            .collect()
    }

    /// Each operation with its method and path.
    fn operations(&self) -> Vec<(String, Value)> {
        let paths = self.document["paths"].as_object().expect("paths").iter();
        let operations = paths.flat_map(|(path, item)| {
            let methods = item.as_object().expect("methods").iter();
            methods.map(move |(method, operation)| {
                (
                    format!("{} {path}", method.to_uppercase()),
                    operation.clone(),
                )
            })
        });
        operations.collect()
    }

    fn problem(&mut self, place: &str, what: impl AsRef<str>) {
        self.problems.push(format!("{place}: {}", what.as_ref()));
    }

    /// A sentence that says more than the name.
    fn is_told(&mut self, place: &str, name: &str, value: &Value, what: &str) {
        let text = value[what].as_str().unwrap_or_default().trim();
        let words = text.split_whitespace().count();
        let plain = |text: &str| text.to_lowercase().replace(['_', '.', ' '], "");
        if words < WORDS_MIN || plain(text) == plain(name) {
            self.problem(place, format!("its {what} says nothing: {text:?}"));
        }
    }

    /// The values of `example`, `examples` of a schema, or `examples` of a content.
    fn examples(&mut self, place: &str, of: &Value, schema: &Value) {
        let named = of["examples"].as_object().into_iter().flatten();
        let named = named.map(|(_, example)| example["value"].clone());
        let listed = of["examples"].as_array().into_iter().flatten().cloned();
        let one = of.get("example").cloned();
        let examples: Vec<Value> = named.chain(listed).chain(one).collect();
        if examples.is_empty() {
            self.problem(place, "it has no example");
        }
        for example in examples {
            if let Err(wrong) = fits(self.document, schema, &example, "") {
                self.problem(place, format!("its example does not fit: {wrong}"));
            }
        }
    }

    fn fields(&mut self, place: &str, schema: &Value) {
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.fields(place, part);
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let place = format!("{place}.{name}");
            self.is_told(&place, name, field, "description");
            self.examples(&place, field, field);
            if examples_of(field).all(Value::is_null) {
                self.problem(&place, "every example of it is null");
            }
        }
    }

    fn check(&mut self) {
        for (name, schema) in self.schemas() {
            self.is_told(&name, &name, &schema, "description");
            self.examples(&name, &schema, &schema);
            self.fields(&name, &schema);
        }
        let mut ids = BTreeSet::new();
        for (route, operation) in self.operations() {
            let id = operation["operationId"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            self.is_told(&route, &id, &operation, "summary");
            self.is_told(&route, &id, &operation, "description");
            if id.is_empty() || !ids.insert(id) {
                self.problem(&route, "its operationId is that of another route");
            }
            self.check_parts(&route, &operation);
        }
    }

    /// Parameters, body and answers of an operation.
    fn check_parts(&mut self, route: &str, operation: &Value) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap_or_default();
            let place = format!("{route}, {name}");
            self.is_told(&place, name, parameter, "description");
            self.examples(&place, parameter, &parameter["schema"]);
        }
        let body = operation["requestBody"]["content"].as_object();
        for content in body.into_iter().flat_map(|kinds| kinds.values()) {
            self.examples(&format!("{route}, body"), content, &content["schema"]);
        }
        let responses = operation["responses"].as_object().into_iter().flatten();
        for (status, response) in responses {
            let place = format!("{route}, {status}");
            let contents = response["content"].as_object();
            for content in contents.into_iter().flat_map(|kinds| kinds.values()) {
                self.examples(&place, content, &content["schema"]);
            }
        }
    }
}

fn examples_of(field: &Value) -> impl Iterator<Item = &Value> {
    field["examples"].as_array().into_iter().flatten()
}

/// Whether a value fits a schema, by the keywords that the document uses. The error says where it
/// does not.
pub(crate) fn fits(
    document: &Value,
    schema: &Value,
    value: &Value,
    place: &str,
) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let named = document.pointer(name.trim_start_matches('#'));
        let named = named.ok_or_else(|| format!("there is no {name}"))?;
        return fits(document, named, value, place);
    }
    if let Some(kinds) = schema["oneOf"].as_array() {
        let tried = kinds.iter().map(|kind| fits(document, kind, value, place));
        let wrong: Vec<String> = tried.clone().filter_map(Result::err).collect();
        return match tried.filter(Result::is_ok).count() {
            0 => Err(wrong.join(", or ")),
            _ => Ok(()),
        };
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fits_loosely(document, part, value, place)?;
    }
    has_type(&schema["type"], value, place)?;
    within_bounds(schema, value, place)?;
    match value {
        Value::Object(members) => {
            let known = properties(document, schema);
            for name in required(schema) {
                if !members.contains_key(name) {
                    return Err(format!("{place}.{name} is missing"));
                }
            }
            for (name, value) in members {
                let place = format!("{place}.{name}");
                let of = known.iter().find(|(known, _)| *known == name);
                match (of, &schema["additionalProperties"]) {
                    (Some((_, of)), _) => fits(document, of, value, &place)?,
                    (None, of @ Value::Object(_)) => fits(document, of, value, &place)?,
                    (None, _) if is_any_object(schema) => {}
                    (None, _) => return Err(format!("{place} is not in the schema")),
                }
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                fits(
                    document,
                    &schema["items"],
                    item,
                    &format!("{place}[{number}]"),
                )?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// An object, or any value, of which nothing is said.
fn is_any_object(schema: &Value) -> bool {
    let says = |name: &str| schema.get(name).is_some();
    !says("properties") && !says("allOf") && schema["additionalProperties"] != false
}

/// Whether an object has what one part of its schema requires; the other parts have the rest.
fn fits_loosely(document: &Value, part: &Value, value: &Value, place: &str) -> Result<(), String> {
    let mut part = part;
    if let Some(name) = part["$ref"].as_str() {
        let named = document.pointer(name.trim_start_matches('#'));
        part = named.ok_or_else(|| format!("there is no {name}"))?;
    }
    for name in required(part) {
        if value.get(name).is_none() {
            return Err(format!("{place}.{name} is missing"));
        }
    }
    Ok(())
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema["required"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str)
}

/// The members that a schema names, those of its parts included.
fn properties<'a>(document: &'a Value, schema: &'a Value) -> Vec<(&'a String, &'a Value)> {
    let named = schema["$ref"].as_str();
    let named = named.and_then(|name| document.pointer(name.trim_start_matches('#')));
    let schema = named.unwrap_or(schema);
    let own = schema["properties"].as_object().into_iter().flatten();
    let parts = schema["allOf"].as_array().into_iter().flatten();
    own.chain(parts.flat_map(|part| properties(document, part)))
        .collect()
}

fn has_type(kinds: &Value, value: &Value, place: &str) -> Result<(), String> {
    let is = |kind: &str| match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("{place}: the test does not know the type {other}"),
    };
    let fits = match kinds {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(is),
        _ => true,
    };
    match fits {
        true => Ok(()),
        false => Err(format!("{place} is {value}, not {kinds}")),
    }
}

fn within_bounds(schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let number = |name: &str| schema[name].as_f64();
    let length = value.as_str().map(|text| text.chars().count() as f64);
    let size = value.as_array().map(|items| items.len() as f64);
    let above = |of: Option<f64>, max: &str| of.zip(number(max)).is_some_and(|(of, max)| of > max);
    let below = |of: Option<f64>, min: &str| of.zip(number(min)).is_some_and(|(of, min)| of < min);
    let listed = schema["enum"].as_array();
    let is_wrong = above(value.as_f64(), "maximum")
        || below(value.as_f64(), "minimum")
        || above(length, "maxLength")
        || below(length, "minLength")
        || above(size, "maxItems")
        || listed.is_some_and(|listed| !listed.contains(value));
    match is_wrong {
        true => Err(format!("{place} is {value}: out of bounds")),
        false => Ok(()),
    }
}
