//! Pages of the console and answers of the API on a store with a long history.
//!
//! The store holds five million operations, a tenth of them FAILED with an open dead letter, and
//! some that wait. The server is the program itself, `clinch serve`, in a process of its own; pages
//! are requested one after the other over loopback.
#![forbid(unsafe_code)]

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Instant;

use clinch_bench::database::failed;
use clinch_bench::{DOMAIN, Folder, FullStore, History, Load, Node, Report, fill};
use clinch_core::ports::{Filter, Inspect};
use clinch_core::{Result, Status};
use clinch_postgres::{Postgres, Settings};
use clinch_sqlite::Sqlite;
use clinch_system::SystemClock;
use clinch_testbed::{Kind, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const USAGE: &str = "usage: pages [--json] [--operations N] [--only sqlite|postgres]";
const OPERATIONS: usize = 5_000_000;
/// Operations that wait at the end, in thousands.
const WAITING: usize = 20;
/// Requests of each page. The first is reported on its own: nothing is cached yet.
const REQUESTS: usize = 20;
const FAILED_EVERY: usize = 10;

struct Arguments {
    json: bool,
    operations: usize,
    only: Option<String>,
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let measured = match runtime {
        Ok(runtime) => runtime.block_on(measure(&arguments)),
        Err(error) => Err(failed(error)),
    };
    match measured {
        Ok(report) => {
            println!("{}", report.text(arguments.json));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("pages: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        json: false,
        operations: OPERATIONS,
        only: None,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => arguments.json = true,
            "--operations" => arguments.operations = words.next()?.parse().ok()?,
            "--only" => arguments.only = Some(words.next()?),
            _ => return None,
        }
    }
    Some(arguments)
}

async fn measure(arguments: &Arguments) -> Result<Report> {
    let mut report = Report::new("pages", &[]);
    report.load("before");
    let is_asked = |name: &str| arguments.only.as_deref().is_none_or(|only| only == name);
    let clock = Arc::new(SystemClock::new());
    if is_asked("sqlite") {
        let folder = Folder::new()?;
        let file = folder.path().join("clinch.db");
        let sqlite = Sqlite::open(&file, clinch_sqlite::Settings::default(), clock.clone())?;
        let ids = prepare(sqlite, &clock, arguments.operations).await?;
        let url = format!("sqlite://{}", file.display());
        pages("sqlite", &url, &folder, &ids, &mut report).await?;
    }
    if is_asked("postgres") {
        let server = Server::start(Kind::Postgres).map_err(failed)?;
        clinch_postgres::migrate(&server.url()).await?;
        let postgres = Postgres::connect(&server.url(), Settings::default(), clock.clone()).await?;
        let ids = prepare(postgres, &clock, arguments.operations).await?;
        pages(
            "postgres",
            &server.url(),
            &Folder::new()?,
            &ids,
            &mut report,
        )
        .await?;
    }
    report.load("after");
    Ok(report)
}

/// Ids for pages of one operation, and a cursor in the middle of the list.
struct Ids {
    completed: String,
    failed: String,
}

/// Fills the store; the returned operations are from its middle.
async fn prepare<S: FullStore>(store: S, clock: &Arc<SystemClock>, count: usize) -> Result<Ids> {
    let store = Arc::new(store);
    let folder = Folder::new()?;
    let load = Load::new(clock.clone(), DOMAIN, "call", "")?;
    let node = Node::new("bench", clock.clone(), folder.path())?;
    let engine = node.engine(store.clone(), None).await?;
    let orchestrator = engine.orchestrator();
    let history = History {
        settled: count,
        failed_every: FAILED_EVERY,
    };
    fill(&*store, &orchestrator, &load, history).await?;
    for _ in 0..WAITING {
        orchestrator.submit(load.chunk()?).await?;
    }
    let middle = count / 2 / Load::CHUNK * Load::CHUNK;
    let mut found = Vec::new();
    for number in [middle + 1, middle] {
        let filter = Filter {
            biz_key: Some(load.command_number(number)?.keys.biz_key),
            ..Filter::default()
        };
        let page = Inspect::list(&*store, &filter, None, 1).await?;
        let one = page.items.first().ok_or_else(|| failed("no operation"))?;
        found.push((one.op_id.to_string(), one.state.status));
    }
    let of = |status| {
        let one = found.iter().find(|(_, of)| *of == status);
        one.map_or_else(|| found[0].0.clone(), |(id, _)| id.clone())
    };
    Ok(Ids {
        completed: of(Status::Completed),
        failed: of(Status::Failed),
    })
}

/// A server that ends with this value.
struct Serving {
    child: Child,
    address: SocketAddr,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(url: &str, folder: &Folder) -> Result<Serving> {
    let config = format!(
        "[store]\nurl = \"{url}\"\n[server]\nlisten = \"127.0.0.1:0\"\n[[route]]\nname = \"call\"\n\
         domain = \"{DOMAIN}\"\nevent_type = \"call\"\nremote = true\nsafety = \"natural\"\n"
    );
    std::fs::write(folder.path().join("clinch.toml"), config).map_err(failed)?;
    let own = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(own.with_file_name("clinch"))
        .arg("serve")
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let stderr = child.stderr.take().ok_or_else(|| failed("no output"))?;
    let mut lines = BufReader::new(stderr).lines();
    let address = lines
        .by_ref()
        .map_while(std::io::Result::ok)
        .find_map(|line| {
            let (_, address) = line.split_once("listening on http://")?;
            address.trim().parse().ok()
        });
    // The later output must be read, or the process would block.
    std::thread::spawn(move || lines.map_while(std::io::Result::ok).for_each(drop));
    let address = address.ok_or_else(|| failed("the server does not start"))?;
    Ok(Serving { child, address })
}

async fn pages(
    store: &str,
    url: &str,
    folder: &Folder,
    ids: &Ids,
    report: &mut Report,
) -> Result<()> {
    let server = serve(url, folder)?;
    let first = get(server.address, "/v1/operations?limit=100").await?.1;
    let next = first.split("\"next_cursor\":\"").nth(1);
    let cursor = next
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_default();
    let paths = [
        "/".to_owned(),
        "/operations".to_owned(),
        "/operations?state=FAILED".to_owned(),
        "/operations?phase=waiting".to_owned(),
        "/operations?biz_key=order-17".to_owned(),
        "/operations?code=absent".to_owned(),
        "/operations?label=team:nobody".to_owned(),
        format!("/operations?cursor={cursor}"),
        format!("/operations/{}", ids.completed),
        format!("/operations/{}", ids.failed),
        format!("/operations/{}", &ids.completed[..13]),
        "/dead-letters".to_owned(),
        "/dead-letters?view=list".to_owned(),
        "/dead-letters?view=list&code=http_410".to_owned(),
        "/destinations".to_owned(),
        "/domains".to_owned(),
        "/keys".to_owned(),
        "/v1/overview".to_owned(),
        "/v1/batches".to_owned(),
        "/metrics".to_owned(),
    ];
    for path in paths {
        let mut millis = Vec::with_capacity(REQUESTS);
        for number in 0..=REQUESTS {
            let began = Instant::now();
            let (status, _) = get(server.address, &path).await?;
            let took = began.elapsed().as_secs_f64() * 1_000.0;
            let shown: String = path.chars().take(44).collect();
            if number == 0 {
                report.add(format!("{store} {shown} ({status}), first"), took, "ms");
            } else {
                millis.push(took);
            }
        }
        let most = millis.iter().copied().fold(0.0, f64::max);
        let shown: String = path.chars().take(44).collect();
        report.add(
            format!("{store} {shown}, slowest of {REQUESTS}"),
            most,
            "ms",
        );
    }
    Ok(())
}

/// The status and body of an answer.
async fn get(address: SocketAddr, path: &str) -> Result<(String, String)> {
    let mut stream = TcpStream::connect(address).await.map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.map_err(failed)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = answer
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.to_owned());
    Ok((status, body.unwrap_or_default()))
}
