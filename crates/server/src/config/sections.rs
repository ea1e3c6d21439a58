//! The sections of the file with their defaults.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use clinch::{Error, Result};
use clinch_core::WorkerId;
use clinch_core::policy::ReaperStrategy;
use clinch_core::ports::Prune;
use clinch_engine::Config as EngineConfig;
use serde::{Deserialize, Serialize};

use super::application::SectionValues;
use super::{RouteConfig, Size, Span, wrong};

/// Rows of one prune step: a short step does not delay other writes.
const PRUNE_MAX: usize = 1_000;

macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident : $type:ty = $default:expr,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

/// Everything that can be set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The store of operations.
    pub store: Store,
    /// The queue that announces due work.
    pub bus: Bus,
    /// The HTTP API.
    pub server: ServerConfig,
    /// The workers of this process.
    pub worker: Worker,
    /// Announces operations again whose announcement was lost.
    pub sweeper: Sweeper,
    /// Makes recorded answers final.
    pub finalizer: Finalizer,
    /// Recovers attempts whose worker was lost.
    pub reaper: Reaper,
    /// Traces and metrics.
    pub telemetry: TelemetryConfig,
    /// Retention period of each kind of data.
    pub retention: Retention,
    /// Files and alerts for failures that the store cannot record.
    pub dead_letter: DeadLetter,
    /// The sections of applications that are present, by name; see [`Config::section`].
    #[serde(skip)]
    pub(super) applications: BTreeMap<&'static str, SectionValues>,
    /// How each kind of call is made.
    pub route: Vec<RouteConfig>,
}

section!(
    /// `[store]`
    Store {
        /// `memory:`, `sqlite://`, `postgres://` or `mysql://`.
        url: String = "sqlite://clinch.db".to_owned(),
        /// Direct PostgreSQL address, if `url` is a connection pooler.
        listen_url: String = String::new(),
        /// Poll interval that covers missed notifications.
        fallback_poll: Span = Span::secs(5),
        /// Timeout of every call of the store or the bus; a provider's answer that the store has
        /// not taken by then goes to `worker.spill_file`.
        timeout: Span = Span::secs(10),
    }
);

section!(
    /// `[bus]`
    Bus {
        /// `store` (the database is the queue), `redis://` or `nats://`.
        url: String = "store".to_owned(),
        /// Prefix of every name on the bus, so that several systems can share a bus server.
        prefix: String = "clinch".to_owned(),
    }
);

section!(
    /// `[server]`
    ServerConfig {
        /// Any address but loopback requires API keys.
        listen: String = "127.0.0.1:7070".to_owned(),
        /// Certificate chain, PEM; together with `tls_key` it enables https.
        tls_cert: String = String::new(),
        /// Private key of the certificate, PEM.
        tls_key: String = String::new(),
        /// CA of client certificates, PEM; other clients are refused.
        tls_client_ca: String = String::new(),
        /// Longest payload of an operation.
        payload_max: Size = Size(256 * 1024),
        /// Longest body of a bulk call.
        bulk_max: Size = Size(16 * 1024 * 1024),
        /// Longest answer of a provider that is stored whole.
        response_max: Size = Size(256 * 1024),
        /// Requests are shed while due work waits for longer than this although it could run; `0s`:
        /// never.
        shed_queue_age: Span = Span::secs(30),
        /// Timeout for the headers of a request, and for an idle connection.
        header_timeout: Span = Span::secs(10),
        /// Timeout for the body of a request.
        body_timeout: Span = Span::secs(30),
        /// A caller that reads no byte of an answer for this long is disconnected.
        write_timeout: Span = Span::secs(30),
        /// The most bytes of request bodies and answers in memory, over all callers.
        in_flight_max: Size = Size(128 * 1024 * 1024),
        /// The most connections, at most half of the files that the process may open. At the limit
        /// a connection without a key is closed for a new one, then an idle connection.
        connections_max: usize = 4_096,
        /// The longest shutdown, whatever still runs.
        shutdown_deadline: Span = Span::secs(30),
    }
);

