//! Who may call the API.

use std::collections::HashMap;

use async_trait::async_trait;
use clinch_core::ports::{ApiKey, ApiKeys, Scope};
use clinch_core::{Result, Timestamp};
use clinch_stored::names;

use crate::link::{Link, Params};
use crate::query::Query;
use crate::row::{millis, moment};
use crate::{Postgres, error};

#[async_trait]
impl ApiKeys for Postgres {
    async fn create(&self, keys: &[ApiKey]) -> Result<Vec<bool>> {
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        let mut are_new = Vec::with_capacity(keys.len());
        for key in keys {
            let scopes: Vec<_> = key.scopes.iter().map(|scope| scope.as_str()).collect();
            let params: Params<'_> = &[
                &key.id,
                &key.name,
                &&key.hash[..],
                &scopes.join(","),
                &key.created_at.as_millis(),
                &millis(key.expires_at),
                &millis(key.revoked_at),
                &names::joined(&key.domains),
                &names::joined(&key.event_types),
            ];
            are_new.push(link.run(Query::InsertApiKey, params).await? > 0);
        }
        Ok(are_new)
    }

    async fn list(&self) -> Result<Vec<ApiKey>> {
        let rows = self.shared.query(Query::ApiKeys, &[]).await?;
        rows.iter().map(read).collect()
    }

    async fn revoke(&self, ids: &[String], at: Timestamp) -> Result<Vec<bool>> {
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        let mut were_active = Vec::with_capacity(ids.len());
        for id in ids {
            let at = at.as_millis();
            let row = link.first(Query::RevokeApiKey, &[id, &at]).await?;
            were_active.push(row.is_some_and(|row| row.get(0)));
        }
        Ok(were_active)
    }

    async fn find(&self, hashes: &[[u8; 32]]) -> Result<Vec<Option<ApiKey>>> {
        let columns: Vec<&[u8]> = hashes.iter().map(|hash| &hash[..]).collect();
        let params: Params<'_> = &[&columns];
        let rows = self.shared.query(Query::ApiKeyByHash, params).await?;
        let keys: Vec<ApiKey> = rows.iter().map(read).collect::<Result<_>>()?;
        let by_hash: HashMap<_, _> = keys.into_iter().map(|key| (key.hash, key)).collect();
        Ok(hashes
            .iter()
            .map(|hash| by_hash.get(hash).cloned())
            .collect())
    }
}

fn read(row: &tokio_postgres::Row) -> Result<ApiKey> {
    let scope = |name: &str| {
        let known = Scope::ALL.into_iter().find(|scope| scope.as_str() == name);
        known.ok_or_else(|| error::corrupt("scope"))
    };
    let hash = row.get::<_, &[u8]>(2).try_into();
    let scopes: &str = row.get(3);
    Ok(ApiKey {
        id: row.get(0),
        name: row.get(1),
        hash: hash.map_err(|_| error::corrupt("hash"))?,
        scopes: scopes.split(',').map(scope).collect::<Result<_>>()?,
        domains: names::split(row.get(7))?,
        event_types: names::split(row.get(8))?,
        created_at: Timestamp::from_millis(row.get(4)),
        expires_at: moment(row.get(5)),
        revoked_at: moment(row.get(6)),
    })
}
