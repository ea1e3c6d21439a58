//! The curl commands of the pages against the description: each has a route, headers that the route
//! reads, and a body that fits its schema.

use serde_json::Value;

use super::{page, schema, shell};
use crate::world::World;

/// Where the servers of the pages listen.
const SERVERS: [&str; 3] = ["localhost:7070", "127.0.0.1:7070", "HOST:7070"];

/// The longest `Prefer: wait`, in seconds.
const WAIT_MAX: u16 = 60;

/// What a curl command sends.
#[derive(Debug, Default)]
struct Sent {
    method: Option<String>,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Sent {
    /// Reads the words of a command. An option that is not known here is an error.
    fn read(words: &[String]) -> Result<Self, String> {
        let mut sent = Self::default();
        let mut words = words.iter().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} has no value"));
            match word.as_str() {
                "-f" | "-i" | "-s" | "-sS" => {}
                "-X" => sent.method = Some(value()?.clone()),
                "-d" => sent.body = Some(value()?.clone()),
                "-H" => {
                    let header = value()?;
                    let parts = header.split_once(": ");
                    let (name, text) = parts.ok_or_else(|| format!("{header} is no header"))?;
                    sent.headers
                        .push((name.to_ascii_lowercase(), text.to_owned()));
                }
                option if option.starts_with('-') => {
                    return Err(format!("this test does not know {option}"));
                }
                url if sent.url.is_empty() => url.clone_into(&mut sent.url),
                more => return Err(format!("a second address: {more}")),
            }
        }
        Ok(sent)
    }

    fn method(&self) -> &str {
        match (&self.method, &self.body) {
            (Some(method), _) => method,
            (None, Some(_)) => "POST",
            (None, None) => "GET",
        }
    }

    /// The error says what the description does not know.
    fn is_described(&self, openapi: &Value) -> Result<(), String> {
        let address = self.url.strip_prefix("http://").unwrap_or(&self.url);
        let (server, rest) = address.split_at(address.find('/').unwrap_or(address.len()));
        if !SERVERS.contains(&server) {
            return Err(format!("{server:?} is no server of these pages"));
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let route = format!("{} {path}", self.method());
        let operation = operation(openapi, self.method(), path);
        let operation = operation.ok_or_else(|| format!("there is no {route}"))?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let name = pair.split('=').next().unwrap_or_default();
            if !has_parameter(operation, "query", name) {
                return Err(format!("{route} has no parameter {name}"));
            }
        }
        for (name, value) in &self.headers {
            if !self.may_have(operation, name, value) {
                return Err(format!("{route} reads no header `{name}: {value}`"));
            }
        }
        self.body_fits(openapi, operation)
            .map_err(|wrong| format!("{route}: {wrong}"))
    }

    fn may_have(&self, operation: &Value, name: &str, value: &str) -> bool {
        match name {
            "content-type" => self.body.is_some() && value == "application/json",
            "authorization" => value.starts_with("Bearer "),
            "prefer" => {
                let seconds = value.strip_prefix("wait=").map(str::parse::<u16>);
                let is_wait = seconds.is_some_and(|wait| wait.is_ok_and(|wait| wait <= WAIT_MAX));
                has_parameter(operation, "header", name) && (is_wait || value == "respond-async")
            }
            _ => has_parameter(operation, "header", name) && !value.is_empty(),
        }
    }

    fn body_fits(&self, openapi: &Value, operation: &Value) -> Result<(), String> {
        let takes = &operation["requestBody"];
        let Some(body) = &self.body else {
            return match takes["required"] == true {
                true => Err("a body is missing".to_owned()),
                false => Ok(()),
            };
        };
        let schema = &takes["content"]["application/json"]["schema"];
        if schema.is_null() {
            return Err("it takes no JSON".to_owned());
        }
        if !self.headers.iter().any(|(name, _)| name == "content-type") {
            return Err("curl sends a form without a content-type".to_owned());
        }
        // The reader's own file.
        if body.starts_with('@') {
            return Ok(());
        }
        let body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
        schema::fits(openapi, schema, &body, "body")
    }
}

