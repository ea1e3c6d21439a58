//! A server process: the API, the workers and recovery, or some of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use clinch::backend::StoreIdentity;
use clinch::types::{Builder, Telemetry};
use clinch::{Backend, Clinch, Error, Result};
use clinch_core::ports::{ApiKeys, Clock, Ids, LockManager, Records};
use clinch_core::{ErrorKind, WorkerId};
use clinch_engine::Role;
use clinch_protect::QueueAge;
use clinch_system::{FileJournal, SystemClock, SystemIds};
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{self, App, Authenticator, Hub, InFlight, Readiness};
use crate::application::Application;
use crate::background::BackgroundTasks;
use crate::config::Config;
use crate::connections::{self, Endpoint, Limits};
use crate::console::Console;
use crate::disk::Disks;
use crate::gauges::Gauges;
use crate::history::History;
use crate::nodes::Nodes;
use crate::outbound::Outlets;
use crate::routes::{self, Executors, Facts};
use crate::{descriptors, identity, limits, telemetry, tls};

/// How often the metrics exporter drops old samples; otherwise it would grow without bound.
const UPKEEP: Duration = Duration::from_secs(5);

/// Checks the store's files; an error says which file was lost and what to do.
pub type Look = dyn Fn() -> Result<()> + Send + Sync;

/// The parts of a server, besides its configuration.
pub struct Parts {
    /// The store of operations.
    pub backend: Backend,
    /// The store of API keys.
    pub keys: Arc<dyn ApiKeys>,
    /// Locks of the same store: `/readyz` writes one to check that the store takes writes.
    pub locks: Option<Arc<dyn LockManager>>,
    /// Records of the same store: every server process registers there. Without it `GET
    /// /v1/overview` knows no processes.
    pub records: Option<Arc<dyn Records>>,
    /// Checks whether the store's files are in place; cheap, for `/readyz` and for a check every
    /// few seconds.
    pub look: Option<Arc<Look>>,
    /// Rate limits and pauses that other nodes share; without it this process has its own.
    pub limits: Option<Arc<dyn clinch::backend::Limits>>,
    /// Makes the executors of routes with a `url`.
    pub executors: Arc<dyn Executors>,
    /// Counters, traces and log lines of the engine.
    pub telemetry: Telemetry,
    /// The receivers of alerts and telemetry.
    pub outlets: Outlets,
    /// The identity of the store, sent to every caller in the header `Clinch-Store`.
    pub store: Option<StoreIdentity>,
    /// Applications that answer requests in this process.
    pub applications: Vec<Application>,
    /// Measured when `/metrics` is requested.
    pub gauges: Vec<Arc<dyn Gauges>>,
    /// Last changes to the engine's builder: an alert, a sealer, handlers in Rust.
    pub tune: Box<dyn FnOnce(Builder) -> Builder + Send>,
}

impl Parts {
    /// Parts without anything optional.
    pub fn new(
        backend: Backend,
        keys: Arc<dyn ApiKeys>,
        executors: impl Executors + 'static,
    ) -> Self {
        Self {
            backend,
            keys,
            locks: None,
            records: None,
            look: None,
            limits: None,
            executors: Arc::new(executors),
            telemetry: Telemetry::default(),
            outlets: Outlets::default(),
            store: None,
            applications: Vec::new(),
            gauges: Vec::new(),
            tune: Box::new(|builder| builder),
        }
    }
}

/// The name of a role in lists of roles.
fn name(role: Role) -> &'static str {
    match role {
        Role::Api => "api",
        Role::Worker => "worker",
        Role::Recovery => "recovery",
    }
}

/// Parses a comma-separated list of roles: `api,worker,recovery`.
pub fn roles(text: &str) -> Result<Vec<Role>> {
    let role = |name: &str| match name.trim() {
        "api" => Ok(Role::Api),
        "worker" => Ok(Role::Worker),
        "recovery" => Ok(Role::Recovery),
        other => Err(invalid(format!(
            "{other:?} is not a role; use api, worker or recovery"
        ))),
    };
    text.split(',').map(role).collect()
}

/// A server that listens and does not answer yet.
pub struct Server {
    clinch: Clinch,
    config: Arc<Config>,
    roles: Vec<Role>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    front: Option<HttpListener>,
    background: BackgroundTasks,
}

/// The HTTP side of a server.
struct HttpListener {
    listener: TcpListener,
    addr: SocketAddr,
    router: Router,
    tls: Option<TlsAcceptor>,
    limits: Limits,
}

