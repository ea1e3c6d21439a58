//! A server with work in every state, and a browser that looks at it.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clinch_testbed::{Browser, Look, wait_until};
use serde_json::{Value, json};

use crate::provider::Provider;

/// The longest wait for something that the server does.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A `clinch serve` process in a folder of its own.
pub(crate) struct Desk {
    pub(crate) folder: PathBuf,
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) provider: Provider,
    /// The API key of a server with keys.
    pub(crate) key: Option<String>,
}

const ROUTES: [(&str, &str, &str, &str, &str); 6] = [
    ("payments", "charge", "/ok", "psp", "natural"),
    ("payments", "refund", "/refuse", "psp-refunds", "natural"),
    ("mail", "send", "/throttle", "mailer", "natural"),
    ("partners", "sync", "/break", "partner-api", "natural"),
    ("sms", "send", "/vanish", "sms-gateway", "unsafe"),
    ("lanes", "step", "/refuse", "lane-api", "natural"),
];

fn config(provider: SocketAddr, more: &str) -> String {
    let mut text = String::from("[server]\nlisten = \"127.0.0.1:0\"\n");
    text.push_str(more);
    for (domain, event_type, path, destination, safety) in ROUTES {
        text.push_str(&format!(
            "[[route]]\nname = \"{domain}-{event_type}\"\ndomain = \"{domain}\"\n\
             event_type = \"{event_type}\"\nurl = \"http://{provider}{path}\"\n\
             destination = \"{destination}\"\nsafety = \"{safety}\"\ntimeout = \"5s\"\n\
             retry = {{ max_attempts = 5, base = \"1h\", cap = \"1h\" }}\n"
        ));
        if domain == "lanes" {
            text.push_str("order = \"key\"\n");
        }
    }
    text
}

impl Desk {
    /// A server without keys.
    pub(crate) fn new() -> Self {
        Self::start("", false)
    }

    /// A server with a key that may act.
    pub(crate) fn locked() -> Self {
        Self::start("", true)
    }

    pub(crate) fn start(more: &str, is_locked: bool) -> Self {
        let name = format!("clinch-console-{}", uuid::Uuid::now_v7());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        let provider = Provider::start();
        let config = config(provider.address, more);
        std::fs::write(folder.join("clinch.toml"), config).expect("a file");
        let key = is_locked.then(|| key(&folder, "operate"));
        let mut child = clinch(&folder)
            .arg("serve")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, address) = line.split_once("listening on http://")?;
            address.trim().parse().ok()
        });
        // The later output must be read, or the process would block.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self {
            folder,
            child,
            address: address.expect("it listens"),
            provider,
            key,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A browser that is signed in, if the server has keys.
    pub(crate) fn browser(&self, look: Look) -> Browser {
        let browser = Browser::start(look).expect("a browser");
        if let Some(key) = &self.key {
            browser.open(&self.url("/sign-in")).expect("a page");
            browser.fill("#key", key).expect("a field");
            browser.click("button[type=submit]").expect("a button");
            // Another address, opened too early, would cut the sign-in off.
            let is_in = || browser.has(".account button");
            assert!(wait_until(LIMIT, is_in), "not signed in");
        }
        browser
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.send("GET", path, "")).expect("JSON")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        serde_json::from_str(&self.send("POST", path, &body.to_string())).expect("JSON")
    }

    /// The body of an answer of the API.
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("it answers");
        let key = self.key.as_ref();
        let key = key.map_or(String::new(), |key| {
            format!("authorization: Bearer {key}\r\n")
        });
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{key}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("read");
        let (_, body) = answer.split_once("\r\n\r\n").expect("an answer");
        body.to_owned()
    }

    /// Submits one operation and returns its id.
    pub(crate) fn submit(&self, domain: &str, event_type: &str, key: &str) -> String {
        let body = json!({ "domain": domain, "event_type": event_type, "biz_key": key,
            "idem_key": uuid::Uuid::now_v7().to_string(), "payload": { "iban": "DE02 secret" },
            "labels": { "team": "shop" } });
        // A key that may act may not submit.
        let accepted = match &self.key {
            None => self.post("/v1/operations?wait=0", &body),
            Some(_) => self.submit_as_another(&body),
        };
        accepted["op_id"].as_str().expect("an id").to_owned()
    }

    fn submit_as_another(&self, body: &Value) -> Value {
        let key = key(&self.folder, "submit");
        let made = clinch(&self.folder)
            .args([
                "-o",
                "json",
                "--url",
                &self.url(""),
                "--api-key",
                &key,
                "submit",
            ])
            .args(
                ["domain", "event_type", "biz_key"].map(|name| body[name].as_str().expect("text")),
            )
            .args(["--payload", &body["payload"].to_string()])
            .output()
            .expect("it runs");
        serde_json::from_slice(&made.stdout).expect("JSON")
    }

    /// Waits until an operation is so.
    pub(crate) fn until(&self, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let path = format!("/v1/operations/{id}");
        let found = wait_until(LIMIT, || {
            last = self.get(&path);
            is_so(&last)
        });
        assert!(found, "{last}");
        last
    }

    /// What a command of the command line prints, and its exit code.
    pub(crate) fn run(&self, arguments: &[&str]) -> (String, i32) {
        let url = self.url("");
        let done = clinch(&self.folder)
            .args(["--url", &url])
            .args(arguments)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let text = text + &String::from_utf8_lossy(&done.stderr);
        (text, done.status.code().unwrap_or(-1))
    }

    /// Work in every state. Returns a held and a failed operation.
    pub(crate) fn fill(&self) -> (String, String) {
        for i in 0..30 {
            self.submit("payments", "charge", &format!("order-{i}"));
        }
        let mut failed = String::new();
        for i in 0..5 {
            failed = self.submit("payments", "refund", &format!("order-{i}"));
        }
        for i in 0..12 {
            self.submit("mail", "send", &format!("user-{i}"));
            self.submit("partners", "sync", &format!("account-{i}"));
        }
        let held = self.submit("sms", "send", "phone-1");
        self.until(&held, |one| one["phase"] == "held");
        self.until(&failed, |one| one["state"] == "FAILED");
        (held, failed)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn clinch(folder: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clinch"));
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CLINCH_")) {
        command.env_remove(name);
    }
    command
}

/// A new API key with these scopes.
pub(crate) fn key(folder: &std::path::Path, scopes: &str) -> String {
    let made = clinch(folder)
        .args(["keys", "create", "night-shift", "--scopes", scopes])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    assert!(text.starts_with("clk_"), "{made:?}");
    text
}

/// Waits until the page shows this text.
pub(crate) fn shows(browser: &Browser, text: &str) {
    let mut source = String::new();
    let found = wait_until(LIMIT, || {
        source = browser.source().unwrap_or_default();
        source.contains(text)
    });
    assert!(found, "no {text:?} in {source}");
}
