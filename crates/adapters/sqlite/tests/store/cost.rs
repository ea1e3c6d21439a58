//! What a call examines does not grow with the history (OUT-1, OUT-2).

use std::sync::Arc;

use async_trait::async_trait;
use clinch_contract::StorePorts;
use clinch_contract::cost::{
    Copies, Examined, History, Span, Templates, add_backlog, check, fill_documents, measure,
    measure_documents,
};
use clinch_core::ports::Bus;
use clinch_sqlite::{Settings, Sqlite};
use rusqlite::Connection;

use crate::common::{Folder, clock, on_a_runtime};

/// Steps of the virtual machine that count as one row: about as many as it takes to look at one and
/// leave it. Reading or writing a whole operation takes many more.
const STEPS_A_ROW: u64 = 10;

/// The connection that reads keeps what an earlier call of the same test has read.
fn with_one_reader(folder: &Folder) -> Sqlite {
    let settings = Settings {
        readers: 1,
        ..Settings::default()
    };
    Sqlite::open(folder.file(), settings, clock()).expect("the file opens")
}

struct Steps(Sqlite);

#[async_trait]
impl Examined for Steps {
    async fn examined(&self) -> u64 {
        self.0.steps() / STEPS_A_ROW
    }
}

fn columns(conn: &Connection, table: &str) -> Vec<String> {
    let mut statement = conn
        .prepare("SELECT name FROM pragma_table_info(?1)")
        .expect("a statement");
    let names = statement.query_map([table], |row| row.get(0));
    let names = names.expect("columns").collect::<rusqlite::Result<_>>();
    names.expect("columns")
}

struct Fill<'f> {
    conn: &'f Connection,
    history: History,
    now: i64,
}

impl Fill<'_> {
    fn run(&self, sql: &str) {
        self.conn.execute_batch(sql).expect(sql);
    }

    fn copy(&self, table: &str, of: &str, span: Span, set: &[(&str, String)]) {
        let columns = columns(self.conn, table);
        let copies = Copies {
            table,
            columns: &columns,
            of,
            set,
        };
        for (from, to) in span.slices(table) {
            let numbers = format!(
                "WITH RECURSIVE numbers (n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM numbers WHERE n < {to}) "
            );
            self.run(&(numbers + &copies.sql("numbers")));
        }
    }

    /// Copies an operation with its request and its key.
    fn operations(&self, op_id: clinch_core::OpId, span: Span, set: &[(&str, String)]) {
        let id = op_id.0.simple();
        let row = format!("t.seq = (SELECT seq FROM clinch_operation WHERE op_id = x'{id}')");
        let mut of_row = vec![
            ("seq", "n".to_owned()),
            ("op_id", "randomblob(16)".to_owned()),
            ("accepted_at", span.moment()),
        ];
        of_row.extend(set.iter().cloned());
        self.copy("clinch_operation", &row, span, &of_row);
        let text = |prefix: &str| format!("'{prefix}-' || n");
        let of_request = [
            ("seq", "n".to_owned()),
            ("biz_key", text("old")),
            ("idem_key", text("old")),
        ];
        self.copy("clinch_request", &row, span, &of_request);
        let (from, to) = (span.from, span.from + span.count - 1);
        self.run(&format!(
            "INSERT INTO clinch_key SELECT random(), seq FROM clinch_operation WHERE seq BETWEEN {from} AND {to}"
        ));
    }

    fn fill(&self, templates: &Templates) {
        let (history, now) = (self.history, self.now);
        self.run("BEGIN");
        let failed = history.failed(now);
        self.operations(
            templates.failed,
            failed,
            &[("finished_at", failed.moment())],
        );
        let letter = format!("t.op_id = x'{}'", templates.failed.0.simple());
        let of_letter = [
            ("op_id", "randomblob(16)".to_owned()),
            ("failed_at", failed.moment()),
            ("seq", "n".to_owned()),
        ];
        self.copy("clinch_dead_letter", &letter, failed, &of_letter);
        self.run("UPDATE clinch_domain SET dead_letters_open = 10000000");
        for span in [history.prunable(now), history.completed(now)] {
            let ended = [("finished_at", span.moment())];
            self.operations(templates.completed, span, &ended);
        }
        let announced = [
            (templates.announced, history.awake(now)),
            (templates.paused, history.paused(now)),
        ];
        for (template, span) in announced {
            let at = ["next_attempt_at", "announced_at"].map(|name| (name, span.moment()));
            self.operations(template, span, &at);
        }
        for span in [history.old_keys(now), history.keys(now)] {
            let (from, to) = (span.from, span.from + span.count - 1);
            self.run(&format!(
                "WITH RECURSIVE numbers (n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM numbers WHERE n < {to}) \
                 INSERT INTO clinch_kept_key SELECT n, random(), randomblob(32), randomblob(16), x'01', 2, {} FROM numbers; \
                 INSERT INTO clinch_key SELECT hash, seq FROM clinch_kept_key WHERE seq BETWEEN {from} AND {to}",
                span.moment()
            ));
        }
        let batch = format!("t.batch_id = x'{}'", templates.batch.0.simple());
        for span in [history.batches(now), history.old_batches(now)] {
            let of_batch = [
                ("batch_id", "randomblob(16)".to_owned()),
                ("completed_at", span.moment()),
            ];
            self.copy("clinch_batch", &batch, span, &of_batch);
        }
        self.run(&format!(
            "UPDATE clinch_store SET last_seq = {}; \
             UPDATE clinch_operation SET accepted_at = {at} WHERE seq < {from}; \
             UPDATE clinch_domain SET completed = completed + {ended}, failed = failed + {ended}, \
                pending = pending + {ended}; COMMIT",
            history.end(now),
            at = failed.at,
            from = failed.from,
            ended = history.ended
        ));
    }
}

#[test]
fn out_2_no_call_examines_more_rows_because_the_history_is_long() {
    on_a_runtime(async {
        let folder = Folder::new("cost");
        let sqlite = with_one_reader(&folder);
        let store = Arc::new(sqlite.clone());
        let ports = StorePorts::of(&store);
        let history = History::of_this_run();
        let templates = Templates::make(&ports).await.expect("templates");
        let now = clock().now().as_millis();
        let conn = sqlite.connect().expect("a connection");
        let fill = Fill {
            conn: &conn,
            history,
            now,
        };
        fill.fill(&templates);
        drop(conn);
        // Names and counters that a connection remembers are those of before the fill.
        sqlite.close().expect("closed");
        drop((store, ports, sqlite));
        let sqlite = with_one_reader(&folder);
        let store = Arc::new(sqlite.clone());
        let ports = StorePorts::of(&store);
        add_backlog(&ports).await.expect("a backlog");
        let queue: Arc<dyn Bus> = store.clone();
        let middle = (history.completed(now).from + history.ended / 2).to_string();
        let costs = measure(&ports, Some(&queue), &Steps(sqlite), &templates, &middle).await;
        check(&costs.expect("calls")).expect("bounded");
    });
}

#[test]
fn out_2_a_list_of_a_resource_examines_no_other_documents_of_the_user() {
    on_a_runtime(async {
        let folder = Folder::new("cost-documents");
        let sqlite = with_one_reader(&folder);
        fill_documents(&sqlite).await.expect("documents");
        let costs = measure_documents(&sqlite, &Steps(sqlite.clone())).await;
        check(&costs.expect("calls")).expect("bounded");
    });
}
