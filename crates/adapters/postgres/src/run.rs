//! How a call becomes a transaction: on a task of its own, so that a caller who goes away
//! never leaves one half done, and again where the server asks for it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use clinch_core::ports::Notice;
use clinch_core::{Domain, Error, ErrorKind, Result, Timestamp};
use clinch_stored::Fault;

use crate::link::{Client, Link};
use crate::tx::{Fresh, Tx, Wanted};
use crate::{Postgres, Shared, error};

/// Tries of one call: deadlocks and races are rare, and each try may meet another one.
const TRIES_MAX: usize = 8;
/// Commits after which their counters are folded in.
const FOLD_AFTER: u32 = 256;

/// What a transaction does.
pub(crate) type Work<'t, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 't>>;

impl Postgres {
    /// Runs `work` in a transaction and commits it. If the caller goes away it happens all the
    /// same.
    pub(crate) async fn write<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: for<'t> Fn(&'t mut Tx<'_>) -> Work<'t, T> + Send + Sync + 'static,
    {
        let shared = self.shared.clone();
        spawned(async move { shared.transact(&work).await }).await
    }

    /// Runs `work` on a connection, outside of a transaction.
    pub(crate) async fn client(&self) -> Result<Client> {
        self.shared.client().await
    }
}

/// Runs on a task of its own.
pub(crate) async fn spawned<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let lost = |error: tokio::task::JoinError| {
        let message = "the call was not finished; read back whether it happened";
        Error::new(ErrorKind::Ambiguous, message).caused_by(error)
    };
    tokio::spawn(work).await.map_err(lost)?
}

impl Shared {
    pub(crate) async fn client(&self) -> Result<Client> {
        let object = self.pool.get().await.map_err(error::pool)?;
        let timeout = self.settings.timeout;
        Ok(Client::new(object, self.types.clone(), timeout))
    }

    async fn transact<T, W>(self: &Arc<Self>, work: &W) -> Result<T>
    where
        W: for<'t> Fn(&'t mut Tx<'_>) -> Work<'t, T>,
    {
        let fault = self.faults.take();
        if fault == Some(Fault::BeforeCommit) {
            return Err(down());
        }
        let mut tries = 0;
        loop {
            let client = self.client().await?;
            let mut tx = Tx::new(self, Link::Pooled(&client));
            let outcome = match work(&mut tx).await {
                Ok(value) if fault == Some(Fault::MidCommit) => {
                    let flushed = tx.flush(false).await;
                    flushed.and(Err(down())).map(|()| value)
                }
                Ok(value) => tx.flush(true).await.map(|()| value),
                Err(error) => Err(error),
            };
            let (wanted, again, now) = (std::mem::take(&mut tx.wanted), tx.again, tx.now);
            let fresh = std::mem::take(&mut tx.fresh);
            drop(tx);
            match outcome {
                Ok(value) => {
                    drop(client);
                    self.committed(fresh, now);
                    return match fault {
                        Some(Fault::AfterCommit) => Err(unconfirmed()),
                        _ => Ok(value),
                    };
                }
                Err(error) => {
                    roll_back(client).await;
                    tries += usize::from(wanted.is_empty());
                    let may_help = again || !wanted.is_empty();
                    if !may_help || tries >= TRIES_MAX {
                        return Err(error);
                    }
                    self.make(wanted).await?;
                }
            }
        }
    }

    /// Gives names their numbers, each in a commit of its own: a name does no harm.
    pub(crate) async fn make(&self, wanted: Wanted) -> Result<()> {
        if wanted.is_empty() {
            return Ok(());
        }
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        for (domain, event_type, rank) in &wanted.streams {
            let names = &self.names;
            names.stream_of(&link, domain, event_type, *rank).await?;
            self.voice.say_stream();
        }
        for worker in &wanted.workers {
            self.names.worker_of(&link, worker).await?;
        }
        Ok(())
    }

    /// Wakes whoever waits for what a commit made, here and in other processes.
    pub(crate) fn committed(self: &Arc<Self>, fresh: Fresh, now: Timestamp) {
        let (notices, due) = self.notices(fresh, now);
        self.voice.say(&notices, &due);
        self.news.tell(notices);
        if self.count_commit() {
            let shared = self.clone();
            tokio::spawn(async move { shared.fold().await });
        }
    }

    fn count_commit(&self) -> bool {
        use std::sync::atomic::Ordering;
        let count = self.commits.fetch_add(1, Ordering::Relaxed);
        count % FOLD_AFTER == FOLD_AFTER - 1
    }

    /// Folds counters in. If it fails, a later one does more.
    async fn fold(&self) {
        if let Ok(client) = self.client().await {
            let link = Link::Pooled(&client);
            let _ = link.run(crate::query::Query::FoldDeltas, &[]).await;
        }
    }

    /// What to tell of a commit, and from when on rows of which domains are due.
    pub(crate) fn notices(
        &self,
        fresh: Fresh,
        now: Timestamp,
    ) -> (Vec<Notice>, BTreeMap<Domain, i64>) {
        let mut notices: Vec<_> = fresh.settled.into_iter().map(Notice::Settled).collect();
        let mut due = BTreeMap::new();
        for (stream, at) in fresh.due {
            self.horizon.lower(stream, at);
            if let Ok(stream) = self.names.stream(stream) {
                let first = due.entry(stream.domain).or_insert(at);
                *first = at.min(*first);
            }
        }
        notices.extend(due.keys().cloned().map(Notice::Due));
        let recovery = self.needs.are_new(&fresh.needs, now);
        notices.extend(recovery.then_some(Notice::Recovery));
        (notices, due)
    }
}

async fn roll_back(client: Client) {
    // A connection that cannot even do this is not given back.
    if client.batch_execute("ROLLBACK").await.is_err() {
        client.close();
    }
}

pub(crate) fn down() -> Error {
    Error::new(ErrorKind::Unavailable, "the store is down (injected)")
}

pub(crate) fn unconfirmed() -> Error {
    let message = "the commit was not confirmed (injected)";
    Error::new(ErrorKind::Ambiguous, message)
}
