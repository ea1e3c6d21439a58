//! A database server's address, and what is set about it.

use std::fmt;
use std::time::Duration;

use super::{Schema, Step};

/// Where a server is. Its address may hold a password and is never shown whole.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) url: String,
    /// Leads to PostgreSQL itself where `url` leads to a pooler.
    pub(crate) listen_url: Option<String>,
    pub(crate) fallback_poll: Duration,
    pub(crate) timeout: Duration,
}

impl Server {
    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            listen_url: None,
            fallback_poll: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
        }
    }

    /// Scheme, host and database, without who and how.
    pub(crate) fn shown(&self) -> String {
        shown(&self.url)
    }

    /// Around any pooler.
    pub(super) fn direct(&self) -> &str {
        self.listen_url.as_deref().unwrap_or(&self.url)
    }

    pub(super) fn postgres(&self) -> clinch_postgres::Settings {
        clinch_postgres::Settings {
            listen_url: self.listen_url.clone(),
            fallback_poll: self.fallback_poll,
            through_pgbouncer: self.listen_url.is_some(),
            ..clinch_postgres::Settings::within(self.timeout)
        }
    }

    pub(super) fn mysql(&self) -> clinch_mysql::Settings {
        clinch_mysql::Settings {
            fallback_poll: self.fallback_poll,
            ..clinch_mysql::Settings::within(self.timeout)
        }
    }

    pub(super) async fn postgres_schema(&self) -> clinch::Result<Schema> {
        let pending = clinch_postgres::pending(self.direct()).await?;
        let steps = pending.iter().map(|one| Step {
            number: usize::try_from(one.version).unwrap_or(0),
            name: one.name,
            sql: one.sql,
        });
        Ok(schema(clinch_postgres::MIGRATIONS.len(), steps.collect()))
    }

    pub(super) async fn mysql_schema(&self) -> clinch::Result<Schema> {
        let pending = clinch_mysql::pending(&self.url).await?;
        let steps = pending.iter().map(|one| Step {
            number: usize::try_from(one.version).unwrap_or(0),
            name: one.name,
            sql: one.sql,
        });
        Ok(schema(clinch_mysql::MIGRATIONS.len(), steps.collect()))
    }
}

/// A database without any step is not ours yet.
fn schema(known: usize, pending: Vec<Step>) -> Schema {
    let version = known - pending.len().min(known);
    Schema {
        version: (version > 0).then_some(version),
        known,
        pending,
    }
}

/// An address without user, password and parameters.
pub(super) fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    // A password that is not escaped may hold anything, a slash too.
    let path = path.rsplit('@').next().unwrap_or_default();
    let host = match rest.contains('@') {
        true => host.rsplit('@').next().filter(|_| host.contains('@')),
        false => Some(host),
    };
    match host {
        Some(host) => format!("{scheme}://{host}/{path}"),
        None => format!("{scheme}://{path}"),
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_16_an_address_is_shown_without_its_password() {
        let cases = [
            (
                "postgres://ann:s3cret@db:5432/shop",
                "postgres://db:5432/shop",
            ),
            ("postgres://db/shop?password=s3cret", "postgres://db/shop"),
            ("mysql://ann:s3/cret@db/shop", "mysql://db/shop"),
            ("redis://:s3cret@cache:6379", "redis://cache:6379/"),
        ];
        for (url, expected) in cases {
            assert_eq!(shown(url), expected);
        }
        let server = Server::new("postgres://ann:s3cret@db/shop");
        assert!(!format!("{server:?}").contains("s3cret"));
    }

    #[test]
    fn a_database_without_any_step_is_none_yet() {
        let step = Step {
            number: 1,
            name: "tables",
            sql: "",
        };
        assert_eq!(schema(1, vec![step]).version, None);
        assert_eq!(schema(1, Vec::new()).version, Some(1));
    }
}
