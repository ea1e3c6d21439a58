//! A pooler before a PostgreSQL, in transaction mode.

use std::fs::File;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::clock::wait_until;
use crate::folder::Folder;
use crate::kind::{as_user, on_path};
use crate::server::free_port;
use crate::{Kind, Trouble, nursery};

const START_LIMIT: Duration = Duration::from_secs(30);
/// Another program may take the port between our look and its start.
const PORT_TRIES: u32 = 5;

/// A running PgBouncer, which ends with it. It lends each connection of its own for one
/// transaction, so that whoever needs the same one twice finds another.
pub struct PgBouncer {
    child: Child,
    port: u16,
    _folder: Folder,
}

impl PgBouncer {
    /// Its program, if it is installed.
    pub fn program() -> Option<PathBuf> {
        on_path("pgbouncer")
    }

    /// Starts one before this server, for any of its databases.
    pub fn start(server: &str) -> Result<Self, Trouble> {
        let mut tries = 0;
        loop {
            tries += 1;
            match Self::start_once(server) {
                Err(_) if tries < PORT_TRIES => {}
                done => return done,
            }
        }
    }

    /// The same database through it.
    pub fn url(&self, database: &str) -> String {
        let name = database.rsplit('/').next().unwrap_or_default();
        format!("postgres://postgres@127.0.0.1:{}/{name}", self.port)
    }

    fn start_once(server: &str) -> Result<Self, Trouble> {
        let kind = Kind::Postgres;
        let broken = |why: String| Trouble::broken(kind, format!("PgBouncer: {why}"));
        let program = Self::program().ok_or_else(|| broken("it is not installed".into()))?;
        let port = free_port().map_err(|error| broken(error.to_string()))?;
        let behind = server
            .rsplit('@')
            .next()
            .and_then(|rest| rest.split('/').next());
        let (host, behind) = behind
            .and_then(|address| address.rsplit_once(':'))
            .ok_or_else(|| broken("the server's address has no port".into()))?;
        let folder = Folder::new(kind)?;
        let config = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host={host} port={behind} user=postgres\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = transaction\nmax_client_conn = 1000\n\
             default_pool_size = 20\n"
        );
        std::fs::write(&config, text).map_err(|error| broken(error.to_string()))?;
        let log = folder.path().join("log");
        let output = File::create(&log).map_err(|error| broken(error.to_string()))?;
        let mut command = as_user(kind.user(), &program);
        command
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output);
        let child = nursery::spawn(command).map_err(|error| broken(error.to_string()))?;
        let mut bouncer = Self {
            child,
            port,
            _folder: folder,
        };
        let mut has_ended = false;
        let is_ready = wait_until(START_LIMIT, || {
            has_ended = matches!(bouncer.child.try_wait(), Ok(Some(_)) | Err(_));
            has_ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        if is_ready && !has_ended {
            return Ok(bouncer);
        }
        Err(broken(std::fs::read_to_string(&log).unwrap_or_default()))
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
