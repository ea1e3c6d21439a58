//! One world: a store, a bus, providers and a few nodes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::policy::{
    Backoff, EventTypes, Order, ProbeRules, ReaperStrategy, RetryRules, Rules, Safety,
};
use clinch_core::ports::{PlainText, Probe, Untold};
use clinch_core::{
    BizKey, Command, Domain, Envelope, EventType, IdemKey, Invalid, Keys, Payload, WorkerId,
};
use clinch_engine::{Config, Dispatch, Handler, Handlers, Orchestrator, Ports, Runtime};
use clinch_memory::{Memory, MemoryBus};

use crate::bugs::PortBug;
use crate::guards;
use crate::machine::{Machine, Pager, SimClock, SimIds, SimSpawner};
use crate::network::{NetworkFaults, NetworkedBus, NetworkedStore};
use crate::provider::{Caller, Nature, Providers};
use crate::world::{Host, World};

/// How long providers of keyed routes remember a key.
pub(crate) const KEY_TTL: Duration = Duration::from_secs(600);
/// A probe's "not found" is final this long after the last call can have been sent.
pub(crate) const FINAL_AFTER: Duration = Duration::from_secs(60);
/// Length of a lease.
pub(crate) const LEASE: Duration = Duration::from_secs(20);
/// From accept to the last begin.
pub(crate) const DEADLINE: Duration = Duration::from_secs(1_800);

/// A kind of route, and how its provider treats calls.
pub(crate) struct Kind {
    pub(crate) domain: &'static str,
    pub(crate) nature: Nature,
    pub(crate) order: Order,
    probed: bool,
    final_not_found: bool,
    reaper: ReaperStrategy,
    spawns: bool,
    /// Calls go through the protection chain, with at most this many copies.
    guarded: Option<u32>,
}

const fn kind(domain: &'static str, nature: Nature) -> Kind {
    Kind {
        domain,
        nature,
        order: Order::None,
        probed: true,
        final_not_found: false,
        reaper: ReaperStrategy::Auto,
        spawns: false,
        guarded: None,
    }
}

/// Forgets a key soon after the lease and the margin have passed.
const FORGETFUL: Nature = Nature::Keyed {
    ttl: Duration::from_secs(75),
    refusals: false,
};

const fn keyed(refusals: bool) -> Nature {
    Nature::Keyed {
        ttl: KEY_TTL,
        refusals,
    }
}

/// Every kind of route that the protocol distinguishes.
pub(crate) const KINDS: [Kind; 14] = [
    kind("keyed", keyed(false)),
    kind("verdicts", keyed(true)),
    kind("forgetful", FORGETFUL),
    kind("natural", Nature::Natural),
    Kind {
        final_not_found: true,
        ..kind("unsafe", Nature::Unsafe)
    },
    Kind {
        probed: false,
        ..kind("blind", Nature::Unsafe)
    },
    kind("asked", Nature::Unsafe),
    Kind {
        order: Order::Key,
        final_not_found: true,
        ..kind("lane", keyed(false))
    },
    Kind {
        probed: false,
        ..kind("keyed.blind", keyed(false))
    },
    Kind {
        reaper: ReaperStrategy::Fail,
        ..kind("reaped", keyed(false))
    },
    Kind {
        reaper: ReaperStrategy::Probe,
        final_not_found: true,
        ..kind("probed", keyed(true))
    },
    Kind {
        spawns: true,
        ..kind("parent", keyed(false))
    },
    Kind {
        guarded: Some(2),
        ..kind("hedged", keyed(false))
    },
    Kind {
        guarded: Some(1),
        final_not_found: true,
        ..kind("guarded", Nature::Unsafe)
    },
];

impl Kind {
    pub(crate) fn rules(&self) -> Rules {
        let probe = ProbeRules {
            not_found_final_after: self.final_not_found.then_some(FINAL_AFTER),
            inconclusive_max: 4,
            backoff: Backoff::new(Duration::from_secs(5), Duration::from_secs(60)),
        };
        Rules {
            safety: match self.nature {
                Nature::Keyed { ttl, refusals } => Safety::Keyed {
                    ttl,
                    remembers_refusals: refusals,
                },
                Nature::Natural => Safety::Natural,
                Nature::Unsafe => Safety::Unsafe,
            },
            lease: LEASE,
            margin: Duration::from_secs(30),
            retry: RetryRules {
                max_attempts: 4,
                backoff: Backoff::new(Duration::from_secs(2), Duration::from_secs(60)),
                retry_after_max: Duration::from_secs(60),
            },
            deliveries_max: 2,
            deadline: Some(DEADLINE),
            probe: self.probed.then_some(probe),
            reaper: self.reaper,
            order: self.order,
            copies: self.guarded.unwrap_or(1),
        }
    }
}