section!(
    /// `[worker]`
    Worker {
        /// Concurrent attempts from the queue, and as many again for callers that wait.
        concurrency: usize = 64,
        /// Rows of one claim.
        batch: usize = 100,
        /// Length of a lease; extended while an attempt runs.
        lease: Span = Span::secs(30),
        /// Lost attempts in a row before an operation counts as poison.
        deliveries_max: u32 = 3,
        /// Longest checkpoint.
        checkpoint_max: Size = Size(64 * 1024),
        /// The file for answers that the store did not take.
        spill_file: String = "clinch-spill.log".to_owned(),
    }
);

section!(
    /// `[sweeper]`
    Sweeper {
        /// An operation that was announced and not begun for this long is announced again.
        grace: Span = Span::secs(30),
        /// An operation that a lost process was announcing is announced by another after this time.
        stalled: Span = Span::secs(10),
    }
);

section!(
    /// `[finalizer]`
    Finalizer {
        /// The longest interval; new answers wake the finalizer earlier.
        interval: Span = Span::secs(5),
        /// Rows of one pass: the larger of this and `worker.batch` is used.
        batch: usize = 100,
        /// An answer that waits longer than this to become final raises a warning.
        pending_age_max: Span = Span::secs(300),
    }
);

/// What the Reaper does with a lost attempt; see [`ReaperStrategy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReaperStrategyConfig {
    /// By the route's safety.
    #[default]
    Auto,
    /// Probes first.
    Probe,
    /// Repeats the call where safety allows it.
    Retry,
    /// Ends the operation as FAILED with an unknown effect.
    Fail,
}

impl From<ReaperStrategyConfig> for ReaperStrategy {
    fn from(strategy: ReaperStrategyConfig) -> Self {
        match strategy {
            ReaperStrategyConfig::Auto => Self::Auto,
            ReaperStrategyConfig::Probe => Self::Probe,
            ReaperStrategyConfig::Retry => Self::Retry,
            ReaperStrategyConfig::Fail => Self::Fail,
        }
    }
}

section!(
    /// `[reaper]`
    Reaper {
        /// The longest interval; the Reaper sleeps until the next lease ends.
        interval: Span = Span::secs(5),
        /// What the Reaper does with a lost attempt. Never overrides safety.
        strategy: ReaperStrategyConfig = ReaperStrategyConfig::Auto,
        /// An operation that is in progress for longer than this raises a warning.
        in_progress_warn: Span = Span::secs(300),
        /// How long an open operation without a route here is left to a process that has the route.
        undeclared_after: Span = Span::secs(600),
    }
);

section!(
    /// `[telemetry]`
    TelemetryConfig {
        /// OTLP endpoint; empty: no export.
        otlp: String = String::new(),
    }
);

section!(
    /// `[retention]`
    Retention {
        /// COMPLETED operations.
        completed: Span = Span::secs(7 * 86_400),
        /// FAILED operations.
        failed: Span = Span::secs(30 * 86_400),
        /// Keys: how long a repeated key is recognized, so that it never charges twice.
        keys: Span = Span::secs(400 * 86_400),
        /// A clock that is further ahead than this of the last seen time has jumped: nothing
        /// is pruned.
        clock_jump_max: Span = Span::secs(86_400),
    }
);

section!(
    /// `[dead_letter]`
    DeadLetter {
        /// The file for dead letters that the store did not take.
        file: String = "clinch-dlq.log".to_owned(),
        /// The webhook for alerts.
        alert_url: String = String::new(),
        /// Retention period of the file's entries.
        retention: Span = Span::secs(7 * 86_400),
    }
);

