//! API keys.

use async_trait::async_trait;
use clinch_core::ports::{ApiKey, ApiKeys, Scope};
use clinch_core::{Result, Timestamp};
use clinch_stored::names;

use crate::Mysql;
use crate::column::Column;
use crate::error;
use crate::query::Query;
use crate::text::{self, Tuple};

#[async_trait]
impl ApiKeys for Mysql {
    async fn create(&self, keys: &[ApiKey]) -> Result<Vec<bool>> {
        let row = |key: &ApiKey| {
            let scopes: Vec<_> = key.scopes.iter().map(|scope| scope.as_str()).collect();
            Tuple::new()
                .bytes(&key.id)
                .bytes(&key.name)
                .bytes(key.hash)
                .bytes(scopes.join(","))
                .at(key.created_at)
                .maybe_at(key.expires_at)
                .maybe_at(key.revoked_at)
                .bytes(names::joined(&key.domains))
                .bytes(names::joined(&key.event_types))
                .end()
        };
        self.insert_each(Query::InsertApiKey, keys.iter().map(row).collect())
            .await
    }

    async fn list(&self) -> Result<Vec<ApiKey>> {
        let rows = self.query(Query::ApiKeys.text().to_owned()).await?;
        rows.iter().map(read).collect()
    }

    async fn revoke(&self, ids: &[String], at: Timestamp) -> Result<Vec<bool>> {
        self.write(ids.to_vec(), move |tx, ids| {
            Box::pin(async move {
                let names = text::list(ids.iter());
                let found = tx
                    .query(&Query::ApiKeyById.with(&[("ids", &names)]))
                    .await?;
                let at_text = at.as_millis().to_string();
                let values = [("ids", names.as_str()), ("at", &at_text)];
                tx.later.add(&Query::RevokeApiKey.with(&values));
                let mut keys: Vec<ApiKey> = found.iter().map(read).collect::<Result<_>>()?;
                let mut end = |id: &String| {
                    let key = keys.iter_mut().find(|key| key.id == *id);
                    key.is_some_and(|key| {
                        let was_active = key.is_active(at);
                        key.revoked_at = key.revoked_at.or(Some(at));
                        was_active
                    })
                };
                Ok(ids.iter().map(&mut end).collect())
            })
        })
        .await
    }

    async fn find(&self, hashes: &[[u8; 32]]) -> Result<Vec<Option<ApiKey>>> {
        let list = text::list(hashes);
        let rows = self
            .query(Query::ApiKeyByHash.with(&[("hashes", &list)]))
            .await?;
        let keys: Vec<ApiKey> = rows.iter().map(read).collect::<Result<_>>()?;
        let find = |hash: &[u8; 32]| keys.iter().find(|key| key.hash == *hash).cloned();
        Ok(hashes.iter().map(find).collect())
    }
}

fn read(row: &mysql_async::Row) -> Result<ApiKey> {
    let scope = |name: &str| {
        let known = Scope::ALL.into_iter().find(|scope| scope.as_str() == name);
        known.ok_or_else(|| error::corrupt("scope"))
    };
    let scopes = row.text(3)?;
    let scopes = scopes.split(',').filter(|name| !name.is_empty());
    Ok(ApiKey {
        id: row.text(0)?,
        name: row.text(1)?,
        hash: row
            .bytes(2)?
            .try_into()
            .map_err(|_| error::corrupt("hash"))?,
        scopes: scopes.map(scope).collect::<Result<_>>()?,
        domains: names::split(&row.text(7)?)?,
        event_types: names::split(&row.text(8)?)?,
        created_at: row.moment(4)?,
        expires_at: row.maybe_moment(5)?,
        revoked_at: row.maybe_moment(6)?,
    })
}
