//! API keys.

use async_trait::async_trait;
use clinch_core::ports::{ApiKey, ApiKeys, Scope};
use clinch_core::{Result, Timestamp};
use clinch_stored::names;
use rusqlite::{Row, params};

use crate::Sqlite;
use crate::column::{Column, maybe_millis, millis};
use crate::db::Db;
use crate::error;
use crate::query::Query;

#[async_trait]
impl ApiKeys for Sqlite {
    async fn create(&self, keys: &[ApiKey]) -> Result<Vec<bool>> {
        let keys = keys.to_vec();
        self.write(move |tx| {
            let mut are_new = Vec::with_capacity(keys.len());
            for key in &keys {
                are_new.push(insert(tx.db, key)?);
            }
            Ok(are_new)
        })
        .await
    }

    async fn list(&self) -> Result<Vec<ApiKey>> {
        self.read(|db| db.all(Query::ApiKeys, [], read)).await
    }

    async fn revoke(&self, ids: &[String], at: Timestamp) -> Result<Vec<bool>> {
        let ids = ids.to_vec();
        self.write(move |tx| {
            let mut were_active = Vec::with_capacity(ids.len());
            for id in &ids {
                let key = tx.db.first(Query::ApiKeyById, [id], read)?;
                tx.db.run(Query::RevokeApiKey, params![id, millis(at)])?;
                were_active.push(key.is_some_and(|key| key.is_active(at)));
            }
            Ok(were_active)
        })
        .await
    }

    async fn find(&self, hashes: &[[u8; 32]]) -> Result<Vec<Option<ApiKey>>> {
        let hashes = hashes.to_vec();
        self.read(move |db| {
            let find = |hash: &[u8; 32]| db.first(Query::ApiKeyByHash, [&hash[..]], read);
            hashes.iter().map(find).collect()
        })
        .await
    }
}

/// False: a key with this id exists.
pub(crate) fn insert(db: &mut Db<'_>, key: &ApiKey) -> Result<bool> {
    let scopes: Vec<_> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let params = params![
        key.id,
        key.name,
        key.hash,
        scopes.join(","),
        millis(key.created_at),
        maybe_millis(key.expires_at),
        maybe_millis(key.revoked_at),
        names::joined(&key.domains),
        names::joined(&key.event_types),
    ];
    Ok(db.run(Query::InsertApiKey, params)? > 0)
}

pub(crate) fn read(row: &Row<'_>) -> Result<ApiKey> {
    let scope = |name: &str| {
        let known = Scope::ALL.into_iter().find(|scope| scope.as_str() == name);
        known.ok_or_else(|| error::corrupt("scope"))
    };
    let scopes = row.text(3)?;
    Ok(ApiKey {
        id: row.text(0)?,
        name: row.text(1)?,
        hash: row
            .bytes(2)?
            .try_into()
            .map_err(|_| error::corrupt("hash"))?,
        scopes: scopes.split(',').map(scope).collect::<Result<_>>()?,
        domains: names::split(&row.text(7)?)?,
        event_types: names::split(&row.text(8)?)?,
        created_at: row.moment(4)?,
        expires_at: row.maybe_moment(5)?,
        revoked_at: row.maybe_moment(6)?,
    })
}
