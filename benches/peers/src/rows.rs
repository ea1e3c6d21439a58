//! The rows of the table: what is compared with what, and the goal.

use crate::peer::Peer;

/// Which ratio reaches the goal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// Only reported.
    None,
}

impl Goal {
    pub(crate) fn is_reached(self, ratio: f64) -> Option<bool> {
        match self {
            Self::AtLeast(goal) => Some(ratio >= goal),
            Self::AtMost(goal) => Some(ratio <= goal),
            Self::None => None,
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::AtLeast(goal) => format!("≥ {goal}"),
            Self::AtMost(goal) => format!("≤ {goal}"),
            Self::None => "–".to_owned(),
        }
    }
}

/// One comparison. The names are those that the programs print.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) title: &'static str,
    pub(crate) peer: Peer,
    /// Figure of Clinch.
    pub(crate) ours: &'static str,
    /// Figure of the peer.
    pub(crate) theirs: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) goal: Goal,
}

const fn row(
    title: &'static str,
    peer: Peer,
    ours: &'static str,
    theirs: &'static str,
    unit: &'static str,
    goal: Goal,
) -> Row {
    Row {
        title,
        peer,
        ours,
        theirs,
        unit,
        goal,
    }
}

use Goal::{AtLeast, AtMost};
use Peer::{
    Apalis, BullMq, Dbos, Disk, Effectum, GraphileWorker, Pgbench, Restate, RestateDefaults, River,
};

const ACCEPT: &str = "accept, 16 callers";
const BULK: &str = "accept in bulk";
const DRAIN: &str = "drain";
const QUEUED: &str = "submit to completed, queued, p50";
const INLINE: &str = "submit to completed, inline, p50";

/// On one SQLite file.
pub(crate) const SQLITE: &[Row] = &[
    row(ACCEPT, Effectum, "accept", "accept", "/s", AtLeast(1.3)),
    row(BULK, Effectum, "bulk", "bulk", "/s", AtLeast(1.0)),
    row(DRAIN, Effectum, "drain", "drain", "/s", AtLeast(3.0)),
    row(
        INLINE,
        Effectum,
        "inline_p50",
        "queued_p50",
        "ms",
        AtMost(0.25),
    ),
    row(
        QUEUED,
        Effectum,
        "queued_p50",
        "queued_p50",
        "ms",
        AtMost(0.4),
    ),
    row(INLINE, Disk, "inline_p50", "overwrite", "ms", AtMost(3.0)),
    row(INLINE, Disk, "inline_p50", "append", "ms", Goal::None),
    row(ACCEPT, Apalis, "accept", "accept", "/s", Goal::None),
    row(BULK, Apalis, "bulk", "bulk", "/s", Goal::None),
    row(DRAIN, Apalis, "drain", "drain", "/s", Goal::None),
    row(QUEUED, Apalis, "queued_p50", "queued_p50", "ms", Goal::None),
];

/// On one PostgreSQL server; BullMQ on Redis.
pub(crate) const POSTGRES: &[Row] = &[
    row(ACCEPT, Pgbench, "accept", "accept", "/s", AtLeast(0.9)),
    row(ACCEPT, GraphileWorker, "accept", "accept", "/s", Goal::None),
    row(BULK, GraphileWorker, "bulk", "bulk", "/s", Goal::None),
    row(DRAIN, GraphileWorker, "drain", "drain", "/s", AtLeast(1.5)),
    row(
        QUEUED,
        GraphileWorker,
        "queued_p50",
        "queued_p50",
        "ms",
        AtMost(0.7),
    ),
    row(ACCEPT, River, "accept", "accept", "/s", Goal::None),
    row(BULK, River, "bulk", "bulk", "/s", Goal::None),
    row(DRAIN, River, "drain", "drain", "/s", Goal::None),
    row(QUEUED, River, "queued_p50", "queued_p50", "ms", Goal::None),
    row(ACCEPT, Dbos, "accept", "accept", "/s", Goal::None),
    row(DRAIN, Dbos, "drain", "drain", "/s", Goal::None),
    row(INLINE, Dbos, "inline_p50", "inline_p50", "ms", Goal::None),
    row(ACCEPT, BullMq, "accept", "accept", "/s", Goal::None),
    row(BULK, BullMq, "bulk", "bulk", "/s", Goal::None),
    row(DRAIN, BullMq, "drain", "drain", "/s", Goal::None),
    row(QUEUED, BullMq, "queued_p50", "queued_p50", "ms", Goal::None),
];

/// Through a server, over HTTP.
pub(crate) const HTTP: &[Row] = &[
    request("request, 1 connection", Restate, "1"),
    request("request, 16 connections", Restate, "16"),
    request("request, 64 connections", Restate, "64"),
    memory(Restate),
    request("request, 1 connection", RestateDefaults, "1"),
    request("request, 16 connections", RestateDefaults, "16"),
    request("request, 64 connections", RestateDefaults, "64"),
    memory(RestateDefaults),
];

const fn request(title: &'static str, peer: Peer, connections: &'static str) -> Row {
    row(title, peer, connections, connections, "/s", AtLeast(8.0))
}

const fn memory(peer: Peer) -> Row {
    let title = "resident memory after the load";
    row(title, peer, "rss", "rss", "MiB", AtMost(0.1))
}
