//! One server that is ours alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::clock::wait_until;
use crate::folder::Folder;
use crate::{Kind, Trouble, nursery, redis};

const START_LIMIT: Duration = Duration::from_secs(60);
const RESTART_LIMIT: Duration = Duration::from_secs(30);
/// Another program may take the port between our look and the server's start.
const PORT_TRIES: u32 = 5;

/// A running server, or one that was killed and can be started again on its folder.
/// Dropping it kills the server and removes the folder.
pub struct Server {
    kind: Kind,
    port: u16,
    extra: Vec<String>,
    child: Option<Child>,
    folder: Folder,
}

impl Server {
    /// Starts an empty one and waits until it serves.
    pub fn start(kind: Kind) -> Result<Self, Trouble> {
        Self::start_with(kind, &[])
    }

    /// As [`Server::start`], with arguments of the server's own after ours.
    pub fn start_with(kind: Kind, extra: &[&str]) -> Result<Self, Trouble> {
        if kind.program().is_none() {
            return Err(Trouble::Missing(kind));
        }
        let folder = Folder::new(kind)?;
        kind.prepare(folder.path())?;
        let mut server = Self {
            kind,
            port: 0,
            extra: extra.iter().map(ToString::to_string).collect(),
            child: None,
            folder,
        };
        let mut tries = 0;
        loop {
            server.port = free_port().map_err(|error| Trouble::broken(kind, error))?;
            tries += 1;
            match server.start_once() {
                Err(_) if tries < PORT_TRIES => {}
                done => return done.map(|()| server),
            }
        }
    }

    /// Which it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.kind.url(self.port)
    }

    /// Its port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it keeps what it keeps. Look and meddle only while it is down.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// SIGKILL to all its processes, and waits until they are gone. PostgreSQL has one a
    /// connection, and those would go on to serve, and to commit, until they notice that the
    /// first is gone.
    pub fn kill(&mut self) {
        // It makes no more of them while it is stopped.
        self.pause();
        let others = self.pid().map(children).unwrap_or_default();
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for other in &others {
            let _ = kill_process(*other, Signal::KILL);
        }
        wait_until(RESTART_LIMIT, || {
            !others.iter().any(|other| is_alive(*other))
        });
    }

    /// SIGSTOP: it holds its connections and answers nobody. Returns when every thread has
    /// stopped: on a busy machine a thread goes on, and answers, for a while after the signal.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        if let Some(pid) = self.pid() {
            wait_until(RESTART_LIMIT, || has_stopped(pid));
        }
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// SIGKILL, everything it stored removed, and up again.
    pub fn lose_everything(&mut self) -> Result<(), Trouble> {
        self.kill();
        let kind = self.kind;
        let broken = |error: std::io::Error| Trouble::broken(kind, error);
        for entry in std::fs::read_dir(self.folder.path()).map_err(broken)? {
            let path = entry.map_err(broken)?.path();
            if path.is_dir() {
                std::fs::remove_dir_all(path).map_err(broken)?;
            } else {
                std::fs::remove_file(path).map_err(broken)?;
            }
        }
        kind.prepare(self.folder.path())?;
        self.restart()
    }

    /// Everything it stored goes while it runs; only Redis can.
    pub fn flush(&self) -> Result<(), Trouble> {
        match self.kind {
            Kind::Redis => redis::flush(self.port).map_err(|e| Trouble::broken(self.kind, e)),
            other => Err(Trouble::broken(other, "it cannot be emptied while it runs")),
        }
    }

    /// Calls by command since its start, by its own count; only Redis tells.
    pub fn commands(&self) -> Result<BTreeMap<String, u64>, Trouble> {
        match self.kind {
            Kind::Redis => redis::commands(self.port).map_err(|e| Trouble::broken(self.kind, e)),
            other => Err(Trouble::broken(other, "it does not count its commands")),
        }
    }

    /// Starts it on its folder and port, after a kill, and waits until it serves.
    pub fn restart(&mut self) -> Result<(), Trouble> {
        self.kill();
        // Children of a killed PostgreSQL hold its memory until they notice, and it refuses to
        // start beside them.
        let mut last = Ok(());
        let is_up = wait_until(RESTART_LIMIT, || {
            last = self.start_once();
            last.is_ok()
        });
        if is_up { Ok(()) } else { last }
    }

    fn start_once(&mut self) -> Result<(), Trouble> {
        let kind = self.kind;
        let broken = |why: String| Trouble::Broken { kind, why };
        let program = kind.program().ok_or(Trouble::Missing(kind))?;
        let log = self.folder.path().join("log");
        let output = File::options().create(true).append(true).open(&log);
        let output = output.map_err(|error| broken(error.to_string()))?;
        let errors = output.try_clone().map_err(|e| broken(e.to_string()))?;
        let mut command = kind.command(&program, self.folder.path(), self.port);
        command
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        let child = nursery::spawn(command).map_err(|error| broken(error.to_string()))?;
        let child = self.child.insert(child);
        let mut has_ended = false;
        let is_ready = wait_until(START_LIMIT, || {
            has_ended = matches!(child.try_wait(), Ok(Some(_)) | Err(_));
            has_ended || kind.is_ready(self.port)
        });
        if is_ready && !has_ended {
            return Ok(());
        }
        self.kill();
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        Err(broken(
            last.into_iter().rev().collect::<Vec<_>>().join("; "),
        ))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The processes that this one started.
fn children(of: u32) -> Vec<Pid> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(_, parent)| parent == of))
        .filter_map(Pid::from_raw)
        .collect()
}

/// One that ended and was not waited for is gone.
fn is_alive(pid: Pid) -> bool {
    stat(pid.as_raw_pid()).is_some_and(|(state, _)| state != "Z")
}

/// Whether every thread of a process is stopped, or the process has ended.
fn has_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let mut states = threads.filter_map(|thread| state_of(&thread.path().join("stat")));
    states.all(|(state, _)| matches!(state.as_str(), "T" | "t" | "Z" | "X"))
}

/// State and parent of a process.
fn stat(pid: i32) -> Option<(String, u32)> {
    state_of(Path::new(&format!("/proc/{pid}/stat")))
}

/// State and parent, from the file that describes a process or a thread.
fn state_of(file: &Path) -> Option<(String, u32)> {
    let text = std::fs::read_to_string(file).ok()?;
    // The name before may hold anything, blanks and brackets too.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

pub(crate) fn free_port() -> std::io::Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))?
        .local_addr()
        .map(|address| address.port())
}
