//! Clinch and its peers on one PostgreSQL server, and BullMQ on Redis.

use std::process::Command;

use clinch_peers_load::{CALLERS, Result, ensure};
use clinch_testbed::{Kind, Server, sql};

use crate::arguments::Arguments;
use crate::contender::{Contender, Figures, Jobs};
use crate::install::Installer;
use crate::machine::{self, Ticks};
use crate::peer::Peer;
use crate::report::{Measured, Report, Rounds};
use crate::rows;

const PART: &str = "PostgreSQL";
/// One row per transaction, about as long as a job.
const ONE_ROW: &str = "INSERT INTO plain (body) VALUES (repeat('x', 100))";
const SECONDS: &str = "5";
/// With the name and the package of the program.
const PEERS: [(Peer, &str, &str, &str); 3] = [
    (
        Peer::GraphileWorker,
        "graphile_worker",
        "clinch-peers-graphile-worker",
        "drain: concurrency 64, two local queues of 1,000, completions batched for 2 ms; latency: \
         none of these; LISTEN/NOTIFY",
    ),
    (
        Peer::River,
        "riverqueue",
        "clinch-peers-river",
        "1,000 workers, fetch cooldown 1 ms, LISTEN/NOTIFY",
    ),
    (
        Peer::Dbos,
        "dbos",
        "clinch-peers-dbos",
        "no limit of concurrency, queue polled every 10 ms; latency: a workflow that is run, not \
         queued; 3,000 jobs instead of 10,000 and 40,000, because it starts queued workflows one by one",
    ),
];

pub(crate) fn measure(
    arguments: &Arguments,
    installer: &mut Installer,
    report: &mut Report,
) -> Result<()> {
    let mut contenders = install(arguments, installer, report);
    let mut bullmq = install_bullmq(arguments, installer, report);
    let wants_pgbench = arguments.wants(Peer::Pgbench);
    if contenders.is_empty() && bullmq.is_none() && !wants_pgbench {
        return Ok(());
    }
    let server = Server::start_with(Kind::Postgres, &["-c", "autovacuum_naptime=1s"])?;
    describe(&server, report)?;
    let jobs = Jobs {
        singles: arguments.jobs(10_000),
        bulk: arguments.jobs(40_000),
        samples: arguments.jobs(1_000),
    };
    report.setting(format!("jobs, {PART}"), jobs.text());
    let clinch = Contender::clinch("postgres")?;
    let (mut ours, mut plain) = (Rounds::new(), Rounds::new());
    let (since, mut failed) = (Ticks::now()?, Vec::new());
    for round in 0..arguments.rounds {
        ours.push(play(&server, &clinch, jobs)?);
        eprintln!("{PART}, round {round}: clinch {:?}", ours.last());
        if wants_pgbench {
            plain.push(pgbench(&server)?);
            eprintln!("{PART}, round {round}: pgbench {:?}", plain.last());
        }
        for (peer, contender, rounds) in &mut contenders {
            let jobs = match *peer {
                Peer::Dbos => jobs.few(),
                _ => jobs,
            };
            match play(&server, contender, jobs) {
                Ok(figures) => rounds.push(figures),
                Err(why) => failed.push((*peer, why)),
            }
            eprintln!("{PART}, round {round}: {} {:?}", peer.name(), rounds.last());
        }
        report.leave_out(&mut contenders, &mut failed);
        if let Some((peer, contender, rounds)) = &mut bullmq {
            let redis = Server::start_with(Kind::Redis, &["--appendfsync", "always"])?;
            rounds.push(contender.play(&redis.url(), jobs)?);
            eprintln!("{PART}, round {round}: {} {:?}", peer.name(), rounds.last());
        }
    }
    drop(server);
    machine::others(PART, since, report)?;
    if wants_pgbench {
        report.compare(PART, rows::POSTGRES, &ours, Peer::Pgbench, &plain)?;
    }
    for (peer, _, rounds) in contenders.iter().chain(&bullmq) {
        report.compare(PART, rows::POSTGRES, &ours, *peer, rounds)?;
    }
    Ok(())
}

