//! Tokens are never shown (COL-17).

use clinch_github::fake::Faults;

use crate::hub::Hub;
use crate::support::{Folder, Server, clinch, ends, said};

const TOKEN: &str = "fake-canary7291-1";

fn files(folder: &Folder) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(&folder.0).expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_ours = path.file_name().is_none_or(|name| name != "clinch.toml");
        if is_ours && path.is_file() {
            all.extend(std::fs::read(path).expect("a file"));
        }
    }
    all
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    bytes
        .windows(secret.len())
        .any(|part| part == secret.as_bytes())
}

#[test]
fn col_17_no_output_no_log_and_no_file_shows_a_token() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&[TOKEN]));
    let server = Server::start(&folder, "api,worker,recovery");
    let url = server.url();
    let mut all = String::new();
    let commands: [&[&str]; 7] = [
        &["github", "run", "octocat", "--wait", "-o", "json"],
        &["github", "status", "octocat"],
        &["github", "tokens", "-o", "json"],
        &["github", "tokens"],
        &["github", "export"],
        &["ops", "ls", "--all", "-o", "json"],
        &["serve", "--print-config"],
    ];
    for command in commands {
        let output = clinch(&folder.0)
            .args(command)
            .env("CLINCH_URL", &url)
            .output()
            .expect("it runs");
        ends(&output, 0);
        all.push_str(&said(&output));
    }
    let (_, _, metrics) = server.exchange("GET", "/metrics", "");
    all.push_str(&metrics);
    all.push_str(&server.log());
    assert!(!holds(all.as_bytes(), TOKEN));
    assert!(!holds(&files(&folder), TOKEN));
    // The account is shown, because operators must know whose budget it is.
    assert!(all.contains("canary7291"));
}

#[test]
fn col_17_a_refused_token_ends_with_an_error_that_does_not_show_it() {
    let hub = Hub::with(Faults::none().token(TOKEN));
    let folder = Folder::with(&hub.section(&[TOKEN]));
    let output = folder.run(&["github", "run", "octocat"]);
    ends(&output, 1);
    let said = said(&output);
    assert!(said.contains("refuses every token"), "{said}");
    assert!(!holds(said.as_bytes(), TOKEN), "{said}");

    let doctor = folder.run(&["doctor"]);
    ends(&doctor, 1);
    assert!(
        crate::support::said(&doctor).contains("token"),
        "{doctor:?}"
    );
    assert!(!holds(&doctor.stdout, TOKEN));

    // With a valid token the same run goes on.
    folder.configure(&hub.section(&["fake-ann-1"]));
    let output = folder.run(&["github", "cancel", "octocat.1"]);
    ends(&output, 0);
    ends(&folder.run(&["github", "run", "octocat"]), 0);
}
