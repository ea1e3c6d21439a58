//! `clinch status` against a server whose provider fails.

use serde_json::Value;

use crate::provider::Provider;
use crate::support::{Folder, Server, run, text};

fn config(provider: &Provider) -> String {
    let address = provider.address;
    format!(
        r#"
[store]
url = "sqlite://clinch.db"
[[route]]
name = "charge"
domain = "payments"
event_type = "charge"
url = "http://{address}/charge"
destination = "psp"
safety = "natural"
retry = {{ base = "1h", cap = "1h" }}
"#
    )
}

fn status(folder: &Folder, server: &Server, more: &[&str]) -> (i32, String) {
    let url = server.url();
    let mut arguments = vec!["status", "--url", url.as_str()];
    arguments.extend(more);
    let output = run(&folder.0, &arguments);
    let all = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().expect("an exit code"), all)
}

#[test]
fn run_10_status_says_what_is_wrong_since_when_and_the_next_command() {
    let provider = Provider::start(|_| (503, "{}".to_owned()));
    let folder = Folder::new("status");
    std::fs::write(folder.0.join("clinch.toml"), config(&provider)).expect("a file");
    let server = Server::start(&folder.0, "127.0.0.1:0");
    let (code, screen) = status(&folder, &server, &[]);
    assert_eq!(code, 0, "{screen}");
    assert!(screen.starts_with("all is well\n"), "{screen}");
    for number in 0..10 {
        let key = format!("order-{number}");
        let submitted = ["submit", "payments", "charge", &key, "--payload", "1"];
        let output = run(
            &folder.0,
            &[&submitted[..], &["--url", &server.url()]].concat(),
        );
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let screen = loop {
        let (code, screen) = status(&folder, &server, &[]);
        if code == 1 {
            break screen;
        }
    };
    assert!(screen.contains("1 critical"), "{screen}");
    assert!(
        screen.contains("destination psp is down: 10 of 10 calls failed"),
        "{screen}"
    );
    assert!(screen.contains("since "), "{screen}");
    assert!(
        screen.contains("next: clinch destinations reset psp"),
        "{screen}"
    );
    assert!(screen.contains("1 alive"), "{screen}");
    let (_, document) = status(&folder, &server, &["-o", "json"]);
    let document: Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!(document["store"], "sqlite");
    let destinations = document["destinations"].as_array().expect("a list");
    assert_eq!(
        destinations.len(),
        1,
        "only the configured one: {destinations:?}"
    );
    assert_eq!(destinations[0]["backlog"], 10);

    // The command that the warning names.
    let url = server.url();
    let reset = run(&folder.0, &["destinations", "reset", "psp", "--url", &url]);
    assert_eq!(reset.status.code(), Some(0), "{}", text(&reset.stderr));
    assert_eq!(text(&reset.stderr), "psp is ok\n");
    let (code, screen) = status(&folder, &server, &[]);
    assert_eq!(code, 0, "{screen}");
}
