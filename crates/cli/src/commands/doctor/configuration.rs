//! Checks the configuration itself.

use super::{Finding, Subject};
use crate::settings;

pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let config = &subject.config;
    let mut findings: Vec<Finding> = config
        .problems()
        .iter()
        .map(|e| Finding::error(e))
        .collect();
    if findings.is_empty() {
        let from = match settings::file(subject.global) {
            Some(path) => path.display().to_string(),
            None => "the defaults: there is no clinch.toml here".to_owned(),
        };
        let routes = config.route.len();
        findings.push(Finding::ok(format!(
            "configuration from {from}, {routes} routes"
        )));
    }
    findings
}