impl Server {
    /// Assembles the server and listens. Without any API key it listens on loopback only.
    pub async fn bind(config: Config, parts: Parts, roles: &[Role]) -> Result<Self> {
        config.validate()?;
        refuse_no_role(roles)?;
        let descriptors = descriptors::raise();
        let listen = config.listen()?;
        let has_keys = !parts.keys.list().await?.is_empty();
        refuse_public_without_keys(&listen, has_keys)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let facts = facts(&config, &listen);
        let worker = worker()?;
        let builder = builder(&parts.backend, &clock, &config, &worker);
        let mut background = BackgroundTasks::new(parts.outlets, clock.clone(), &parts.backend);
        background.look = parts.look.clone();
        let console = Console::new(parts.records.clone(), &clock, &parts.applications)?;
        let nodes = registry(parts.records, &parts.backend, &clock, &worker, roles);
        background.nodes = nodes.clone();
        let hub = Hub::new(parts.backend.notices());
        let history = History::new(clock.clone());
        let telemetry = parts
            .telemetry
            .also(Arc::new(history.clone()), Arc::new(hub.changes()));
        let builder = background.connect(builder, telemetry);
        let builder = with_files(builder, &config, &mut background).await?;
        let (builder, table) = routes::declare(builder, &config, &*parts.executors, &facts, roles)?;
        let builder = limits::guard(builder, &config, parts.limits, &clock, roles).await?;
        let metrics = telemetry::recorder()?;
        let clinch = (parts.tune)(builder).build()?;
        clinch.refuse_plain_payloads().await?;
        let stop = CancellationToken::new();
        let config = Arc::new(config);
        let ports = clinch.runtime().ports();
        let app = Arc::new(App {
            inspect: ports.inspect.clone(),
            recovery: ports.recovery.clone(),
            domains: ports.domains.clone(),
            clinch: clinch.clone(),
            hub,
            authenticator: Arc::new(Authenticator::new(parts.keys, clock.clone(), has_keys)),
            console,
            clock: clock.clone(),
            in_flight: InFlight::new(config.server.in_flight_max.0),
            config: config.clone(),
            routes: table,
            metrics,
            readiness: Readiness::new(parts.locks, parts.look.clone()),
            gauges: parts.gauges,
            history,
            nodes,
            disks: Disks::new(&config),
            applications: parts.applications.iter().map(|one| one.domain).collect(),
            stop: stop.clone(),
        });
        let front = match roles.contains(&Role::Api) {
            true => {
                let router = api::router(app, parts.applications);
                let router = identity::with_header(router, parts.store.as_ref());
                Some(HttpListener::bind(&config, router, descriptors).await?)
            }
            false => None,
        };
        Ok(Self {
            clinch,
            config,
            roles: roles.to_vec(),
            clock,
            stop,
            front,
            background,
        })
    }

    /// The address of the listener; `None`: no role of this server listens.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.front.as_ref().map(|front| front.addr)
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        match &self.front {
            Some(HttpListener { tls: Some(_), .. }) => "https",
            _ => "http",
        }
    }

    /// The engine of this server.
    pub fn clinch(&self) -> &Clinch {
        &self.clinch
    }

    /// Answers and works until `shutdown`, then stops: no new connection, long answers end, running
    /// attempts finish or are released, and an attempt that still runs at the deadline is left to
    /// recovery. Answers of providers that the store has not taken by then are in the spill file
    /// when `run` returns. True: everything ended in time.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> bool {
        let deadline = self.config.server.shutdown_deadline.0;
        let connections = TaskTracker::new();
        let (clinch, roles) = (self.clinch.clone(), self.roles.clone());
        let runners = tokio::spawn(async move { clinch.runtime().run_only(&roles).await });
        let stopped = CancellationToken::new();
        let background = self.background.start(
            &self.clinch,
            &self.config,
            &self.roles,
            &self.stop,
            &stopped,
        );
        let upkeep = tokio::spawn(upkeep(self.clock.clone(), self.stop.clone()));
        let front = self.front.map(|front| {
            let (stop, limits) = (self.stop.clone(), front.limits);
            let (clock, tasks) = (self.clock.clone(), connections.clone());
            let endpoint = Endpoint {
                listener: front.listener,
                router: front.router,
                tls: front.tls,
            };
            tokio::spawn(connections::accept(endpoint, limits, clock, stop, tasks))
        });
        shutdown.await;
        tracing::info!(target: "clinch", "stopping");
        self.stop.cancel();
        self.clinch.stop();
        connections.close();
        let all_ended = async {
            if let Some(front) = front {
                let _ = front.await;
            }
            connections.wait().await;
            let _ = runners.await;
            stopped.cancel();
            background.wait().await;
            let _ = upkeep.await;
        };
        let ended = tokio::time::timeout(deadline, all_ended).await.is_ok();
        let in_time = self.clinch.runtime().close().await && ended;
        telemetry::sum_up_repeats(true);
        tracing::info!(target: "clinch", in_time, "stopped");
        in_time
    }
}

impl HttpListener {
    async fn bind(config: &Config, router: Router, descriptors: Option<u64>) -> Result<Self> {
        let listen = config.listen()?;
        let tls = tls::acceptor(&config.server)?;
        let limits = connection_limits(config, descriptors);
        let failed = |error| cannot_listen(&listen, &error);
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            addr,
            router,
            tls,
            limits,
        })
    }
}

