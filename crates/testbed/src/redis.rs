//! Redis with its append-only file, synchronised once a second as most run it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(crate) fn arguments(command: &mut Command, folder: &Path, port: u16) {
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"])
        .arg(folder)
        .args(["--appendonly", "yes", "--appendfsync", "everysec"])
        .args(["--save", "", "--daemonize", "no"]);
}

/// It answers `LOADING` until its file is read.
pub(crate) fn is_ready(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
    let mut answer = [0_u8; 5];
    stream.write_all(b"PING\r\n").is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && &answer == b"+PONG"
}

/// Calls by command, as the server counts them; those of scripts too.
pub(crate) fn commands(port: u16) -> io::Result<BTreeMap<String, u64>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"INFO commandstats\r\nQUIT\r\n")?;
    let mut told = String::new();
    stream.read_to_string(&mut told)?;
    let line = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let count = rest.split(',').next()?.parse().ok()?;
        Some((name.to_owned(), count))
    };
    Ok(told.lines().filter_map(line).collect())
}

/// `FLUSHALL`.
pub(crate) fn flush(port: u16) -> io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"FLUSHALL\r\n")?;
    let mut answer = [0_u8; 5];
    stream.read_exact(&mut answer)?;
    match &answer {
        b"+OK\r\n" => Ok(()),
        _ => Err(io::Error::other("FLUSHALL is refused")),
    }
}
