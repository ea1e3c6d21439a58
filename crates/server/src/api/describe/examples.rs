//! Puts examples into the OpenAPI document: on schemas, fields, parameters, bodies and answers.
//!
//! Whole documents are written once, by schema and name, in `examples.json` beside the routes. All
//! else follows from them: a field shows the values that it has in the documents of its schema, a
//! schema that only stands inside of others shows the parts of their documents, and a body or an
//! answer shows the documents of its schema. A test compares every example with its schema.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Examples of a schema that come from documents of other schemas, and of a field.
const DERIVED_MAX: usize = 3;
const JSON: &str = "application/json";

/// What a file of examples holds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Examples {
    /// Parameters by name; `GET /path name` is meant for that route alone.
    #[serde(default)]
    parameters: BTreeMap<String, Parameter>,
    /// The `detail` of a problem by its code.
    #[serde(default)]
    problems: BTreeMap<String, String>,
    /// Which documents of its schema an answer shows, by `POST /path 200`; by default all.
    #[serde(default)]
    answers: BTreeMap<String, Vec<String>>,
    /// Answers that are not JSON.
    #[serde(default)]
    texts: BTreeMap<String, String>,
    /// Documents by schema and name.
    #[serde(default)]
    schemas: BTreeMap<String, BTreeMap<String, Value>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameter {
    /// Unless the route describes the parameter itself.
    description: String,
    example: Value,
}

impl Examples {
    /// A file of examples. A test reads each file, so that a broken one never gets here.
    pub(super) fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// Adds the examples of an application; the server's own go first.
    pub(super) fn extend(&mut self, other: Self) {
        let Self {
            parameters,
            problems,
            answers,
            texts,
            schemas,
        } = other;
        for (name, parameter) in parameters {
            self.parameters.entry(name).or_insert(parameter);
        }
        for (code, detail) in problems {
            self.problems.entry(code).or_insert(detail);
        }
        for (schema, documents) in schemas {
            self.schemas.entry(schema).or_insert(documents);
        }
        self.answers.extend(answers);
        self.texts.extend(texts);
    }

    /// Puts the examples into a document.
    pub(super) fn put_into(mut self, openapi: &mut Value) {
        let Some(Value::Object(mut schemas)) = take(openapi, "/components/schemas") else {
            return;
        };
        self.derive(&schemas);
        for (name, schema) in &mut schemas {
            if let Some(documents) = self.schemas.get(name) {
                show_in_schema(schema, documents);
            }
        }
        put(openapi, "/components/schemas", Value::Object(schemas));
        let paths = openapi.get_mut("paths").and_then(Value::as_object_mut);
        for (path, item) in paths.into_iter().flatten() {
            for (method, operation) in item.as_object_mut().into_iter().flatten() {
                let route = format!("{} {path}", method.to_uppercase());
                self.show_in_operation(&route, operation);
            }
        }
    }

    /// Takes documents of schemas that have none of their own out of the documents of others.
    fn derive(&mut self, schemas: &Map<String, Value>) {
        let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (name, documents) in &self.schemas {
            let Some(schema) = schemas.get(name) else {
                continue;
            };
            for document in documents.values() {
                collect(schema, document, &mut found, schemas);
            }
        }
        for (name, values) in found {
            self.schemas.entry(name).or_insert_with(|| {
                let named = values.into_iter().enumerate();
                named
                    .map(|(number, value)| (format!("example_{}", number + 1), value))
                    .collect()
            });
        }
    }

    fn show_in_operation(&self, route: &str, operation: &mut Value) {
        let parameters = operation
            .get_mut("parameters")
            .and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            self.show_in_parameter(route, parameter);
        }
        if let Some(body) = operation.pointer_mut("/requestBody/content/application~1json") {
            self.show_in_content(body, None);
        }
        let responses = operation
            .get_mut("responses")
            .and_then(Value::as_object_mut);
        for (status, response) in responses.into_iter().flatten() {
            let answer = format!("{route} {status}");
            let codes = response["description"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let contents = response.get_mut("content").and_then(Value::as_object_mut);
            for (kind, content) in contents.into_iter().flatten() {
                match kind.as_str() {
                    JSON => self.show_in_content(content, self.answers.get(&answer)),
                    "application/problem+json" => self.show_problems(content, status, &codes),
                    _ => {
                        if let Some(text) = self.texts.get(&answer) {
                            content["example"] = json!(text);
                        }
                    }
                }
            }
        }
    }

    fn show_in_parameter(&self, route: &str, parameter: &mut Value) {
        let name = parameter["name"].as_str().unwrap_or_default();
        let own = self.parameters.get(&format!("{route} {name}"));
        let Some(known) = own.or_else(|| self.parameters.get(name)) else {
            return;
        };
        if parameter.get("description").is_none() {
            parameter["description"] = json!(known.description);
        }
        parameter["example"] = known.example.clone();
    }

