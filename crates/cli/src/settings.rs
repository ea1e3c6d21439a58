//! Which server to talk to: flag, else environment, else configuration file, else the default.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::args::Global;
use crate::client::Base;
use crate::error::CliError;

/// Read when it exists and no other file is named.
const DEFAULT_FILE: &str = "clinch.toml";
/// Where `clinch serve` listens when nothing is configured.
const DEFAULT_URL: &str = "http://127.0.0.1:7070";
/// Names the server's address like any key of the file.
const LISTEN_VARIABLE: &str = "CLINCH__SERVER__LISTEN";

/// The part of the file that a client needs; the server checks the rest.
#[derive(Debug, Default, Deserialize)]
struct File {
    #[serde(default)]
    server: Server,
}

#[derive(Debug, Default, Deserialize)]
struct Server {
    listen: Option<String>,
    tls_cert: Option<String>,
}

/// The server's address.
pub(crate) fn base(global: &Global) -> Result<Base, CliError> {
    if let Some(url) = global.url.as_deref().filter(|url| !url.is_empty()) {
        return Base::parse(url).map_err(|why| CliError::usage(format!("--url: {why}")));
    }
    let mut server = read(global.config.as_deref())?.server;
    let variable = std::env::var(LISTEN_VARIABLE).ok();
    if let Some(listen) = variable.filter(|listen| !listen.is_empty()) {
        server.listen = Some(listen);
    }
    let url = match &server.listen {
        Some(listen) => local_url(listen, server.tls_cert.is_some())?,
        None => DEFAULT_URL.to_owned(),
    };
    Base::parse(&url).map_err(|why| CliError::usage(format!("server.listen: {why}")))
}

fn read(named: Option<&Path>) -> Result<File, CliError> {
    let path = match named {
        Some(path) if !path.as_os_str().is_empty() => path.to_owned(),
        _ if Path::new(DEFAULT_FILE).exists() => PathBuf::from(DEFAULT_FILE),
        _ => return Ok(File::default()),
    };
    let shown = path.display();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| CliError::usage(format!("cannot read {shown}: {error}")))?;
    // The parser's own message quotes the line, which may hold a secret.
    toml::from_str(&text).map_err(|error| CliError::usage(format!("{shown}: {}", error.message())))
}

/// The address on this machine that belongs to what a server listens on.
///
/// Only loopback: a file that happens to lie in the working folder must not send a key from
/// the environment to a host of its choosing.
fn local_url(listen: &str, is_tls: bool) -> Result<String, CliError> {
    let wrong = |what: &str| {
        let what = format!("server.listen {what}; say where the server is with --url");
        CliError::usage(what)
    };
    let listen: SocketAddr = listen
        .parse()
        .map_err(|_| wrong("is not an address and a port"))?;
    let host = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip if ip.is_loopback() => ip,
        _ => return Err(wrong("is not an address of loopback")),
    };
    let scheme = if is_tls { "https" } else { "http" };
    Ok(format!(
        "{scheme}://{}",
        SocketAddr::new(host, listen.port())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_this_machine_only() {
        let url = |listen| local_url(listen, false).map_err(|error| error.to_string());
        assert_eq!(
            url("127.0.0.1:8080"),
            Ok("http://127.0.0.1:8080".to_owned())
        );
        assert_eq!(url("0.0.0.0:80"), Ok("http://127.0.0.1:80".to_owned()));
        assert_eq!(url("[::]:80"), Ok("http://[::1]:80".to_owned()));
        assert!(url("192.0.2.7:80").is_err());
        assert!(url("example.org:80").is_err());
        assert_eq!(
            local_url("[::1]:80", true).unwrap(),
            "https://[::1]:80".to_owned()
        );
    }
}
