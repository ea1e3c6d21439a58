//! A deadline for every call to a store, a bus or a file.
//!
//! An adapter should have deadlines of its own, since only the adapter can close the connection
//! that hangs. These deadlines are for an adapter without them: whatever hangs below a port, the
//! stage that called it continues.
//!
//! A call past its deadline is dropped, and may still happen: a change is then `Ambiguous`. Every
//! change carries its fence or its keys, so repeating it is safe.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::{Routes, SeenTime};
use clinch_core::ports::{
    Batch, Batches, Bus, Claim, Claimed, Clock, DeadLetter, Delivery, Depth, Dequeue, DomainView,
    Domains, Filter, FoundId, Inspect, Journal, JournalRecords, Known, LedgerLine, LetterFilter,
    LetterOrder, LetterView, NewBatch, NewPause, Notice, Notices, OpenRoute, Operation, Outbox,
    Page, Prune, Pruned, Publication, Receipt, Recovery, Restriction, Scan, Silence, Store, Write,
    Written,
};
use clinch_core::{
    AttemptId, BatchId, Domain, Error, ErrorKind, Keys, OpId, OpIdPrefix, ProcessId, Result,
    Timestamp,
};

use crate::Config;
use crate::ports::{Dispatch, Ports};
use crate::store_health::StoreHealth;

/// Bounds every port that waits for something outside of the process. Errors of a store or a bus
/// that does not answer name its address: a process can have two of them.
pub(crate) fn bound(ports: Ports, config: &Config) -> Ports {
    let limit = config.store_timeout;
    let store_address = config.store_address.as_deref().map(Arc::<str>::from);
    let bus_address = config.bus_address.as_deref().map(Arc::<str>::from);
    let clock = ports.clock.clone();
    let health = Arc::new(StoreHealth::new(&ports));
    macro_rules! bounded {
        ($port:expr, $address:expr) => {
            bounded!($port, $address, None)
        };
        ($port:expr, $address:expr, $health:expr) => {
            Arc::new(Bounded {
                port: $port,
                clock: clock.clone(),
                limit,
                health: $health,
                address: $address,
            })
        };
    }
    let store = || Some(health.clone());
    let at = || store_address.clone();
    Ports {
        store: bounded!(ports.store, at(), store()),
        outbox: bounded!(ports.outbox, at(), store()),
        recovery: bounded!(ports.recovery, at(), store()),
        batches: bounded!(ports.batches, at(), store()),
        domains: bounded!(ports.domains, at(), store()),
        inspect: bounded!(ports.inspect, at(), store()),
        notices: bounded!(ports.notices, at()),
        dispatch: match ports.dispatch {
            Dispatch::Queue(bus) => Dispatch::Queue(bounded!(bus, at())),
            Dispatch::Hints(bus) => Dispatch::Hints(bounded!(bus, bus_address)),
        },
        spill: bounded!(ports.spill, None),
        dead_letter_file: bounded!(ports.dead_letter_file, None),
        ..ports
    }
}

/// A port whose calls have a deadline.
struct Bounded<P: ?Sized> {
    port: Arc<P>,
    clock: Arc<dyn Clock>,
    limit: Duration,
    /// Of a port of the store.
    health: Option<Arc<StoreHealth>>,
    /// Of the server behind the port, without its password.
    address: Option<Arc<str>>,
}

impl<P: ?Sized + Send + Sync> Bounded<P> {
    async fn change<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let message = "no answer within store.timeout; read back whether it happened";
        let past = || Error::new(ErrorKind::Ambiguous, message);
        self.within(self.limit, call, past).await
    }

    async fn read<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.within(self.limit, call, unanswered).await
    }

    async fn within<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T>>,
        past: impl FnOnce() -> Error,
    ) -> Result<T> {
        let done = tokio::select! {
            biased;
            done = call => done,
            () = self.clock.sleep(limit) => Err(past()),
        };
        if let Some(health) = &self.health {
            health.note(done.as_ref().err());
        }
        done.map_err(|error| self.at_address(error))
    }

    /// Names the server that did not answer; any other error is an answer.
    fn at_address(&self, error: Error) -> Error {
        match (&self.address, error.kind()) {
            (Some(address), ErrorKind::Unavailable | ErrorKind::Ambiguous)
                if error.context("address").is_none() =>
            {
                error.with("address", address)
            }
            _ => error,
        }
    }
}

fn unanswered() -> Error {
    Error::new(ErrorKind::Unavailable, "no answer within store.timeout")
}

