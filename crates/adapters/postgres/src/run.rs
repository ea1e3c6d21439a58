//! How a call becomes a transaction: on a task of its own, so that a caller who goes away
//! never leaves one half done, and again where the server asks for it.

use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;

use clinch_core::ports::Notice;
use clinch_core::{Domain, Error, ErrorKind, Result, Timestamp};
use clinch_stored::Fault;
use tokio_postgres::Row;

use crate::link::{Client, Link, Params};
use crate::query::Query;
use crate::tx::{Announcements, Stage, Tx, Unnumbered};
use crate::{Postgres, Shared, error};

/// Tries of one call: deadlocks and races are rare, and each try may meet another one.
const TRIES_MAX: usize = 8;
/// Commits after which their counters are folded in.
const FOLD_AFTER: u32 = 256;

/// What a transaction does.
pub(crate) type Work<'t, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 't>>;

impl Postgres {
    /// Runs `work` on `call` in a transaction and commits it. If the caller goes away it happens
    /// all the same.
    pub(crate) async fn write<A, T, W>(&self, call: A, work: W) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
        W: for<'t> Fn(&'t mut Tx<'_>, &'t A) -> Work<'t, T> + Send + Sync + 'static,
    {
        let shared = self.shared.clone();
        let lost = |error: tokio::task::JoinError| {
            let message = "the call was not finished; read back whether it happened";
            Error::new(ErrorKind::Ambiguous, message).caused_by(error)
        };
        let task = tokio::spawn(async move { shared.transact(&call, &work).await });
        task.await.map_err(lost)?
    }

    /// Runs `work` on a connection, outside of a transaction.
    pub(crate) async fn client(&self) -> Result<Client> {
        self.shared.client().await
    }
}

impl Shared {
    pub(crate) async fn client(&self) -> Result<Client> {
        let object = self.pool.get().await.map_err(error::pool)?;
        let timeout = self.settings.timeout;
        Ok(Client::new(object, self.types.clone(), timeout))
    }

    /// Runs one statement on a connection of the pool; every row.
    pub(crate) async fn query(&self, query: Query, params: Params<'_>) -> Result<Vec<Row>> {
        let client = self.client().await?;
        Link::Pooled(&client).query(query, params).await
    }

    /// Runs one statement on a connection of the pool; the first row.
    pub(crate) async fn first(&self, query: Query, params: Params<'_>) -> Result<Option<Row>> {
        Ok(self.query(query, params).await?.into_iter().next())
    }

    /// Runs one statement on a connection of the pool; how many rows it changed.
    pub(crate) async fn run(&self, query: Query, params: Params<'_>) -> Result<u64> {
        let client = self.client().await?;
        Link::Pooled(&client).run(query, params).await
    }

    async fn transact<A, T, W>(self: &Arc<Self>, call: &A, work: &W) -> Result<T>
    where
        W: for<'t> Fn(&'t mut Tx<'_>, &'t A) -> Work<'t, T>,
    {
        let fault = self.faults.take();
        if fault == Some(Fault::BeforeCommit) {
            return Err(down());
        }
        let mut tries = 0;
        loop {
            let client = self.client().await?;
            let mut tx = Tx::new(self, Link::Pooled(&client));
            tx.commits_with_plan = fault != Some(Fault::MidCommit);
            let outcome = match work(&mut tx, call).await {
                Ok(_) if fault == Some(Fault::MidCommit) => Err(down()),
                Ok(value) => tx.commit().await.map(|()| value),
                Err(error) => Err(error),
            };
            let Tx {
                unnumbered,
                again,
                now,
                announcements,
                stage,
                left,
                ..
            } = tx;
            match outcome {
                Ok(value) => {
                    drop(client);
                    self.live_rows.keep(left);
                    self.committed(announcements, now);
                    return match fault {
                        Some(Fault::AfterCommit) => Err(unconfirmed()),
                        _ => Ok(value),
                    };
                }
                Err(error) => {
                    // The connection goes back before names are numbered: that takes another one,
                    // and calls that hold one while they wait for another could use up the pool.
                    match stage {
                        Stage::Begun => roll_back(client).await,
                        Stage::Idle | Stage::Committed => drop(client),
                    }
                    tries += usize::from(unnumbered.is_empty());
                    let may_help = again || !unnumbered.is_empty();
                    if !may_help || tries >= TRIES_MAX {
                        return Err(error);
                    }
                    self.number(unnumbered).await?;
                }
            }
        }
    }

    /// Gives names their numbers, each in a commit of its own: a name does no harm.
    pub(crate) async fn number(&self, names: Unnumbered) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        for (domain, event_type, rank) in &names.streams {
            let numbered = self.names.stream_of(&link, domain, event_type, *rank);
            numbered.await?;
            self.notifier.announce_stream();
        }
        for worker in &names.workers {
            self.names.worker_of(&link, worker).await?;
        }
        Ok(())
    }

    /// Announces what a commit made, here and in other processes.
    pub(crate) fn committed(self: &Arc<Self>, announcements: Announcements, now: Timestamp) {
        let (notices, due) = self.notices(announcements, now);
        self.notifier.announce(&notices, &due);
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
        let _ = self.run(Query::FoldDeltas, &[]).await;
    }

    /// What to tell of a commit, and from when on rows of which domains are due.
    pub(crate) fn notices(
        &self,
        announcements: Announcements,
        now: Timestamp,
    ) -> (Vec<Notice>, BTreeMap<Domain, i64>) {
        let mut notices: Vec<_> = announcements
            .settled
            .into_iter()
            .map(Notice::Settled)
            .collect();
        let mut due = BTreeMap::new();
        let mut own = HashSet::new();
        if !announcements.others_due {
            for (stream, row) in announcements.accepted {
                own.insert(stream);
                self.own_rows.accepted(stream, row);
            }
        }
        for (stream, at) in announcements.due {
            self.horizon.lower(stream, at);
            if !own.contains(&stream) {
                self.own_rows.announced(stream);
            }
            if let Ok(stream) = self.names.stream(stream) {
                let first = due.entry(stream.domain).or_insert(at);
                *first = at.min(*first);
            }
        }
        notices.extend(due.keys().cloned().map(Notice::Due));
        let recovery = self.needs.are_new(&announcements.needs, now);
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

fn down() -> Error {
    Error::new(ErrorKind::Unavailable, "the store is down (injected)")
}

fn unconfirmed() -> Error {
    let message = "the commit was not confirmed (injected)";
    Error::new(ErrorKind::Ambiguous, message)
}
