//! An idempotent request through a server to something that does nothing: `clinch serve` and an
//! HTTP upstream, Restate and a service of its SDK.

use std::path::{Path, PathBuf};
use std::process::Command;

use clinch_peers_load::{Job, Result};
use tokio::runtime::Runtime;

use crate::arguments::Arguments;
use crate::client::{self, Client};
use crate::contender::Figures;
use crate::folder::Folder;
use crate::install::Installer;
use crate::machine::{self, Ticks};
use crate::peer::Peer;
use crate::report::{Report, Rounds};
use crate::restate::Restate;
use crate::server::{Server, free_port};
use crate::{rows, upstream};

const PART: &str = "HTTP";
/// Connections, their name and their requests.
const LOADS: [(usize, &str, u64); 3] = [(1, "1", 2_000), (16, "16", 8_000), (64, "64", 16_000)];
const WARM_UP: u64 = 1_000;

pub(crate) fn measure(
    arguments: &Arguments,
    folder: &Folder,
    installer: &mut Installer,
    report: &mut Report,
) -> Result<()> {
    let peers = [Peer::Restate, Peer::RestateDefaults];
    let peers: Vec<Peer> = peers
        .into_iter()
        .filter(|peer| arguments.wants(*peer))
        .collect();
    if peers.is_empty() {
        return Ok(());
    }
    let program = installer.clinch()?;
    let restate = match Restate::install(installer) {
        Ok(restate) => restate,
        Err(why) => {
            for peer in peers {
                report.not_measured(peer, &why);
            }
            return Ok(());
        }
    };
    for peer in &peers {
        report.setting(peer.name(), restate.setting(*peer));
    }
    report.setting(
        "clinch serve",
        "SQLite, synchronous=FULL; one route to an HTTP upstream in a process of its own, safety \
         natural, concurrency 64; all else by default",
    );
    let requests = LOADS.map(|(_, name, usual)| format!("{} over {name}", arguments.jobs(usual)));
    report.setting("requests, by connections", requests.join(", "));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let (mut ours, mut theirs) = (Rounds::new(), vec![Rounds::new(); peers.len()]);
    let since = Ticks::now()?;
    for round in 0..arguments.rounds {
        let own = Folder::new(folder.path())?;
        ours.push(clinch(arguments, &runtime, &program, own.path())?);
        eprintln!("{PART}, round {round}: clinch {:?}", ours.last());
        for (peer, theirs) in peers.iter().zip(&mut theirs) {
            let own = Folder::new(folder.path())?;
            let (server, port, _service) = restate.start(*peer, &runtime, own.path())?;
            let client = Client::new(port, Restate::request);
            theirs.push(load(arguments, &runtime, &client, &server)?);
            let name = peer.name();
            eprintln!("{PART}, round {round}: {name} {:?}", theirs.last());
        }
    }
    machine::others(PART, since, report)?;
    for (peer, theirs) in peers.iter().zip(&theirs) {
        report.compare(PART, rows::HTTP, &ours, *peer, theirs)?;
    }
    Ok(())
}

/// One round of Clinch.
fn clinch(
    arguments: &Arguments,
    runtime: &Runtime,
    program: &PathBuf,
    folder: &Path,
) -> Result<Figures> {
    let own = std::env::current_exe()?;
    let (_upstream, upstream) = Server::start_with_port(Command::new(own).arg(upstream::ARGUMENT))?;
    let port = free_port()?;
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:{port}\"\n\n[[route]]\nname = \"noop\"\ndomain = \"bench\"\n\
         event_type = \"call\"\nurl = \"http://127.0.0.1:{upstream}/\"\nsafety = \"natural\"\n\
         concurrency = 64\n"
    );
    std::fs::write(folder.join("clinch.toml"), config)?;
    let mut command = Command::new(program);
    command.arg("serve").current_dir(folder);
    let mut server = Server::start(&mut command, &folder.join("log"))?;
    server.wait_until(|| {
        let ready = client::once(port, "GET", "/readyz", "");
        runtime.block_on(ready) == Some(200)
    })?;
    let client = Client::new(port, request);
    load(arguments, runtime, &client, &server)
}

fn request(job: &Job) -> (String, String, String) {
    let (number, payload) = (job.number, job.json());
    let body = format!(
        r#"{{"domain":"bench","event_type":"call","biz_key":"order-{number}","idem_key":"key-{number}","payload":{payload}}}"#
    );
    let headers = "prefer: wait=30\r\n".to_owned();
    ("/v1/operations".to_owned(), headers, body)
}

/// Requests per second by connections, then the server's memory.
fn load(
    arguments: &Arguments,
    runtime: &Runtime,
    client: &Client,
    server: &Server,
) -> Result<Figures> {
    let mut figures = Figures::new();
    runtime.block_on(client.rate(16, WARM_UP))?;
    for (connections, name, usual) in LOADS {
        let total = arguments.jobs(usual);
        let rate = runtime.block_on(client.rate(connections, total))?;
        figures.insert(name.to_owned(), rate);
    }
    figures.insert("rss".to_owned(), server.resident()?);
    Ok(figures)
}
