//! Programs that serve until they are killed.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clinch_peers_load::{Result, ensure};

use crate::machine;

const START_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// A running program, killed by its id when it is dropped.
pub(crate) struct Server(Child);

impl Server {
    /// Starts a program whose output goes to a file.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let output = std::fs::File::create(log)?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        Ok(Self(command.spawn()?))
    }

    /// Starts a program that prints its port first.
    pub(crate) fn start_with_port(command: &mut Command) -> Result<(Self, u16)> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut server = Self(child?);
        let output = server.0.stdout.take().ok_or("a program without output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let port = line.trim().parse();
        Ok((server, port.map_err(|_| "a program told no port")?))
    }

    /// Resident memory in MiB.
    pub(crate) fn resident(&self) -> Result<f64> {
        let file = format!("/proc/{}/status", self.0.id());
        let kib = machine::field(&file, "VmRSS:").ok_or("a server is gone")?;
        Ok(kib / 1_024.0)
    }

    /// Asks again and again until the answer is yes.
    pub(crate) fn wait_until(&mut self, mut is_ready: impl FnMut() -> bool) -> Result<()> {
        let from = Instant::now();
        while !is_ready() {
            ensure(self.0.try_wait()?.is_none(), "a server ended early")?;
            ensure(from.elapsed() < START_LIMIT, "a server does not start")?;
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}
