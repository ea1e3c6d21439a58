//! `cargo xtask chaos`: runs the demo on real servers and processes while they fail, in release
//! mode.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clinch_testbed::{Harm, Kind, Outcome, Scene};

use crate::{Failure, cargo, servers};

const USAGE: &str = "chaos needs a scenario: outbox-db-failure, outbox-redis-failure, \
                     outbox-redis-flush, outbox-nats-failure, outbox-api-failure or \
                     outbox-deadlocks, and takes --store postgres|mariadb, --payments N, \
                     --workers N, --seconds N and --program FILE";

/// The parsed command line.
struct Arguments {
    scenario: String,
    store: Kind,
    payments: u64,
    workers: u8,
    /// How long a server is down.
    gone: Duration,
    /// A program that is already built; otherwise the release build is made.
    program: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    let arguments = parse(arguments).ok_or_else(|| Failure::Usage(USAGE.into()))?;
    let (bus, harm) = match arguments.scenario.as_str() {
        "outbox-db-failure" => (None, Harm::StoreGone(arguments.gone)),
        "outbox-redis-failure" => (Some(Kind::Redis), Harm::BusLoss),
        "outbox-redis-flush" => (Some(Kind::Redis), Harm::BusFlushed),
        "outbox-nats-failure" => (Some(Kind::Nats), Harm::BusLoss),
        "outbox-api-failure" => (None, Harm::ProviderGone(arguments.gone)),
        "outbox-deadlocks" if arguments.store == Kind::MariaDb => (None, Harm::Deadlocks),
        "outbox-deadlocks" => {
            let message = "outbox-deadlocks is for MariaDB; add --store mariadb";
            return Err(Failure::Usage(message.into()));
        }
        _ => return Err(Failure::Usage(USAGE.into())),
    };
    servers::install()?;
    let program = match arguments.program {
        Some(program) => program,
        None => build(root)?,
    };
    let scene = Scene {
        program: &program,
        store: Some(arguments.store),
        bus,
        payments: arguments.payments,
        workers: arguments.workers,
    };
    println!("{} on {}: {harm:?}", arguments.scenario, arguments.store);
    let start = Instant::now();
    let outcome = scene.play(harm).map_err(Failure::Failed)?;
    println!("{}", text(&outcome));
    println!("{:.1} s", start.elapsed().as_secs_f64());
    if outcome.ended.is_balanced && outcome.strange.is_empty() {
        Ok(())
    } else {
        Err(Failure::Reported)
    }
}

fn parse(words: &[String]) -> Option<Arguments> {
    let (scenario, rest) = words.split_first()?;
    let mut arguments = Arguments {
        scenario: scenario.clone(),
        store: Kind::Postgres,
        payments: 10_000,
        workers: 4,
        gone: Duration::from_secs(20),
        program: None,
    };
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let value = rest.next()?;
        match word.as_str() {
            "--store" => {
                let named = |kind: &Kind| kind.to_string() == *value;
                let stores = [Kind::Postgres, Kind::MariaDb];
                arguments.store = stores.into_iter().find(named)?;
            }
            "--payments" => arguments.payments = value.parse().ok()?,
            "--workers" => arguments.workers = value.parse().ok()?,
            "--program" => arguments.program = Some(PathBuf::from(value)),
            "--seconds" => arguments.gone = Duration::from_secs(value.parse().ok()?),
            _ => return None,
        }
    }
    Some(arguments)
}

fn text(outcome: &Outcome) -> String {
    let mut text = outcome.ended.said.clone();
    if outcome.turned_away > 0 || !outcome.strange.is_empty() {
        let line = format!(
            "while the store was down: 503 with Retry-After {}, anything else {:?}\n",
            outcome.turned_away, outcome.strange
        );
        text.push_str(&line);
    }
    if outcome.deadlocks > 0 {
        let line = format!("deadlocks by the server's count: {}\n", outcome.deadlocks);
        text.push_str(&line);
    }
    text
}

/// Builds the program in release mode.
fn build(root: &Path) -> Result<PathBuf, Failure> {
    let mut command = cargo::command(root);
    command.args(["build", "--quiet", "--release", "--package", "clinch-cli"]);
    servers::finish("cargo build", &mut command)?;
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/clinch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_scenario_has_a_store_a_size_and_a_length() {
        let said = "outbox-db-failure --store mariadb --payments 7 --seconds 3";
        let arguments = parse(&words(said)).map(|one| (one.store, one.payments, one.gone));
        let expected = (Kind::MariaDb, 7, Duration::from_secs(3));
        assert_eq!(arguments, Some(expected));
        assert!(parse(&words("outbox-db-failure --store redis")).is_none());
        assert!(parse(&words("outbox-db-failure --store")).is_none());
        assert!(parse(&[]).is_none());
    }
}
