//! What a call examines does not grow with the history (OUT-1, OUT-2).
//!
//! The server of this test runs `auto_explain`: it writes to its log what every statement of the
//! store did, and here the rows of every scan are added up, with those that a filter removed.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use clinch_contract::StorePorts;
use clinch_contract::cost::{
    Copies, Examined, History, Span, Templates, add_backlog, check, fill_documents, measure,
    measure_documents,
};
use clinch_core::OpId;
use clinch_core::ports::{Bus, Clock};
use clinch_postgres::{Postgres, Settings};
use clinch_system::SystemClock;
use clinch_testbed::{Kind, Server};
use tokio_postgres::Client;

use crate::common::on_a_runtime;
use crate::database::client;

const EXPLAIN: [&str; 5] = [
    "session_preload_libraries=auto_explain",
    "auto_explain.log_min_duration=0",
    "auto_explain.log_analyze=on",
    "auto_explain.log_timing=off",
    "auto_explain.log_nested_statements=on",
];

/// The server's log.
struct Log {
    path: PathBuf,
    /// How far it was read, and the rows until there.
    read: Mutex<(u64, u64)>,
}

#[async_trait]
impl Examined for Log {
    async fn examined(&self) -> u64 {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = File::open(&self.path).expect("a log");
        file.seek(SeekFrom::Start(read.0)).expect("a place in it");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("its rest");
        read.0 += bytes.len() as u64;
        read.1 += rows_of(&String::from_utf8_lossy(&bytes));
        read.1
    }
}

/// The number after `name` in a line.
fn number(line: &str, name: &str) -> Option<u64> {
    let (_, after) = line.split_once(name)?;
    let end = after.find(|c: char| !c.is_ascii_digit());
    after[..end.unwrap_or(after.len())].parse().ok()
}

/// Rows that the scans of these plans examined.
fn rows_of(log: &str) -> u64 {
    let (mut rows, mut loops) = (0, 0);
    for line in log.lines() {
        if let Some(actual) = number(line, "(actual rows=") {
            loops = number(line, " loops=").unwrap_or(1);
            let is_scan = line.contains(" Scan ");
            rows += actual * loops * u64::from(is_scan);
        } else if line.contains("(never executed)") {
            loops = 0;
        } else if line.contains("Rows Removed by ") {
            rows += number(line, ": ").unwrap_or_default() * loops;
        }
    }
    rows
}

struct Fill<'f> {
    client: &'f Client,
    history: History,
    now: i64,
}

impl Fill<'_> {
    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.expect(sql);
    }

    async fn copy(&self, table: &str, of: &str, span: Span, set: &[(&str, String)]) {
        let text = "SELECT column_name::text FROM information_schema.columns \
                    WHERE table_name = $1 AND is_generated = 'NEVER' ORDER BY ordinal_position";
        let rows = self.client.query(text, &[&table]).await.expect("columns");
        let columns: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let copies = Copies {
            table,
            columns: &columns,
            of,
            set,
        };
        for (from, to) in span.slices(table) {
            let numbers = format!("generate_series({from}, {to}) AS numbers (n)");
            self.run(&copies.sql(&numbers)).await;
        }
    }

    /// Copies an operation with its key.
    async fn operations(&self, table: &str, of: OpId, span: Span, set: &[(&str, String)]) {
        let mut all = vec![
            ("seq", "n".to_owned()),
            ("op_id", "gen_random_uuid()".to_owned()),
            ("accepted_at", span.moment()),
            ("biz_key", "'old-' || n".to_owned()),
            ("idem_key", "'old-' || n".to_owned()),
        ];
        all.extend(set.iter().cloned());
        let of = format!("t.op_id = '{}'", of.0);
        self.copy(table, &of, span, &all).await;
        let (from, to) = (span.from, span.from + span.count - 1);
        self.run(&format!(
            "INSERT INTO clinch_key SELECT substr(sha256(uuid_send(op_id)), 1, 24), op_id, '\\x01' \
             FROM {table} WHERE seq BETWEEN {from} AND {to}"
        ))
        .await;
    }

    async fn fill(&self, templates: &Templates) {
        let (history, now) = (self.history, self.now);
        let failed = history.failed(now);
        let ended = [("finished_at", failed.moment())];
        self.operations("clinch_history", templates.failed, failed, &ended)
            .await;
        self.run(&format!(
            "INSERT INTO clinch_dead_letter (op_id, failed_at, letter, status, seq, domain, \
             event_type, biz_key, idem_key, code, fingerprint) \
             SELECT h.op_id, h.finished_at, t.letter, 0, h.seq, t.domain, t.event_type, h.biz_key, \
             h.idem_key, t.code, t.fingerprint FROM clinch_history AS h \
             CROSS JOIN (SELECT * FROM clinch_dead_letter LIMIT 1) AS t \
             WHERE h.seq BETWEEN {} AND {}",
            failed.from,
            failed.from + failed.count - 1
        ))
        .await;
        self.run("UPDATE clinch_domain SET dead_letters_open = 10000000")
            .await;
        for span in [history.prunable(now), history.completed(now)] {
            let ended = [("finished_at", span.moment())];
            self.operations("clinch_history", templates.completed, span, &ended)
                .await;
        }
        let announced = [
            (templates.announced, history.awake(now)),
            (templates.paused, history.paused(now)),
        ];
        for (template, span) in announced {
            let at = ["next_attempt_at", "announced_at"].map(|name| (name, span.moment()));
            self.operations("clinch_queue", template, span, &at).await;
        }
        for span in [history.old_keys(now), history.keys(now)] {
            let (from, to) = (span.from, span.from + span.count - 1);
            self.run(&format!(
                "WITH kept AS (INSERT INTO clinch_kept SELECT gen_random_uuid(), 2, {} \
                    FROM generate_series({from}, {to}) AS numbers (n) RETURNING op_id) \
                 INSERT INTO clinch_key SELECT substr(sha256(uuid_send(op_id)), 1, 24), op_id, '\\x01' \
                 FROM kept",
                span.moment()
            ))
            .await;
        }
        let batch = format!("t.batch_id = '{}'", templates.batch.0);
        for span in [history.batches(now), history.old_batches(now)] {
            let of_batch = [
                ("batch_id", "gen_random_uuid()".to_owned()),
                ("completed_at", span.moment()),
            ];
            self.copy("clinch_batch", &batch, span, &of_batch).await;
        }
        self.run(&format!(
            "SELECT setval('clinch_seq', {}); \
             UPDATE clinch_domain SET used = true, completed = completed + {ended}, \
                failed = failed + {ended}, pending = pending + {ended}",
            history.end(now),
            ended = history.ended
        ))
        .await;
        self.run("VACUUM ANALYZE").await;
    }
}

