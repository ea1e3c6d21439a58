//! The program around a round.

use std::process::ExitCode;
use std::time::Duration;

use crate::{Queue, Result, round};

/// A round that takes longer is stuck.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The command line of every program: where the queue is, and how much to do.
pub struct Arguments {
    /// Folder of the file, or address of the server.
    pub place: String,
    /// Jobs that are added one by one.
    pub singles: u64,
    /// Jobs that are added in bulk.
    pub bulk: u64,
    /// Jobs of each latency figure.
    pub samples: u64,
}

impl Arguments {
    /// Reads `PLACE SINGLES BULK SAMPLES`.
    pub fn parse(words: &[String]) -> Option<Self> {
        let [place, singles, bulk, samples] = words else {
            return None;
        };
        Some(Self {
            place: place.clone(),
            singles: singles.parse().ok()?,
            bulk: bulk.parse().ok()?,
            samples: samples.parse().ok()?,
        })
    }

    /// Runs a round on this queue, and prints the figures.
    pub async fn play<Q: Queue>(&self, queue: &Q) -> Result<()> {
        for (name, value) in round(queue, self.singles, self.bulk, self.samples).await? {
            println!("{name} {value}");
        }
        Ok(())
    }
}

/// Reads the command line, opens the queue at its place and runs a round.
pub fn main<Q, F>(open: impl FnOnce(String) -> F) -> ExitCode
where
    Q: Queue,
    F: Future<Output = Result<Q>>,
{
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(arguments) = Arguments::parse(&words) else {
        eprintln!("usage: PLACE SINGLES BULK SAMPLES");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let done = runtime.map_err(Into::into).and_then(|runtime| {
        let done = runtime.block_on(async {
            let queue = open(arguments.place.clone()).await?;
            let played = tokio::time::timeout(TIMEOUT, arguments.play(&queue)).await;
            // Some queues must not outlive their runtime, others not end before it: keep both.
            std::mem::forget(queue);
            played.map_err(|_| "the round takes too long")?
        });
        std::mem::forget(runtime);
        done
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
