//! The behaviour that every store of API keys must have, for adapters with such a store.

use clinch_core::ports::{ApiKey, ApiKeys, Scope};
use clinch_core::{Domain, EventType, Timestamp};

fn key(id: &str, name: &str, byte: u8, at: i64) -> ApiKey {
    ApiKey {
        id: id.to_owned(),
        name: name.to_owned(),
        hash: [byte; 32],
        scopes: vec![Scope::Submit, Scope::Read],
        domains: Vec::new(),
        event_types: Vec::new(),
        created_at: Timestamp::from_millis(at),
        expires_at: Some(Timestamp::from_millis(at + 1_000)),
        revoked_at: None,
    }
}

/// A key that is restricted to these domains and event types.
fn restricted(key: ApiKey, domains: &[&str], event_types: &[&str]) -> Option<ApiKey> {
    let domain = |name: &&str| Domain::new(*name).ok();
    let event_type = |name: &&str| EventType::new(*name).ok();
    Some(ApiKey {
        domains: domains.iter().map(domain).collect::<Option<_>>()?,
        event_types: event_types.iter().map(event_type).collect::<Option<_>>()?,
        scopes: vec![Scope::Work],
        ..key
    })
}

fn expect(holds: bool, promise: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(promise.to_owned())
    }
}

/// Checks every behaviour of the port on an empty store. `Err` says which promise is broken.
pub async fn api_keys(keys: &dyn ApiKeys) -> Result<(), String> {
    let failed = |error: clinch_core::Error| error.to_string();
    expect(
        keys.list().await.map_err(failed)?.is_empty(),
        "begins empty",
    )?;
    let (old, new) = (key("a", "shop", 1, 10), key("b", "shop", 2, 20));
    let made = keys
        .create(&[new.clone(), old.clone()])
        .await
        .map_err(failed)?;
    expect(made == [true, true], "several keys may have the same name")?;
    let other = key("a", "thief", 3, 30);
    let made = keys
        .create(std::slice::from_ref(&other))
        .await
        .map_err(failed)?;
    expect(made == [false], "an id that exists is not new")?;
    let listed = keys.list().await.map_err(failed)?;
    let as_made = listed == [old.clone(), new.clone()];
    expect(
        as_made,
        "lists every key as it was made, oldest first; an id that exists is left",
    )?;
    let found = keys
        .find(&[new.hash, other.hash, old.hash])
        .await
        .map_err(failed)?;
    let in_order = found == [Some(new.clone()), None, Some(old.clone())];
    expect(
        in_order,
        "finds keys by hash, in order, and none where there is none",
    )?;
    let at = Timestamp::from_millis(500);
    let ids = ["a".to_owned(), "nobody".to_owned()];
    let ended = keys.revoke(&ids, at).await.map_err(failed)?;
    expect(
        ended == [true, false],
        "a revoke says which keys were active",
    )?;
    let again = keys
        .revoke(&ids[..1], Timestamp::from_millis(900))
        .await
        .map_err(failed)?;
    expect(again == [false], "revoking twice is revoking once")?;
    let found = keys.find(&[old.hash]).await.map_err(failed)?;
    let revoked_at = found
        .into_iter()
        .flatten()
        .next()
        .and_then(|key| key.revoked_at);
    expect(
        revoked_at == Some(at),
        "a revoked key is found, with its first time",
    )?;
    let expired = keys
        .revoke(&["b".to_owned()], Timestamp::from_millis(5_000))
        .await;
    let expired = expired.map_err(failed)?;
    expect(expired == [false], "a key that had expired was not active")?;
    restrictions(keys).await
}

/// Keys keep their restrictions.
async fn restrictions(keys: &dyn ApiKeys) -> Result<(), String> {
    let failed = |error: clinch_core::Error| error.to_string();
    let one = restricted(key("c", "mail", 4, 40), &["mail"], &[]);
    let two = restricted(key("d", "shop", 5, 50), &["pay", "mail:eu"], &["charge"]);
    let (Some(one), Some(two)) = (one, two) else {
        return Err("the names of this case are valid".to_owned());
    };
    keys.create(&[one.clone(), two.clone()])
        .await
        .map_err(failed)?;
    let found = keys.find(&[two.hash, one.hash]).await.map_err(failed)?;
    expect(
        found == [Some(two.clone()), Some(one.clone())],
        "a key is found with its domains, event types and scopes",
    )?;
    let listed = keys.list().await.map_err(failed)?;
    expect(
        listed.ends_with(&[one, two]),
        "a key is listed with its domains, event types and scopes",
    )
}