async fn open(url: &str) -> Postgres {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = Postgres::connect(url, Settings::default(), clock).await;
    store.expect("the store opens")
}

#[test]
fn out_2_no_call_examines_more_rows_because_the_history_is_long() {
    on_a_runtime(async {
        let arguments: Vec<&str> = EXPLAIN.iter().flat_map(|one| ["-c", one]).collect();
        let server = Server::start_with(Kind::Postgres, &arguments).expect("a server");
        let url = server.database().expect("a database");
        clinch_postgres::migrate(&url).await.expect("tables");
        let history = History::of_this_run();
        let ports = StorePorts::of(&Arc::new(open(&url).await));
        let templates = Templates::make(&ports).await.expect("templates");
        drop(ports);
        let client = client(&url).await.expect("a connection");
        let now = SystemClock::new().now().as_millis();
        let fill = Fill {
            client: &client,
            history,
            now,
        };
        fill.fill(&templates).await;
        let store = Arc::new(open(&url).await);
        let ports = StorePorts::of(&store);
        add_backlog(&ports).await.expect("a backlog");
        // As the server does by itself after a minute.
        fill.run("ANALYZE").await;
        let queue: Arc<dyn Bus> = store.clone();
        let middle = (history.completed(now).from + history.ended / 2).to_string();
        let log = Log {
            path: server.folder().join("log"),
            read: Mutex::default(),
        };
        let costs = measure(&ports, Some(&queue), &log, &templates, &middle).await;
        check(&costs.expect("calls")).expect("bounded");
    });
}

#[test]
fn out_2_a_list_of_a_resource_examines_no_other_documents_of_the_user() {
    on_a_runtime(async {
        let arguments: Vec<&str> = EXPLAIN.iter().flat_map(|one| ["-c", one]).collect();
        let server = Server::start_with(Kind::Postgres, &arguments).expect("a server");
        let url = server.database().expect("a database");
        clinch_postgres::migrate(&url).await.expect("tables");
        let log = Log {
            path: server.folder().join("log"),
            read: Mutex::default(),
        };
        // Before the server has statistics, and after.
        let store = open(&url).await;
        fill_documents(&store).await.expect("documents");
        let costs = measure_documents(&store, &log).await;
        check(&costs.expect("calls")).expect("bounded");
        fill_documents(&store).await.expect("documents");
        let client = client(&url).await.expect("a connection");
        client.batch_execute("VACUUM ANALYZE").await.expect("done");
        let store = open(&url).await;
        let costs = measure_documents(&store, &log).await;
        check(&costs.expect("calls")).expect("bounded");
    });
}
