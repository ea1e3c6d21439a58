//! A test alert to `dead_letter.alert_url`, only if it is asked for.

use std::sync::Arc;

use clinch_core::ports::Clock;
use clinch_system::SystemClock;

use super::{Finding, Subject};
use crate::executors::Http;

/// Sends one alert with the code `test`, without a retry.
pub(super) fn send_test(subject: &Subject) -> Finding {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let sent = subject.runtime.block_on(async {
        let outlets = Http::new(subject.config.clone(), clock)?.outlets()?;
        match outlets.alerts {
            Some(receiver) => receiver
                .post(clinch_server::test_alert())
                .await
                .map(|()| true),
            None => Ok(false),
        }
    });
    match sent {
        Ok(true) => Finding::ok("dead_letter.alert_url took the test alert"),
        Ok(false) => Finding::fail(
            "no test alert was sent: dead_letter.alert_url is empty",
            "set it to the address of your alert receiver",
        ),
        Err(error) => Finding::fail(
            format!(
                "dead_letter.alert_url did not take the test alert: {}",
                error.message()
            ),
            "check the address and its receiver",
        ),
    }
}
