#![allow(missing_docs, clippy::all, clippy::unwrap_used, clippy::expect_used)]
#[path = "../tests/common/mod.rs"]
mod common;
use clinch_core::ports::*;
use clinch_core::*;
use common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
fn payload(n: usize) -> String {
    format!(
        "{{\"n\":{n},\"amount\":1234,\"currency\":\"EUR\",\"to\":\"acct_{n:012}\",\"memo\":\"a typical small payload\"}}"
    )
}
fn op(n: usize) -> NewOperation {
    operation_of(keys("natural", n), &payload(n))
}
fn attempts(n: usize) -> Vec<AttemptId> {
    use clinch_core::ports::Ids;
    (0..n)
        .map(|_| clinch_system::SystemIds.attempt_id())
        .collect()
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let database = Database::new().await.unwrap();
    let store = database.store().await;
    let r = Arc::new(routes());
    let total: usize = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(100_000);
    let next = Arc::new(AtomicUsize::new(0));
    store
        .accept(&[op(next.fetch_add(1, Ordering::SeqCst))], &r)
        .await
        .unwrap();
    // groups of 16, one at a time
    let t = Instant::now();
    let rounds = 500;
    for _ in 0..rounds {
        let ops: Vec<_> = (0..16)
            .map(|_| op(next.fetch_add(1, Ordering::SeqCst)))
            .collect();
        store.accept(&ops, &r).await.unwrap();
    }
    println!(
        "accept groups of 16, one in flight: {:.0}/s ({:.2} ms a call)",
        rounds as f64 * 16.0 / t.elapsed().as_secs_f64(),
        t.elapsed().as_secs_f64() * 1e3 / rounds as f64
    );
    let t = Instant::now();
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (s, r, n) = (store.clone(), r.clone(), next.clone());
            tokio::spawn(async move {
                for _ in 0..100 {
                    s.accept(&[op(n.fetch_add(1, Ordering::SeqCst))], &r)
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for t in tasks {
        t.await.unwrap();
    }
    println!(
        "accept 16 callers, one each (no grouping): {:.0}/s",
        1600.0 / t.elapsed().as_secs_f64()
    );
    for (size, callers) in [(1000, 1), (1000, 2), (1000, 4)] {
        let t = Instant::now();
        let per = total / size / callers;
        let tasks: Vec<_> = (0..callers)
            .map(|_| {
                let (s, r, n) = (store.clone(), r.clone(), next.clone());
                tokio::spawn(async move {
                    for _ in 0..per {
                        let ops: Vec<_> = (0..size)
                            .map(|_| op(n.fetch_add(1, Ordering::SeqCst)))
                            .collect();
                        s.accept(&ops, &r).await.unwrap();
                    }
                })
            })
            .collect();
        for t in tasks {
            t.await.unwrap();
        }
        println!(
            "bulk accept {size} x {callers}: {:.0}/s",
            (per * size * callers) as f64 / t.elapsed().as_secs_f64()
        );
    }
    if std::env::args().nth(2).is_some() {
        let c = database.client().await;
        c.batch_execute(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM clinch_domain",
        )
        .await
        .unwrap();
        Box::leak(Box::new(c));
        println!("a snapshot is held from here");
    }
    // drain
    for (max, workers) in [(256, 2), (512, 4)] {
        let done = Arc::new(AtomicUsize::new(0));
        let t = Instant::now();
        let tasks: Vec<_> = (0..workers)
            .map(|w| {
                let (s, r, d) = (store.clone(), r.clone(), done.clone());
                tokio::spawn(async move {
                    let worker = worker(&format!("w{w}"));
                    while d.load(Ordering::Relaxed) < total {
                        let got = s
                            .dequeue(&Dequeue {
                                domains: vec![keys("natural", 0).domain],
                                max,
                                wait: Duration::ZERO,
                                visibility: Duration::from_secs(30),
                                worker: worker.clone(),
                                attempts: attempts(max),
                                routes: r.clone(),
                                only: r.clone(),
                            })
                            .await
                            .unwrap();
                        if got.is_empty() {
                            break;
                        }
                        let answers: Vec<_> = got
                            .iter()
                            .map(|g| Answer {
                                op_id: g.hint.op_id,
                                fence: Some(g.begun.as_ref().unwrap().state.fence),
                                worker: worker.clone(),
                                body: AnswerBody::Ok(StoredOk {
                                    provider_txn_id: Some(format!("txn_{}", g.hint.op_id)),
                                    result: Some(Sealed::new(
                                        b"{\"status\":\"succeeded\",\"balance\":1000}".to_vec(),
                                    )),
                                    spawn: vec![],
                                }),
                            })
                            .collect();
                        let n = answers.len();
                        s.settle(&answers, &r).await.unwrap();
                        d.fetch_add(n, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for t in tasks {
            t.await.unwrap();
        }
        println!(
            "drain with results, {workers} x {max}: {:.0}/s ({} rows)",
            done.load(Ordering::Relaxed) as f64 / t.elapsed().as_secs_f64(),
            done.load(Ordering::Relaxed)
        );
    }
    // latency accept+begin, settle
    let mut times = Vec::new();
    for _ in 0..300 {
        let mut o = op(next.fetch_add(1, Ordering::SeqCst));
        let t = Instant::now();
        o.begin = Some(BeginRequest {
            op_id: o.op_id,
            attempt_id: attempts(1)[0],
            worker: worker("x"),
            lease: Duration::from_secs(30),
        });
        let a = store.accept(&[o.clone()], &r).await.unwrap();
        let Accepted::New { state, .. } = &a[0] else {
            panic!()
        };
        store
            .settle(
                &[Answer {
                    op_id: o.op_id,
                    fence: Some(state.fence),
                    worker: worker("x"),
                    body: AnswerBody::Ok(StoredOk::default()),
                }],
                &r,
            )
            .await
            .unwrap();
        times.push(t.elapsed());
    }
    times.sort();
    println!(
        "submit to completed: p50 {:?} p99 {:?}",
        times[150], times[297]
    );
}
