//! What a call examines does not grow with the history (OUT-1, OUT-2).
//!
//! The test has a server of its own, whose counters of reads are those of the store.

use std::sync::Arc;

use async_trait::async_trait;
use clinch_contract::StorePorts;
use clinch_contract::cost::{
    Copies, Examined, History, Span, Templates, add_backlog, check, fill_documents, measure,
    measure_documents,
};
use clinch_core::OpId;
use clinch_core::ports::Bus;
use clinch_mysql::{Mysql, Settings};
use clinch_testbed::{Kind, Server};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::sync::Mutex;

use crate::common::{clock, on_a_runtime};

/// Rows read by key, in order of an index, or from a table; and rows that an index read was filtered
/// by before the row itself was read.
const READS: &str = "SELECT CAST(SUM(variable_value) AS UNSIGNED) \
                     FROM information_schema.global_status \
                     WHERE variable_name LIKE 'HANDLER\\_READ\\_%' \
                     OR variable_name = 'HANDLER_ICP_ATTEMPTS'";

/// The server's counters.
struct Counters {
    conn: Mutex<Conn>,
    /// What reading the counters adds to them.
    own: u64,
    readings: std::sync::atomic::AtomicU64,
}

async fn reads(conn: &mut Conn) -> u64 {
    let sum: Option<u64> = conn.query_first(READS).await.expect("counters");
    sum.unwrap_or_default()
}

impl Counters {
    async fn new(mut conn: Conn) -> Self {
        reads(&mut conn).await;
        let (first, second) = (reads(&mut conn).await, reads(&mut conn).await);
        Self {
            conn: Mutex::new(conn),
            own: second - first,
            readings: Default::default(),
        }
    }
}

#[async_trait]
impl Examined for Counters {
    async fn examined(&self) -> u64 {
        let readings = &self.readings;
        let before = readings.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let mut conn = self.conn.lock().await;
        reads(&mut conn).await.saturating_sub(before * self.own)
    }
}

struct Fill {
    conn: Mutex<Conn>,
    history: History,
    now: i64,
}

impl Fill {
    async fn run(&self, sql: &str) {
        let mut conn = self.conn.lock().await;
        conn.query_drop(sql).await.expect(sql);
    }

    async fn copy(&self, table: &str, of: &str, span: Span, set: &[(&str, String)]) {
        let text = format!(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() \
             AND table_name = '{table}' AND generation_expression IS NULL ORDER BY ordinal_position"
        );
        let columns = self.conn.lock().await.query(text).await;
        let columns: Vec<String> = columns.expect("columns");
        let copies = Copies {
            table,
            columns: &columns,
            of,
            set,
        };
        for (from, to) in span.slices(table) {
            let numbers = format!("(SELECT seq AS n FROM seq_{from}_to_{to}) AS numbers");
            self.run(&copies.sql(&numbers)).await;
        }
    }

