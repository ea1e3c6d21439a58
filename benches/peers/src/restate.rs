//! Restate: its server from npm, and a service of its SDK for Rust.

use std::path::{Path, PathBuf};
use std::process::Command;

use clinch_peers_load::{Job, Result, ensure};
use tokio::runtime::Runtime;

use crate::client;
use crate::install::{Installer, npm_version};
use crate::peer::Peer;
use crate::server::{Server, free_port};

const PACKAGE: &str = "@restatedev/restate-server";

/// On two cores nearly twice as fast at 64 connections as the default of 24, with less memory.
const PARTITIONS: u32 = 4;

/// The server's own choice.
const DEFAULT_PARTITIONS: u32 = 24;

/// The installed programs.
pub(crate) struct Restate {
    server: PathBuf,
    service: PathBuf,
    versions: String,
}

impl Restate {
    pub(crate) fn install(installer: &Installer) -> Result<Self> {
        let sdk = installer.version("restate", "restate-sdk");
        let service = installer.build("restate", "clinch-peers-restate")?;
        let folder = installer.npm("restate", &[PACKAGE])?;
        let folder = folder.join("node_modules/@restatedev/restate-server-linux-x64");
        let server = folder.join("bin/restate-server");
        ensure(
            server.is_file(),
            "npm has no server of Restate for this machine",
        )?;
        let version = npm_version(&folder)?;
        Ok(Self {
            server,
            service: service.program().to_owned(),
            versions: format!("server {version}, SDK for Rust {sdk}"),
        })
    }

    pub(crate) fn setting(&self, peer: Peer) -> String {
        let partitions = match peer {
            Peer::RestateDefaults => format!("its default of {DEFAULT_PARTITIONS} partitions"),
            _ => format!("{PARTITIONS} partitions, which are faster here than its default"),
        };
        format!(
            "{}; one node, {partitions}, its default log that syncs every write \
             (rocksdb-disable-wal-fsync = false), telemetry off",
            self.versions
        )
    }

    /// Starts server and service, and registers the service. Returns the port of the ingress.
    pub(crate) fn start(
        &self,
        peer: Peer,
        runtime: &Runtime,
        folder: &Path,
    ) -> Result<(Server, u16, Server)> {
        let partitions = match peer {
            Peer::RestateDefaults => DEFAULT_PARTITIONS,
            _ => PARTITIONS,
        };
        let (service, service_port) = Server::start_with_port(&mut Command::new(&self.service))?;
        let (node, ingress, admin) = (free_port()?, free_port()?, free_port()?);
        let mut command = Command::new(&self.server);
        command
            .arg("--no-logo")
            .args(["--listen-mode", "tcp", "--bind-ip", "127.0.0.1"])
            .args(["--node-name", "bench"])
            .args(["--bind-port", &node.to_string()])
            .current_dir(folder)
            .env("RESTATE_BASE_DIR", folder.join("data"))
            .env("RESTATE_DEFAULT_NUM_PARTITIONS", partitions.to_string())
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            .env("DO_NOT_TRACK", "1")
            .env("RESTATE_INGRESS__BIND_PORT", ingress.to_string())
            .env("RESTATE_ADMIN__BIND_PORT", admin.to_string());
        let mut server = Server::start(&mut command, &folder.join("log"))?;
        server.wait_until(|| {
            let health = client::once(ingress, "GET", "/restate/health", "");
            runtime.block_on(health) == Some(200)
        })?;
        let deployment = format!(r#"{{"uri":"http://127.0.0.1:{service_port}"}}"#);
        server.wait_until(|| {
            let made = client::once(admin, "POST", "/deployments", &deployment);
            matches!(runtime.block_on(made), Some(200..=299))
        })?;
        Ok((server, ingress, service))
    }

    /// A request under an idempotency key.
    pub(crate) fn request(job: &Job) -> (String, String, String) {
        let key = format!("idempotency-key: key-{}\r\n", job.number);
        ("/Noop/call".to_owned(), key, job.json())
    }
}
