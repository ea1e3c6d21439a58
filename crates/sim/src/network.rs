//! The way to the store and to the bus: slow, lossy, and at times not there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::{Routes, SeenTime};
use clinch_core::ports::{
    Accepted, Amendment, Answer, Batch, Batches, BeginRequest, Bus, Changed, Claim, Claimed,
    DeadLetter, Delivery, Dequeue, DomainView, Domains, Extension, Filter, Inspect, Known,
    LedgerLine, NewBatch, NewOperation, Notice, Notices, OpenRoute, Operation, Outbox, Page, Prune,
    Pruned, Publication, Receipt, Recovery, Refused, Reschedule, Scan, Silence, Store,
};
use clinch_core::{AttemptId, BatchId, Domain, Error, ErrorKind, Keys, OpId, Result, Timestamp};
use clinch_memory::{Memory, MemoryBus};

use crate::world::{OUTSIDE, World};

/// How bad the way is.
pub(crate) struct Weather {
    /// The store does not answer at all.
    pub(crate) store_down: AtomicBool,
    /// The bus does not answer at all.
    pub(crate) bus_down: AtomicBool,
    /// Calls of the store do not come back until this is over.
    pub(crate) store_hangs: AtomicBool,
    /// The next settle does not come back until this many milliseconds have passed.
    pub(crate) settle_hangs_ms: AtomicU64,
    /// Calls of the bus do not come back until this is over.
    pub(crate) bus_hangs: AtomicBool,
    /// Of 1,000 store calls, so many fail before and as many after the commit.
    pub(crate) store_faults: AtomicU64,
    /// Of 1,000 hints, so many are lost and as many doubled.
    pub(crate) hint_faults: AtomicU64,
    /// Scans panic, as a bug of an adapter would.
    pub(crate) scans_panic: AtomicBool,
    /// Longest way of a call, there and back, in milliseconds.
    pub(crate) latency_ms: u64,
    /// Calls that reached the store or the bus.
    pub(crate) calls: AtomicU64,
}

impl Weather {
    pub(crate) fn fair() -> Self {
        Self {
            store_down: AtomicBool::new(false),
            bus_down: AtomicBool::new(false),
            store_hangs: AtomicBool::new(false),
            settle_hangs_ms: AtomicU64::new(0),
            bus_hangs: AtomicBool::new(false),
            store_faults: AtomicU64::new(0),
            hint_faults: AtomicU64::new(0),
            scans_panic: AtomicBool::new(false),
            latency_ms: 0,
            calls: AtomicU64::new(0),
        }
    }
}

/// The store, seen through the network. Write-ahead and finalize go separately unless the
/// seed says that this store does both in one commit.
#[derive(Clone)]
pub(crate) struct FarStore {
    pub(crate) world: World,
    pub(crate) memory: Memory,
    pub(crate) weather: Arc<Weather>,
    pub(crate) settles_at_once: bool,
}

enum Fate {
    Arrives,
    FailsAfter,
    /// The commit happens; its answer does not come back.
    HangsAfter,
}

/// How soon a call that hangs notices that it goes on.
const HANG_STEP: Duration = Duration::from_millis(500);

async fn until_over(world: &World, hangs: &AtomicBool) {
    while hangs.load(Ordering::SeqCst) {
        world.sleep(HANG_STEP).await;
    }
}

impl FarStore {
    async fn there(&self, what: &'static str) -> Result<Fate> {
        self.way().await;
        self.weather.calls.fetch_add(1, Ordering::SeqCst);
        let down = || {
            Error::new(
                ErrorKind::Unavailable,
                "the store is out of reach (simulated)",
            )
        };
        if self.weather.store_down.load(Ordering::SeqCst) {
            return Err(down());
        }
        if self.hangs() {
            self.world.note(format_args!("{what}: hangs"));
            if self.world.chance(500) {
                return Ok(Fate::HangsAfter);
            }
            self.until_answered().await;
        }
        let faults = self.weather.store_faults.load(Ordering::SeqCst);
        let draw = if faults == 0 {
            1_000
        } else {
            self.world.below(1_000)
        };
        if draw < faults {
            self.world
                .note(format_args!("{what}: fails before the commit"));
            return Err(down());
        }
        if draw < 2 * faults {
            self.world
                .note(format_args!("{what}: fails after the commit"));
            return Ok(Fate::FailsAfter);
        }
        Ok(Fate::Arrives)
    }

    async fn back<T>(&self, fate: Fate, result: Result<T>) -> Result<T> {
        self.way().await;
        if matches!(fate, Fate::HangsAfter) {
            self.until_answered().await;
        }
        match fate {
            Fate::Arrives => result,
            Fate::FailsAfter | Fate::HangsAfter => Err(Error::new(
                ErrorKind::Ambiguous,
                "the answer of the store was lost (simulated)",
            )),
        }
    }

    fn hangs(&self) -> bool {
        self.weather.store_hangs.load(Ordering::SeqCst)
    }

    async fn until_answered(&self) {
        until_over(&self.world, &self.weather.store_hangs).await;
    }

