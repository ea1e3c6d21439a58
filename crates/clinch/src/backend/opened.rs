//! An opened store, with everything that a server or an application keeps on it.

use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::policy::QuotaRules;
use clinch_core::ports::{
    ApiKeys, Batches, Bus, Clock, DocumentSink, Domains, Expected, Ids as _, Inspect, LockManager,
    Notices, Outbox, Quota, RecordWrite, Records, Recovery, STORE_RECORD, Store,
};
use clinch_core::{Error, ErrorKind, Result};
use clinch_memory::MemoryQuota;
use clinch_system::SystemIds;

#[cfg(any(feature = "sqlite", feature = "mysql"))]
use super::RecordQuota;
use super::{Backend, BusUrl, Limits, Options, StoreUrl};

/// An opened store with everything that a server or an application keeps on it.
/// [`Backend::open`] is enough for a program that only runs operations.
pub struct Opened {
    /// The store of operations, and the bus.
    pub backend: Backend,
    /// API keys of a server.
    pub keys: Arc<dyn ApiKeys>,
    /// Locks with fences.
    pub locks: Arc<dyn LockManager>,
    /// Rate limits and pauses that the nodes share; `None`: neither bus nor store can keep them.
    pub limits: Option<Arc<dyn Limits>>,
    /// Records of an application.
    pub records: Arc<dyn Records>,
    /// Documents of an application.
    pub documents: Arc<dyn DocumentSink>,
    /// The files of the store, if it has any.
    pub files: Option<Arc<dyn StoreFiles>>,
    pub(super) kind: &'static str,
    pub(super) quota: Arc<QuotaOf>,
}

/// Makes the budgets with one provider.
pub(super) type QuotaOf = dyn Fn(QuotaRules, &Arc<dyn Clock>) -> Arc<dyn Quota> + Send + Sync;

/// The files of an opened store.
pub trait StoreFiles: Send + Sync {
    /// Checks cheaply that the files are in place; an error says which file was lost.
    fn check(&self) -> Result<()>;

    /// Finishes what was begun and closes the files, so that the database is whole without its
    /// log. Blocks the thread; meant for the end of a process. A store that is dropped does the
    /// same in the background.
    fn close(&self) -> Result<()>;
}

/// Names a store, so that a client can check whether a server works on the store that the client
/// means. The name is not a secret: callers without a key get it too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreIdentity {
    /// Random, and kept in the store: the same for every server of the store.
    pub id: String,
    /// `sqlite`, `postgres`, `mysql` or `memory`.
    pub kind: &'static str,
}

/// A database whose SQL function accepts operations without this process.
#[async_trait]
pub(crate) trait SqlAccept: Send + Sync {
    /// Sets the longest payload that the function accepts.
    async fn set_payload_max(&self, bytes: usize) -> Result<()>;

    /// From now on the function refuses: it would write payloads that are not sealed.
    async fn refuse(&self) -> Result<()>;
}