/// Forwards each call, as a `change` or as a `read`.
macro_rules! pass_on {
    ($port:ident { $($how:ident $name:ident($($arg:ident: $type:ty),*) -> $out:ty;)* }) => {
        #[async_trait]
        impl $port for Bounded<dyn $port> {
            $(async fn $name(&self, $($arg: $type),*) -> Result<$out> {
                self.$how(self.port.$name($($arg),*)).await
            })*
        }
    };
}

pass_on!(Store {
    change commit(writes: &[Write], routes: &Routes) -> Vec<Written>;
});

pass_on!(Outbox {
    change claim(claim: &Claim) -> Vec<Claimed>;
    change claim_silent(claim: &Claim, silence: &Silence) -> Vec<Claimed>;
    change published(claimed: &[Claimed]) -> ();
    change release(claimed: &[Claimed]) -> ();
    read next_due(routes: Option<&Routes>) -> Option<Duration>;
});

pass_on!(Recovery {
    change scan(scan: Scan, claim: &Claim) -> Vec<Claimed>;
    read next_due(scan: Scan) -> Option<Duration>;
    change check_in(process: ProcessId) -> Vec<ProcessId>;
    change abandoned(process: ProcessId, claim: &Claim) -> Vec<Claimed>;
    change check_out(process: ProcessId) -> ();
    read dead_letters(
        filter: &LetterFilter,
        order: LetterOrder,
        cursor: Option<&str>,
        limit: usize
    ) -> Page<LetterView>;
    read letters(ops: &[OpId]) -> Vec<Option<LetterView>>;
    change import(letters: &[DeadLetter]) -> Vec<bool>;
    change prune(prune: &Prune) -> Pruned;
    read seen_time() -> Option<SeenTime>;
    change confirm_time() -> SeenTime;
});

pass_on!(Batches {
    change open(batches: &[NewBatch]) -> Vec<bool>;
    read read(batches: &[BatchId]) -> Vec<Option<Batch>>;
    read list(of: &Restriction, cursor: Option<&str>, limit: usize) -> Page<Batch>;
});

pass_on!(Domains {
    change pause(domain: &Domain, pause: &NewPause) -> ();
    change resume(domain: &Domain) -> ();
    read domains() -> Vec<DomainView>;
    read open_routes() -> Vec<OpenRoute>;
});

pass_on!(Inspect {
    read get(ops: &[OpId]) -> Vec<Option<Operation>>;
    read begun(attempts: &[AttemptId]) -> Vec<Option<Operation>>;
    read long_in_progress(before: Timestamp, max: usize) -> Vec<OpId>;
    read find(keys: &[Keys]) -> Vec<Option<Known>>;
    read list(filter: &Filter, cursor: Option<&str>, limit: usize) -> Page<Operation>;
    read by_prefix(prefix: &OpIdPrefix, max: usize) -> Vec<FoundId>;
    read ledger(op: OpId) -> Vec<LedgerLine>;
    read now() -> Timestamp;
});

pass_on!(Journal {
    change append(records: &[Vec<u8>]) -> ();
    read read() -> JournalRecords;
    change forget(through: u64) -> ();
});

#[async_trait]
impl Notices for Bounded<dyn Notices> {
    async fn news(&self, seen: u64, wait: Duration) -> Result<(Vec<Notice>, u64)> {
        let limit = self.limit.saturating_add(wait);
        self.within(limit, self.port.news(seen, wait), unanswered)
            .await
    }

    fn reaches_other_processes(&self) -> bool {
        self.port.reaches_other_processes()
    }
}

#[async_trait]
impl Bus for Bounded<dyn Bus> {
    async fn publish(&self, publications: &[Publication]) -> Result<()> {
        self.change(self.port.publish(publications)).await
    }

    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let limit = self.limit.saturating_add(dequeue.wait);
        let message = "no answer within store.timeout; read back what was begun";
        let past = || Error::new(ErrorKind::Ambiguous, message);
        self.within(limit, self.port.dequeue(dequeue), past).await
    }

    async fn ack(&self, receipts: &[Receipt]) -> Result<()> {
        self.change(self.port.ack(receipts)).await
    }

    async fn nack(&self, receipts: &[(Receipt, Duration)]) -> Result<()> {
        self.change(self.port.nack(receipts)).await
    }

    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()> {
        self.change(self.port.extend(receipts, visibility)).await
    }

    async fn depth(&self) -> Result<Option<Depth>> {
        self.read(self.port.depth()).await
    }
}
