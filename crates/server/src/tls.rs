//! TLS, and client certificates.

use std::path::Path;
use std::sync::Arc;

use clinch::{Error, Result};
use clinch_core::ErrorKind;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::config::ServerConfig as Settings;

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

/// The TLS settings of the configuration; `None`: plain HTTP. The files are read once, at the
/// start.
pub(crate) fn acceptor(settings: &Settings) -> Result<Option<TlsAcceptor>> {
    if settings.tls_cert.is_empty() {
        return Ok(None);
    }
    let provider = Arc::new(ring::default_provider());
    let chain = certificates("server.tls_cert", &settings.tls_cert)?;
    let key = key(&settings.tls_key)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(format!("TLS cannot be set up: {error}")))?;
    let builder = match settings.tls_client_ca.as_str() {
        "" => builder.with_no_client_auth(),
        file => builder.with_client_cert_verifier(verifier(file, provider)?),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        wrong(format!(
            "server.tls_cert and server.tls_key do not go together: {error}"
        ))
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn read(name: &str, file: &str) -> Result<Vec<u8>> {
    std::fs::read(Path::new(file))
        .map_err(|error| wrong(format!("{name}: cannot read {file}: {error}")))
}

fn certificates(name: &str, file: &str) -> Result<Vec<CertificateDer<'static>>> {
    let pem = read(name, file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let all = all.unwrap_or_default();
    match all.is_empty() {
        true => Err(wrong(format!(
            "{name}: {file} holds no certificate in PEM form"
        ))),
        false => Ok(all),
    }
}

fn key(file: &str) -> Result<PrivateKeyDer<'static>> {
    let pem = read("server.tls_key", file)?;
    // The parser's own message could quote the file.
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        wrong(format!(
            "server.tls_key: {file} holds no private key in PEM form, or one with a password"
        ))
    })
}

fn verifier(
    file: &str,
    provider: Arc<tokio_rustls::rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>> {
    const NAME: &str = "server.tls_client_ca";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(NAME, file)? {
        roots.add(certificate).map_err(|error| {
            wrong(format!(
                "{NAME}: {file} holds a certificate that cannot be used: {error}"
            ))
        })?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| wrong(format!("{NAME}: {file} cannot be used: {error}")))
}
