//! Which scopes each route needs.
//!
//! The router names the route that a request matched, and the table is asked with that name: no
//! spelling of a path (`//`, a trailing slash, percent-encoding) can be read one way here and
//! another way there. A route of the server without a row here fails a test.

use axum::http::Method;
use clinch_core::ports::Scope;

/// Method, path as the router knows it, and the scopes of which one is needed; none: anyone may.
type Row = (&'static str, &'static str, &'static [Scope]);

const ANYONE: &[Scope] = &[];
const SUBMIT: &[Scope] = &[Scope::Submit];
const READ: &[Scope] = &[Scope::Read];
const WORK: &[Scope] = &[Scope::Work];
const OPERATE: &[Scope] = &[Scope::Operate];

/// Every route of the server itself.
pub(super) const ROUTES: [Row; 30] = [
    ("GET", "/healthz", ANYONE),
    ("GET", "/readyz", ANYONE),
    ("GET", "/openapi.json", ANYONE),
    ("GET", "/metrics", READ),
    ("POST", "/v1/operations", SUBMIT),
    ("GET", "/v1/operations", READ),
    ("POST", "/v1/operations/bulk", SUBMIT),
    // Whoever was answered 202 must be able to follow `Location`.
    (
        "GET",
        "/v1/operations/{op_id}",
        &[Scope::Read, Scope::Submit],
    ),
    ("GET", "/v1/operations/{op_id}/attempts", READ),
    ("POST", "/v1/operations/{op_id}/cancel", OPERATE),
    ("POST", "/v1/operations/{op_id}/resolve", OPERATE),
    ("GET", "/v1/dead-letters", READ),
    ("GET", "/v1/dead-letters/{op_id}", READ),
    ("POST", "/v1/dead-letters/redrive", OPERATE),
    ("GET", "/v1/domains", READ),
    ("POST", "/v1/domains/{domain}/pause", OPERATE),
    ("POST", "/v1/domains/{domain}/resume", OPERATE),
    ("GET", "/v1/destinations", READ),
    ("GET", "/v1/retention", READ),
    ("POST", "/v1/retention/confirm", OPERATE),
    ("GET", "/v1/events", READ),
    ("POST", "/v1/leases", WORK),
    ("POST", "/v1/leases/{op_id}/heartbeat", WORK),
    ("POST", "/v1/leases/{op_id}/release", WORK),
    ("POST", "/v1/leases/{op_id}/checkpoint", WORK),
    ("POST", "/v1/leases/{op_id}/outcome", WORK),
    ("POST", "/v1/batches", SUBMIT),
    ("GET", "/v1/batches/{batch_id}", READ),
    ("POST", "/v1/batches/{batch_id}/operations", SUBMIT),
    ("POST", "/v1/batches/{batch_id}/seal", SUBMIT),
];

/// What a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Needs {
    /// One of these scopes; empty: no key at all.
    pub scopes: &'static [Scope],
    /// What a restricted key has to cover before the handler is asked.
    pub whole: Whole,
}

/// What a restricted key has to cover before the handler is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Whole {
    /// Nothing: the handler asks the caller itself.
    Nothing,
    /// All of this domain: the route belongs to the application of the domain.
    Domain(String),
    /// Every domain: nothing is known of the route.
    Everything,
}

/// What a request needs by its method and the route that the router found for it.
pub(super) fn needs(method: &Method, route: Option<&str>) -> Needs {
    let method = match *method {
        // Answered by the handler of GET.
        Method::HEAD => Method::GET.as_str(),
        _ => method.as_str(),
    };
    let is_read = method == "GET";
    // Of routes that are not the server's own, and of paths that nothing answers.
    let otherwise = if is_read { READ } else { OPERATE };
    let Some(route) = route else {
        return Needs {
            scopes: otherwise,
            whole: Whole::Nothing,
        };
    };
    let row = ROUTES
        .iter()
        .find(|(m, path, _)| (*m, *path) == (method, route));
    let is_own = ROUTES.iter().any(|(_, path, _)| *path == route);
    let application = route
        .strip_prefix("/v1/")
        .and_then(|rest| rest.split('/').next());
    Needs {
        scopes: row.map_or(otherwise, |(_, _, scopes)| scopes),
        whole: match application {
            _ if is_own => Whole::Nothing,
            Some(domain) => Whole::Domain(domain.to_owned()),
            None => Whole::Everything,
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
        let scopes = |method, path| needs(method, Some(path)).scopes;
        let (get, post) = (&Method::GET, &Method::POST);
        assert_eq!(scopes(get, "/healthz"), ANYONE);
        assert_eq!(scopes(&Method::HEAD, "/metrics"), READ);
        assert_eq!(scopes(post, "/v1/leases"), WORK);
        assert_eq!(scopes(&Method::OPTIONS, "/v1/operations"), OPERATE);
        assert_eq!(scopes(post, "/v1/github/runs"), OPERATE);
        assert_eq!(needs(get, None).scopes, READ);
        assert_eq!(needs(post, None).scopes, OPERATE);
        let whole = |path| needs(get, Some(path)).whole;
        assert_eq!(whole("/v1/github/runs"), Whole::Domain("github".into()));
        assert_eq!(whole("/assets/{file}"), Whole::Everything);
        assert_eq!(whole("/v1/events"), Whole::Nothing);
    }
}
