//! Processes that die, processes that share a file (RUN-7, RUN-8, RUN-11, CORE-12).
//!
//! The tests start this very binary again as a helper, with `CLINCH_HELPER` naming its part.
//! `CLINCH_KILLS` sets how often the process under load is killed: 50 by default, and
//! `CLINCH_KILLS=200 cargo test -p clinch-sqlite --test store kill` is the long run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clinch_core::policy::SplitMix;
use clinch_core::ports::{Domains, Filter, Inspect, Notices, Operation, Recovery, Scan};
use clinch_core::protocol::Phase;
use clinch_core::{Command, Effect, Payload, Status, TimeBudget, code};
use clinch_sqlite::{Settings, Sqlite};

use crate::common::{
    Folder, clock, integrity, keys, levels, on_a_runtime, open, operation, routes, shrink_levels,
};
use crate::engine::{NEVER, Provider};
use clinch_contract::Calls;

/// Lease of the helpers: short, so that lost attempts are found soon.
const LEASE: Duration = Duration::from_millis(400);

/// Longest wait of the helpers, except for those that must be woken.
const FALLBACK: Duration = Duration::from_secs(1);

/// A helper process, killed when the test ends.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn helper(part: &str, folder: &Folder, first: usize) -> Helper {
    let this = std::env::current_exe().expect("this binary");
    let child = Process::new(this)
        .args([
            "--exact",
            "processes::plays_its_part",
            "--nocapture",
            "--test-threads",
            "1",
        ])
        .env("CLINCH_HELPER", part)
        .env("CLINCH_FILE", folder.file())
        .env("CLINCH_FIRST", first.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    Helper(child.expect("a helper"))
}

/// The helper's code; does nothing in an ordinary test run.
#[test]
fn plays_its_part() {
    let Ok(part) = std::env::var("CLINCH_HELPER") else {
        return;
    };
    let file = PathBuf::from(std::env::var("CLINCH_FILE").expect("a file"));
    let first: usize = std::env::var("CLINCH_FIRST")
        .ok()
        .and_then(|first| first.parse().ok())
        .unwrap_or(0);
    on_a_runtime(async {
        let sqlite = Sqlite::open(&file, Settings::default(), clock()).expect("opens");
        let provider = Provider {
            book: book(&file),
            aborts: part == "abort",
        };
        // A helper that only works must be woken; for the others a lost wake-up does not matter.
        let fallback = match part.as_str() {
            "work" => NEVER,
            _ => FALLBACK,
        };
        let engine = crate::engine::engine(&sqlite, provider, LEASE, fallback).await;
        let running = tokio::spawn({
            let engine = engine.clone();
            async move { engine.run().await }
        });
        match part.as_str() {
            "load" => submit_for_ever(&engine.orchestrator(), first).await,
            "work" => {
                // Runs until the test closes the helper's input.
                say("ready");
                let closed = tokio::task::spawn_blocking(|| std::io::stdin().lines().count());
                let _ = closed.await;
            }
            _ => until_nothing_runs(&sqlite).await,
        }
        engine.stop();
        let _ = running.await;
    });
}

fn book(file: &Path) -> PathBuf {
    file.with_file_name("book")
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

fn command(number: usize) -> Command {
    let domain = ["natural", "unsafe"][number % 2];
    let payload = Payload::parse(&format!("{{\"n\":{number}}}"), 1_000).expect("valid");
    Command::new(keys(domain, number), payload)
}

/// Submits operations for ever, some with a begin in the same commit; prints each when it is
/// durable.
async fn submit_for_ever(orchestrator: &clinch_engine::Orchestrator, first: usize) {
    let next = Arc::new(AtomicUsize::new(first));
    let caller = |inline: bool| {
        let (orchestrator, next) = (orchestrator.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let accepted = if inline {
                    orchestrator
                        .start(command(number), TimeBudget::NONE)
                        .await
                        .is_ok()
                } else {
                    orchestrator.submit(vec![command(number)]).await.is_ok()
                };
                if accepted {
                    say(&format!("accepted {number}"));
                }
            }
        })
    };
    let callers: Vec<_> = (0..8).map(|number| caller(number % 2 == 0)).collect();
    for caller in callers {
        let _ = caller.await;
    }
}