    /// Copies an operation with its request and its key.
    async fn operations(&self, table: &str, of: OpId, span: Span, set: &[(&str, String)]) {
        let id = of.0.simple();
        let sql = format!("SELECT seq FROM clinch_request WHERE op_id = X'{id}'");
        let seq: Option<u64> = self
            .conn
            .lock()
            .await
            .query_first(sql)
            .await
            .expect("a seq");
        let of = format!("t.seq = {}", seq.expect("a template"));
        let of_request = [
            ("seq", "n".to_owned()),
            ("op_id", "UNHEX(MD5(n))".to_owned()),
            ("accepted_at", span.moment()),
            ("biz_key", "CONCAT('old-', n)".to_owned()),
            ("idem_key", "CONCAT('old-', n)".to_owned()),
        ];
        self.copy("clinch_request", &of, span, &of_request).await;
        let mut of_row = vec![("seq", "n".to_owned())];
        of_row.extend(set.iter().cloned());
        self.copy(table, &of, span, &of_row).await;
        let (from, to) = (span.from, span.from + span.count - 1);
        self.run(&format!(
            "INSERT INTO clinch_key (key_hash, op_id, fingerprint, nonce) \
             SELECT UNHEX(SHA2(seq, 256)), UNHEX(MD5(seq)), X'01', 1 FROM seq_{from}_to_{to}"
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
             SELECT UNHEX(MD5(n)), {}, t.letter, 0, n, t.domain, t.event_type, t.biz_key, \
             t.idem_key, t.code, t.fingerprint FROM (SELECT seq AS n FROM seq_{}_to_{}) AS numbers \
             CROSS JOIN (SELECT * FROM clinch_dead_letter LIMIT 1) AS t",
            failed.moment(),
            failed.from,
            failed.from + failed.count - 1
        ))
        .await;
        self.run("UPDATE clinch_count SET dead_letters_open = 10000000")
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
            let at = ["next_retry_at", "announced_at", "due_at"];
            let at = at.map(|name| (name, span.moment()));
            self.operations("clinch_queue", template, span, &at).await;
        }
        for span in [history.old_keys(now), history.keys(now)] {
            let (from, to) = (span.from, span.from + span.count - 1);
            self.run(&format!(
                "INSERT INTO clinch_kept (key_hash, status, settled_at) \
                 SELECT UNHEX(SHA2(n, 256)), 2, {} FROM (SELECT seq AS n FROM seq_{from}_to_{to}) \
                 AS numbers; \
                 INSERT INTO clinch_key (key_hash, op_id, fingerprint, nonce) \
                 SELECT UNHEX(SHA2(seq, 256)), UNHEX(MD5(seq)), X'01', 1 FROM seq_{from}_to_{to}",
                span.moment()
            ))
            .await;
        }
        let batch = format!("t.batch_id = X'{}'", templates.batch.0.simple());
        for span in [history.batches(now), history.old_batches(now)] {
            let of_batch = [
                ("batch_id", "UNHEX(MD5(n))".to_owned()),
                ("completed_at", span.moment()),
            ];
            self.copy("clinch_batch", &batch, span, &of_batch).await;
        }
        self.run(&format!(
            "UPDATE clinch_count SET completed = completed + {ended}, failed = failed + {ended}, \
                pending = pending + {ended}; \
             ANALYZE TABLE clinch_request, clinch_queue, clinch_history, clinch_key, clinch_kept, \
                clinch_batch, clinch_dead_letter",
            ended = history.ended
        ))
        .await;
    }
}

async fn open(url: &str) -> Mysql {
    let store = Mysql::connect(url, Settings::default(), clock()).await;
    store.expect("the store opens")
}

async fn conn(url: &str) -> Conn {
    Conn::from_url(url).await.expect("a connection")
}

fn out_2_no_call_examines_more_rows_because_the_history_is_long() {
    on_a_runtime(async {
        let server = Server::start(Kind::MariaDb).expect("a server");
        let url = server.database().expect("a database");
        clinch_mysql::migrate(&url).await.expect("tables");
        let history = History::of_this_run();
        let store = Arc::new(open(&url).await);
        let ports = StorePorts::of(&store);
        let templates = Templates::make(&ports).await.expect("templates");
        let now = clock().now().as_millis();
        let fill = Fill {
            conn: Mutex::new(conn(&url).await),
            history,
            now,
        };
        fill.fill(&templates).await;
        add_backlog(&ports).await.expect("a backlog");
        let queue: Arc<dyn Bus> = store.clone();
        let middle = (history.completed(now).from + history.ended / 2).to_string();
        let counters = Counters::new(conn(&url).await).await;
        let costs = measure(&ports, Some(&queue), &counters, &templates, &middle).await;
        check(&costs.expect("calls")).expect("bounded");
    });
}

fn out_2_a_list_of_a_resource_examines_no_other_documents_of_the_user() {
    on_a_runtime(async {
        let server = Server::start(Kind::MariaDb).expect("a server");
        let url = server.database().expect("a database");
        clinch_mysql::migrate(&url).await.expect("tables");
        let store = open(&url).await;
        fill_documents(&store).await.expect("documents");
        let counters = Counters::new(conn(&url).await).await;
        let costs = measure_documents(&store, &counters).await;
        check(&costs.expect("calls")).expect("bounded");
    });
}

clinch_contract::tests! {
    out_2_a_list_of_a_resource_examines_no_other_documents_of_the_user,
    out_2_no_call_examines_more_rows_because_the_history_is_long,
}
