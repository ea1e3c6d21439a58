//! The network to the store and to the bus: slow, lossy, and at times down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::{Routes, SeenTime};
use clinch_core::ports::{
    Batch, Batches, Bus, Claim, Claimed, DeadLetter, Delivery, Dequeue, DomainView, Domains,
    Filter, FoundId, Inspect, Known, LedgerLine, LetterFilter, LetterOrder, LetterView, NewBatch,
    NewPause, Notice, Notices, OpenRoute, Operation, Outbox, Page, Prune, Pruned, Publication,
    Receipt, Recovery, Restriction, Scan, Silence, Store, Write, Written,
};
use clinch_core::{
    AttemptId, BatchId, Domain, Error, ErrorKind, Keys, OpId, OpIdPrefix, ProcessId, Result,
    Timestamp,
};
use clinch_memory::{Memory, MemoryBus};

use crate::world::{OUTSIDE, World};

/// The faults of the network.
pub(crate) struct NetworkFaults {
    /// The store does not answer at all.
    pub(crate) store_down: AtomicBool,
    /// The bus does not answer at all.
    pub(crate) bus_down: AtomicBool,
    /// While true, calls of the store do not return.
    pub(crate) store_hangs: AtomicBool,
    /// The next settle does not return until this many milliseconds have passed.
    pub(crate) settle_hangs_ms: AtomicU64,
    /// While true, calls of the bus do not return.
    pub(crate) bus_hangs: AtomicBool,
    /// Of 1,000 store calls, this many fail before and as many after the commit.
    pub(crate) store_faults: AtomicU64,
    /// Of 1,000 hints, this many are lost and as many duplicated.
    pub(crate) hint_faults: AtomicU64,
    /// Scans panic, as a bug of an adapter would.
    pub(crate) scans_panic: AtomicBool,
    /// Maximum latency of a call, there and back, in milliseconds.
    pub(crate) latency_ms: u64,
    /// Calls that reached the store or the bus.
    pub(crate) calls: AtomicU64,
}

impl NetworkFaults {
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

/// The store, seen through the network. Write-ahead and finalize are separate commits unless the
/// seed says that this store does both in one commit.
#[derive(Clone)]
pub(crate) struct NetworkedStore {
    pub(crate) world: World,
    pub(crate) memory: Memory,
    pub(crate) network_faults: Arc<NetworkFaults>,
    pub(crate) settles_at_once: bool,
}

enum Fate {
    Arrives,
    FailsAfter,
    /// The commit happens, but its answer does not return.
    HangsAfter,
}

/// How soon a hanging call notices that it may continue.
const HANG_STEP: Duration = Duration::from_millis(500);

async fn until_over(world: &World, hangs: &AtomicBool) {
    while hangs.load(Ordering::SeqCst) {
        world.sleep(HANG_STEP).await;
    }
}

impl NetworkedStore {
    async fn there(&self, what: &'static str) -> Result<Fate> {
        self.way().await;
        self.network_faults.calls.fetch_add(1, Ordering::SeqCst);
        let down = || {
            Error::new(
                ErrorKind::Unavailable,
                "the store cannot be reached (simulated)",
            )
        };
        if self.network_faults.store_down.load(Ordering::SeqCst) {
            return Err(down());
        }
        if self.hangs() {
            self.world.note(format_args!("{what}: hangs"));
            if self.world.chance(500) {
                return Ok(Fate::HangsAfter);
            }
            self.until_answered().await;
        }
        let faults = self.network_faults.store_faults.load(Ordering::SeqCst);
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
        self.network_faults.store_hangs.load(Ordering::SeqCst)
    }

    async fn until_answered(&self) {
        until_over(&self.world, &self.network_faults.store_hangs).await;
    }

