//! The writer of donations is killed again and again: ADR-010's first line of "fail if wrong".
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use clinch_testbed::{Kind, database, sql};

const KILLS: usize = 10;
/// Each writer begins here, so that what a kill left half done is never done again.
const APART: i64 = 1_000_000;

/// Starts a writer and kills it after so many commits; the numbers that it was told are in.
fn give_and_kill(url: &str, from: i64, commits: usize) -> BTreeSet<i64> {
    let mut writer = Command::new(env!("CARGO_BIN_EXE_donation"))
        .args([url, "give", &from.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(writer.stdout.take().expect("piped")).lines();
    let number = |line: std::io::Result<String>| {
        let line = line.expect("a line");
        let number = line.strip_prefix("given ").expect("a commit");
        number.parse().expect("a number")
    };
    let mut given: BTreeSet<i64> = lines.by_ref().take(commits).map(number).collect();
    writer.kill().expect("killed");
    writer.wait().expect("gone");
    // What it said before the kill came to it.
    given.extend(lines.map(number));
    given
}

fn numbers(kind: Kind, url: &str, text: &str) -> BTreeSet<i64> {
    let rows = sql(kind, url, text).expect("rows");
    let number = |row: &str| {
        let digits = row.trim_start_matches("donation-");
        digits.parse().expect("a number")
    };
    rows.lines().map(number).collect()
}

fn kills(kind: Kind) {
    let url = database(kind).expect("a database of its own");
    let mut said = BTreeSet::new();
    for kill in 0..KILLS {
        let from = 1 + APART * i64::try_from(kill).expect("small");
        said.extend(give_and_kill(&url, from, 3 + kill));
    }
    let donations = numbers(kind, &url, "SELECT number FROM donation");
    let keys = match kind {
        Kind::Postgres => "SELECT biz_key FROM clinch_queue",
        _ => "SELECT r.biz_key FROM clinch_request r JOIN clinch_queue q ON q.seq = r.seq",
    };
    let operations = numbers(kind, &url, keys);
    assert_eq!(
        donations, operations,
        "a row without its operation, or the other way round"
    );
    assert!(said.is_subset(&donations), "a commit that was told is lost");
    assert!(
        donations.iter().all(|number| number % 3 != 0),
        "rolled back, and there"
    );
    assert!(donations.len() >= KILLS * 3);
    println!(
        "{kind}: {} donations, {} of them told before the kill, {KILLS} kills",
        donations.len(),
        said.len()
    );
}

#[test]
fn out_1_kills_of_the_writer_leave_both_rows_or_neither_on_postgres() {
    kills(Kind::Postgres);
}

#[test]
fn out_1_kills_of_the_writer_leave_both_rows_or_neither_on_mariadb() {
    kills(Kind::MariaDb);
}