impl Config {
    /// Refuses contradictions, with one line that says what to do.
    pub fn validate(&self) -> Result<()> {
        match self.problems().into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(()),
        }
    }

    /// Every contradiction, each as one line that says what to do.
    pub fn problems(&self) -> Vec<Error> {
        let mut problems: Vec<Error> = self.listen().err().into_iter().collect();
        let server = &self.server;
        if server.tls_cert.is_empty() != server.tls_key.is_empty() {
            let message = "server.tls_cert and server.tls_key go together; set both or none";
            problems.push(wrong(message.to_owned()));
        }
        if server.tls_cert.is_empty() && !server.tls_client_ca.is_empty() {
            let message = "server.tls_client_ca needs server.tls_cert and server.tls_key";
            problems.push(wrong(message.to_owned()));
        }
        let zero = [
            ("server.payload_max", server.payload_max.0 == 0),
            ("server.bulk_max", server.bulk_max.0 == 0),
            ("server.connections_max", server.connections_max == 0),
            ("server.header_timeout", server.header_timeout.0.is_zero()),
            ("server.body_timeout", server.body_timeout.0.is_zero()),
            ("server.write_timeout", server.write_timeout.0.is_zero()),
            ("server.in_flight_max", server.in_flight_max.0 == 0),
            ("worker.concurrency", self.worker.concurrency == 0),
            ("worker.batch", self.worker.batch == 0),
            ("worker.lease", self.worker.lease.0.is_zero()),
            ("worker.deliveries_max", self.worker.deliveries_max == 0),
            ("store.fallback_poll", self.store.fallback_poll.0.is_zero()),
            ("store.timeout", self.store.timeout.0.is_zero()),
            (
                "reaper.in_progress_warn",
                self.reaper.in_progress_warn.0.is_zero(),
            ),
            ("sweeper.stalled", self.sweeper.stalled.0.is_zero()),
            ("finalizer.interval", self.finalizer.interval.0.is_zero()),
            ("reaper.interval", self.reaper.interval.0.is_zero()),
        ];
        let is_zero = zero.iter().filter(|(_, is_zero)| *is_zero);
        problems.extend(is_zero.map(|(key, _)| wrong(format!("{key} must be more than 0"))));
        let of_applications = self.applications.values();
        problems.extend(of_applications.flat_map(SectionValues::problems));
        problems.extend(self.route_problems());
        problems
    }

    /// The address to listen on.
    pub fn listen(&self) -> Result<SocketAddr> {
        let listen = self.server.listen.replacen("localhost:", "127.0.0.1:", 1);
        listen.parse().map_err(|_| {
            wrong(format!(
                "server.listen = {:?} is not an address; write \"127.0.0.1:7070\" or \"[::1]:7070\"",
                self.server.listen
            ))
        })
    }

    /// The engine's parameters for a process with this name.
    pub fn engine(&self, worker: WorkerId) -> EngineConfig {
        let mut engine = EngineConfig::new(worker);
        engine.concurrency = self.worker.concurrency;
        engine.batch = self.worker.batch.max(self.finalizer.batch);
        engine.lease = self.worker.lease.0;
        engine.checkpoint_bytes_max = self.worker.checkpoint_max.0;
        engine.fallback_poll = self.store.fallback_poll.0;
        engine.store_timeout = self.store.timeout.0;
        engine.settle_patience = self.store.timeout.0;
        engine.sweep_grace = self.sweeper.grace.0;
        engine.claim = self.sweeper.stalled.0;
        engine.finalizer_interval = self.finalizer.interval.0;
        engine.pending_age_max = self.finalizer.pending_age_max.0;
        engine.reaper_interval = self.reaper.interval.0;
        engine.undeclared_grace = self.reaper.undeclared_after.0;
        // The deadline of the whole shutdown comes first, and reports what was left.
        engine.shutdown_grace = self.server.shutdown_deadline.0.saturating_mul(2);
        engine.retention = Prune {
            completed: self.retention.completed.0,
            failed: self.retention.failed.0,
            keys: self.retention.keys.0,
            max: PRUNE_MAX,
            reckoned: None,
            jump_max: self.retention.clock_jump_max.0,
        };
        engine
    }
}
