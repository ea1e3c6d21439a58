//! A real Chromium without a window, driven through chromedriver (the W3C WebDriver protocol).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::kind::on_path;
use crate::{nursery, wait_until};

/// The name of an element in WebDriver's documents.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// The longest time for one command: a page that takes longer does not answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Errors of WebDriver that end when the page has come to rest.
const PASSING: [&str; 4] = [
    "stale element reference",
    "no such element",
    "element not interactable",
    "element click intercepted",
];

/// How a page is shown.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Width of the window in pixels.
    pub width: u32,
    /// The dark colours.
    pub is_dark: bool,
    /// Whether scripts run.
    pub has_scripts: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            width: 1_440,
            is_dark: false,
            has_scripts: true,
        }
    }
}

/// A browser; it ends with this value.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

/// Sends one command; `Err` is what the driver said.
type Answered = Result<Value, String>;

impl Browser {
    /// Why no browser can be started here.
    pub fn missing() -> Option<String> {
        let is_missing = |program: &&str| on_path(program).is_none();
        let missing = ["chromium", "chromedriver"].into_iter().find(is_missing);
        missing.map(|program| {
            format!("{program} is not installed; `cargo xtask servers install` installs it")
        })
    }

    /// Starts a browser with an empty profile.
    pub fn start(look: Look) -> Result<Self, String> {
        let mut command = Command::new("chromedriver");
        command
            .args(["--port=0", "--allowed-ips=127.0.0.1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut driver = nursery::spawn(command).map_err(|error| error.to_string())?;
        let output = driver.stdout.take().ok_or("no output")?;
        let mut lines = BufReader::new(output).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("successfully on port ")?;
            rest.trim_end_matches('.').parse::<u16>().ok()
        });
        // The later output must be read, or the driver would block.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let mut browser = Self {
            driver,
            port: port.ok_or("chromedriver names no port")?,
            session: String::new(),
        };
        let started = browser.send("POST", "/session", &capabilities(look))?;
        let session = started["sessionId"].as_str().ok_or("no session")?;
        browser.session = format!("/session/{session}");
        Ok(browser)
    }

    /// Opens an address and waits until it is loaded.
    pub fn open(&self, url: &str) -> Result<(), String> {
        self.command("/url", &json!({ "url": url })).map(|_| ())
    }

    /// The address that is shown.
    pub fn url(&self) -> Result<String, String> {
        let url = self.send("GET", &format!("{}/url", self.session), &Value::Null)?;
        Ok(url.as_str().unwrap_or_default().to_owned())
    }

    /// The page's source as the browser has it now.
    pub fn source(&self) -> Result<String, String> {
        let path = format!("{}/source", self.session);
        let source = self.send("GET", &path, &Value::Null)?;
        Ok(source.as_str().unwrap_or_default().to_owned())
    }

    /// The visible text of the first element.
    pub fn text(&self, css: &str) -> Result<String, String> {
        let text = self.on(css, |id| {
            let path = format!("{}/element/{id}/text", self.session);
            self.send("GET", &path, &Value::Null)
        })?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Whether there is such an element.
    pub fn has(&self, css: &str) -> bool {
        self.find(css).is_ok()
    }

    /// Clicks the first element, as a person does: it must be visible.
    pub fn click(&self, css: &str) -> Result<(), String> {
        self.on(css, |id| {
            self.command(&format!("/element/{id}/click"), &json!({}))
        })
        .map(|_| ())
    }

    /// Types into the first element.
    pub fn fill(&self, css: &str, text: &str) -> Result<(), String> {
        self.on(css, |id| {
            self.command(&format!("/element/{id}/value"), &json!({ "text": text }))
        })
        .map(|_| ())
    }

    /// Presses keys wherever the focus is. `\u{e004}` is Tab, `\u{e007}` Enter, `\u{e00d}` Space.
    pub fn press(&self, keys: &str) -> Result<(), String> {
        let strokes = keys.chars().flat_map(|key| {
            let key = key.to_string();
            [
                json!({ "type": "keyDown", "value": key }),
                json!({ "type": "keyUp", "value": key }),
            ]
        });
        let strokes: Vec<Value> = strokes.collect();
        let actions =
            json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": strokes }] });
        self.command("/actions", &actions).map(|_| ())
    }

    /// Runs a script in the page and returns its value. `arguments` holds the given values.
    pub fn run(&self, script: &str, arguments: &[Value]) -> Answered {
        let body = json!({ "script": script, "args": arguments });
        self.command("/execute/sync", &body)
    }

    /// Runs a script that ends when it calls its last argument with a value.
    pub fn run_async(&self, script: &str, arguments: &[Value]) -> Answered {
        let body = json!({ "script": script, "args": arguments });
        self.command("/execute/async", &body)
    }

    /// Errors that the page reported, such as a violated content security policy.
    pub fn errors(&self) -> Result<Vec<String>, String> {
        let entries = self.command("/se/log", &json!({ "type": "browser" }))?;
        let entries = entries.as_array().cloned().unwrap_or_default();
        let severe = entries.iter().filter(|one| one["level"] == "SEVERE");
        let texts = severe.filter_map(|one| one["message"].as_str());
        Ok(texts.map(str::to_owned).collect())
    }

    /// Saves a picture of the whole page.
    pub fn picture(&self, file: &Path) -> Result<(), String> {
        let measure =
            "return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]";
        let size = self.run(measure, &[])?;
        let clip = json!({ "x": 0, "y": 0, "scale": 1, "width": size[0], "height": size[1] });
        let shot = json!({ "cmd": "Page.captureScreenshot",
                           "params": { "format": "png", "captureBeyondViewport": true, "clip": clip } });
        let shot = self.command("/goog/cdp/execute", &shot)?;
        let data = shot["data"].as_str().ok_or("no picture")?;
        std::fs::write(file, unbase64(data)).map_err(|error| error.to_string())
    }

    /// Does something with the first such element. A page that follows what happens may replace
    /// an element between the look for it and the command: then it is looked for again.
    fn on(&self, css: &str, command: impl Fn(&str) -> Answered) -> Answered {
        let mut last = Err(String::new());
        wait_until(TIMEOUT, || {
            last = self.find(css).and_then(|id| command(&id));
            !matches!(&last, Err(error) if PASSING.iter().any(|one| error.starts_with(one)))
        });
        last.map_err(|error| format!("{css}: {error}"))
    }

    fn find(&self, css: &str) -> Result<String, String> {
        let body = json!({ "using": "css selector", "value": css });
        let found = self.command("/element", &body)?;
        let id = found[ELEMENT].as_str();
        id.map(str::to_owned)
            .ok_or_else(|| format!("no element {css}"))
    }

    fn command(&self, path: &str, body: &Value) -> Answered {
        self.send("POST", &format!("{}{path}", self.session), body)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Answered {
        let failed = |error: std::io::Error| error.to_string();
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        stream.write_all(request.as_bytes()).map_err(failed)?;
        // The driver keeps the connection open: the answer ends where its length says.
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).map_err(failed)?;
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(|_| "no length")?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text).map_err(failed)?;
        let document: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let value = document["value"].clone();
        match value["error"].as_str() {
            Some(error) => {
                let message = value["message"].as_str().unwrap_or_default();
                let first = message.lines().next().unwrap_or_default();
                Err(format!("{error}: {first}"))
            }
            None => Ok(value),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.send("DELETE", &self.session, &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn capabilities(look: Look) -> Value {
    let size = format!("--window-size={},{}", look.width, 900);
    let mut arguments = vec![
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        &size,
    ];
    if look.is_dark {
        arguments.push("--blink-settings=preferredColorScheme=0");
    }
    let scripts = if look.has_scripts { 1 } else { 2 };
    let mut options = json!({
        "args": arguments,
        "prefs": { "profile.managed_default_content_settings.javascript": scripts },
    });
    if look.width < 500 {
        // A window cannot be as narrow as a phone: the device is emulated.
        options["mobileEmulation"] = json!({
            "deviceMetrics": { "width": look.width, "height": 844, "pixelRatio": 1.0, "touch": true }
        });
    }
    json!({ "capabilities": { "alwaysMatch": {
        "browserName": "chrome",
        "goog:chromeOptions": options,
        "goog:loggingPrefs": { "browser": "ALL" },
    } } })
}

/// Decodes standard base64; other characters are passed over.
fn unbase64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(text.len()), 0_u32, 0);
    for six in text.bytes().filter_map(value) {
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

/// A file of an npm package, in a folder under `tools` that is filled once.
pub fn npm_file(tools: &Path, package: &str, file: &str) -> Result<PathBuf, String> {
    let name = package.rsplit_once('@').map_or(package, |(name, _)| name);
    let path = tools.join("node_modules").join(name).join(file);
    if path.exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(tools).map_err(|error| error.to_string())?;
    let installed = Command::new("npm")
        .args([
            "install",
            "--silent",
            "--no-save",
            "--no-audit",
            "--no-fund",
            "--prefix",
        ])
        .arg(tools)
        .arg(package)
        .output()
        .map_err(|error| format!("npm: {error}"))?;
    match path.exists() {
        true => Ok(path),
        false => Err(String::from_utf8_lossy(&installed.stderr).trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        assert_eq!(unbase64("Q2xpbmNo"), b"Clinch");
        assert_eq!(unbase64("YQ=="), b"a");
        assert_eq!(unbase64("+/8="), [0xfb, 0xff]);
    }
}