/// The operation of a path. A literal path comes before a template that it also fits.
fn operation<'a>(openapi: &'a Value, method: &str, path: &str) -> Option<&'a Value> {
    let paths = openapi["paths"].as_object().expect("paths").iter();
    let fitting = paths.filter(|(template, _)| is_of(path, template));
    let (_, item) = fitting.min_by_key(|(template, _)| template.matches('{').count())?;
    item.get(method.to_lowercase())
}

fn is_of(path: &str, template: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let templates: Vec<&str> = template.split('/').collect();
    let fits = |(part, template): (&&str, &&str)| {
        part == template || (template.starts_with('{') && !part.is_empty())
    };
    parts.len() == templates.len() && parts.iter().zip(&templates).all(fits)
}

fn has_parameter(operation: &Value, place: &str, name: &str) -> bool {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let mut names = parameters
        .filter(|parameter| parameter["in"] == place)
        .filter_map(|parameter| parameter["name"].as_str());
    names.any(|known| known.eq_ignore_ascii_case(name))
}

fn problem(openapi: &Value, words: &[String]) -> Option<String> {
    let sent = Sent::read(words);
    sent.and_then(|sent| sent.is_described(openapi)).err()
}

/// The curl commands of a page, each with its line.
fn commands(page: &page::Page) -> Vec<(usize, Vec<String>)> {
    let blocks = page.blocks().into_iter();
    let blocks = blocks.filter_map(|block| Some((block.line, block.commands()?)));
    let inline = page.inline().into_iter();
    let inline = inline.filter(|(_, code)| code.starts_with("curl "));
    let texts = blocks.chain(inline);
    let all = texts.flat_map(|(line, text)| {
        let commands = shell::commands(&text).into_iter();
        commands.map(move |words| (line, words))
    });
    let is_curl = |words: &[String]| words.first().is_some_and(|word| word == "curl");
    all.filter(|(_, words)| is_curl(words)).collect()
}

#[test]
fn core_18_every_curl_command_of_the_guide_is_a_described_request() {
    let world = World::new("curl");
    let openapi = world.client.get("/openapi.json").is(200).body;
    let (mut wrong, mut read) = (Vec::new(), 0);
    for page in page::pages() {
        for (line, words) in commands(&page) {
            read += 1;
            let problem = problem(&openapi, &words);
            wrong.extend(problem.map(|problem| format!("{}:{line}: {problem}", page.name)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > 12, "{read} commands");

    let said = |command: &str| problem(&openapi, &shell::commands(command).remove(0));
    let json = "-H 'content-type: application/json'";
    let submit = r#"-d '{"domain":"a","event_type":"b","biz_key":"c","idem_key":"d","payload":1}'"#;
    let path = "localhost:7070/v1/operations";
    for command in [
        format!("curl {path} {json} {submit}"),
        format!("curl '{path}?wait=2s' {json} -H 'Idempotency-Key: d' {submit}"),
        format!("curl {path}/01917f5e?wait=30s"),
        format!("curl -X POST {path}/01917f5e/cancel {json} -d @reason.json"),
    ] {
        assert_eq!(said(&command), None, "{command}");
    }
    for command in [
        format!("curl {path}s {json} {submit}"),
        format!("curl -X DELETE {path}"),
        format!("curl example.org/v1/operations {json} {submit}"),
        format!("curl {path} {submit}"),
        format!("curl {path} {json}"),
        format!("curl {path} {json} -d '{{\"domain\":\"a\"}}'"),
        format!("curl {path} {json} {submit} -H 'Prefer: wait=61'"),
        format!("curl {path} {json} {submit} -H 'Idempotent-Key: d'"),
        format!("curl '{path}?wiat=2s' {json} {submit}"),
        format!("curl --json '{{}}' {path}"),
    ] {
        assert!(said(&command).is_some(), "{command}");
    }
}
