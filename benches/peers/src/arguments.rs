//! The command line.

use std::path::PathBuf;

use crate::peer::Peer;

pub(crate) const USAGE: &str = "usage: peers [--json] [--write] [--rounds N] [--scale PERCENT] \
[--folder PATH] [--only PEER,…]\n  peers: effectum, apalis, graphile_worker, river, dbos, pgbench, \
bullmq, restate, restate_defaults\n  --write: writes the table and the plot into docs/benchmarks.md and .svg\n  --scale: \
share of the usual number of jobs";

pub(crate) struct Arguments {
    pub(crate) json: bool,
    /// Writes docs/benchmarks.md and docs/benchmarks.svg.
    pub(crate) write: bool,
    pub(crate) rounds: usize,
    /// Percent of the usual number of jobs.
    scale: u64,
    /// Where files of databases are; the private servers use the folder for temporary files.
    pub(crate) folder: PathBuf,
    only: Vec<Peer>,
}

impl Arguments {
    pub(crate) fn parse(words: &[&str]) -> Option<Self> {
        let mut arguments = Self {
            json: false,
            write: false,
            rounds: 3,
            scale: 100,
            folder: std::env::temp_dir(),
            only: Peer::ALL.to_vec(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--json" => arguments.json = true,
                "--write" => arguments.write = true,
                "--rounds" => arguments.rounds = words.next()?.parse().ok()?,
                "--scale" => arguments.scale = words.next()?.parse().ok()?,
                "--folder" => arguments.folder = words.next()?.into(),
                "--only" => {
                    let names = words.next()?.split(',');
                    arguments.only = names.map(Peer::named).collect::<Option<_>>()?;
                }
                _ => return None,
            }
        }
        (arguments.rounds > 0 && arguments.scale > 0).then_some(arguments)
    }

    pub(crate) fn wants(&self, peer: Peer) -> bool {
        self.only.contains(&peer)
    }

    /// The scaled number of jobs, a multiple of a thousand.
    pub(crate) fn jobs(&self, usual: u64) -> u64 {
        (usual * self.scale / 100).next_multiple_of(1_000)
    }
}
