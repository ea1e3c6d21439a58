//! NATS with JetStream.

use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::kind::on_path;

/// Where `cargo xtask servers install` puts it: a Python environment of its own.
pub fn nats_environment() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/nats")
}

pub(crate) fn program() -> Option<PathBuf> {
    let ours = nats_environment().join("bin/nats-server");
    if ours.is_file() {
        return Some(ours);
    }
    on_path("nats-server")
}

pub(crate) fn arguments(command: &mut Command, folder: &Path, port: u16) {
    command
        .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
        .args(["--jetstream", "--store_dir"])
        .arg(folder.join("data"));
}

/// It sends its particulars to whoever connects.
pub(crate) fn is_ready(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
    let mut greeting = [0_u8; 4];
    stream.read_exact(&mut greeting).is_ok() && &greeting == b"INFO"
}
