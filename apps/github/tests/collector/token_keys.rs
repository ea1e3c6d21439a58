//! Tokens of users whose key is missing, or is replaced (COL-17).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clinch::ports::{Record, RecordList, RecordWrite, Records};
use clinch::testing::{ManualClock, advance};
use clinch::types::ErrorKind;
use clinch::{Error, Result};
use clinch_github::fake::{Fake, Setup};
use clinch_github::{
    Parts, Secrets, Settings, Start, Token, TokenReader, UserToken, UserTokenState,
};
use clinch_memory::Memory;

use crate::lab::{Ambiguous, Lab, assert_whole, budgets, running};
use crate::tenants::{OWN, add, keys, lab, repository_of, sent, settings, world};

/// A bot's token sees less than the user's own one: what it does not see is not gone.
#[tokio::test]
async fn col_17_a_run_waits_for_every_token_of_its_user() {
    let mut private = world();
    let name = repository_of(&private, "octocat");
    private.make_private(&name);
    let lab = lab(private).await;
    let own = add(&lab, "octocat", OWN).await;
    assert_whole(&lab.run("octocat").await);
    lab.assert_equal(&["octocat"]).await;
    // The key of the user's own token is lost.
    let lab = lab.restarted_with(settings("2")).await;
    let bot = add(&lab, "octocat", "fake-bot-1").await;
    let run = lab.collector.start_with("octocat", &Start::default()).await;
    let run = run.expect("it begins").run_id;
    advance(&lab.clock, Duration::from_secs(600)).await;
    let reason = lab.waits_for(&run).await;
    assert!(reason.contains("github.token_keys"), "{reason}");
    lab.assert_equal(&["octocat"]).await;
    assert_eq!(sent(&lab).get("bot"), None);

    // The key is found again: the run goes on, and nothing was put aside.
    let lab = lab.restarted_with(settings("21")).await;
    let removed = lab.collector.remove_token("octocat", &bot).await;
    removed.expect("removed");
    let run = lab.end(&run).await;
    assert_whole(&run);
    assert_eq!(run.pages.removed, 0, "{run:?}");
    lab.assert_equal(&["octocat"]).await;
    let listed = lab.collector.user_tokens("octocat").await.expect("listed");
    assert_eq!(listed[0].token, own);
}

/// Records that do not take tokens of users while they are told to refuse.
struct Refusing {
    memory: Memory,
    refuses: AtomicBool,
}

#[async_trait]
impl Records for Refusing {
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        self.memory.read_records(keys).await
    }

    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool> {
        let has_token = |one: &RecordWrite| one.key.starts_with("github/tokens/");
        if self.refuses.load(Ordering::SeqCst) && writes.iter().any(has_token) {
            return Err(Error::new(ErrorKind::Unavailable, "the store is away"));
        }
        self.memory.write_records(writes).await
    }

    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>> {
        self.memory.list_records(list).await
    }
}

/// The server's secrets, as its files have them; an error instead of an unreadable file.
type Files = Arc<Mutex<std::result::Result<Secrets, String>>>;

fn secrets(token: &str, digits: &str) -> std::result::Result<Secrets, String> {
    Ok(Secrets {
        tokens: vec![Token::new(token)],
        token_keys: keys(digits),
        app: None,
    })
}

/// A collector with these files, whose records may refuse.
async fn refusing(files: &Files) -> (Lab, Arc<Refusing>) {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let records = Arc::new(Refusing {
        memory: memory.clone(),
        refuses: AtomicBool::new(false),
    });
    let fake = Fake::new(world(), Setup::default(), clock.clone());
    let files = files.clone();
    let parts = Parts {
        settings: Settings {
            token_reader: TokenReader::new(move || files.lock().expect("no panic").clone()),
            ..settings("1")
        },
        records: records.clone(),
        documents: Arc::new(memory.clone()),
        quota: budgets(&clock),
        transport: Arc::new(fake.clone()),
        inspect: Arc::new(memory.clone()),
        clock: clock.clone(),
    };
    let (collector, clinch) = running(parts, &memory, &clock, |builder| builder).await;
    let lab = Lab {
        quota: budgets(&clock),
        records: Arc::new(Ambiguous::new(&memory)),
        clock,
        memory,
        fake,
        collector,
        clinch,
    };
    (lab, records)
}

async fn own_token(lab: &Lab) -> UserToken {
    let listed = lab.collector.user_tokens("octocat").await;
    listed.expect("listed").remove(0)
}

#[tokio::test]
async fn col_17_tokens_are_sealed_again_although_the_store_was_away_when_the_keys_changed() {
    for is_asked_again in [false, true] {
        let files = Files::new(Mutex::new(secrets("fake-server-1", "1")));
        let (lab, records) = refusing(&files).await;
        add(&lab, "octocat", OWN).await;
        records.refuses.store(true, Ordering::SeqCst);
        *files.lock().expect("no panic") = secrets("fake-new-1", "21");
        let failed = lab.collector.reload_tokens().await;
        failed.expect_err("the tokens are sealed with the old key only");
        let tokens = lab.collector.tokens().await.expect("read");
        let new = Token::new("fake-new-1").hash();
        assert_eq!(tokens[0].token, new, "everything else was read again");
        if is_asked_again {
            let again = lab.collector.reload_tokens().await;
            again.expect_err("it is still to be done");
        }

        records.refuses.store(false, Ordering::SeqCst);
        if is_asked_again {
            let again = lab.collector.reload_tokens().await;
            assert!(!again.expect("read"), "the same files");
        } else {
            advance(&lab.clock, Duration::from_secs(600)).await;
        }
        // Nothing needs the old key any more.
        *files.lock().expect("no panic") = secrets("fake-new-1", "2");
        assert!(lab.collector.reload_tokens().await.expect("read"));
        assert_eq!(own_token(&lab).await.state, UserTokenState::Usable);
        assert_whole(&lab.run("octocat").await);
    }
}

#[tokio::test]
async fn col_17_files_that_cannot_be_read_are_told() {
    let files = Files::new(Mutex::new(secrets("fake-server-1", "1")));
    let (lab, _records) = refusing(&files).await;
    add(&lab, "octocat", OWN).await;
    *files.lock().expect("no panic") = Err("needs the file key, which is not there".to_owned());
    let failed = lab.collector.reload_tokens().await.expect_err("no file");
    assert!(failed.message().contains("which is not there"), "{failed}");
    assert_eq!(own_token(&lab).await.state, UserTokenState::Usable);
}
