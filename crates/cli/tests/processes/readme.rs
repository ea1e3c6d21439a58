//! The README's "A durable call in a minute", followed literally: every shell block of the section
//! is run in its order. Only addresses are replaced, because another server may use them.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use crate::support::{Folder, text};

const README: &str = include_str!("../../../../README.md");
const SECTION: &str = "## A durable call in a minute";

/// The shell blocks of the section: commands whose continued lines are joined.
fn commands() -> Vec<String> {
    let (_, section) = README.split_once(SECTION).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut commands = Vec::new();
    for block in section.split("```sh\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let joined = block.replace("\\\n", " ");
        commands.extend(joined.lines().map(|line| line.trim().to_owned()));
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// A process that runs beside the others, as in a terminal of its own.
struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Reader<'a> {
    folder: &'a Path,
    server: u16,
    echo: u16,
}

impl Reader<'_> {
    /// The command in a shell, with our addresses in place of the README's.
    fn shell(&self, command: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_clinch"));
        let folder = binary.parent().expect("a folder").display();
        let path = std::env::var("PATH").unwrap_or_default();
        let command = command.replace("localhost:7070", &format!("localhost:{}", self.server));
        let command = command.replace(
            "clinch echo",
            &format!("clinch echo --listen 127.0.0.1:{}", self.echo),
        );
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &command])
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .env("PATH", format!("{folder}:{path}"))
            .env(
                "CLINCH__SERVER__LISTEN",
                format!("127.0.0.1:{}", self.server),
            );
        // Only a server and its file know this route.
        let url = format!("http://127.0.0.1:{}/hello", self.echo);
        shell.env("CLINCH__ROUTE__HELLO__URL", url);
        shell
    }

    fn run(&self, command: &str) -> Output {
        self.shell(command).output().expect("a shell")
    }

    /// Starts it and waits until it listens. `exec`: so that the kill ends the program itself.
    fn start(&self, command: &str) -> Beside {
        let mut command = self.shell(&format!("exec {command}"));
        let command = command.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = Beside(command.spawn().expect("a shell"));
        let lines = BufReader::new(child.0.stderr.take().expect("piped")).lines();
        let mut lines = lines.map_while(Result::ok);
        let listens = lines.any(|line| line.starts_with("listening on "));
        assert!(listens, "it listens");
        // The later output must be read, or the process would block.
        std::thread::spawn(move || lines.for_each(drop));
        child
    }
}

/// A port that is free now.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

#[test]
fn the_quick_start_of_the_readme_works_as_it_is_written() {
    let folder = Folder::new("readme");
    let reader = Reader {
        folder: &folder.0,
        server: port(),
        echo: port(),
    };
    let commands = commands();
    let kinds: Vec<&str> = commands
        .iter()
        .map(|command| command.split(" -").next().unwrap_or_default())
        .collect();
    assert_eq!(
        kinds,
        [
            "clinch init",
            "clinch serve",
            "curl",
            "clinch echo &",
            "curl"
        ],
        "the steps that this test knows"
    );
    let mut beside = Vec::new();
    let mut answers = Vec::new();
    for command in &commands {
        let began = Instant::now();
        match command.trim_end_matches(" &") {
            stays @ ("clinch serve" | "clinch echo") => beside.push(reader.start(stays)),
            ends => {
                let ran = reader.run(ends);
                assert!(ran.status.success(), "{command}: {}", text(&ran.stderr));
                answers.push(text(&ran.stdout));
            }
        }
        println!("{:>6} ms  {}", began.elapsed().as_millis(), command);
    }
    assert!(answers[0].contains("wrote clinch.toml"), "{}", answers[0]);
    assert!(answers[1].starts_with("HTTP/1.1 202 "), "{}", answers[1]);
    assert!(answers[2].starts_with("HTTP/1.1 200 "), "{}", answers[2]);
    let (_, body) = answers[2].split_once("\r\n\r\n").expect("a body");
    let operation: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(operation["state"], "COMPLETED", "{operation:#}");
    let echoed = &operation["result"]["payload"];
    assert_eq!(echoed["body"]["name"], "Ada", "{operation:#}");
    assert_eq!(echoed["op_id"], operation["op_id"]);
}
