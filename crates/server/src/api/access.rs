//! Which scopes each route needs.
//!
//! The router names the route that a request matched, and this table is looked up by that name: a
//! path cannot be read one way by the router and another way here, however it is spelled (`//`, a
//! trailing slash, percent-encoding). A test fails for every route of the server without a row.

use axum::http::Method;
use clinch_core::ports::Scope;

use crate::application::domain_of;

/// Method, path as the router knows it, and the scopes of which the key needs one; an empty list
/// needs no key.
type Row = (&'static str, &'static str, &'static [Scope]);

const ANYONE: &[Scope] = &[];
const SUBMIT: &[Scope] = &[Scope::Submit];
const READ: &[Scope] = &[Scope::Read];
const WORK: &[Scope] = &[Scope::Work];
const OPERATE: &[Scope] = &[Scope::Operate];

/// Every route of the server itself.
pub(super) const ROUTES: [Row; 37] = [
    ("GET", "/healthz", ANYONE),
    ("GET", "/readyz", ANYONE),
    ("GET", "/openapi.json", ANYONE),
    ("GET", "/metrics", READ),
    ("POST", "/v1/operations", SUBMIT),
    ("GET", "/v1/operations", READ),
    ("POST", "/v1/operations/bulk", SUBMIT),
    // A caller that may submit must be able to follow the `Location` of a 202.
    (
        "GET",
        "/v1/operations/{op_id}",
        &[Scope::Read, Scope::Submit],
    ),
    ("GET", "/v1/operations/{op_id}/attempts", READ),
    ("POST", "/v1/operations/{op_id}/cancel", OPERATE),
    ("POST", "/v1/operations/{op_id}/resolve", OPERATE),
    ("POST", "/v1/operations/{op_id}/retry-now", OPERATE),
    ("GET", "/v1/dead-letters", READ),
    ("GET", "/v1/dead-letters/{op_id}", READ),
    ("POST", "/v1/dead-letters/dismiss", OPERATE),
    ("POST", "/v1/dead-letters/redrive", OPERATE),
    ("POST", "/v1/dead-letters/reopen", OPERATE),
    ("GET", "/v1/domains", READ),
    ("POST", "/v1/domains/{domain}/pause", OPERATE),
    ("POST", "/v1/domains/{domain}/resume", OPERATE),
    ("GET", "/v1/destinations", READ),
    ("POST", "/v1/destinations/{name}/reset", OPERATE),
    ("POST", "/v1/destinations/{name}/open", OPERATE),
    ("GET", "/v1/overview", READ),
    ("GET", "/v1/retention", READ),
    ("POST", "/v1/retention/confirm", OPERATE),
    ("GET", "/v1/events", READ),
    ("POST", "/v1/leases", WORK),
    ("POST", "/v1/leases/{op_id}/heartbeat", WORK),
    ("POST", "/v1/leases/{op_id}/release", WORK),
    ("POST", "/v1/leases/{op_id}/checkpoint", WORK),
    ("POST", "/v1/leases/{op_id}/outcome", WORK),
    ("POST", "/v1/batches", SUBMIT),
    ("GET", "/v1/batches", READ),
    ("GET", "/v1/batches/{batch_id}", READ),
    ("POST", "/v1/batches/{batch_id}/operations", SUBMIT),
    ("POST", "/v1/batches/{batch_id}/seal", SUBMIT),
];

/// What a request must present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Needs {
    /// The key needs one of these scopes; an empty list needs no key at all.
    pub scopes: &'static [Scope],
    /// What the key's restriction must cover before the handler runs.
    pub coverage: Coverage,
}

/// What the restriction of a key must cover before the handler runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Coverage {
    /// Nothing: the handler checks the caller itself.
    Nothing,
    /// The whole domain: the route belongs to the application of the domain.
    Domain(&'static str),
    /// Every domain: the server does not know what the route touches.
    Everything,
}

/// What a request must present, by its method and the route that the router matched.
/// `applications` are the domains of the applications in this process.
pub(super) fn needs(method: &Method, route: Option<&str>, applications: &[&'static str]) -> Needs {
    let method = match *method {
        // The handler of GET answers it.
        Method::HEAD => Method::GET.as_str(),
        _ => method.as_str(),
    };
    let is_read = method == "GET";
    // A route of an application, or a path without a route.
    let otherwise = if is_read { READ } else { OPERATE };
    let Some(route) = route else {
        return Needs {
            scopes: otherwise,
            coverage: Coverage::Nothing,
        };
    };
    let row = ROUTES
        .iter()
        .find(|(m, path, _)| (*m, *path) == (method, route));
    let is_own = ROUTES.iter().any(|(_, path, _)| *path == route);
    Needs {
        scopes: row.map_or(otherwise, |(_, _, scopes)| scopes),
        coverage: match domain_of(route, applications) {
            _ if is_own => Coverage::Nothing,
            Some(domain) => Coverage::Domain(domain),
            None => Coverage::Everything,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_16_every_described_route_has_a_row() {
        let (_, openapi) = super::super::described().split_for_parts();
        let mut described = vec![("GET", "/openapi.json".to_owned())];
        for (path, item) in openapi.paths.paths {
            described.extend(item.get.map(|_| ("GET", path.clone())));
            described.extend(item.post.map(|_| ("POST", path.clone())));
            let others = [item.put, item.delete, item.patch, item.options, item.head];
            assert!(others.into_iter().flatten().next().is_none(), "{path}");
        }
        let mut rows = ROUTES
            .map(|(method, path, _)| (method, path.to_owned()))
            .to_vec();
        rows.sort();
        described.sort();
        assert_eq!(rows, described, "routes and their rows");
    }

    #[test]
    fn core_16_every_route_names_its_scope() {
        let needs = |method, path| needs(method, path, &["reports"]);
        let scopes = |method, path| needs(method, Some(path)).scopes;
        let (get, post) = (&Method::GET, &Method::POST);
        assert_eq!(scopes(get, "/healthz"), ANYONE);
        assert_eq!(scopes(&Method::HEAD, "/metrics"), READ);
        assert_eq!(scopes(post, "/v1/leases"), WORK);
        assert_eq!(scopes(&Method::OPTIONS, "/v1/operations"), OPERATE);
        assert_eq!(scopes(post, "/v1/reports/{id}"), OPERATE);
        assert_eq!(needs(get, None).scopes, READ);
        assert_eq!(needs(post, None).scopes, OPERATE);
        let coverage = |path| needs(get, Some(path)).coverage;
        assert_eq!(coverage("/v1/reports/{id}"), Coverage::Domain("reports"));
        assert_eq!(coverage("/v1/reports"), Coverage::Domain("reports"));
        assert_eq!(coverage("/v1/reports2"), Coverage::Everything);
        assert_eq!(coverage("/assets/{file}"), Coverage::Everything);
        assert_eq!(coverage("/v1/events"), Coverage::Nothing);
    }
}