    async fn way(&self) {
        if self.weather.latency_ms > 0 {
            let delay = self.world.delay(self.weather.latency_ms);
            self.world.sleep(delay).await;
        }
    }
}

/// Passes a call through the network.
macro_rules! far {
    ($self:ident, $name:literal, $call:expr) => {{
        let fate = $self.there($name).await?;
        let result = $call.await;
        $self.back(fate, result).await
    }};
}

/// While the store hangs, some calls are on the wire when their callers give up: they arrive
/// when it answers again.
macro_rules! arrives_late {
    ($self:ident, $name:literal, $items:ident, $routes:ident, $call:ident) => {
        if $self.hangs() && $self.world.chance(300) {
            $self.world.note(format_args!("{}: arrives late", $name));
            let (far, items, routes) = ($self.clone(), $items.to_vec(), $routes.clone());
            let late = async move {
                far.until_answered().await;
                let _ = far.memory.$call(&items, &routes).await;
            };
            $self.world.spawn(OUTSIDE, Box::pin(late));
            std::future::pending::<()>().await;
        }
    };
}

type Outcomes = Result<Vec<Result<Changed, Refused>>>;

#[async_trait]
impl Store for FarStore {
    async fn accept(&self, new: &[NewOperation], routes: &Routes) -> Result<Vec<Accepted>> {
        arrives_late!(self, "accept", new, routes, accept);
        far!(self, "accept", self.memory.accept(new, routes))
    }
    async fn begin(
        &self,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Result<Operation, Refused>>> {
        arrives_late!(self, "begin", begins, routes, begin);
        far!(self, "begin", self.memory.begin(begins, routes))
    }
    async fn extend(&self, leases: &[Extension]) -> Outcomes {
        far!(self, "extend", Store::extend(&self.memory, leases))
    }
    async fn write_ahead(&self, answers: &[Answer], routes: &Routes) -> Outcomes {
        far!(
            self,
            "write_ahead",
            self.memory.write_ahead(answers, routes)
        )
    }
    async fn finalize(&self, ops: &[OpId], routes: &Routes) -> Outcomes {
        far!(self, "finalize", self.memory.finalize(ops, routes))
    }
    async fn settle(&self, answers: &[Answer], routes: &Routes) -> Outcomes {
        arrives_late!(self, "settle", answers, routes, settle);
        let alone = self.weather.settle_hangs_ms.swap(0, Ordering::SeqCst);
        self.world.sleep(Duration::from_millis(alone)).await;
        if self.settles_at_once {
            return far!(self, "settle", self.memory.settle(answers, routes));
        }
        let mut results = self.write_ahead(answers, routes).await?;
        for (answer, result) in answers.iter().zip(&mut results) {
            if result.as_ref().is_ok_and(Changed::awaits_finalize) {
                // What is not finalized now is the Finalizer's.
                if let Ok(finalized) = self.finalize(&[answer.op_id], routes).await {
                    *result = finalized
                        .into_iter()
                        .next()
                        .unwrap_or(Err(Refused::NotFound));
                }
            }
        }
        Ok(results)
    }
    async fn reschedule(&self, ends: &[Reschedule], routes: &Routes) -> Outcomes {
        arrives_late!(self, "reschedule", ends, routes, reschedule);
        far!(self, "reschedule", self.memory.reschedule(ends, routes))
    }
    async fn amend(&self, changes: &[Amendment], routes: &Routes) -> Outcomes {
        arrives_late!(self, "amend", changes, routes, amend);
        far!(self, "amend", self.memory.amend(changes, routes))
    }
}

#[async_trait]
impl Outbox for FarStore {
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>> {
        far!(self, "claim", self.memory.claim(claim))
    }
    async fn claim_silent(&self, claim: &Claim, silence: &Silence) -> Result<Vec<Claimed>> {
        far!(
            self,
            "claim_silent",
            self.memory.claim_silent(claim, silence)
        )
    }
    async fn published(&self, claimed: &[Claimed]) -> Result<()> {
        far!(self, "published", self.memory.published(claimed))
    }
    async fn release(&self, claimed: &[Claimed]) -> Result<()> {
        far!(self, "release", Outbox::release(&self.memory, claimed))
    }
    async fn next_due(&self, routes: Option<&Routes>) -> Result<Option<Duration>> {
        far!(self, "next_due", Outbox::next_due(&self.memory, routes))
    }
}

#[async_trait]
impl Recovery for FarStore {
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        if self.weather.scans_panic.load(Ordering::SeqCst) {
            std::panic::resume_unwind(Box::new("a scan panics (simulated)"));
        }
        far!(self, "scan", self.memory.scan(scan, claim))
    }
    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>> {
        far!(self, "next_due", Recovery::next_due(&self.memory, scan))
    }
    async fn dead_letters(&self, cursor: Option<&str>, limit: usize) -> Result<Page<DeadLetter>> {
        far!(
            self,
            "dead_letters",
            self.memory.dead_letters(cursor, limit)
        )
    }
    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        far!(self, "import", self.memory.import(letters))
    }
    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        far!(self, "prune", self.memory.prune(prune))
    }
    async fn seen_time(&self) -> Result<Option<SeenTime>> {
        far!(self, "seen_time", self.memory.seen_time())
    }
    async fn confirm_time(&self) -> Result<SeenTime> {
        far!(self, "confirm_time", self.memory.confirm_time())
    }
}