    /// The documents of the content's schema: all, or those of these names.
    fn show_in_content(&self, content: &mut Value, names: Option<&Vec<String>>) {
        let Some(name) = content.get("schema").and_then(referred) else {
            return;
        };
        let Some(documents) = self.schemas.get(&name) else {
            return;
        };
        let is_shown = |name: &String| names.is_none_or(|names| names.contains(name));
        let shown = documents.iter().filter(|(name, _)| is_shown(name));
        let shown: Map<String, Value> = shown
            .map(|(name, document)| (name.clone(), json!({ "value": document })))
            .collect();
        content["examples"] = Value::Object(shown);
    }

    /// A problem document of each code.
    fn show_problems(&self, content: &mut Value, status: &str, codes: &str) {
        let status = StatusCode::from_bytes(status.as_bytes()).unwrap_or_default();
        let title = status.canonical_reason().unwrap_or("Error");
        let problem = |code: &str| {
            let detail = self.problems.get(code)?;
            let document = json!({"type": "about:blank", "title": title, "status": status.as_u16(),
                                  "code": code, "detail": detail});
            Some((code.to_owned(), json!({ "value": document })))
        };
        let shown: Map<String, Value> = codes.split(", ").filter_map(problem).collect();
        content["examples"] = Value::Object(shown);
    }
}

/// Removes the value at a place of a document.
fn take(document: &mut Value, place: &str) -> Option<Value> {
    document.pointer_mut(place).map(Value::take)
}

fn put(document: &mut Value, place: &str, value: Value) {
    if let Some(old) = document.pointer_mut(place) {
        *old = value;
    }
}

/// The name of the schema that a schema refers to, directly or as one of several kinds.
fn referred(schema: &Value) -> Option<String> {
    let direct = schema.get("$ref").and_then(Value::as_str);
    if let Some(place) = direct {
        return place.rsplit('/').next().map(str::to_owned);
    }
    let kinds = schema.get("oneOf")?.as_array()?;
    let mut named = kinds.iter().filter(|kind| kind["type"] != "null");
    match (named.next(), named.next()) {
        (Some(only), None) => referred(only),
        _ => None,
    }
}

/// The properties of a schema, those of its parts included.
fn properties(schema: &Value) -> Vec<(&String, &Value)> {
    let own = schema.get("properties").and_then(Value::as_object);
    let parts = schema.get("allOf").and_then(Value::as_array);
    let inner = parts.into_iter().flatten().flat_map(properties);
    own.into_iter().flatten().chain(inner).collect()
}

/// Finds the parts of a document that have schemas of their own.
fn collect(
    schema: &Value,
    value: &Value,
    found: &mut BTreeMap<String, Vec<Value>>,
    schemas: &Map<String, Value>,
) {
    if let Some(name) = referred(schema) {
        let Some(named) = schemas.get(&name).filter(|_| !value.is_null()) else {
            return;
        };
        let values = found.entry(name).or_default();
        if values.len() < DERIVED_MAX && !values.contains(value) {
            values.push(value.clone());
        }
        return collect(named, value, found, schemas);
    }
    match value {
        Value::Object(members) => {
            // A part of a composed schema takes the members that it declares.
            for part in schema["allOf"].as_array().into_iter().flatten() {
                let of_part = referred(part)
                    .and_then(|name| schemas.get(&name))
                    .unwrap_or(part);
                let declared = properties(of_part).into_iter();
                let own = declared.filter_map(|(name, _)| members.get_key_value(name));
                let own: Map<_, _> = own
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                collect(part, &Value::Object(own), found, schemas);
            }
            for (name, value) in members {
                let of = schema["properties"].get(name);
                if let Some(of) = of.or_else(|| schema.get("additionalProperties")) {
                    collect(of, value, found, schemas);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                collect(&schema["items"], item, found, schemas);
            }
        }
        _ => {}
    }
}

fn show_in_schema(schema: &mut Value, documents: &BTreeMap<String, Value>) {
    let documents: Vec<&Value> = documents.values().collect();
    show_in_fields(schema, &documents);
    schema["examples"] = json!(documents);
}

/// A field shows the values that it has in the documents.
fn show_in_fields(schema: &mut Value, documents: &[&Value]) {
    let parts = schema.get_mut("allOf").and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten() {
        show_in_fields(part, documents);
    }
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, field) in fields.into_iter().flatten() {
        let mut values: Vec<&Value> = Vec::new();
        for value in documents.iter().filter_map(|document| document.get(name)) {
            if !value.is_null() && !values.contains(&value) && values.len() < DERIVED_MAX {
                values.push(value);
            }
        }
        if !values.is_empty() {
            field["examples"] = json!(values);
        }
        lift_description(field);
    }
}

/// A field that may be null describes itself inside of its `oneOf`; readers look at the field.
fn lift_description(field: &mut Value) {
    let kinds = field.get("oneOf").and_then(Value::as_array);
    let inner = kinds
        .into_iter()
        .flatten()
        .find_map(|kind| kind.get("description"));
    if let (None, Some(inner)) = (field.get("description"), inner.cloned()) {
        field["description"] = inner;
    }
}
