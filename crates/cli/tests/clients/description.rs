//! The clients name only what `/openapi.json` has, and all that concerns them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::language::{Language, Project, succeed};
use crate::server::Server;
use crate::suites::ROUTES;

/// Prints the routes, the codes and the documents of the Python client.
const PYTHON: &str = r#"
import dataclasses, datetime, inspect, json, typing, urllib.parse
from clinch_client import Client, _steps, errors, model
kinds = {str: "string", model.datetime: "string", int: "number", bool: "boolean", dict: "object",
         typing.Any: "any", list: "array"}
def described(field, hint):
    optional = typing.get_origin(hint) is typing.Union
    if optional:
        hint = next(one for one in hint.__args__ if one is not type(None))
    origin = typing.get_origin(hint) or hint
    kind = "document" if dataclasses.is_dataclass(origin) else kinds.get(origin, "object")
    default = field.default is not dataclasses.MISSING
    default = default or field.default_factory is not dataclasses.MISSING
    return f"{kind}{'?' if optional or default else ''}"
class Target(Exception):
    pass
class Seen(Client):
    def _perform(self, steps):
        raise Target(next(steps).target)
def query():
    given = {name: 1 if name == "page_size" else datetime.datetime.now() if "accepted" in name else "x"
             for name in inspect.signature(Client.operations).parameters if name != "self"}
    try:
        next(Seen().operations(**given))
    except Target as target:
        return [name for name, _ in urllib.parse.parse_qsl(urllib.parse.urlsplit(str(target)).query)]
print(json.dumps({
    "query": query(),
    "routes": [[one.method, one.path] for one in _steps.ENDPOINTS.values()],
    "codes": [*errors.BY_CODE, *errors.REPEATED],
    "documents": {
        schema: {
            field.name: described(field, typing.get_type_hints(of)[field.name])
            for field in dataclasses.fields(of)
        }
        for schema, of in model.SCHEMAS.items()
    },
}))
"#;

/// Prints the routes and the codes of the TypeScript client; its types exist in the source only.
const TYPESCRIPT: &str = r#"
const [root] = process.argv.slice(1);
const { ENDPOINTS } = await import(`${root}/dist/request.js`);
const { BY_CODE, REPEATED } = await import(`${root}/dist/errors.js`);
const { SCHEMAS } = await import(`${root}/dist/documents.js`);
console.log(JSON.stringify({
  routes: Object.values(ENDPOINTS).map(({ method, path }) => [method, path]),
  codes: [...Object.keys(BY_CODE), ...Object.keys(REPEATED)],
  schemas: SCHEMAS,
}));
"#;

type Members = BTreeMap<String, String>;

fn described(language: Language) -> Value {
    let project = Project::new(language);
    let mut command = match language {
        Language::Python => {
            let python = clinch_testbed::python_tools_environment().join("bin/python");
            let mut command = Command::new(python);
            command.args(["-c", PYTHON]);
            command
        }
        Language::TypeScript => {
            let mut command = Command::new("node");
            command.args(["--input-type=module", "-e", TYPESCRIPT]);
            command.arg(language.sources());
            command
        }
    };
    project.prepare(&mut command);
    serde_json::from_str(&succeed(&mut command)).expect("JSON")
}

pub(crate) fn routes_and_codes(language: Language) {
    let openapi = Server::start(ROUTES).get("/openapi.json");
    let client = described(language);
    let mut codes = BTreeSet::new();
    let routes = client["routes"].as_array().expect("routes");
    assert!(routes.len() >= 15);
    for route in routes {
        let text = |index: usize| route[index].as_str().expect("text");
        let method = text(0).to_lowercase();
        let known = &openapi["paths"][text(1)][&method]["responses"];
        let known = known.as_object();
        let known = known.unwrap_or_else(|| panic!("the server has no {route}"));
        let refusals = known.iter().filter(|(status, _)| status.as_str() >= "400");
        let descriptions = refusals.filter_map(|(_, one)| one["description"].as_str());
        codes.extend(descriptions.flat_map(|text| text.split(", ")));
    }
    let named = client["codes"].as_array().expect("codes");
    let named: BTreeSet<&str> = named.iter().filter_map(Value::as_str).collect();
    assert_eq!(named, codes);
}

