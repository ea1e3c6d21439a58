//! Opens a connection: TCP, then TLS for https.

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

/// Certificates for https, in addition to the machine's own authorities.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trust {
    /// Trusted authorities in PEM form.
    pub(crate) ca_file: Option<PathBuf>,
    /// A client certificate and its key in PEM form.
    pub(crate) client_cert: Option<PathBuf>,
}

/// Timeout for TCP and TLS handshake: a healthy server needs a few round trips.
const CONNECT: Duration = Duration::from_secs(10);

type Sender = SendRequest<Full<Bytes>>;

/// Opens a new connection. If this fails, no request was sent.
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
    // Requests are small and a person waits for them.
    tcp.set_nodelay(true).map_err(|error| cause(&error))?;
    if !base.is_tls() {
        return shake_hands(tcp).await;
    }
    let name = ServerName::try_from(base.host().to_owned());
    let name = name.map_err(|_| "the host is not a name that a certificate can have".to_owned())?;
    let tls = TlsConnector::from(Arc::new(tls(trust)?))
        .connect(name, tcp)
        .await;
    shake_hands(tls.map_err(|error| cause(&error))?).await
}

/// Uses the machine's own certificates, which include private authorities and follow
/// `SSL_CERT_FILE`; without any, the bundled ones.
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
    // The parser's own message could quote the key.
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
    // The task ends with the connection; the request's caller gets its errors.
    tokio::spawn(connection);
    Ok(sender)
}

/// The innermost cause, which names the fact rather than the layer.
pub(super) fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut inner = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}
