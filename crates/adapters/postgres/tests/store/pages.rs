//! The SQL of `outbox.md`, `migrating.md` and `postgres.md` in the guide, taken from the pages and run on a real
//! server (CORE-9, CORE-18).

use std::path::Path;
use std::process::Command;

use clinch_testbed::python;
use tokio_postgres::Client;

use crate::common::{Database, on_a_runtime};

const OUTBOX: &str = include_str!("../../../../../docs/guide/outbox.md");
const MIGRATING: &str = include_str!("../../../../../docs/guide/migrating.md");
const POSTGRES: &str = include_str!("../../../../../docs/guide/postgres.md");

/// The driver of the page.
const PSYCOPG: &str = "psycopg[binary]==3.3.9";

const TABLE: &str = "DROP TABLE IF EXISTS donation; \
    CREATE TABLE donation (number bigint PRIMARY KEY, amount bigint NOT NULL)";

/// The blocks of a page in a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    let parts = page.split(opening.as_str()).skip(1);
    parts
        .map(|part| part.split("```").next().unwrap_or_default())
        .collect()
}

/// The texts between double quotes, without escapes.
fn literals(code: &str) -> Vec<String> {
    let (mut all, mut open) = (Vec::new(), None::<String>);
    let mut letters = code.chars();
    while let Some(letter) = letters.next() {
        match (letter, open.as_mut()) {
            ('"', Some(_)) => all.extend(open.take()),
            ('"', None) => open = Some(String::new()),
            ('\\', Some(text)) => text.extend(letters.next()),
            (_, Some(text)) => text.push(letter),
            (_, None) => {}
        }
    }
    all
}

/// `$1`, `$2`, … in place of the placeholders of other drivers.
fn numbered(sql: &str) -> String {
    let parts: Vec<String> = sql
        .replace("%s", "?")
        .split('?')
        .map(str::to_owned)
        .collect();
    let mut text = parts[0].clone();
    for (number, part) in (1..).zip(&parts[1..]) {
        text.push_str(&format!("${number}{part}"));
    }
    text
}

/// What a block sends: the insert, the accept, and the four keys that it passes.
struct Sent {
    insert: String,
    accept: String,
    keys: Vec<String>,
}

fn sent(block: &str) -> Sent {
    let literals = literals(block);
    let begins = |start: &str| {
        let found: Vec<usize> = (0..literals.len())
            .filter(|&at| literals[at].starts_with(start))
            .collect();
        let [at] = found[..] else {
            panic!("one {start} in:\n{block}");
        };
        at
    };
    let (insert, accept) = (begins("INSERT INTO donation"), begins("SELECT op_id"));
    Sent {
        insert: numbered(&literals[insert]),
        accept: numbered(&literals[accept]),
        keys: literals[accept + 1..].iter().take(4).cloned().collect(),
    }
}

/// Sends it as a driver does, in one transaction. Returns the operation and whether it is new.
async fn send(client: &mut Client, sent: &Sent) -> (uuid::Uuid, bool) {
    let tx = client.transaction().await.expect("begins");
    let insert = tx.prepare(&sent.insert).await.expect("an insert");
    tx.execute(&insert, &[&7_i64, &5_000_i64])
        .await
        .expect("inserted");
    let accept = tx.prepare(&sent.accept).await.expect("an accept");
    let [domain, event_type, biz_key, idem_key] = &sent.keys[..] else {
        panic!("four keys: {:?}", sent.keys);
    };
    let payload = "{\"amount\": 5000}";
    let row = tx
        .query_one(&accept, &[domain, event_type, biz_key, idem_key, &payload])
        .await
        .expect("accepted");
    tx.commit().await.expect("commits");
    client
        .batch_execute("DELETE FROM donation")
        .await
        .expect("room for the next one");
    (row.get("op_id"), row.get("is_new"))
}

#[test]
fn core_9_every_language_of_the_page_names_the_same_operation() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let mut client = database.client().await;
        client.batch_execute(TABLE).await.expect("a table");
        let mut seen = Vec::new();
        for language in ["python", "rust,ignore", "java"] {
            for block in blocks(OUTBOX, language) {
                seen.push(send(&mut client, &sent(block)).await);
            }
        }
        let (op, _) = seen[0];
        assert_eq!(
            seen,
            [(op, true), (op, false), (op, false), (op, false)],
            "psycopg, sqlx, diesel and JDBC"
        );
        let [after] = blocks(MIGRATING, "sql")[..] else {
            panic!("one block");
        };
        client.batch_execute(after).await.expect("the page's SQL");
        let count = "SELECT count(*) FROM clinch_key";
        let row = client.query_one(count, &[]).await.expect("a count");
        assert_eq!(row.get::<_, i64>(0), 1, "migrating.md names it too");
    });
}

#[test]
fn core_9_psycopg_accepts_as_the_page_says() {
    let target = option_env!("CARGO_TARGET_TMPDIR").map(Path::new);
    let tools = target.and_then(Path::parent).expect("a target folder");
    let python = match python(&tools.join("tools"), PSYCOPG, "psycopg") {
        Ok(python) => python,
        Err(why) => {
            // The statements of the block are run by the test above.
            assert!(std::env::var("CI").is_err(), "{PSYCOPG}: {why}");
            println!("not run: {PSYCOPG} cannot be installed: {why}");
            return;
        }
    };
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let client = database.client().await;
        client.batch_execute(TABLE).await.expect("a table");
        let [block] = blocks(OUTBOX, "python")[..] else {
            panic!("one block");
        };
        let run = || {
            let mut python = Command::new(&python);
            python
                .args(["-c", block])
                .env("DATABASE_URL", database.url());
            let output = python.output().expect("python runs");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (
                output.status.success(),
                text(&output.stdout),
                text(&output.stderr),
            )
        };
        let (is_ok, said, trouble) = run();
        assert!(is_ok && said.ends_with(" True\n"), "{said}{trouble}");
        // The row is there already: the whole transaction is rolled back.
        let (is_ok, ..) = run();
        assert!(!is_ok);
        client
            .batch_execute("DELETE FROM donation")
            .await
            .expect("deleted");
        let (is_ok, again, trouble) = run();
        assert!(is_ok, "{trouble}");
        assert_eq!(again, said.replace("True", "False"));
    });
}

#[test]
fn core_9_the_sql_of_the_page_about_postgresql_runs() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let client = database.client().await;
        // Roles belong to the server, which other tests share.
        let role = format!(
            "guide_{}",
            uuid::Uuid::from_u128(u128::from(std::process::id())).simple()
        );
        let prepare = format!(
            "CREATE ROLE {role}; DROP TABLE IF EXISTS orders; CREATE TABLE orders (number bigint)"
        );
        client.batch_execute(&prepare).await.expect("a role");
        let blocks = blocks(POSTGRES, "sql");
        assert_eq!(blocks.len(), 3);
        for block in &blocks {
            let block = block
                .replace("TO clinch;", &format!("TO {role};"))
                .replace("ROLE clinch ", &format!("ROLE {role} "));
            let ran = client.batch_execute(&block).await;
            ran.unwrap_or_else(|error| panic!("{error:?}\n{block}"));
        }
        let drop = format!("DROP TABLE orders; DROP OWNED BY {role}; DROP ROLE {role}");
        client.batch_execute(&drop).await.expect("dropped");
        let again = "SELECT is_new FROM clinch_accept('payments', 'charge', 'order-7', 'key-7', \
                     '{\"amount\": 5}')";
        let row = client.query_one(again, &[]).await.expect("known");
        assert!(!row.get::<_, bool>(0), "the page has accepted it");
    });
}
