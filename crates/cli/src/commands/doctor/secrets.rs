//! Checks the secrets that the configuration refers to. Their values are never shown.

use clinch_http::{Secrets as _, SystemSecrets};

use super::{Finding, Subject};
use crate::github;

pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let config = &subject.config;
    let mut findings = Vec::new();
    let mut found = 0;
    let of_routes = config.route.iter().flat_map(|route| {
        let values = route.headers.values();
        values.map(move |value| (format!("route {:?}", route.label()), value))
    });
    // The check of the collector reports a section that cannot be read.
    let github = github::config(config).ok().flatten().unwrap_or_default();
    let tokens = github.tokens.iter();
    let tokens = tokens.map(|token| ("github.tokens".to_owned(), token));
    let keys = github.token_keys.iter();
    let keys = keys.map(|key| ("github.token_keys".to_owned(), key));
    let app = ("github.app_private_key".to_owned(), &github.app_private_key);
    let of_github = tokens.chain(keys).chain([app]);
    for (owner, value) in of_routes.chain(of_github) {
        for reference in references(value) {
            match missing(reference) {
                None => found += 1,
                Some(to_do) => {
                    let what = format!("{owner} needs {reference}, which is missing or empty");
                    findings.push(Finding::fail(what, to_do));
                }
            }
        }
    }
    if findings.is_empty() && found > 0 {
        findings.push(Finding::ok(format!("{found} secrets found")));
    }
    findings
}

/// Whether a header of the route refers to a missing secret.
pub(super) fn lacks_any(headers: impl Iterator<Item = impl AsRef<str>>) -> bool {
    let mut headers = headers;
    headers.any(|value| {
        references(value.as_ref())
            .iter()
            .any(|one| missing(one).is_some())
    })
}

/// The text between `${` and `}`.
fn references(value: &str) -> Vec<&str> {
    let parts = value.split("${").skip(1);
    parts
        .filter_map(|part| Some(part.split_once('}')?.0))
        .collect()
}

/// How to provide a missing secret; `None`: it exists.
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
