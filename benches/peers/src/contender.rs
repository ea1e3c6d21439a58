//! One program, one round.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clinch_peers_load::Result;

use crate::clinch;

/// Figures of one round by name.
pub(crate) type Figures = BTreeMap<String, f64>;

/// A program that plays a round.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Contender {
    pub(crate) fn new(program: PathBuf, arguments: &[&str]) -> Self {
        Self {
            program,
            arguments: arguments.iter().map(ToString::to_string).collect(),
        }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Clinch on this kind of store.
    pub(crate) fn clinch(store: &str) -> Result<Self> {
        let program = std::env::current_exe()?;
        Ok(Self::new(program, &[clinch::ARGUMENT, store]))
    }

    /// Plays a round at this place.
    pub(crate) fn play(&self, place: &str, jobs: Jobs) -> Result<Figures> {
        let output = Command::new(&self.program)
            .args(&self.arguments)
            .arg(place)
            .args([jobs.singles, jobs.bulk, jobs.samples].map(|count| count.to_string()))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            let program = self.program.display();
            return Err(format!("{program} failed: {}", output.status).into());
        }
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(said.lines().filter_map(figure).collect())
    }
}

/// Jobs of [`Jobs::few`].
const FEW: u64 = 3_000;

/// How much a round does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Jobs {
    pub(crate) singles: u64,
    pub(crate) bulk: u64,
    pub(crate) samples: u64,
}

impl Jobs {
    pub(crate) fn text(self) -> String {
        let Self {
            singles,
            bulk,
            samples,
        } = self;
        format!("{singles} one by one, {bulk} in bulk, {samples} for each latency")
    }

    /// For a peer whose drain would take many minutes.
    pub(crate) fn few(self) -> Self {
        Self {
            singles: self.singles.min(FEW),
            bulk: self.bulk.min(FEW),
            samples: self.samples,
        }
    }
}

fn figure(line: &str) -> Option<(String, f64)> {
    let (name, value) = line.split_once(' ')?;
    Some((name.to_owned(), value.parse().ok()?))
}
