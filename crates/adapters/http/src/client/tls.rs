//! TLS: trusted certificates, and errors that quote no text of the peer.

use std::io;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore};

/// TLS 1.2 and 1.3, HTTP/2 before HTTP/1.1, no early data (it can be replayed).
pub(super) fn config(trusted: Vec<Vec<u8>>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs().certs;
    roots.add_parsable_certificates(system);
    if roots.is_empty() {
        // The system has no certificates, for example in an empty container.
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    for certificate in trusted {
        let certificate = CertificateDer::from(certificate);
        let added = roots.add(certificate);
        added.map_err(|_| "a trusted certificate cannot be read".to_owned())?;
    }
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Why a handshake failed.
pub(super) fn reason(error: &io::Error) -> &'static str {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(error) = inner else {
        return "connection lost in the handshake";
    };
    match error {
        rustls::Error::InvalidCertificate(error) => match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "certificate expired"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "certificate not valid yet"
            }
            CertificateError::UnknownIssuer => "certificate of an unknown issuer",
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "certificate of another host"
            }
            CertificateError::Revoked => "certificate revoked",
            _ => "certificate not valid",
        },
        rustls::Error::AlertReceived(_) => "refused by the server",
        rustls::Error::InvalidMessage(_) => "not a TLS answer",
        _ => "handshake failed",
    }
}
