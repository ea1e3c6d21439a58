//! API keys after a restore.

use clinch_core::ports::{ApiKey, ApiKeys, Scope};
use clinch_sqlite::{BackupKeys, Existing, Settings, Sqlite};

use crate::backup::restore;
use crate::common::{Folder, clock, on_a_runtime, open};

fn api_key(id: &str, byte: u8) -> ApiKey {
    ApiKey {
        id: id.to_owned(),
        name: "shop".to_owned(),
        hash: [byte; 32],
        scopes: vec![Scope::Submit],
        domains: vec![clinch_core::Domain::new("pay").expect("a name")],
        event_types: Vec::new(),
        created_at: clock().now(),
        expires_at: None,
        revoked_at: None,
    }
}

/// Ids of the keys that work, in order.
async fn active(sqlite: &Sqlite) -> Vec<String> {
    let listed = ApiKeys::list(sqlite).await.expect("lists");
    let active = listed
        .into_iter()
        .filter(|key| key.is_active(clock().now()));
    let mut ids: Vec<String> = active.map(|key| key.id).collect();
    ids.sort();
    ids
}

/// A backup with the keys `kept` and `revoked`, of which one is revoked afterwards; and `newer`.
fn with_keys(name: &str) -> (Folder, std::path::PathBuf) {
    let folder = Folder::new(name);
    let copy = folder.0.join("copy.db");
    on_a_runtime(async {
        let sqlite = open(&folder);
        let keys = [api_key("kept", 1), api_key("revoked", 2)];
        sqlite.create(&keys).await.expect("made");
        let taken = sqlite.backup(copy.clone(), Existing::Refuse).await;
        taken.expect("a backup");
        let revoked = sqlite.revoke(&["revoked".to_owned()], clock().now()).await;
        assert_eq!(revoked.expect("revoked"), [true]);
        sqlite.create(&[api_key("newer", 3)]).await.expect("made");
    });
    (folder, copy)
}

#[test]
fn core_16_a_restore_brings_no_revoked_key_back() {
    for unknown in [BackupKeys::Revoke, BackupKeys::Keep] {
        let (folder, copy) = with_keys(&format!("restored-keys-{unknown:?}"));
        let restored = restore(&copy, &folder.file(), Existing::Replace, unknown);
        let keys = restored.expect("restores").keys;
        assert_eq!((keys.taken_over, keys.revoked), (3, 0));
        on_a_runtime(async {
            assert_eq!(active(&open(&folder)).await, ["kept", "newer"]);
        });
    }
}

#[test]
fn core_16_without_the_database_keys_of_a_backup_are_revoked_unless_kept() {
    for (unknown, works) in [
        (BackupKeys::Revoke, Vec::new()),
        (BackupKeys::Keep, vec!["kept", "revoked"]),
    ] {
        let (folder, copy) = with_keys(&format!("lost-keys-{unknown:?}"));
        let target = folder.0.join("elsewhere.db");
        let restored = restore(&copy, &target, Existing::Refuse, unknown);
        let keys = restored.expect("restores").keys;
        assert_eq!((keys.taken_over, keys.revoked), (0, 2 - works.len()));
        on_a_runtime(async {
            let sqlite = Sqlite::open(&target, Settings::default(), clock()).expect("opens");
            assert_eq!(active(&sqlite).await, works);
            // No key is active, but keys exist, so requests without a key stay refused.
            assert_eq!(ApiKeys::list(&sqlite).await.expect("lists").len(), 2);
        });
    }
}

#[test]
fn core_16_keys_of_an_older_schema_are_taken_over_by_a_restore() {
    let (folder, copy) = with_keys("older-keys");
    let conn = rusqlite::Connection::open(folder.file()).expect("opens");
    let older = "ALTER TABLE clinch_api_key DROP COLUMN domains; \
                 ALTER TABLE clinch_api_key DROP COLUMN event_types;";
    conn.execute_batch(older).expect("an older schema");
    drop(conn);
    let restored = restore(&copy, &folder.file(), Existing::Replace, BackupKeys::Revoke);
    assert_eq!(restored.expect("restores").keys.taken_over, 3);
    on_a_runtime(async {
        assert_eq!(active(&open(&folder)).await, ["kept", "newer"]);
    });
}
