//! A month's invoices as one batch: its end is told once, whatever fails on the way.
#![forbid(unsafe_code)]

use std::time::Duration;

use clinch::types::{Batch, Builder};
use clinch::{Backend, Call, Clinch, Fail, Route};

/// Takes the customer's number, gives the invoice's.
fn invoice() -> Route<u32, String> {
    Route::new("billing", "invoice").natural()
}

/// Takes the month. Accepted in the commit that completes the batch.
fn report() -> Route<String, String> {
    Route::new("billing", "report").natural()
}

fn with_handlers(builder: Builder) -> Builder {
    builder
        .handle(&invoice(), |call: Call<u32>| async move {
            if call.input % 10 == 9 {
                return Err(Fail::new("no_address", "the customer has no address"));
            }
            Ok(format!("invoice-{}", call.input))
        })
        .handle(&report(), |call: Call<String>| async move {
            Ok::<_, Fail>(format!("report of {}", call.input))
        })
}

async fn invoice_all(clinch: &Clinch, month: &str, customers: u32) -> clinch::Result<Batch> {
    let month = month.to_owned();
    let report = report().request(&month, "report", &month);
    let batch = clinch.batch(Some(report)).await?;
    let requests = (0..customers).map(|n| invoice().request(format!("customer-{n}"), &month, &n));
    for accepted in batch.add(requests.collect()).await? {
        accepted?;
    }
    batch.seal().await?;
    Ok(batch)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> clinch::Result<()> {
    let builder = Clinch::builder().backend(Backend::memory());
    let clinch = with_handlers(builder).build()?;
    let batch = invoice_all(&clinch, "2026-11", 100).await?;
    while clinch.pump(100).await?.executed > 0 {}
    let done = batch.look().await?;
    println!("{} invoices, {} failed", done.completed, done.failed);
    let report_of = report().request("2026-11", "report", &"2026-11".to_owned());
    let told = clinch.start(report_of, Duration::from_secs(2)).await?;
    println!("the end was told: {}", told.settled().is_some());
    Ok(())
}

#[cfg(test)]
mod tests {
    use clinch::testing;

    use super::*;

    #[tokio::test]
    async fn col_10_the_end_is_told_once_also_when_some_failed() {
        let test = testing::start(with_handlers(Clinch::builder())).expect("it starts");
        let batch = invoice_all(&test.clinch, "2026-11", 100)
            .await
            .expect("accepted");
        test.advance(Duration::from_secs(60)).await;
        let done = batch.look().await.expect("there");
        assert_eq!((done.total, done.completed, done.failed), (100, 90, 10));
        let request = report().request("2026-11", "report", &"2026-11".to_owned());
        let told = test
            .clinch
            .start(request, Duration::ZERO)
            .await
            .expect("known");
        assert!(told.replayed(), "the batch accepted it");
        let report = test.assert_completed(&report(), told.op_id()).await;
        assert_eq!(report.value, "report of 2026-11");
    }
}
