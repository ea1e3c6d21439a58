//! Who may call the API.

use async_trait::async_trait;
use clinch_core::ports::{ApiKey, ApiKeys};
use clinch_core::{Result, Timestamp};

use crate::Memory;

#[async_trait]
impl ApiKeys for Memory {
    async fn create(&self, keys: &[ApiKey]) -> Result<Vec<bool>> {
        self.write(|tx| {
            let mut create = |key: &ApiKey| {
                let is_new = !tx.tables.api_keys.contains(&key.id);
                if is_new {
                    tx.tables.api_keys.insert(key.id.clone(), key.clone());
                }
                is_new
            };
            Ok(keys.iter().map(&mut create).collect())
        })
    }

    async fn list(&self) -> Result<Vec<ApiKey>> {
        Ok(self.read(|tables, _| {
            let mut keys: Vec<_> = tables.api_keys.iter().map(|(_, key)| key.clone()).collect();
            keys.sort_by_key(|key| key.created_at);
            keys
        }))
    }

    async fn revoke(&self, ids: &[String], at: Timestamp) -> Result<Vec<bool>> {
        self.write(|tx| {
            let mut revoke = |id: &String| {
                let found = tx.tables.api_keys.get(id).cloned();
                let Some(mut key) = found.filter(|key| key.revoked_at.is_none()) else {
                    return false;
                };
                let was_active = key.is_active(at);
                key.revoked_at = Some(at);
                tx.tables.api_keys.insert(id.clone(), key);
                was_active
            };
            Ok(ids.iter().map(&mut revoke).collect())
        })
    }

    async fn find(&self, hashes: &[[u8; 32]]) -> Result<Vec<Option<ApiKey>>> {
        Ok(self.read(|tables, _| {
            let find = |hash: &[u8; 32]| {
                let mut keys = tables.api_keys.iter().map(|(_, key)| key);
                keys.find(|key| key.hash == *hash).cloned()
            };
            hashes.iter().map(find).collect()
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ManualClock;

    #[test]
    fn core_16_keys_are_kept_as_the_port_promises() {
        let memory = Memory::new(Arc::new(ManualClock::new(Timestamp::from_millis(0))));
        let checked = futures_util::FutureExt::now_or_never(clinch_contract::api_keys(&memory));
        assert_eq!(checked, Some(Ok(())));
    }
}