/// Waits for notices until every operation is terminal or held for an operator.
async fn until_nothing_runs(sqlite: &Sqlite) {
    let mut seen = 0;
    loop {
        let domains = sqlite.domains().await.expect("reads");
        let busy = |view: &clinch_core::ports::DomainView| {
            let c = &view.counts;
            c.pending + c.live + c.recorded + c.waiting
        };
        let probe = Recovery::next_due(sqlite, Scan::ProbeDue)
            .await
            .expect("reads");
        if domains.iter().map(busy).sum::<u64>() == 0 && probe.is_none() {
            return;
        }
        // The next read finds a notice that comes between this read and the wait.
        let (_, last) = sqlite
            .news(seen, Duration::from_millis(200))
            .await
            .expect("news");
        seen = last;
    }
}

/// Number of calls per operation, from the provider's record.
fn calls(folder: &Folder) -> BTreeMap<String, usize> {
    let book = std::fs::read_to_string(book(&folder.file())).unwrap_or_default();
    let mut calls = BTreeMap::new();
    for op in book.lines().filter_map(|line| line.split(' ').nth(1)) {
        *calls.entry(op.to_owned()).or_default() += 1;
    }
    calls
}

async fn all_rows(sqlite: &Sqlite) -> Vec<Operation> {
    let (mut rows, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let filter = Filter::default();
        let page = sqlite
            .list(&filter, cursor.as_deref(), 1_000)
            .await
            .expect("lists");
        rows.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return rows;
        }
    }
}

