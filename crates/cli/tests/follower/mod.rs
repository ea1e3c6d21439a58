//! Follows a page as a reader would: in an empty folder, every command in its order.
//!
//! A `sh` block is run command by command. Any other block is a file; the last name in backticks
//! before the block is the name of the file. Only what differs between machines is replaced:
//! addresses, because another server may use them, and the place of the repository.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The part of a page below a heading.
pub(crate) fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = format!("\n{heading}\n");
    let (_, section) = page.split_once(&start).expect("the heading");
    section.split("\n## ").next().unwrap_or_default()
}

/// One thing that the reader does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Run(String),
    Write(String, String),
}

/// The steps of a section, in their order.
pub(crate) fn steps(section: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = section;
    while let Some((prose, block)) = rest.split_once("```") {
        let (language, block) = block.split_once('\n').expect("a line of the fence");
        let (text, after) = block.split_once("```").expect("the end of the block");
        rest = after;
        if language != "sh" {
            let name = prose.rsplit('`').nth(1).expect("the name of the file");
            steps.push(Step::Write(name.to_owned(), text.to_owned()));
            continue;
        }
        let joined = text.replace("\\\n", " ");
        let commands = joined
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        steps.extend(commands.map(|command| Step::Run(command.to_owned())));
    }
    steps
}

/// A process that runs beside the others, as in a terminal of its own.
struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A reader at work in a folder.
pub(crate) struct Follower {
    folder: PathBuf,
    server: u16,
    echo: u16,
    /// Words of the page, and what stands for them here.
    pub(crate) replaced: Vec<(String, String)>,
    pub(crate) environment: Vec<(String, String)>,
    /// Variables of this process that the commands do not get.
    pub(crate) removed: Vec<String>,
    /// Every step so far, and how long it took.
    pub(crate) took: Vec<(String, Duration)>,
    beside: Vec<Beside>,
}

impl Follower {
    pub(crate) fn new(folder: &Path) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().expect("the repository");
        let (server, echo) = (port(), port());
        let replaced = [
            ("localhost:7070", format!("localhost:{server}")),
            ("127.0.0.1:7070", format!("127.0.0.1:{server}")),
            (
                "clinch echo",
                format!("clinch echo --listen 127.0.0.1:{echo}"),
            ),
            ("~/clinch", root.display().to_string()),
        ];
        Self {
            folder: folder.to_owned(),
            server,
            echo,
            replaced: replaced
                .map(|(word, ours)| (word.to_owned(), ours))
                .to_vec(),
            environment: Vec::new(),
            removed: Vec::new(),
            took: Vec::new(),
            beside: Vec::new(),
        }
    }

    /// Does every step and prints how long it took. Returns what each command that ended wrote to
    /// standard output.
    pub(crate) fn follow(&mut self, steps: &[Step]) -> Vec<String> {
        let mut said = Vec::new();
        for step in steps {
            let began = Instant::now();
            let name = match step {
                Step::Write(name, text) => {
                    let written = std::fs::write(self.folder.join(name), self.ours(text));
                    written.expect("the file is written");
                    name
                }
                Step::Run(command) => {
                    match command.trim_end_matches(" &") {
                        stays @ ("clinch serve" | "clinch echo") => self.start(stays),
                        ends => said.push(self.run(ends)),
                    }
                    command
                }
            };
            let took = began.elapsed();
            println!("{:>8} ms  {name}", took.as_millis());
            self.took.push((name.clone(), took));
        }
        let all: Duration = self.took.iter().map(|(_, took)| *took).sum();
        println!("{:>8} ms  in all", all.as_millis());
        said
    }

    fn ours(&self, text: &str) -> String {
        let replace = |text: String, (word, ours): &(String, String)| text.replace(word, ours);
        self.replaced.iter().fold(text.to_owned(), replace)
    }

    /// The command in a shell.
    fn shell(&self, command: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_clinch"));
        let folder = binary.parent().expect("a folder").display();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &self.ours(command)])
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CLINCH_")) {
            shell.env_remove(name);
        }
        for name in &self.removed {
            shell.env_remove(name);
        }
        shell
            .env("PATH", format!("{folder}:{path}"))
            .env(
                "CLINCH__SERVER__LISTEN",
                format!("127.0.0.1:{}", self.server),
            )
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        // The route that `clinch init` writes.
        let config = std::fs::read_to_string(self.folder.join("clinch.toml"));
        if config.is_ok_and(|config| config.contains("name = \"hello\"")) {
            let url = format!("http://127.0.0.1:{}/hello", self.echo);
            shell.env("CLINCH__ROUTE__HELLO__URL", url);
        }
        shell
    }

    /// Runs a command that must succeed.
    fn run(&self, command: &str) -> String {
        let output = self.shell(command).output().expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{command}\n{stdout}\n{stderr}");
        stdout
    }

    /// Starts a program and waits until it listens. `exec`: so that the kill ends the program
    /// itself.
    fn start(&mut self, command: &str) {
        let mut command = self.shell(&format!("exec {command}"));
        let command = command.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = Beside(command.spawn().expect("a shell"));
        let lines = BufReader::new(child.0.stderr.take().expect("piped")).lines();
        let mut lines = lines.map_while(Result::ok);
        let listens = lines.any(|line| line.starts_with("listening on "));
        assert!(listens, "it listens");
        // The later output must be read, or the process would block.
        std::thread::spawn(move || lines.for_each(drop));
        self.beside.push(child);
    }
}

/// A port that is free now.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