/// Refuses an address that this process cannot listen on. Meant for the time before the store is
/// opened, so that a server that cannot start leaves no database behind. The address is not kept:
/// no caller can connect before the server can answer.
pub fn check_address(config: &Config, roles: &[Role]) -> Result<()> {
    if !roles.contains(&Role::Api) {
        return Ok(());
    }
    let listen = config.listen()?;
    let failed = |error| cannot_listen(&listen, &error);
    let socket = match listen {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = socket.map_err(failed)?;
    socket.set_reuseaddr(true).map_err(failed)?;
    socket.bind(listen).map_err(failed)
}

fn cannot_listen(listen: &SocketAddr, error: &std::io::Error) -> Error {
    let in_use = error.kind() == std::io::ErrorKind::AddrInUse;
    let message = match in_use {
        true => format!(
            "cannot listen on {listen}: another server listens there; stop it, or set server.listen to a free address"
        ),
        false => {
            format!("cannot listen on {listen}: {error}; set server.listen to a free address")
        }
    };
    Error::new(ErrorKind::Unavailable, message)
}

/// What the executors need to know of the server.
fn facts(config: &Config, listen: &SocketAddr) -> Facts {
    Facts {
        is_loopback_only: listen.ip().is_loopback(),
        response_bytes_max: config.server.response_max.0,
    }
}

/// The processes of the store, with this one.
fn registry(
    records: Option<Arc<dyn Records>>,
    backend: &Backend,
    clock: &Arc<dyn Clock>,
    worker: &WorkerId,
    roles: &[Role],
) -> Option<Nodes> {
    Some(Nodes {
        records: records?,
        inspect: backend.inspect(),
        clock: clock.clone(),
        name: worker.to_string(),
        roles: roles.iter().map(|role| name(*role).to_owned()).collect(),
    })
}

fn connection_limits(config: &Config, descriptors: Option<u64>) -> Limits {
    let server = &config.server;
    Limits {
        header_timeout: server.header_timeout.0,
        write_timeout: server.write_timeout.0,
        connections_max: descriptors::connections(server.connections_max, descriptors),
    }
}

fn refuse_no_role(roles: &[Role]) -> Result<()> {
    match roles.is_empty() {
        true => Err(invalid(
            "name at least one role: api, worker or recovery".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Refuses to listen beyond loopback without any API key.
fn refuse_public_without_keys(listen: &SocketAddr, has_keys: bool) -> Result<()> {
    if listen.ip().is_loopback() || has_keys {
        return Ok(());
    }
    Err(invalid(format!(
        "server.listen = \"{listen}\" is not loopback and there is no API key; make one with `clinch keys create`, or listen on 127.0.0.1"
    )))
}

fn builder(
    backend: &Backend,
    clock: &Arc<dyn Clock>,
    config: &Config,
    worker: &WorkerId,
) -> Builder {
    let builder = Clinch::builder()
        .backend(backend.clone())
        .clock(clock.clone())
        .config(config.engine(worker.clone()));
    with_shedding(builder, config)
}

/// Sheds requests while due work waits for longer than `server.shed_queue_age`; 0: never.
fn with_shedding(builder: Builder, config: &Config) -> Builder {
    let limit = config.server.shed_queue_age.0;
    match limit.is_zero() {
        true => builder,
        false => builder.shed(QueueAge { limit }),
    }
}

/// Files for data that the store does not take; the memory store needs none.
async fn with_files(
    builder: Builder,
    config: &Config,
    background: &mut BackgroundTasks,
) -> Result<Builder> {
    if config.store.url.starts_with("memory:") {
        return Ok(builder);
    }
    let spill = open_file(&config.worker.spill_file, "worker.spill_file").await?;
    let letters = open_file(&config.dead_letter.file, "dead_letter.file").await?;
    background.letters = Some(letters.clone());
    Ok(builder.safety_net(spill, letters))
}

/// Opens the file that `key` names. Only one process can have it open: another one is nearly always
/// a second server in the same folder.
async fn open_file(path: &str, key: &str) -> Result<FileJournal> {
    FileJournal::open(path).await.map_err(|error| {
        if error.kind() != ErrorKind::Conflict {
            return error;
        }
        let message = format!(
            "another server has {path:?} ({key}) open; stop that server, or start this one in another folder or with files of its own (worker.spill_file and dead_letter.file)"
        );
        Error::new(ErrorKind::Conflict, message)
    })
}

async fn upkeep(clock: Arc<dyn Clock>, stop: CancellationToken) {
    let Ok(recorder) = telemetry::recorder() else {
        return;
    };
    while !stop.is_cancelled() {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = clock.sleep(UPKEEP) => {
                recorder.run_upkeep();
                telemetry::sum_up_repeats(false);
            }
        }
    }
}

/// The name of this process in leases and ledger lines.
fn worker() -> Result<WorkerId> {
    let id = SystemIds.attempt_id().to_string();
    let short = id.rsplit('-').next().unwrap_or_default();
    let name = format!("clinch-{}-{short}", std::process::id());
    WorkerId::new(name).map_err(|error| invalid(error.to_string()))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}