/// Everything outside the nodes, and the nodes.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) memory: Memory,
    pub(crate) bus: Option<MemoryBus>,
    pub(crate) network_faults: Arc<NetworkFaults>,
    pub(crate) providers: Providers,
    pub(crate) pager: Arc<Pager>,
    settles_at_once: bool,
    /// Upper bound of every sleep of a runner, if the scene sets one.
    pub(crate) fallback: Mutex<Option<Duration>>,
    /// The bug that is planted in every node.
    bug: Option<PortBug>,
    nodes: Mutex<Vec<Node>>,
}

struct Node {
    machine: Machine,
    crashed_at: Vec<Duration>,
    up: Option<Runtime>,
}

impl Scene {
    pub(crate) fn new(
        world: World,
        network_faults: NetworkFaults,
        hints: bool,
        nodes: usize,
        bug: Option<PortBug>,
    ) -> Arc<Self> {
        let clock = Arc::new(SimClock::new(world.clone()));
        let nodes = (0..nodes).map(|_| Node {
            machine: Machine::new(&world),
            crashed_at: Vec::new(),
            up: None,
        });
        Arc::new(Self {
            memory: Memory::new(clock.clone()),
            bus: hints.then(|| MemoryBus::new(clock)),
            network_faults: Arc::new(network_faults),
            providers: Providers::new(world.clone()),
            pager: Arc::default(),
            settles_at_once: world.chance(300),
            fallback: Mutex::default(),
            bug,
            nodes: Mutex::new(nodes.collect()),
            world,
        })
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes().len()
    }

