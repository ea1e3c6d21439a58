//! Compares the API's description with the answers that were seen.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::http::{Line, Seen};

/// A method of a path of the description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) method: String,
    pub(crate) template: String,
    pub(crate) has_body: bool,
    /// Every status; a problem once per code.
    answers: Vec<(u16, String)>,
}

impl Route {
    /// The path with a name that does not exist.
    pub(crate) fn path(&self) -> String {
        self.path_with(&uuid::Uuid::now_v7().to_string())
    }

    /// The path with an existing batch.
    pub(crate) fn path_with(&self, batch: &str) -> String {
        let nobody = uuid::Uuid::now_v7().to_string();
        self.template
            .replace("{op_id}", &nobody)
            .replace("{batch_id}", batch)
            .replace("{domain}", "nowhere")
            .replace("{name}", "nowhere")
            .replace("{run_id}", "nobody.1")
            .replace("{login}", "nobody")
            .replace("{token}", "0123456789abcdef")
            + self.nobody()
    }

    /// Query of the collector's lists about a user: a user without any run.
    fn nobody(&self) -> &'static str {
        let of_users = ["/cursors", "/comparison", "/documents"];
        match of_users.iter().any(|end| self.template.ends_with(end)) {
            true => "?login=nobody",
            false => "",
        }
    }

    pub(crate) fn answers(&self, status: u16) -> bool {
        self.answers.iter().any(|(known, _)| *known == status)
    }

    fn is_path(&self, path: &str) -> bool {
        let (ours, theirs) = (self.template.split('/'), path.split('/'));
        let same = |(own, its): (&str, &str)| own == its || own.starts_with('{');
        ours.clone().count() == theirs.clone().count() && ours.zip(theirs).all(same)
    }
}

/// Every route of the description.
pub(crate) fn routes(openapi: &Value) -> Vec<Route> {
    let mut routes = Vec::new();
    for (template, item) in openapi["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("methods") {
            let mut answers = Vec::new();
            for (status, response) in operation["responses"].as_object().expect("responses") {
                let status: u16 = status.parse().expect("a status in digits");
                let codes = response["description"].as_str().expect("a description");
                match status {
                    400.. => answers.extend(codes.split(", ").map(|c| (status, c.to_owned()))),
                    _ => answers.push((status, String::new())),
                }
            }
            routes.push(Route {
                method: method.to_uppercase(),
                template: template.clone(),
                has_body: operation["requestBody"].is_object(),
                answers,
            });
        }
    }
    routes
}

/// Answers that other tests prove: a store that cannot be read is in `store_down` of the server's
/// tests, because no process can prevent SQLite from reading. The guards of a destination are
/// operated without the store.
fn is_proven_elsewhere(route: &Route, status: u16) -> bool {
    let writes = route.method != "GET" && !route.template.starts_with("/v1/destinations/");
    status == 503 && !writes && route.template != "/readyz"
}

/// Described answers that were never seen, and seen answers that are not described.
pub(crate) fn differences(routes: &[Route], seen: &Seen) -> Vec<String> {
    let seen = seen.lock().expect("seen").clone();
    let mut met: BTreeSet<(usize, u16, String)> = BTreeSet::new();
    let mut wrong = Vec::new();
    for (method, path, status, code) in seen {
        // A literal segment takes precedence over a parameter.
        let exact = |route: &&Route| route.template == path;
        let of = |route: &&Route| route.method == method && route.is_path(&path);
        let found = routes.iter().filter(of).find(exact);
        let Some(route) = found.or_else(|| routes.iter().find(of)) else {
            continue;
        };
        let described = route.answers.contains(&(status, code.clone()));
        if !described {
            wrong.push(line(&(method, path, status, code)) + " is not described");
            continue;
        }
        let at = routes.iter().position(|known| known == route);
        met.insert((at.expect("one of them"), status, code));
    }
    for (at, route) in routes.iter().enumerate() {
        for (status, code) in &route.answers {
            let is_met = met.contains(&(at, *status, code.clone()));
            if !is_met && !is_proven_elsewhere(route, *status) {
                let never = (route.method.clone(), route.template.clone());
                wrong.push(line(&(never.0, never.1, *status, code.clone())) + " was never seen");
            }
        }
    }
    wrong
}

fn line((method, path, status, code): &Line) -> String {
    format!("{method} {path}: {status} {code}")
}
