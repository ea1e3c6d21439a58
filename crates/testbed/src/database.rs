//! Databases of a test's own, and SQL as people type it: by the server's own client.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::kind::{on_path, output};
use crate::{Kind, Server, Trouble, postgres, shared};

/// The address of a new, empty database on the shared server; it ends with the server.
pub fn database(kind: Kind) -> Result<String, Trouble> {
    create(kind, &shared(kind)?)
}

/// Runs SQL in the database at this address; the rows, a line each, columns apart by `|` on
/// PostgreSQL and by tabs on MariaDB.
pub fn sql(kind: Kind, url: &str, text: &str) -> Result<String, Trouble> {
    let mut command = match kind {
        Kind::Postgres => psql(url)?,
        Kind::MariaDb => mariadb_client(url, ";")?,
        Kind::Redis | Kind::Nats => return Err(Trouble::broken(kind, "it knows no SQL")),
    };
    command.arg(text);
    output(kind, &mut command)
}

/// The client of a MariaDB server, which is to run what `--execute` names next.
pub(crate) fn mariadb_client(url: &str, delimiter: &str) -> Result<Command, Trouble> {
    let mut command = mariadb(url)?;
    command.arg(format!("--delimiter={delimiter}"));
    command.arg("--execute");
    Ok(command)
}

impl Server {
    /// The address of a new, empty database on it.
    pub fn database(&self) -> Result<String, Trouble> {
        create(self.kind(), &self.url())
    }
}

fn create(kind: Kind, server: &str) -> Result<String, Trouble> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let broken = || Trouble::broken(kind, "its address names no database");
    let (base, _) = server.rsplit_once('/').ok_or_else(broken)?;
    loop {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("own_{}_{number}", std::process::id());
        match sql(kind, server, &format!("CREATE DATABASE {name}")) {
            // A process of the same number was here before.
            Err(Trouble::Broken { why, .. }) if why.contains("exists") => {}
            made => return made.map(|_| format!("{base}/{name}")),
        }
    }
}

fn psql(url: &str) -> Result<Command, Trouble> {
    let kind = Kind::Postgres;
    let beside = postgres::program().map(|program| program.with_file_name("psql"));
    let program = beside.filter(|file| file.is_file());
    let program = program.or_else(|| on_path("psql"));
    let mut command = Command::new(program.ok_or(Trouble::Missing(kind))?);
    command.args([url, "-v", "ON_ERROR_STOP=1", "-qAtc"]);
    Ok(command)
}

fn mariadb(url: &str) -> Result<Command, Trouble> {
    let kind = Kind::MariaDb;
    let program = on_path("mariadb").ok_or(Trouble::Missing(kind))?;
    let parts = || {
        let rest = url.split_once("://")?.1;
        let (user, rest) = rest.split_once('@')?;
        let (host, database) = rest.split_once('/')?;
        let (host, port) = host.split_once(':')?;
        Some((
            user.split_once(':').unwrap_or((user, "")),
            host,
            port,
            database,
        ))
    };
    let missing = || Trouble::broken(kind, "its address is not mysql://USER@HOST:PORT/DATABASE");
    let ((user, password), host, port, database) = parts().ok_or_else(missing)?;
    let mut command = Command::new(program);
    command
        .args([
            "--no-defaults",
            "--protocol=tcp",
            "--skip-column-names",
            "--batch",
        ])
        .args(["--host", host, "--port", port, "--user", user])
        .args(["--database", database])
        .env("MYSQL_PWD", password);
    Ok(command)
}
