//! https, with and without certificates of callers.

use std::net::TcpStream;
use std::path::Path;
use std::process::Output;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::process::{Folder, Process, clinch};

const ROUTE: &str = r#"
[[route]]
name = "remote"
domain = "away"
event_type = "x"
remote = true
"#;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed")
}

/// A certificate and its key in PEM form.
fn signed(authority: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    let certificate = params.signed_by(&key, authority).expect("signed");
    (certificate.pem(), key.serialize_pem())
}

fn config(folder: &Path, more: &str) {
    let server =
        "[server]\nlisten = \"127.0.0.1:0\"\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\n";
    let text = format!("{server}{more}\n{ROUTE}");
    std::fs::write(folder.join("clinch.toml"), text).expect("a file");
}

fn submit(folder: &Path, process: &Process, more: &[&str]) -> Output {
    let url = format!("https://localhost:{}", process.address.port());
    clinch(folder)
        .args([
            "submit",
            "away",
            "x",
            "o-1",
            "--idem-key",
            "1",
            "--payload",
            "1",
        ])
        .args(["--url", &url])
        .args(more)
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn core_16_https_is_served_and_callers_may_have_to_show_a_certificate() {
    let folder = Folder::new("tls");
    let place = &folder.0;
    let write = |name: &str, text: &str| std::fs::write(place.join(name), text).expect("a file");
    let (ours, theirs) = (authority(), authority());
    let (cert, key) = signed(&ours, "localhost");
    write("cert.pem", &cert);
    write("key.pem", &key);
    write("ca.pem", &ours.pem());
    write("their-ca.pem", &theirs.pem());
    for (name, by) in [("client.pem", &theirs), ("stranger.pem", &ours)] {
        let (cert, key) = signed(by, "caller");
        write(name, &format!("{cert}{key}"));
    }
    config(place, "");
    let process = Process::start(&folder);
    let taken = submit(place, &process, &["--ca-file", "ca.pem"]);
    assert_eq!(taken.status.code(), Some(0), "{}", text(&taken.stderr));
    let unknown = submit(place, &process, &[]);
    assert!(
        text(&unknown.stderr).contains("cannot reach"),
        "{unknown:?}"
    );
    // Plain HTTP on the same port gets no HTTP answer, and blocks no other caller.
    let plain = crate::http::Client::new(process.address, &crate::http::Seen::default());
    let mut stream: TcpStream = plain.open("GET", "/healthz", &[], 0);
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1"), "{answer:?}");
    drop(process);
    config(place, "tls_client_ca = \"their-ca.pem\"");
    let process = Process::start(&folder);
    let trusted = ["--ca-file", "ca.pem", "--client-cert", "client.pem"];
    let taken = submit(place, &process, &trusted);
    assert_eq!(taken.status.code(), Some(0), "{}", text(&taken.stderr));
    let stranger = ["--ca-file", "ca.pem", "--client-cert", "stranger.pem"];
    for more in [&stranger[..], &stranger[..2]] {
        let refused = submit(place, &process, more);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    }
}

#[test]
fn core_19_bad_tls_files_are_one_line_that_names_the_key() {
    let folder = Folder::new("bad-tls");
    let place = &folder.0;
    let (one, other) = (authority(), authority());
    let ((cert, key), (_, other_key)) = (signed(&one, "localhost"), signed(&other, "localhost"));
    let write = |name: &str, text: &str| std::fs::write(place.join(name), text).expect("a file");
    config(place, "");
    let cases = [
        (None, None, "", "server.tls_cert: cannot read cert.pem"),
        (
            Some("no"),
            Some(&*key),
            "",
            "server.tls_cert: cert.pem holds no certificate",
        ),
        (
            Some(&*cert),
            Some("canary-4f1d"),
            "",
            "server.tls_key: key.pem holds no private key",
        ),
        (Some(&*cert), Some(&*other_key), "", "do not go together"),
        (
            Some(&*cert),
            Some(&*key),
            "tls_client_ca = \"none.pem\"",
            "server.tls_client_ca: cannot read",
        ),
        (
            Some(&*cert),
            Some(&*key),
            "tls_client_ca = \"key.pem\"",
            "server.tls_client_ca: key.pem holds no",
        ),
    ];
    for (cert, key, more, wanted) in cases {
        cert.into_iter().for_each(|text| write("cert.pem", text));
        key.into_iter().for_each(|text| write("key.pem", text));
        config(place, more);
        let refused = clinch(place).arg("serve").output().expect("it runs");
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(wanted), "{wanted}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
        assert!(!said.contains("canary-4f1d"), "{said}");
    }
    std::fs::write(place.join("clinch.toml"), "[server]\ntls_cert = \"x\"\n").expect("a file");
    let half = clinch(place).arg("serve").output().expect("it runs");
    assert!(text(&half.stderr).contains("set both or none"));
}
