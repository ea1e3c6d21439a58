//! Opening a connection: TCP, then TLS where the address says so.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::Base;
use crate::error::CliError;

/// Over https: whom to trust besides the machine's own authorities, and what to show.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trust {
    /// Certificates in PEM form.
    pub(crate) ca_file: Option<PathBuf>,
    /// A certificate and its key in PEM form.
    pub(crate) client_cert: Option<PathBuf>,
}

/// To connect and shake hands: a healthy server needs a few round trips.
const CONNECT: Duration = Duration::from_secs(10);

type Sender = SendRequest<Full<Bytes>>;

/// A fresh connection. Whatever goes wrong here, no request has left.
pub(super) async fn open(base: &Base, trust: &Trust) -> Result<Sender, CliError> {
    let opened = timeout(CONNECT, connect(base, trust)).await;
    opened
        .unwrap_or_else(|_| Err("no connection in time".to_owned()))
        .map_err(|why| CliError::Unreachable {
            origin: base.to_string(),
            why,
        })
}

async fn connect(base: &Base, trust: &Trust) -> Result<Sender, String> {
    let tcp = TcpStream::connect((base.host(), base.port())).await;
    let tcp = tcp.map_err(|error| cause(&error))?;
    // Small requests that someone waits for.
    tcp.set_nodelay(true).map_err(|error| cause(&error))?;
    if !base.is_tls() {
        return shake_hands(tcp).await;
    }
    let name = ServerName::try_from(base.host().to_owned());
    let name = name.map_err(|_| "the host is no name that a certificate can have".to_owned())?;
    let tls = TlsConnector::from(Arc::new(tls(trust)?))
        .connect(name, tcp)
        .await;
    shake_hands(tls.map_err(|error| cause(&error))?).await
}

/// The machine's own certificates, which know private authorities and follow
/// `SSL_CERT_FILE`; the bundled ones where the machine has none.
fn tls(trust: &Trust) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    if let Some(file) = &trust.ca_file {
        roots.add_parsable_certificates(certificates(file)?);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| cause(&error))?;
    let config = config.with_root_certificates(roots);
    let Some(file) = &trust.client_cert else {
        return Ok(config.with_no_client_auth());
    };
    // The parser's own words could quote the key.
    let key = PrivateKeyDer::from_pem_slice(&read(file)?)
        .map_err(|_| format!("{} holds no private key in PEM form", file.display()))?;
    config
        .with_client_auth_cert(certificates(file)?, key)
        .map_err(|error| cause(&error))
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let none = || format!("{} holds no certificate in PEM form", file.display());
    all.ok().filter(|all| !all.is_empty()).ok_or_else(none)
}

async fn shake_hands<S>(stream: S) -> Result<Sender, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| cause(&error))?;
    // Ends with the connection; what goes wrong there reaches the request's caller.
    tokio::spawn(connection);
    Ok(sender)
}

/// The innermost reason, which names the fact rather than the layer.
pub(super) fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut inner = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}
