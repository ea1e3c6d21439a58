//! Checks the hosts that routes would call. Names are resolved; nothing is called.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::Clock;
use clinch_http::{Egress, Outlook, SystemNetwork};
use clinch_server::config::RouteConfig;
use clinch_server::{Executors as _, Facts};
use clinch_system::SystemClock;

use super::{Finding, Subject, secrets};
use crate::executors::Http;

/// Timeout for one name.
const RESOLVE_MAX: Duration = Duration::from_secs(3);
/// After this many names without an answer, the remaining hosts are skipped.
const SILENT_MAX: usize = 3;

pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let config = &subject.config;
    let Ok(listen) = config.listen() else {
        return Vec::new();
    };
    let facts = Facts {
        is_loopback_only: listen.ip().is_loopback(),
        response_bytes_max: config.server.response_max.0,
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let http = match Http::new(config.clone(), clock) {
        Ok(http) => http,
        Err(error) => return vec![Finding::error(&error)],
    };
    let mut findings: Vec<Finding> = config.route.iter().filter_map(never_final).collect();
    // Each host is resolved once.
    let mut places: BTreeMap<String, (Outlook, String)> = BTreeMap::new();
    for route in config.route.iter().filter(|route| !route.url.is_empty()) {
        // A missing secret is reported by another check.
        if !secrets::lacks_any(route.headers.values())
            && let Err(error) = http.build(route, &facts)
        {
            findings.push(Finding::error(&error));
            continue;
        }
        let egress = Egress::default().loopback_allowed(facts.is_loopback_only);
        let probe = route.probe.as_ref().map(|probe| &probe.url);
        for url in std::iter::once(&route.url).chain(probe) {
            match Outlook::new(url, route.allow_private, egress) {
                Ok(outlook) => {
                    let place = (outlook, route.label());
                    places.entry(place.0.host()).or_insert(place);
                }
                Err(error) => {
                    let error = format!("route {:?}: {error}", route.label());
                    findings.push(Finding::error(&error));
                }
            }
        }
    }
    let mut silent = 0;
    for (host, (outlook, route)) in &places {
        if silent == SILENT_MAX {
            let what = "the other hosts of routes were not resolved";
            findings.push(Finding::warn(what, "check the name server, then try again"));
            break;
        }
        let (finding, answered) = resolve(subject, host, outlook, route);
        silent += usize::from(!answered);
        findings.push(finding);
    }
    findings
}

/// A probe whose "not found" settles nothing: the operations then wait for an operator.
fn never_final(route: &RouteConfig) -> Option<Finding> {
    let probe = route.probe.as_ref()?;
    if probe.not_found.is_empty() || probe.not_found_final_after.is_some() {
        return None;
    }
    let what = format!(
        "route {:?}: \"not found\" ({:?}) of its probe never settles a call, which then waits for an operator",
        route.label(),
        probe.not_found
    );
    let to_do =
        "set not_found_final_after to the time after which the provider surely shows a call";
    Some(Finding::warn(what, to_do))
}

fn resolve(subject: &Subject, host: &str, outlook: &Outlook, route: &str) -> (Finding, bool) {
    let addresses = subject.runtime.block_on(async {
        tokio::time::timeout(RESOLVE_MAX, outlook.addresses(&SystemNetwork)).await
    });
    let addresses = match addresses {
        Err(_) => {
            let what = format!("the name server does not answer for {host} (route {route:?})");
            return (
                Finding::fail(what, "check the machine's name server"),
                false,
            );
        }
        Ok(Err(_)) => Vec::new(),
        Ok(Ok(addresses)) => addresses,
    };
    let refused = addresses
        .iter()
        .find_map(|(ip, judged)| Some((ip, judged.err()?)));
    let finding = match refused {
        _ if addresses.is_empty() => Finding::fail(
            format!("{host} has no address now (route {route:?})"),
            "check the host in the route's url, and the name server",
        ),
        Some((ip, kind)) if addresses.iter().all(|(_, judged)| judged.is_err()) => Finding::fail(
            format!("{host} is {ip}, a {kind} address, which may not be called (route {route:?})"),
            "set allow_private = true if that is intended",
        ),
        Some((ip, kind)) => Finding::warn(
            format!("{host} has the {kind} address {ip} too, which is never called"),
            "check its DNS records",
        ),
        None => Finding::ok(format!("{host} resolves and may be called")),
    };
    (finding, true)
}
