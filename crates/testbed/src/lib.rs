//! Private servers for tests, benches and chaos runs: each in a folder of its own, on a free
//! loopback port, to be killed at will.
//!
//! [`Server::start`] gives one that nobody else uses. [`shared`] gives the address of one
//! that a whole test run uses: `cargo xtask test` starts it and says where it is in
//! `CLINCH_TEST_<KIND>_URL`; without that, the process starts its own.
#![forbid(unsafe_code)]

mod browser;
mod chaos;
mod client_tools;
mod clock;
mod database;
mod demo;
mod folder;
mod idle;
mod kind;
mod mariadb;
mod nats;
mod nursery;
mod pgbouncer;
mod postgres;
mod promtool;
mod proxy;
mod python;
mod readers;
mod redis;
mod saboteur;
mod server;
mod shared;

pub use browser::{Browser, Look, npm_file};
pub use chaos::{Harm, Outcome, Scene};
pub use client_tools::{
    PYTHON_TOOLS, install_typescript, python_tools_environment, python_tools_missing,
    typescript_compiler, typescript_missing,
};
pub use clock::{let_pass, wait_until};
pub use database::{database, sql};
pub use demo::{Demo, Ended, Said};
pub use idle::{IdleOnRedis, idle_on_redis, idle_statements};
pub use kind::Kind;
pub use nats::nats_environment;
pub use pgbouncer::PgBouncer;
pub use promtool::promtool;
pub use proxy::Proxy;
pub use python::python;
pub use readers::{READERS, readers_environment, readers_missing};
pub use server::Server;
pub use shared::shared;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// Its program is not installed.
    #[error("{0} is not installed; `cargo xtask servers install` installs it")]
    Missing(Kind),
    /// It is installed and does not work.
    #[error("{kind} does not start: {why}")]
    Broken {
        /// Which.
        kind: Kind,
        /// What it said.
        why: String,
    },
}

impl Trouble {
    fn broken(kind: Kind, why: impl ToString) -> Self {
        let why = why.to_string();
        Self::Broken { kind, why }
    }
}
