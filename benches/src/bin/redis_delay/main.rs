//! Delayed hints over Redis: whether any is early, how late they are, and the cost of waiting.
//!
//! A private server and one node. Hints with delays spread over a few seconds are published at
//! once; waiting readers take them. A hint counts as early if it arrives before the time of the
//! publish call plus its delay. Lateness counts from there too, so it includes the publication
//! itself. Then the readers wait without any hint, and the processor time of this process and of
//! the server is read.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clinch_bench::processor_time;
use clinch_core::policy::{Routes, SplitMix};
use clinch_core::ports::{Bus, Dequeue, Hint, Ids, Publication, Topic};
use clinch_core::{Domain, Error, ErrorKind, EventType, OpId, Result, WorkerId};
use clinch_redis::{RedisBus, Settings};
use clinch_system::SystemIds;
use clinch_testbed::{Kind, Server};
use tokio::sync::mpsc;

const USAGE: &str = "usage: redis_delay [--json] [--messages N] [--readers N] [--idle SECONDS]";

/// The delays are spread over this much time, after the first.
const SPREAD: Duration = Duration::from_secs(8);

/// The first delay: long enough to publish every hint before the first is due.
const FIRST: Duration = Duration::from_secs(2);

struct Arguments {
    json: bool,
    messages: usize,
    readers: usize,
    idle: u64,
}

struct Report {
    messages: usize,
    early: usize,
    twice: usize,
    lateness: Vec<Duration>,
    idle: Duration,
    node_cpu: Duration,
    server_cpu: Duration,
    readers: usize,
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
            ExitCode::from(u8::from(report.early + report.twice > 0))
        }
        Err(error) => {
            eprintln!("redis_delay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        json: false,
        messages: 10_000,
        readers: 64,
        idle: 10,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => arguments.json = true,
            "--messages" => arguments.messages = words.next()?.parse().ok()?,
            "--readers" => arguments.readers = words.next()?.parse().ok()?,
            "--idle" => arguments.idle = words.next()?.parse().ok()?,
            _ => return None,
        }
    }
    let fits = (1..=64).contains(&arguments.readers) && arguments.messages >= 1;
    fits.then_some(arguments)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Internal, error.to_string())
}

async fn measure(arguments: &Arguments) -> Result<Report> {
    let server = Server::start(Kind::Redis).map_err(failed)?;
    let bus = RedisBus::connect(&server.url(), Settings::default()).await?;
    let domain = Domain::new("bench").map_err(failed)?;
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    for number in 0..arguments.readers {
        let dequeue = Dequeue {
            topics: vec![Topic::of(&domain)],
            max: 16,
            wait: Duration::from_secs(3_600),
            visibility: Duration::from_secs(30),
            worker: WorkerId::new(format!("reader-{number}")).map_err(failed)?,
            attempts: Vec::new(),
            routes: Arc::new(Routes::new()),
            only: Arc::new(Routes::new()),
        };
        tokio::spawn(read(bus.clone(), dequeue, arrived.clone()));
    }
    let dues = publish(&bus, &domain, arguments.messages).await?;
    let mut lateness = Vec::with_capacity(dues.len());
    let (mut early, mut seen) = (0, BTreeMap::<OpId, u32>::new());
    while seen.len() < dues.len() {
        let Some((op_id, at)) = arrivals.recv().await else {
            return Err(failed("the readers are gone"));
        };
        *seen.entry(op_id).or_default() += 1;
        let Some(due) = dues.get(&op_id) else {
            continue;
        };
        match at.checked_duration_since(*due) {
            Some(late) => lateness.push(late),
            None => early += 1,
        }
    }
    lateness.sort_unstable();
    let idle = Duration::from_secs(arguments.idle);
    let (node, there) = (cpu("self")?, server_cpu(&server)?);
    tokio::time::sleep(idle).await;
    Ok(Report {
        messages: dues.len(),
        early,
        twice: seen.values().filter(|count| **count > 1).count(),
        lateness,
        idle,
        node_cpu: cpu("self")?.saturating_sub(node),
        server_cpu: server_cpu(&server)?.saturating_sub(there),
        readers: arguments.readers,
    })
}

async fn read(bus: RedisBus, dequeue: Dequeue, arrived: mpsc::UnboundedSender<(OpId, Instant)>) {
    loop {
        let Ok(deliveries) = bus.dequeue(&dequeue).await else {
            return;
        };
        let now = Instant::now();
        let mut receipts = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let _ = arrived.send((delivery.hint.op_id, now));
            receipts.push(delivery.receipt);
        }
        if bus.ack(&receipts).await.is_err() {
            return;
        }
    }
}

/// Publishes the hints; returns the earliest due time of each.
async fn publish(bus: &RedisBus, domain: &Domain, count: usize) -> Result<BTreeMap<OpId, Instant>> {
    let mut rng = SplitMix::new(1);
    let spread = u64::try_from(SPREAD.as_micros()).unwrap_or(u64::MAX);
    let mut publications = Vec::with_capacity(count);
    for _ in 0..count {
        let hint = Hint {
            op_id: SystemIds.op_id(),
            domain: domain.clone(),
            event_type: EventType::new("call").map_err(failed)?,
            lane: None,
            dispatch_no: 1,
            trace: None,
        };
        let delay = FIRST + Duration::from_micros(rng.next_u64() % spread);
        publications.push(Publication::to_all(hint, delay));
    }
    let mut dues = BTreeMap::new();
    for some in publications.chunks(500) {
        let before = Instant::now();
        bus.publish(some).await?;
        let due = |one: &Publication| (one.hint.op_id, before + one.delay);
        dues.extend(some.iter().map(due));
    }
    Ok(dues)
}

fn server_cpu(server: &Server) -> Result<Duration> {
    let pid = server.pid().ok_or_else(|| failed("the server is gone"))?;
    cpu(&pid.to_string())
}

fn cpu(process: &str) -> Result<Duration> {
    processor_time(process).ok_or_else(|| failed("this system tells no processor time"))
}

impl Report {
    fn late(&self, share: f64) -> f64 {
        let last = self.lateness.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        let late = self.lateness.get(at).copied().unwrap_or_default();
        late.as_secs_f64() * 1_000.0
    }

    fn text(&self, json: bool) -> String {
        let share = |cpu: Duration| 100.0 * cpu.as_secs_f64() / self.idle.as_secs_f64().max(1e-9);
        let (node, server) = (share(self.node_cpu), share(self.server_cpu));
        let (p50, p99, worst) = (self.late(0.5), self.late(0.99), self.late(1.0));
        let Self {
            messages,
            early,
            twice,
            readers,
            ..
        } = self;
        if json {
            return format!(
                "{{\"messages\":{messages},\"early\":{early},\"twice\":{twice},\
                 \"late_ms\":{{\"p50\":{p50:.3},\"p99\":{p99:.3},\"max\":{worst:.3}}},\
                 \"idle_cpu_percent\":{{\"node\":{node:.2},\"server\":{server:.2}}}}}"
            );
        }
        format!(
            "{messages} delayed hints: {early} early, {twice} twice\n\
             late: p50 {p50:.2} ms, p99 {p99:.2} ms, max {worst:.2} ms\n\
             idle with {readers} waiting readers, {} s: node {node:.2} %, server {server:.2} % \
             of a core",
            self.idle.as_secs()
        )
    }
}