    async fn way(&self) {
        if self.network_faults.latency_ms > 0 {
            let delay = self.world.delay(self.network_faults.latency_ms);
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

/// While the store hangs, some calls are in flight when their callers give up: they arrive when the
/// store answers again.
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

#[async_trait]
impl Store for NetworkedStore {
    async fn commit(&self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>> {
        arrives_late!(self, "commit", writes, routes, commit);
        if writes.iter().any(|one| matches!(one, Write::Settle(_))) {
            let alone = self
                .network_faults
                .settle_hangs_ms
                .swap(0, Ordering::SeqCst);
            self.world.sleep(Duration::from_millis(alone)).await;
        }
        if self.settles_at_once {
            return far!(self, "commit", self.memory.commit(writes, routes));
        }
        let ahead = |write: &Write| match write {
            Write::Settle(answer) => Write::WriteAhead(answer.clone()),
            other => other.clone(),
        };
        let ahead: Vec<Write> = writes.iter().map(ahead).collect();
        let mut written = self.commit_one(&ahead, routes).await?;
        for (write, one) in writes.iter().zip(&mut written) {
            let (Write::Settle(answer), Written::Changed(changed)) = (write, &*one) else {
                continue;
            };
            if changed.awaits_finalize() {
                // If this finalize is lost, the Finalizer makes the answer final.
                let finalize = [Write::Finalize(answer.op_id)];
                let finalized = self.commit_one(&finalize, routes).await;
                let finalized = finalized.ok().and_then(|mut all| all.pop());
                if let Some(finalized) = finalized {
                    *one = finalized;
                }
            }
        }
        Ok(written)
    }
}

impl NetworkedStore {
    async fn commit_one(&self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>> {
        far!(self, "commit", self.memory.commit(writes, routes))
    }
}

#[async_trait]
impl Outbox for NetworkedStore {
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
impl Recovery for NetworkedStore {
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        if self.network_faults.scans_panic.load(Ordering::SeqCst) {
            std::panic::resume_unwind(Box::new("a scan panics (simulated)"));
        }
        far!(self, "scan", self.memory.scan(scan, claim))
    }
    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>> {
        far!(self, "next_due", Recovery::next_due(&self.memory, scan))
    }
    async fn check_in(&self, process: ProcessId) -> Result<Vec<ProcessId>> {
        far!(self, "check_in", self.memory.check_in(process))
    }
    async fn abandoned(&self, process: ProcessId, claim: &Claim) -> Result<Vec<Claimed>> {
        far!(self, "abandoned", self.memory.abandoned(process, claim))
    }
    async fn check_out(&self, process: ProcessId) -> Result<()> {
        far!(self, "check_out", self.memory.check_out(process))
    }
    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        order: LetterOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<LetterView>> {
        far!(
            self,
            "dead_letters",
            self.memory.dead_letters(filter, order, cursor, limit)
        )
    }
    async fn letters(&self, ops: &[OpId]) -> Result<Vec<Option<LetterView>>> {
        far!(self, "letters", self.memory.letters(ops))
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
impl Batches for NetworkedStore {
    async fn open(&self, batches: &[NewBatch]) -> Result<Vec<bool>> {
        far!(self, "open", Batches::open(&self.memory, batches))
    }
    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>> {
        far!(self, "read", Batches::read(&self.memory, batches))
    }
    async fn list(
        &self,
        of: &Restriction,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Batch>> {
        far!(self, "list", Batches::list(&self.memory, of, cursor, limit))
    }
}

#[async_trait]
impl Domains for NetworkedStore {
    async fn pause(&self, domain: &Domain, pause: &NewPause) -> Result<()> {
        far!(self, "pause", self.memory.pause(domain, pause))
    }
    async fn resume(&self, domain: &Domain) -> Result<()> {
        far!(self, "resume", self.memory.resume(domain))
    }
    async fn domains(&self) -> Result<Vec<DomainView>> {
        far!(self, "domains", self.memory.domains())
    }
    async fn open_routes(&self) -> Result<Vec<OpenRoute>> {
        far!(self, "open_routes", self.memory.open_routes())
    }
}

#[async_trait]
impl Inspect for NetworkedStore {
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
        far!(
            self,
            "list",
            Inspect::list(&self.memory, filter, cursor, limit)
        )
    }
    async fn long_in_progress(&self, before: Timestamp, max: usize) -> Result<Vec<OpId>> {
        far!(
            self,
            "long_in_progress",
            self.memory.long_in_progress(before, max)
        )
    }
    async fn by_prefix(&self, prefix: &OpIdPrefix, max: usize) -> Result<Vec<FoundId>> {
        far!(self, "by_prefix", self.memory.by_prefix(prefix, max))
    }
    async fn ledger(&self, op: OpId) -> Result<Vec<LedgerLine>> {
        far!(self, "ledger", self.memory.ledger(op))
    }
    async fn now(&self) -> Result<Timestamp> {
        far!(self, "now", Inspect::now(&self.memory))
    }
}

/// Notices are lost while the store is down, and now and then otherwise.
#[async_trait]
impl Notices for NetworkedStore {
    async fn news(&self, seen: u64, wait: Duration) -> Result<(Vec<Notice>, u64)> {
        let (notices, last) = self.memory.news(seen, wait).await?;
        let faults = self.network_faults.store_faults.load(Ordering::SeqCst);
        let lost = self.network_faults.store_down.load(Ordering::SeqCst)
            || (faults > 0 && self.world.chance(faults));
        Ok((if lost { Vec::new() } else { notices }, last))
    }
}

/// The store as its own bus, seen through the network.
#[async_trait]
impl Bus for NetworkedStore {
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

/// A bus of hints that loses, delays and duplicates them.
#[derive(Clone)]
pub(crate) struct NetworkedBus {
    pub(crate) world: World,
    pub(crate) bus: MemoryBus,
    pub(crate) network_faults: Arc<NetworkFaults>,
}

impl NetworkedBus {
    async fn reach(&self) -> Result<()> {
        self.network_faults.calls.fetch_add(1, Ordering::SeqCst);
        until_over(&self.world, &self.network_faults.bus_hangs).await;
        if self.network_faults.bus_down.load(Ordering::SeqCst) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the bus cannot be reached (simulated)",
            ));
        }
        Ok(())
    }
}

#[async_trait]
impl Bus for NetworkedBus {
    async fn publish(&self, hints: &[Publication]) -> Result<()> {
        self.reach().await?;
        let faults = self.network_faults.hint_faults.load(Ordering::SeqCst);
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
