//! What is known by the four keys.

use clinch_core::ports::Known;
use clinch_core::{BizKey, Fingerprint, Keys, OpId, Result};
use clinch_stored::commit::KnownKey;
use clinch_stored::ledger::status_of;

use crate::error;

/// 4 bytes of the business key, so that one index finds all of its operations, and 20 bytes of
/// the hash of all four keys: too many for a collision.
pub(crate) type Key = [u8; 24];

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

/// A row of the statement that looks keys and ids up.
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
    let known = KnownKey {
        known,
        fingerprint: Some(fingerprint),
    };
    Ok((key.map_err(|_| error::corrupt("key"))?, known))
}