pub(crate) fn members(language: Language) {
    let openapi = Server::start(ROUTES).get("/openapi.json");
    let client = described(language);
    let documents: BTreeMap<String, Members> = match language {
        Language::Python => serde_json::from_value(client["documents"].clone()).expect("documents"),
        Language::TypeScript => {
            let source = language.read("src/documents.ts");
            let schemas = client["schemas"].as_object().expect("schemas");
            let interface = |(name, schema): (&String, &Value)| {
                let schema = schema.as_str().expect("a name").to_owned();
                (schema, interface(&source, name))
            };
            schemas.iter().map(interface).collect()
        }
    };
    assert_eq!(documents.len(), 12);
    for (name, mut members) in documents {
        let mut schema = schema(&openapi["components"]["schemas"][&name]);
        if name == "SubmitDocument" {
            // A command may be written without a payload: null is sent.
            schema.insert("payload".to_owned(), String::new());
            members.insert("payload".to_owned(), String::new());
        }
        assert_eq!(members, schema, "{name}");
    }
}

/// A list can be filtered by everything that the server takes.
pub(crate) fn filters(language: Language) {
    let openapi = Server::start(ROUTES).get("/openapi.json");
    let parameters = &openapi["paths"]["/v1/operations"]["get"]["parameters"];
    let parameters = parameters.as_array().expect("parameters").iter();
    let mut known: BTreeSet<String> = parameters
        .filter(|one| one["in"] == "query")
        .map(|one| one["name"].as_str().expect("a name").to_owned())
        .collect();
    // The client asks for page after page by itself.
    assert!(known.remove("cursor"));
    let named: BTreeSet<String> = match language {
        Language::Python => {
            serde_json::from_value(described(language)["query"].clone()).expect("names")
        }
        Language::TypeScript => {
            let filter = interface(&language.read("src/client.ts"), "Filter");
            filter.into_keys().chain(["limit".to_owned()]).collect()
        }
    };
    assert_eq!(named, known);
}

/// The members of a schema: the kind, and `?` if the member may be missing.
fn schema(schema: &Value) -> Members {
    let required: Vec<&str> = match schema["required"].as_array() {
        Some(names) => names.iter().filter_map(Value::as_str).collect(),
        None => Vec::new(),
    };
    let properties = schema["properties"].as_object().expect("properties");
    let member = |(name, of): (&String, &Value)| {
        let kind = match &of["type"] {
            Value::Array(kinds) => kinds[0].as_str(),
            kind => kind.as_str(),
        };
        let kind = match kind {
            Some("integer") => "number",
            Some(kind) => kind,
            None if of.get("$ref").or(of.get("oneOf")).is_some() => "document",
            None => "any",
        };
        let may_be_missing = !required.contains(&name.as_str());
        let mark = if may_be_missing { "?" } else { "" };
        (name.clone(), format!("{kind}{mark}"))
    };
    properties.iter().map(member).collect()
}

/// The members of a TypeScript interface.
fn interface(source: &str, name: &str) -> Members {
    let (_, body) = source
        .split_once(&format!("export interface {name} {{\n"))
        .unwrap_or_else(|| panic!("there is no interface {name}"));
    let (body, _) = body.split_once("\n}").expect("its end");
    let members = body.lines().filter_map(|line| {
        let (name, of) = line.trim().strip_suffix(';')?.split_once(": ")?;
        let kind = match of.trim_end_matches(" | null") {
            "Json" => "any",
            kind @ ("string" | "number" | "boolean") => kind,
            kind if kind.ends_with("[]") => "array",
            kind if kind.starts_with("Record<") => "object",
            _ => "document",
        };
        let bare = name.trim_end_matches('?');
        let mark = if bare == name { "" } else { "?" };
        Some((bare.to_owned(), format!("{kind}{mark}")))
    });
    members.collect()
}