    /// Accesses the machine of a node, whether the node is up or not.
    pub(crate) fn machine<T>(&self, index: usize, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.nodes()[index].machine)
    }

    /// The handle of a node, if it is up.
    pub(crate) fn orchestrator(&self, index: usize) -> Option<Orchestrator> {
        let nodes = self.nodes();
        nodes[index].up.as_ref().map(Runtime::orchestrator)
    }

    /// The runners of a node, if it is up.
    #[cfg(test)]
    pub(crate) fn runtime(&self, index: usize) -> Option<Runtime> {
        self.nodes()[index].up.clone()
    }

    /// Host 0 is the outside world; node 0 is host 1.
    pub(crate) fn host(index: usize) -> Host {
        index + 1
    }

    pub(crate) fn crash(&self, index: usize) {
        self.world.note(format_args!("node {index} crashes"));
        let now = self.world.now();
        self.nodes()[index].crashed_at.push(now);
        let up = self.nodes()[index].up.take();
        self.world.crash(Self::host(index));
        drop(up);
    }

    /// Whether the node crashed at or after this moment.
    pub(crate) fn crashed_since(&self, index: usize, at: Duration) -> bool {
        self.nodes()[index]
            .crashed_at
            .iter()
            .any(|crash| *crash >= at)
    }

    /// Tells a node to stop. It is down when its attempts are done, or when its grace has passed.
    pub(crate) fn stop(self: &Arc<Self>, index: usize) {
        let up = self.nodes()[index].up.clone();
        if let Some(runtime) = up {
            self.world
                .note(format_args!("node {index} is told to stop"));
            runtime.stop();
        }
    }

    /// Starts a node that is down.
    pub(crate) fn start(self: &Arc<Self>, index: usize) -> Result<(), clinch_core::Error> {
        if self.nodes()[index].up.is_some() {
            return Ok(());
        }
        self.world.note(format_args!("node {index} starts"));
        let host = Self::host(index);
        let ports = self.ports(index);
        let ports = match self.bug {
            Some(bug) => bug.plant(ports),
            None => ports,
        };
        let name = WorkerId::new(format!("node-{index}"))?;
        let config = Config {
            concurrency: 8,
            batch: 10,
            lease: LEASE,
            claim: Duration::from_secs(60),
            sweep_grace: Duration::from_secs(15),
            sweep_pause_max: Duration::from_secs(120),
            ..Config::new(name)
        };
        let fallback = *self.fallback.lock().unwrap_or_else(PoisonError::into_inner);
        let config = match fallback {
            Some(bound) => Config {
                fallback_poll: bound,
                finalizer_interval: bound,
                reaper_interval: bound,
                sweep_grace: bound,
                prune_interval: bound,
                ..config
            },
            None => config,
        };
        let handlers = self.handlers(host)?;
        let runtime = Runtime::new(ports, handlers, config)?;
        self.nodes()[index].up = Some(runtime.clone());
        let task = async move { runtime.run().await };
        self.world.spawn(host, Box::pin(task));
        Ok(())
    }

    fn ports(&self, index: usize) -> Ports {
        let far = Arc::new(NetworkedStore {
            world: self.world.clone(),
            memory: self.memory.clone(),
            network_faults: self.network_faults.clone(),
            settles_at_once: self.settles_at_once,
        });
        let dispatch = match &self.bus {
            Some(bus) => Dispatch::Hints(Arc::new(NetworkedBus {
                world: self.world.clone(),
                bus: bus.clone(),
                network_faults: self.network_faults.clone(),
            })),
            None => Dispatch::Queue(far.clone()),
        };
        let nodes = self.nodes();
        let machine = &nodes[index].machine;
        Ports {
            store: far.clone(),
            outbox: far.clone(),
            recovery: far.clone(),
            batches: far.clone(),
            domains: far.clone(),
            inspect: far.clone(),
            notices: far,
            dispatch,
            sealer: Arc::new(PlainText),
            spill: machine.spill.clone(),
            dead_letter_file: machine.dead_letters.clone(),
            alert: self.pager.clone(),
            clock: machine.clock.clone(),
            ids: Arc::new(SimIds(self.world.clone())),
            spawner: Arc::new(SimSpawner {
                world: self.world.clone(),
                host: Self::host(index),
            }),
            shed: None,
            meter: Arc::new(Untold),
            tracer: Arc::new(Untold),
        }
    }

    fn handlers(&self, host: Host) -> Result<Handlers, Invalid> {
        let mut handlers = Handlers::new();
        for kind in &KINDS {
            let caller = Arc::new(Caller {
                providers: self.providers.clone(),
                nature: kind.nature,
                host,
                spawn: kind
                    .spawns
                    .then_some(children as fn(&Envelope) -> Vec<Command>),
            });
            let mut handler = Handler {
                executor: Some(caller.clone()),
                probe: kind.probed.then_some(caller.clone() as Arc<dyn Probe>),
                ..Handler::new(kind.rules())
            };
            if let Some(copies) = kind.guarded {
                let clock = self.machine(host - 1, |machine| machine.clock.clone());
                let chain = guards::around(caller, kind.domain, clock, copies)?;
                handler.gate = chain.gate();
                handler.executor = Some(Arc::new(chain));
            }
            let domain = Domain::new(kind.domain)?;
            handlers = handlers.with(domain, EventTypes::Any, handler);
        }
        Ok(handlers)
    }

    /// Heals everything: the network works, the providers answer, every node is up.
    pub(crate) fn heal(self: &Arc<Self>) -> Result<(), clinch_core::Error> {
        self.world.note(format_args!("everything heals"));
        let network_faults = &self.network_faults;
        network_faults.store_down.store(false, Ordering::SeqCst);
        network_faults.bus_down.store(false, Ordering::SeqCst);
        network_faults.store_hangs.store(false, Ordering::SeqCst);
        network_faults.bus_hangs.store(false, Ordering::SeqCst);
        network_faults.store_faults.store(0, Ordering::SeqCst);
        network_faults.hint_faults.store(0, Ordering::SeqCst);
        for index in 0..self.node_count() {
            self.machine(index, |machine| {
                machine.spill.full.store(false, Ordering::SeqCst);
                machine.dead_letters.full.store(false, Ordering::SeqCst);
            });
            self.world.set_paused(Self::host(index), false);
            self.start(index)?;
        }
        Ok(())
    }
}

/// A command of the simulation.
pub(crate) fn command(
    domain: &str,
    biz_key: &str,
    idem_key: &str,
    payload: &str,
) -> Result<Command, Invalid> {
    let keys = Keys {
        domain: Domain::new(domain)?,
        event_type: EventType::new("call")?,
        biz_key: BizKey::new(biz_key)?,
        idem_key: IdemKey::new(idem_key)?,
    };
    Ok(Command::new(keys, Payload::parse(payload, 1_000)?))
}

/// The two children that a parent's answer spawns, with keys of their own.
fn children(envelope: &Envelope) -> Vec<Command> {
    let key = &envelope.command.keys;
    let child = |number: u32| {
        let idem_key = format!("{}-child-{number}", key.idem_key);
        command("natural", key.biz_key.as_str(), &idem_key, "{}").ok()
    };
    (1..=2).filter_map(child).collect()
}
