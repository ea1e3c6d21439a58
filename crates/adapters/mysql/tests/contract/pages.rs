//! The SQL of `outbox.md` and `mysql.md` in the guide, taken from the pages and run on a real
//! server (CORE-9, CORE-18).

use mysql_async::prelude::Queryable;

use crate::common::{self, Database, on_a_runtime};

const OUTBOX: &str = include_str!("../../../../../docs/guide/outbox.md");
const MYSQL: &str = include_str!("../../../../../docs/guide/mysql.md");

/// The `sql` blocks of a page.
fn blocks(page: &str) -> Vec<&str> {
    let parts = page.split("```sql\n").skip(1);
    parts
        .map(|part| part.split("```").next().unwrap_or_default())
        .collect()
}

/// What the procedure returned last on this connection.
async fn accepted(conn: &mut mysql_async::Conn) -> (Vec<u8>, i64) {
    let row = conn.query_first("SELECT @op_id, @is_new").await;
    row.expect("the server answers").expect("a row")
}

fn core_9_the_statements_of_the_outbox_page_name_one_operation() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let mut conn = database.conn().await;
        let table = "CREATE TABLE donation (number bigint PRIMARY KEY, amount bigint NOT NULL)";
        conn.query_drop(table).await.expect("a table");
        let [block] = blocks(OUTBOX)[..] else {
            panic!("one block");
        };
        conn.query_drop(block).await.expect("the page's SQL");
        let first = accepted(&mut conn).await;
        assert_eq!(first.1, 1);
        let donations: Option<i64> = conn
            .query_first("SELECT amount FROM donation WHERE number = 7")
            .await
            .expect("the server answers");
        assert_eq!(donations, Some(5_000));
        // The same with parameters, as the drivers send it.
        let (_, statement) = OUTBOX
            .split_once("`CALL clinch_accept(?")
            .expect("a statement");
        let (statement, _) = statement.split_once('`').expect("its end");
        let statement = format!("CALL clinch_accept(?{statement}");
        let keys = (
            "donations",
            "notify",
            "donation-7",
            "notify",
            "{\"amount\":5000}",
        );
        let called = conn.exec_drop(statement, keys).await;
        called.expect("the page's statement");
        assert_eq!(accepted(&mut conn).await, (first.0, 0));
    });
}

fn core_9_the_sql_of_the_page_about_mariadb_runs() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let mut conn = database.conn().await;
        let name = &database.name;
        // Users belong to the server, which other tests share.
        let users = [format!("'{name}_a'@'%'"), format!("'{name}_b'@'%'")];
        let make = format!(
            "CREATE OR REPLACE USER {}, {}; CREATE TABLE orders (number bigint)",
            users[0], users[1]
        );
        conn.query_drop(make).await.expect("users");
        let blocks = blocks(MYSQL);
        assert_eq!(blocks.len(), 3);
        for block in &blocks {
            let block = block
                .replace("shop.", &format!("{name}."))
                .replace("'clinch'@'%'", &users[0])
                .replace("'shop'@'%'", &users[1]);
            let ran = conn.query_drop(&block).await;
            ran.unwrap_or_else(|error| panic!("{error}\n{block}"));
        }
        assert_eq!(accepted(&mut conn).await.1, 1);
        let drop = format!("DROP USER {}, {}", users[0], users[1]);
        conn.query_drop(drop).await.expect("dropped");
    });
}

clinch_contract::tests! {
    core_9_the_statements_of_the_outbox_page_name_one_operation,
    core_9_the_sql_of_the_page_about_mariadb_runs,
}