impl Opened {
    /// Opens the store and the bus. A database that is missing is created, an old one is brought up
    /// to date.
    pub async fn open(store: &StoreUrl, bus: &BusUrl, options: &Options) -> Result<Self> {
        if options.listen_url.is_some() && !matches!(store, StoreUrl::Postgres(_)) {
            let message = "listen_url is for a postgres:// store; leave it out";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let opened = store.adapter()?.open(options).await;
        let mut opened = opened.map_err(|error| at_address(error, store))?;
        opened.backend.store_address = Some(store.to_string());
        opened.backend.bus_address = Some(bus.to_string());
        let connected = bus.connect(opened, options).await;
        connected.map_err(|error| at_address(error, bus))
    }

    pub(super) fn new<S>(store: S, kind: &'static str) -> Self
    where
        S: Store + Outbox + Recovery + Batches + Domains + Inspect + Notices + Bus,
        S: ApiKeys + LockManager + Records + DocumentSink + Clone + 'static,
    {
        Self {
            backend: Backend::new(store.clone()).with_records(Arc::new(store.clone())),
            keys: Arc::new(store.clone()),
            locks: Arc::new(store.clone()),
            limits: None,
            records: Arc::new(store.clone()),
            documents: Arc::new(store),
            files: None,
            kind,
            quota: Arc::new(|rules, clock| Arc::new(MemoryQuota::new(clock.clone(), rules))),
        }
    }

    /// The processes share budgets by records of the store.
    #[cfg(any(feature = "sqlite", feature = "mysql"))]
    pub(super) fn with_shared_quota(mut self) -> Self {
        let records = self.records.clone();
        self.quota = Arc::new(move |rules, clock| {
            Arc::new(RecordQuota::new(records.clone(), clock.clone(), rules))
        });
        self
    }

    /// Budgets with a provider, which all nodes of the store share. Those of a store in memory are
    /// those of this process.
    pub fn quota(&self, rules: QuotaRules, clock: &Arc<dyn Clock>) -> Arc<dyn Quota> {
        (self.quota)(rules, clock)
    }

    /// Sets the longest payload that an SQL function of the database accepts, if it has one.
    pub async fn limit_payloads(&self, bytes: usize) -> Result<()> {
        match &self.backend.sql_accept {
            Some(sql_accept) => sql_accept.set_payload_max(bytes).await,
            None => Ok(()),
        }
    }

    /// The identity of the store; a store without one gets one. If several processes do so at once,
    /// one of them succeeds and the others find what it wrote.
    pub async fn identity(&self) -> Result<StoreIdentity> {
        let write = RecordWrite {
            key: STORE_RECORD.to_owned(),
            expected: Expected::Absent,
            body: Some(SystemIds.op_id().to_string()),
        };
        if read_id(&*self.records).await?.is_none() {
            self.records.write_records(&[write]).await?;
        }
        let missing = || {
            let message = "the store does not keep its id; look at its log";
            Error::new(ErrorKind::Internal, message)
        };
        let id = read_id(&*self.records).await?.ok_or_else(missing)?;
        let kind = self.kind;
        Ok(StoreIdentity { id, kind })
    }
}

/// Names the server that cannot be used: a configuration can name two, and a message such as "redis
/// cannot be reached" says neither which one nor where. Addresses are shown without passwords.
pub(super) fn at_address(error: Error, address: &impl std::fmt::Display) -> Error {
    match error.kind() {
        ErrorKind::Unavailable => error.with("address", address),
        _ => error,
    }
}

/// The id of a store.
pub(super) async fn read_id(records: &dyn Records) -> Result<Option<String>> {
    let found = records.read_records(&[STORE_RECORD.to_owned()]).await?;
    let first = found.into_iter().next().flatten();
    Ok(first.map(|record| record.body))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use clinch_core::ports::PlainText;

    use super::*;
    use crate::Clinch;
    use crate::types::Builder;

    #[derive(Default)]
    struct Function {
        refuses: AtomicBool,
    }

    #[async_trait]
    impl SqlAccept for Function {
        async fn set_payload_max(&self, _bytes: usize) -> Result<()> {
            Ok(())
        }

        async fn refuse(&self) -> Result<()> {
            self.refuses.store(true, Ordering::Relaxed);
            Ok(())
        }
    }

    async fn refuses(change: impl FnOnce(Builder) -> Builder) -> bool {
        let function = Arc::new(Function::default());
        let mut backend = Backend::memory();
        backend.sql_accept = Some(function.clone());
        let clinch = change(Clinch::builder().backend(backend)).build();
        let clinch = clinch.expect("built");
        clinch.stop();
        clinch.run().await;
        function.refuses.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn core_19_a_store_that_is_lost_later_is_named_without_its_password() {
        let clock = Arc::new(clinch_system::SystemClock::new());
        let memory = clinch_memory::Memory::new(clock);
        let mut backend = Backend::new(memory.clone());
        let store: StoreUrl = "postgres://ann:s3cret@db/shop".parse().expect("an address");
        backend.store_address = Some(store.to_string());
        let route = crate::Route::<u64, ()>::new("payments", "charge");
        let clinch = Clinch::builder().backend(backend).remote(&route).build();
        let clinch = clinch.expect("built");
        let submit = |key: &'static str| clinch.submit(vec![route.request("order", key, &1)]);
        assert!(submit("a").await.is_ok());
        for (fault, kind) in [
            (clinch_memory::Fault::BeforeCommit, ErrorKind::Unavailable),
            (clinch_memory::Fault::AfterCommit, ErrorKind::Ambiguous),
        ] {
            memory.fail_next(fault);
            let error = submit("b").await.expect_err("lost");
            assert_eq!(error.kind(), kind);
            let said = error.to_string();
            assert!(said.contains("(address=postgres://db/shop)"), "{said}");
        }
    }

    #[tokio::test]
    async fn the_sql_function_refuses_where_payloads_are_sealed() {
        assert!(refuses(|builder| builder.sealer(PlainText)).await);
        assert!(!refuses(|builder| builder).await, "there is no sealer");
    }
}
