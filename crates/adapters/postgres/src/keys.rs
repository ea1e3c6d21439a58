//! What is known by the four keys.

use clinch_core::ports::Known;
use clinch_core::{BizKey, Fingerprint, Keys, OpId, Result};
use clinch_stored::ledger::status_of;
use uuid::Uuid;

use crate::error;
use crate::link::Link;
use crate::query::Query;
use crate::tx::Tx;

/// 4 bytes of the business key, so that one index finds all of its operations, and 20 of the
/// hash of all four keys, so that nobody finds two that collide.
pub(crate) type Key = [u8; 24];

/// What a key stands for.
#[derive(Debug, Clone)]
pub(crate) struct KnownKey {
    pub known: Known,
    pub fingerprint: Fingerprint,
}

pub(crate) fn key_of(keys: &Keys) -> Key {
    let mut key = [0; 24];
    key[..4].copy_from_slice(&biz_bytes(&keys.biz_key));
    key[4..].copy_from_slice(&keys.hash().as_bytes()[..20]);
    key
}

/// FNV-1a, which is stored and must never change.
pub(crate) fn biz_bytes(biz_key: &BizKey) -> [u8; 4] {
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
    let hash = biz_key.as_str().as_bytes().iter().fold(2_166_136_261, mix);
    hash.to_be_bytes()
}

/// Looks keys up, and ids that are to be given.
pub(crate) fn read_known(row: &tokio_postgres::Row) -> Result<(Key, KnownKey)> {
    let key = row.get::<_, &[u8]>(0).try_into();
    let status = [3, 4, 5].map(|at| row.get::<_, Option<i16>>(at));
    let pruned = status[0].is_none() && status[1].is_none();
    let status = status.into_iter().flatten().next();
    let status = status.ok_or_else(|| error::corrupt("key without an operation"))?;
    let known = Known {
        op_id: OpId(row.get(1)),
        status: status_of(i64::from(status))?,
        pruned,
    };
    let fingerprint = Fingerprint::from_bytes(row.get(2)).map_err(error::unreadable)?;
    let key = key.map_err(|_| error::corrupt("key"))?;
    Ok((key, KnownKey { known, fingerprint }))
}

/// What is known of these keys and ids.
pub(crate) async fn look_up(
    link: &Link<'_>,
    keys: &[Key],
    ops: &[Uuid],
) -> Result<Vec<(Key, KnownKey)>, LookUp> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let rows = link.raw_query(Query::Known, &[&keys, &ops]).await;
    let rows = rows.map_err(LookUp::Sql)?;
    let read: Result<Vec<_>> = rows.iter().map(read_known).collect();
    read.map_err(LookUp::Read)
}

/// Why nothing is known.
pub(crate) enum LookUp {
    Sql(tokio_postgres::Error),
    Read(clinch_core::Error),
}

impl LookUp {
    pub(crate) fn error(self) -> clinch_core::Error {
        match self {
            Self::Sql(error) => error::sql(error),
            Self::Read(error) => error,
        }
    }
}

impl Tx<'_> {
    /// Reads what is known of keys and ids.
    pub(crate) async fn load_keys(&mut self, keys: &[Key], ops: &[Uuid]) -> Result<()> {
        let unseen = keys.iter().filter(|key| !self.keys.contains_key(*key));
        let unseen: Vec<Key> = unseen.copied().collect();
        if unseen.is_empty() && ops.is_empty() {
            return Ok(());
        }
        self.start().await?;
        let found = look_up(&self.link, &unseen, ops).await;
        let found = found.map_err(|problem| match problem {
            LookUp::Sql(error) => self.failed(error),
            LookUp::Read(error) => error,
        })?;
        for key in unseen {
            self.keys.insert(key, None);
        }
        for (key, known) in found {
            self.taken.insert(known.known.op_id);
            self.keys.insert(key, Some(known));
        }
        Ok(())
    }

    /// What is known by the four keys, as this transaction sees it.
    pub(crate) async fn known(&mut self, key: &Key) -> Result<Option<KnownKey>> {
        self.load_keys(std::slice::from_ref(key), &[]).await?;
        let known = self.keys.get(key).cloned().flatten();
        Ok(known.map(|mut found| {
            if let Some(status) = self.status_of(found.known.op_id) {
                found.known.status = status;
            }
            found
        }))
    }
}
