//! Secrets that the configuration refers to. Their values are never shown.

use clinch_http::{Secrets as _, SystemSecrets};

use super::{Finding, Subject};

pub(super) fn look(subject: &Subject) -> Vec<Finding> {
    let config = &subject.config;
    let mut findings = Vec::new();
    let mut found = 0;
    let of_routes = config.route.iter().flat_map(|route| {
        let values = route.headers.values();
        values.map(move |value| (format!("route {:?}", route.label()), value))
    });
    let tokens = config.github.iter().flat_map(|github| &github.tokens);
    let tokens = tokens.map(|token| ("github.tokens".to_owned(), token));
    for (owner, value) in of_routes.chain(tokens) {
        for reference in references(value) {
            match missing(reference) {
                None => found += 1,
                Some(to_do) => {
                    let what = format!("{owner} needs {reference}, which is not there or empty");
                    findings.push(Finding::fail(what, to_do));
                }
            }
        }
    }
    if findings.is_empty() && found > 0 {
        findings.push(Finding::ok(format!("{found} secrets are there")));
    }
    findings
}

/// Whether a header of the route lacks its secret.
pub(super) fn lacks_any(headers: impl Iterator<Item = impl AsRef<str>>) -> bool {
    let mut headers = headers;
    headers.any(|value| {
        references(value.as_ref())
            .iter()
            .any(|one| missing(one).is_some())
    })
}

/// What stands between `${` and `}`.
fn references(value: &str) -> Vec<&str> {
    let parts = value.split("${").skip(1);
    parts
        .filter_map(|part| Some(part.split_once('}')?.0))
        .collect()
}

/// What to do about one that is not there.
fn missing(reference: &str) -> Option<String> {
    let (value, to_do) = match reference.split_once(':') {
        Some(("env", name)) => (
            SystemSecrets.env(name),
            format!("set {name} in the server's environment"),
        ),
        Some(("file", path)) => (
            SystemSecrets.file(path),
            format!("put it into {path}, readable by the server's user"),
        ),
        _ => (
            None,
            "secrets are written ${env:NAME} or ${file:PATH}".to_owned(),
        ),
    };
    value.is_none_or(|value| value.is_empty()).then_some(to_do)
}