#[test]
fn run_11_a_process_killed_under_load_loses_nothing_and_settles_nothing_twice() {
    let folder = Folder::new("kill");
    let kills: usize = std::env::var("CLINCH_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(50);
    let mut rng = SplitMix::new(u64::from(std::process::id()));
    let mut accepted: BTreeSet<usize> = BTreeSet::new();
    // With small levels many kills hit a merge of keys.
    shrink_levels(&open(&folder), 20, 200);
    for round in 0..kills {
        let mut helper = helper("load", &folder, round * 1_000_000);
        let out = helper.0.stdout.take().expect("its output");
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        // A random time: after this many answers, usually with others in flight.
        let moment = usize::try_from(1 + rng.next_u64() % 250).unwrap_or(1);
        let told = |line: String| line.split("accepted ").nth(1)?.trim().parse::<usize>().ok();
        let mut told = lines.filter_map(told);
        accepted.extend(told.by_ref().take(moment));
        helper.0.kill().expect("SIGKILL");
        // What it printed before it died was durable too.
        accepted.extend(told);
        let _ = helper.0.wait();
        assert_eq!(integrity(&folder), "ok", "after kill {round}");
    }
    on_a_runtime(async {
        let sqlite = open(&folder);
        let keys_of_all = levels(&sqlite).iter().sum::<i64>();
        assert!(keys_of_all >= accepted.len() as i64);
        assert_eq!(keys_of_all, all_rows(&sqlite).await.len() as i64);
        let numbers: Vec<usize> = accepted.iter().copied().collect();
        for numbers in numbers.chunks(1_000) {
            let keys: Vec<_> = numbers.iter().map(|n| command(*n).keys).collect();
            let found = sqlite.find(&keys).await.expect("reads");
            assert!(
                found.iter().all(Option::is_some),
                "an acknowledged operation is lost"
            );
        }
    });
    let mut last = helper("finish", &folder, 0);
    assert!(
        last.0.wait().expect("ends").success(),
        "what is left can be finished"
    );
    on_a_runtime(check_ends(&folder));
}

async fn check_ends(folder: &Folder) {
    let sqlite = open(folder);
    let calls = calls(folder);
    for row in all_rows(&sqlite).await {
        let lines = sqlite.ledger(row.op_id).await.expect("reads");
        let ends = lines
            .iter()
            .filter(|line| line.status.is_terminal() && line.refused.is_none());
        let ends = ends.count();
        let called = calls.get(&row.op_id.to_string()).copied().unwrap_or(0);
        let is_unsafe = row.keys.domain.as_str() == "unsafe";
        assert!(
            !is_unsafe || called <= 1,
            "an unsafe call was made {called} times"
        );
        match row.state.status {
            Status::Completed => assert!(called > 0 && ends == 1, "{called} calls, {ends} ends"),
            Status::Failed => {
                // Three kills in a row hit this operation, so it counts as poison.
                let failure = row
                    .state
                    .failure
                    .as_ref()
                    .map(|f| (f.code.as_str(), f.effect));
                assert_eq!(failure, Some((code::POISON, Effect::Unknown)), "{row:?}");
                assert!(!is_unsafe && ends == 1 && row.state.deliveries == 3);
            }
            _ => {
                assert_eq!(row.state.phase, Some(Phase::Held), "{row:?}");
                assert!(is_unsafe && ends == 0);
            }
        }
    }
    assert_eq!(integrity(folder), "ok");
}

#[test]
fn run_7_a_payload_that_aborts_the_process_is_poison_and_not_the_end_of_every_worker() {
    let folder = Folder::new("poison");
    let (natural, unsafe_one) = (operation("natural", 0), operation("unsafe", 1));
    on_a_runtime(async {
        let new = [natural.clone(), unsafe_one.clone()];
        open(&folder)
            .accept(&new, &routes())
            .await
            .expect("accepted");
    });
    let starts = (0..20).find(|_| {
        let mut helper = helper("abort", &folder, 0);
        helper.0.wait().expect("ends").success()
    });
    assert!(starts.is_some(), "the payload kills every worker for ever");
    let calls = calls(&folder);
    let called = |op: clinch_core::OpId| calls.get(&op.to_string()).copied().unwrap_or(0);
    on_a_runtime(async {
        let sqlite = open(&folder);
        let rows = sqlite
            .get(&[natural.op_id, unsafe_one.op_id])
            .await
            .expect("reads");
        let [Some(natural), Some(held)] = &rows[..] else {
            panic!("both are there");
        };
        let failure = natural.state.failure.as_ref().expect("it failed");
        assert_eq!(natural.state.status, Status::Failed);
        assert_eq!(
            (failure.code.as_str(), failure.effect),
            (code::POISON, Effect::Unknown)
        );
        assert!(
            (1..=3).contains(&called(natural.op_id)),
            "deliveries_max is 3"
        );
        assert_eq!(held.state.phase, Some(Phase::Held));
        assert_eq!(held.state.effect, Effect::Unknown);
        // No call, if the other payload killed the process between its begin and its call.
        assert!(called(held.op_id) <= 1, "an unsafe call is not repeated");
    });
}

#[test]
fn run_8_two_processes_share_a_file_without_double_work_and_wake_each_other() {
    const OPERATIONS: usize = 4_000;
    let folder = Folder::new("share");
    on_a_runtime(async {
        let sqlite = open(&folder);
        shrink_levels(&sqlite, 100, 500);
        let mut helpers = [helper("work", &folder, 0), helper("work", &folder, 0)];
        for helper in &mut helpers {
            let out = helper.0.stdout.take().expect("its output");
            let ready = BufReader::new(out).lines().map_while(Result::ok);
            assert!(
                { ready }.any(|line| line.contains("ready")),
                "the helper starts"
            );
        }
        let routes = routes();
        // Idle workers with a fallback of one hour are woken by this process, and they wake it when
        // they settle.
        for number in 0..20 {
            let new = [operation("natural", number)];
            sqlite.accept(&new, &routes).await.expect("accepted");
            until_settled(&sqlite, number as u64 + 1).await;
        }
        for first in (20..OPERATIONS).step_by(20) {
            let new: Vec<_> = (first..first + 20)
                .map(|n| operation("natural", n))
                .collect();
            sqlite.accept(&new, &routes).await.expect("accepted");
        }
        until_settled(&sqlite, OPERATIONS as u64).await;
        assert_eq!(levels(&sqlite).iter().sum::<i64>(), OPERATIONS as i64);
    });
    let calls_of_each = calls(&folder);
    assert_eq!(calls_of_each.len(), OPERATIONS);
    assert!(
        calls_of_each.values().all(|calls| *calls == 1),
        "no call is made twice"
    );
    let book = std::fs::read_to_string(book(&folder.file())).expect("the book");
    let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
    for process in book.lines().filter_map(|line| line.split(' ').next()) {
        *shares.entry(process).or_default() += 1;
    }
    assert_eq!(shares.len(), 2, "both work: {shares:?}");
    assert!(
        shares.values().all(|share| *share >= OPERATIONS / 20),
        "neither starves: {shares:?}"
    );
    assert_eq!(integrity(&folder), "ok");
}

/// Waits for notices of other processes; without a wake-up the test hangs.
async fn until_settled(sqlite: &Sqlite, count: u64) {
    let (_, mut seen) = sqlite.news(0, Duration::ZERO).await.expect("news");
    loop {
        let domains = sqlite.domains().await.expect("reads");
        if domains
            .iter()
            .map(|view| view.counts.completed)
            .sum::<u64>()
            >= count
        {
            return;
        }
        seen = sqlite.news(seen, NEVER).await.expect("news").1;
    }
}