#[async_trait]
impl Batches for FarStore {
    async fn open(&self, batches: &[NewBatch]) -> Result<Vec<bool>> {
        far!(self, "open", Batches::open(&self.memory, batches))
    }
    async fn seal(&self, batches: &[BatchId], routes: &Routes) -> Result<Vec<BatchId>> {
        far!(self, "seal", self.memory.seal(batches, routes))
    }
    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>> {
        far!(self, "read", Batches::read(&self.memory, batches))
    }
}

#[async_trait]
impl Domains for FarStore {
    async fn set_paused(&self, domain: &Domain, paused: bool) -> Result<()> {
        far!(self, "set_paused", self.memory.set_paused(domain, paused))
    }
    async fn domains(&self) -> Result<Vec<DomainView>> {
        far!(self, "domains", self.memory.domains())
    }
    async fn open_routes(&self) -> Result<Vec<OpenRoute>> {
        far!(self, "open_routes", self.memory.open_routes())
    }
}

#[async_trait]
impl Inspect for FarStore {
    async fn get(&self, ops: &[OpId]) -> Result<Vec<Option<Operation>>> {
        far!(self, "get", self.memory.get(ops))
    }
    async fn begun(&self, attempts: &[AttemptId]) -> Result<Vec<Option<Operation>>> {
        far!(self, "begun", self.memory.begun(attempts))
    }
    async fn find(&self, keys: &[Keys]) -> Result<Vec<Option<Known>>> {
        far!(self, "find", self.memory.find(keys))
    }
    async fn list(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Operation>> {
        far!(self, "list", self.memory.list(filter, cursor, limit))
    }
    async fn ledger(&self, op: OpId) -> Result<Vec<LedgerLine>> {
        far!(self, "ledger", self.memory.ledger(op))
    }
    async fn now(&self) -> Result<Timestamp> {
        far!(self, "now", Inspect::now(&self.memory))
    }
}

/// News are lost while the store is down, and now and then otherwise.
#[async_trait]
impl Notices for FarStore {
    async fn news(&self, seen: u64, wait: Duration) -> Result<(Vec<Notice>, u64)> {
        let (notices, last) = self.memory.news(seen, wait).await?;
        let faults = self.weather.store_faults.load(Ordering::SeqCst);
        let lost = self.weather.store_down.load(Ordering::SeqCst)
            || (faults > 0 && self.world.chance(faults));
        Ok((if lost { Vec::new() } else { notices }, last))
    }
}

/// The store as its own bus, seen through the network.
#[async_trait]
impl Bus for FarStore {
    async fn publish(&self, hints: &[Publication]) -> Result<()> {
        self.memory.publish(hints).await
    }
    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        far!(self, "dequeue", self.memory.dequeue(dequeue))
    }
    async fn ack(&self, receipts: &[Receipt]) -> Result<()> {
        self.memory.ack(receipts).await
    }
    async fn nack(&self, receipts: &[(Receipt, Duration)]) -> Result<()> {
        far!(self, "nack", self.memory.nack(receipts))
    }
    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()> {
        far!(
            self,
            "extend",
            Bus::extend(&self.memory, receipts, visibility)
        )
    }
}

/// A bus of hints that loses, delays and doubles them.
#[derive(Clone)]
pub(crate) struct FarBus {
    pub(crate) world: World,
    pub(crate) bus: MemoryBus,
    pub(crate) weather: Arc<Weather>,
}

impl FarBus {
    async fn reach(&self) -> Result<()> {
        self.weather.calls.fetch_add(1, Ordering::SeqCst);
        until_over(&self.world, &self.weather.bus_hangs).await;
        if self.weather.bus_down.load(Ordering::SeqCst) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the bus is out of reach (simulated)",
            ));
        }
        Ok(())
    }
}

#[async_trait]
impl Bus for FarBus {
    async fn publish(&self, hints: &[Publication]) -> Result<()> {
        self.reach().await?;
        let faults = self.weather.hint_faults.load(Ordering::SeqCst);
        let mut arriving = Vec::new();
        for hint in hints {
            if faults > 0 && self.world.chance(faults) {
                self.world.note(format_args!("a hint is lost"));
                continue;
            }
            let mut hint = hint.clone();
            if faults > 0 && self.world.chance(faults) {
                hint.delay += self.world.delay(60_000);
                arriving.push(hint.clone());
                hint.delay = Duration::ZERO;
            }
            arriving.push(hint);
        }
        self.bus.publish(&arriving).await
    }
    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        self.reach().await?;
        self.bus.dequeue(dequeue).await
    }
    async fn ack(&self, receipts: &[Receipt]) -> Result<()> {
        self.reach().await?;
        self.bus.ack(receipts).await
    }
    async fn nack(&self, receipts: &[(Receipt, Duration)]) -> Result<()> {
        self.reach().await?;
        self.bus.nack(receipts).await
    }
    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()> {
        self.reach().await?;
        self.bus.extend(receipts, visibility).await
    }
}
