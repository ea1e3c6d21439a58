//! `clinch serve` as a process in a folder of its own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Resource, Rlimit, Signal};

/// A temporary folder, removed with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("clinch-{name}-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    /// The same with a configuration file.
    pub(crate) fn with(name: &str, config: &str) -> Self {
        let folder = Self::new(name);
        folder.configure(config);
        folder
    }

    pub(crate) fn configure(&self, config: &str) {
        std::fs::write(self.0.join("clinch.toml"), config).expect("a file");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The binary with a clean environment.
pub(crate) fn clinch(folder: &Path) -> Command {
    within(Command::new(env!("CARGO_BIN_EXE_clinch")), folder)
}

fn within(mut command: Command, folder: &Path) -> Command {
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CLINCH_")) {
        command.env_remove(name);
    }
    command
}

/// A new API key with these scopes, of every domain.
pub(crate) fn key(folder: &Path, scopes: &str) -> String {
    key_of(folder, scopes, &[])
}

/// A new API key with these scopes and further arguments.
pub(crate) fn key_of(folder: &Path, scopes: &str, more: &[&str]) -> String {
    let made = clinch(folder)
        .args(["keys", "create", "test", "--scopes", scopes])
        .args(more)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    assert!(text.starts_with("clk_"), "{made:?}");
    text
}

/// A server that is killed with the test.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<String>>,
}

impl Process {
    pub(crate) fn start(folder: &Folder) -> Self {
        Self::start_as(folder, "api,worker,recovery")
    }

    /// With these roles.
    pub(crate) fn start_as(folder: &Folder, roles: &str) -> Self {
        let mut command = clinch(&folder.0);
        command.args(["serve", "--roles", roles]);
        Self::spawn(command)
    }

    /// The same, but a write beyond the file size limit is an error and does not kill the process.
    pub(crate) fn start_limited(folder: &Folder) -> Self {
        let mut command = within(Command::new("sh"), &folder.0);
        let serve = "trap '' XFSZ; exec \"$0\" serve";
        command.args(["-c", serve, env!("CARGO_BIN_EXE_clinch")]);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut said = String::new();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            said.push_str(&line);
            let (_, address) = line.split_once("listening on http")?;
            address
                .trim_start_matches("s")
                .strip_prefix("://")?
                .parse()
                .ok()
        });
        let log = Arc::new(Mutex::new(String::new()));
        let kept = log.clone();
        // The later output must be read, or the process would block.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut log = kept.lock().expect("the log");
                log.push_str(&line);
                log.push('\n');
            }
        });
        let address = address.unwrap_or_else(|| panic!("it does not listen: {said}"));
        Self {
            child,
            address,
            log,
        }
    }

    fn pid(&self) -> Pid {
        let id = i32::try_from(self.child.id()).expect("a process id");
        Pid::from_raw(id).expect("a process id")
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        rustix::process::kill_process(self.pid(), Signal::TERM).expect("it runs");
    }

    /// Waits until the process has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }

    /// Limits the size of its files from now on; `None` removes the limit.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        rustix::process::prlimit(Some(self.pid()), Resource::Fsize, limit).expect("a limit");
    }

    /// Waits for a line with this text, and returns it.
    pub(crate) fn logged(&self, text: &str) -> String {
        loop {
            let log = self.log();
            if let Some(line) = log.lines().find(|line| line.contains(text)) {
                return line.to_owned();
            }
            std::thread::yield_now();
        }
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("the log").clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
