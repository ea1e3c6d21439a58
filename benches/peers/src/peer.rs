//! The other systems.

/// A system that Clinch is measured against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Effectum,
    Apalis,
    GraphileWorker,
    River,
    Dbos,
    Pgbench,
    BullMq,
    /// With the fastest settings that were found.
    Restate,
    /// As it comes.
    RestateDefaults,
    /// The machine's disk.
    Disk,
}

impl Peer {
    pub(crate) const ALL: [Self; 10] = [
        Self::Effectum,
        Self::Apalis,
        Self::GraphileWorker,
        Self::River,
        Self::Dbos,
        Self::Pgbench,
        Self::BullMq,
        Self::Restate,
        Self::RestateDefaults,
        Self::Disk,
    ];

    /// The name, as `--only` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Effectum => "effectum",
            Self::Apalis => "apalis",
            Self::GraphileWorker => "graphile_worker",
            Self::River => "river",
            Self::Dbos => "dbos",
            Self::Pgbench => "pgbench",
            Self::BullMq => "bullmq",
            Self::Restate => "restate",
            Self::RestateDefaults => "restate_defaults",
            Self::Disk => "disk",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| peer.name() == name)
    }
}