fn install(arguments: &Arguments, installer: &Installer, report: &mut Report) -> Vec<Measured> {
    let mut contenders = Vec::new();
    for (peer, name, package, settings) in PEERS {
        if !arguments.wants(peer) {
            continue;
        }
        match installer.build("postgres", package) {
            Ok(contender) => {
                let version = installer.version("postgres", name);
                report.setting(peer.name(), format!("{version}; {settings}"));
                contenders.push((peer, contender, Rounds::new()));
            }
            Err(why) => report.not_measured(peer, why),
        }
    }
    contenders
}

fn install_bullmq(
    arguments: &Arguments,
    installer: &Installer,
    report: &mut Report,
) -> Option<Measured> {
    if !arguments.wants(Peer::BullMq) {
        return None;
    }
    match installer.bullmq() {
        Ok((contender, versions)) => {
            let settings = "one worker, concurrency 500; private Redis with appendfsync always";
            report.setting(Peer::BullMq.name(), format!("{versions}; {settings}"));
            Some((Peer::BullMq, contender, Rounds::new()))
        }
        Err(why) => {
            report.not_measured(Peer::BullMq, why);
            None
        }
    }
}

/// A round in a database of its own, after a checkpoint.
fn play(server: &Server, contender: &Contender, jobs: Jobs) -> Result<Figures> {
    let database = server.database()?;
    sql(Kind::Postgres, &server.url(), "CHECKPOINT")?;
    let figures = contender.play(&database, jobs);
    let name = database.rsplit('/').next().unwrap_or_default();
    let drop = format!("DROP DATABASE {name} WITH (FORCE)");
    sql(Kind::Postgres, &server.url(), &drop)?;
    figures
}

/// Plain inserts, one row a commit, by the server's own tool.
fn pgbench(server: &Server) -> Result<Figures> {
    let program = Kind::Postgres.program();
    let program = program.ok_or("PostgreSQL is not installed")?;
    let url = server.url();
    let table = "DROP TABLE IF EXISTS plain; \
                 CREATE TABLE plain (id bigserial PRIMARY KEY, body text)";
    sql(Kind::Postgres, &url, table)?;
    sql(Kind::Postgres, &url, "CHECKPOINT")?;
    let script = server.folder().join("one-row.sql");
    std::fs::write(&script, ONE_ROW)?;
    let output = Command::new(program.with_file_name("pgbench"))
        .args(["-n", "-M", "prepared", "-T", SECONDS, "-j", "2"])
        .args(["-h", "127.0.0.1", "-U", "postgres"])
        .args(["-p", &server.port().to_string()])
        .args(["-c", &CALLERS.to_string()])
        .arg("-f")
        .arg(&script)
        .arg("postgres")
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = "));
    let rate = rate.and_then(|rate| rate.split_whitespace().next()?.parse().ok());
    let rate = rate.ok_or("pgbench gave no figure")?;
    Ok([("accept".to_owned(), rate)].into())
}

/// Adds the server's version and what it syncs. Refuses a server that does not sync.
fn describe(server: &Server, report: &mut Report) -> Result<()> {
    let show = |name: &str| sql(Kind::Postgres, &server.url(), &format!("SHOW {name}"));
    let version = show("server_version")?;
    let version = version.split(' ').next().unwrap_or_default();
    let (fsync, commit) = (show("fsync")?, show("synchronous_commit")?);
    ensure(fsync == "on" && commit == "on", "PostgreSQL does not sync")?;
    let buffers = show("shared_buffers")?;
    report.setting(
        "PostgreSQL",
        format!(
            "{version}, fsync={fsync}, synchronous_commit={commit}, shared_buffers={buffers}, \
             autovacuum_naptime=1s; a new database and a checkpoint before each round"
        ),
    );
    report.setting(
        "pgbench",
        "16 clients, 2 threads, prepared, one row a commit, 5 s",
    );
    Ok(())
}
