//! Commands on names that do not exist fail with "not found".

use crate::support::{CONFIG, Folder, Server, document, refused, run};

const NOBODY: &str = "01917f5e-0000-7000-8000-000000000000";

#[test]
fn core_19_a_name_that_does_not_exist_ends_with_3() {
    let folder = Folder::new("missing");
    let config = format!("[github]\napi_url = \"http://127.0.0.1:1\"\n{CONFIG}");
    std::fs::write(folder.0.join("clinch.toml"), config).expect("a file");
    let server = Server::start(&folder.0, "127.0.0.1:0");
    let url = server.url();
    let commands: [&[&str]; 24] = [
        &["domains", "pause", "nosuch"],
        &["domains", "resume", "nosuch"],
        &["ops", "ls", "--domain", "nosuch"],
        &["ops", "ls", "--domain", "nosuch", "-o", "json"],
        &["ops", "ls", "--batch-id", NOBODY],
        &["ops", "cancel", "--batch-id", NOBODY, "-y"],
        &["ops", "get", NOBODY],
        &["ops", "watch", NOBODY],
        &["ops", "watch", "--domain", "nosuch"],
        &["ops", "cancel", NOBODY],
        &["ops", "cancel", "--domain", "nosuch", "-y"],
        &["ops", "resolve", NOBODY, "--as", "retry", "--reason", "x"],
        &["dlq", "ls", "--domain", "nosuch"],
        &["dlq", "ls", "--group", "--domain", "nosuch"],
        &["dlq", "show", NOBODY],
        &["dlq", "redrive", NOBODY, "-y"],
        &["dlq", "redrive", "--domain", "nosuch", "-y"],
        &["dlq", "redrive", "--domain", "nosuch", "--dry-run"],
        &["batches", "get", NOBODY],
        &["github", "status", "nosuch"],
        &["github", "cancel", "nosuch.1"],
        &["github", "retry", "nosuch.1"],
        &["github", "compare", "nosuch"],
        &[
            "github",
            "export",
            "--login",
            "nosuch",
            "--out",
            "nosuch.jsonl",
        ],
    ];
    for command in commands {
        let mut arguments = command.to_vec();
        arguments.extend(["--url", &url]);
        let (code, said) = refused(&run(&folder.0, &arguments));
        assert_eq!(code, Some(3), "{command:?}: {said}");
    }
    assert!(!folder.0.join("nosuch.jsonl").exists());
    assert!(!folder.0.join("nosuch.jsonl.part").exists());
    let keys = ["keys", "revoke", "nosuch"];
    assert_eq!(refused(&run(&folder.0, &keys)).0, Some(3));
    // A domain of the configuration exists before its first operation.
    for command in [
        &["ops", "ls", "--domain", "payments", "-o", "json"][..],
        &["domains", "pause", "payments", "-o", "json"],
        &["domains", "pause", "github", "-o", "json"],
    ] {
        let mut arguments = command.to_vec();
        arguments.extend(["--url", &url]);
        document(&run(&folder.0, &arguments));
    }
    // An invalid state or kind is a usage error.
    for command in [
        &["ops", "ls", "--state", "LATE"][..],
        &["github", "export", "--kind", "star"],
        &["ops", "get", "nosuch"],
        &["batches", "get", "nosuch"],
    ] {
        assert_eq!(refused(&run(&folder.0, command)).0, Some(2), "{command:?}");
    }
}
