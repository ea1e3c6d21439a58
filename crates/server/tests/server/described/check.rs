//! What the OpenAPI document must say of each operation, parameter, schema and field: a sentence
//! and an example that fits. The tests of the server and of the whole `clinch serve` use this.

use std::collections::BTreeSet;

use serde_json::Value;

use super::schema::fits;

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
