//! https with a private authority.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::documents::{OP, operation};
use crate::run::{command, ended, folder};
use crate::server::{Answer, Server};

#[test]
fn certificates_are_checked_and_private_authorities_can_be_named() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let server = Server::wrapped(
        |_| Answer::new(200, operation(OP, "COMPLETED")),
        move |stream| StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream),
    );
    let roots = folder().join("roots.pem");
    std::fs::write(&roots, made.cert.pem()).unwrap();
    let get = |host: &str| {
        let url = format!("https://{host}:{}", server.address().port());
        let mut command = command(&["ops", "get", OP, "--url", &url]);
        command.env("SSL_CERT_FILE", &roots);
        ended(command.output().unwrap())
    };
    let ran = get("localhost");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    // Another name than the certificate's: nothing is sent.
    let ran = get("127.0.0.1");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("cannot reach"), "{}", ran.err);
    assert_eq!(server.seen().len(), 1);
}
