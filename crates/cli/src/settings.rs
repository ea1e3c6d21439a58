//! The server's address: flag, else environment, else configuration file, else the default.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;

use crate::args::Global;
use crate::client::Base;
use crate::error::CliError;

/// Read if it exists and no other file is named.
const DEFAULT_FILE: &str = "clinch.toml";
/// The default address of `clinch serve`.
const DEFAULT_URL: &str = "http://127.0.0.1:7070";
/// The environment variable of `server.listen`.
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
    let mut server = read(global)?.server;
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

/// The configuration file, if there is one.
pub(crate) fn file(global: &Global) -> Option<PathBuf> {
    match global.config.as_deref() {
        Some(path) if !path.as_os_str().is_empty() => Some(path.to_owned()),
        _ => Some(PathBuf::from(DEFAULT_FILE)).filter(|path| path.exists()),
    }
}

fn read(global: &Global) -> Result<File, CliError> {
    let Some(path) = file(global) else {
        return Ok(File::default());
    };
    let shown = path.display();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| CliError::unreadable(format!("cannot read {shown}: {error}"), &error))?;
    // The parser's full message quotes the line, which may hold a secret.
    toml::from_str(&text).map_err(|error| CliError::usage(format!("{shown}: {}", error.message())))
}

/// The address on this machine for a `server.listen` value.
///
/// Only loopback is allowed: a file that happens to be in the working folder must not send an API
/// key from the environment to a host of its choice.
fn local_url(listen: &str, is_tls: bool) -> Result<String, CliError> {
    let wrong = |what: &str| {
        let what = format!("server.listen {what}; name the server with --url");
        CliError::usage(what)
    };
    let listen: SocketAddr = listen
        .parse()
        .map_err(|_| wrong("is not an address and a port"))?;
    let host = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip if ip.is_loopback() => ip,
        _ => return Err(wrong("is not a loopback address")),
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
