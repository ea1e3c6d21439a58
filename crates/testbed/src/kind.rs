//! The servers there are, and what differs between them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Trouble, mariadb, nats, postgres, redis};

/// A server program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    MariaDb,
    /// Redis.
    Redis,
    /// NATS with JetStream.
    Nats,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Postgres, Self::MariaDb, Self::Redis, Self::Nats];

    /// The variable that names a running one.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "CLINCH_TEST_POSTGRES_URL",
            Self::MariaDb => "CLINCH_TEST_MARIADB_URL",
            Self::Redis => "CLINCH_TEST_REDIS_URL",
            Self::Nats => "CLINCH_TEST_NATS_URL",
        }
    }

    /// Its program, if it is installed.
    pub fn program(self) -> Option<PathBuf> {
        match self {
            Self::Postgres => postgres::program(),
            Self::MariaDb => on_path("mariadbd"),
            Self::Redis => on_path("redis-server"),
            Self::Nats => nats::program(),
        }
    }

    /// Why tests on it cannot run, if they cannot: it is not installed, and none is named. On CI
    /// nothing is left out, and they fail.
    pub fn lack(self) -> Option<String> {
        let is_there = self.program().is_some() || std::env::var(self.variable()).is_ok();
        let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        (!is_there && !is_ci).then(|| Trouble::Missing(self).to_string())
    }

    /// Whom it runs as, where it refuses to run as root and we are.
    pub(crate) fn user(self) -> Option<(u32, u32)> {
        let name = match self {
            Self::Postgres => "postgres",
            Self::MariaDb => "mysql",
            Self::Redis | Self::Nats => return None,
        };
        rustix::process::geteuid().is_root().then(|| user(name))?
    }

    /// Makes an empty folder into one that the server can start on.
    pub(crate) fn prepare(self, folder: &Path) -> Result<(), Trouble> {
        match self {
            Self::Postgres => postgres::prepare(folder),
            Self::MariaDb => mariadb::prepare(folder),
            Self::Redis | Self::Nats => Ok(()),
        }
    }

    /// The command that runs it in the foreground.
    pub(crate) fn command(self, program: &Path, folder: &Path, port: u16) -> Command {
        let mut command = as_user(self.user(), program);
        match self {
            Self::Postgres => postgres::arguments(&mut command, folder, port),
            Self::MariaDb => mariadb::arguments(&mut command, folder, port),
            Self::Redis => redis::arguments(&mut command, folder, port),
            Self::Nats => nats::arguments(&mut command, folder, port),
        }
        command
    }

    /// Whether it serves requests.
    pub(crate) fn is_ready(self, port: u16) -> bool {
        match self {
            Self::Postgres => postgres::is_ready(port),
            Self::MariaDb => mariadb::is_ready(port),
            Self::Redis => redis::is_ready(port),
            Self::Nats => nats::is_ready(port),
        }
    }

    /// The address of one that listens on this port.
    pub(crate) fn url(self, port: u16) -> String {
        match self {
            Self::Postgres => format!("postgres://postgres@127.0.0.1:{port}/postgres"),
            Self::MariaDb => format!("mysql://root@127.0.0.1:{port}/clinch"),
            Self::Redis => format!("redis://127.0.0.1:{port}"),
            Self::Nats => format!("nats://127.0.0.1:{port}"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadb",
            Self::Redis => "redis",
            Self::Nats => "nats",
        })
    }
}

/// A program by name, where a shell would find it.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let system = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Dies with the thread that starts it, and runs as the user, if any.
pub(crate) fn as_user(user: Option<(u32, u32)>, program: &Path) -> Command {
    let Some(setpriv) = on_path("setpriv") else {
        return Command::new(program);
    };
    let mut command = Command::new(setpriv);
    if let Some((uid, gid)) = user {
        command.arg(format!("--reuid={uid}"));
        command.arg(format!("--regid={gid}"));
        command.arg("--clear-groups");
    }
    command.arg("--pdeathsig=KILL").arg("--").arg(program);
    command
}

fn user(name: &str) -> Option<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        is_it.then_some((uid, gid))
    })
}

/// Runs a command to its end; its complaint if it fails.
pub(crate) fn run(kind: Kind, command: &mut Command) -> Result<(), Trouble> {
    output(kind, command).map(|_| ())
}

/// Runs a command to its end; what it printed, or its complaint if it fails.
pub(crate) fn output(kind: Kind, command: &mut Command) -> Result<String, Trouble> {
    let output = command.output().map_err(|e| Trouble::broken(kind, e))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Trouble::broken(kind, said.trim()))
}
