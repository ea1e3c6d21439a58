//! Bad days of servers, while a demo runs on them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::{Stopwatch, pause};
use crate::saboteur::Saboteur;
use crate::{Demo, Ended, Kind, Server, Trouble};

/// Between two questions to the API while its store is down.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Between two false hints.
const SHOUT_EVERY: Duration = Duration::from_millis(100);

/// What runs on what.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The program under test: `clinch`.
    pub program: &'a Path,
    /// Holds the operations; `None` for the embedded default.
    pub store: Option<Kind>,
    /// Carries hints; `None` where the store is its own bus.
    pub bus: Option<Kind>,
    /// How many.
    pub payments: u64,
    /// Worker processes.
    pub workers: u8,
}

/// What is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// Nothing.
    None,
    /// Every process is told all the time to look at everything, as if each hint came twice
    /// and late. PostgreSQL only.
    FalseHints,
    /// The store is killed and comes back after so long.
    StoreGone(Duration),
    /// The store is killed and comes back at once, so often.
    StoreKills(u32),
    /// The bus is killed, loses everything it had, and comes back.
    BusLoss,
    /// The bus forgets everything it had, and goes on.
    BusFlushed,
    /// The provider is gone for so long.
    ProviderGone(Duration),
    /// Somebody locks rows in the wrong order all the time. MariaDB only.
    Deadlocks,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The demo's own verdict.
    pub ended: Ended,
    /// Answers 503 with a `Retry-After` while the store was down.
    pub turned_away: usize,
    /// Any other answer while the store was down.
    pub strange: Vec<u16>,
    /// Deadlocks, by the database server's own count, where they were provoked.
    pub deadlocks: u64,
}

impl Outcome {
    /// Transactions that were run again for a deadlock, by the metric of every process; `None`
    /// where the store tells none.
    pub fn run_again(&self) -> Option<u64> {
        let after = self.ended.said.split("run again").nth(1)?;
        after.split_whitespace().next()?.parse().ok()
    }
}

impl Scene<'_> {
    /// Plays it to the end.
    pub fn play(&self, harm: Harm) -> Result<Outcome, String> {
        let mut store = self.store.map(Server::start).transpose().map_err(say)?;
        let mut bus = self.bus.map(Server::start).transpose().map_err(say)?;
        let arguments = self.arguments(store.as_ref(), bus.as_ref(), harm);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let demo = Demo::start(self.program, &arguments).map_err(|error| error.to_string())?;
        let (mut turned_away, mut strange) = (0, Vec::new());
        let (mut shouting, mut saboteur) = (None, None);
        match harm {
            Harm::None | Harm::ProviderGone(_) => {}
            Harm::FalseHints => {
                let store = store.as_ref().ok_or("no store to shout at")?;
                shouting = Some(Shouting::at(store.url()));
            }
            Harm::Deadlocks => {
                let store = store.as_ref().ok_or("no store to sabotage")?;
                saboteur = Some(Saboteur::at(store.url()).map_err(say)?);
            }
            Harm::StoreGone(lasting) => {
                let store = store.as_mut().ok_or("no store to kill")?;
                self.reach(&demo, self.payments / 4)?;
                (turned_away, strange) = without(store, &demo, lasting)?;
            }
            Harm::StoreKills(times) => {
                let store = store.as_mut().ok_or("no store to kill")?;
                for time in 1..=u64::from(times) {
                    self.reach(&demo, self.payments * time / (u64::from(times) + 1))?;
                    store.restart().map_err(say)?;
                }
            }
            Harm::BusLoss => {
                let bus = bus.as_mut().ok_or("no bus to kill")?;
                self.reach(&demo, self.payments / 4)?;
                bus.lose_everything().map_err(say)?;
            }
            Harm::BusFlushed => {
                let bus = bus.as_ref().ok_or("no bus to empty")?;
                self.reach(&demo, self.payments / 4)?;
                bus.flush().map_err(say)?;
            }
        }
        let ended = demo.finish().map_err(|error| error.to_string())?;
        if shouting.is_some_and(|shouting| shouting.stop() == 0) {
            return Err("nobody heard a false hint".to_owned());
        }
        let deadlocks = saboteur.map(Saboteur::stop).transpose().map_err(say)?;
        Ok(Outcome {
            ended,
            turned_away,
            strange,
            deadlocks: deadlocks.unwrap_or(0),
        })
    }

    fn reach(&self, demo: &Demo, payments: u64) -> Result<(), String> {
        let is_there = demo.reaches(payments);
        is_there
            .then_some(())
            .ok_or_else(|| format!("{payments} payments never ended"))
    }

    fn arguments(&self, store: Option<&Server>, bus: Option<&Server>, harm: Harm) -> Vec<String> {
        let mut arguments = vec![
            format!("--payments={}", self.payments),
            format!("--workers={}", self.workers),
            "--no-kills".to_owned(),
        ];
        arguments.extend(store.map(|server| format!("--store={}", server.url())));
        arguments.extend(bus.map(|server| format!("--bus={}", server.url())));
        if let Harm::ProviderGone(lasting) = harm {
            arguments.push(format!("--provider-outage={}ms", lasting.as_millis()));
        }
        arguments
    }
}

fn say(trouble: Trouble) -> String {
    trouble.to_string()
}

/// Asks the API while its store is down: how often it said to come again, and whatever else it
/// said.
fn without(
    store: &mut Server,
    demo: &Demo,
    lasting: Duration,
) -> Result<(usize, Vec<u16>), String> {
    let (mut turned_away, mut strange) = (0, Vec::new());
    let domain = demo.domain().ok_or("the demo has no domain")?;
    store.kill();
    let gone = Stopwatch::start();
    while gone.elapsed() < lasting {
        match demo.submit(&domain) {
            Ok(said) if said.status == 503 && said.names_a_time => turned_away += 1,
            Ok(said) => strange.push(said.status),
            Err(error) => return Err(format!("the API is gone: {error}")),
        }
        pause(ASK_EVERY);
    }
    store.restart().map_err(say)?;
    Ok((turned_away, strange))
}

/// A stranger on the channel of hints.
struct Shouting {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Shouting {
    fn at(url: String) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut shouts = 0;
            while !told.load(Ordering::Relaxed) {
                let shout = Command::new("psql")
                    .args([&url, "-qc", "SELECT pg_notify('clinch', 'stranger l')"])
                    .stdout(Stdio::null())
                    .status();
                shouts += usize::from(shout.is_ok_and(|status| status.success()));
                pause(SHOUT_EVERY);
            }
            shouts
        });
        Self { is_over, thread }
    }

    /// How often it was heard.
    fn stop(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(0)
    }
}
