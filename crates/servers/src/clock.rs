//! Waiting for something outside this process: the only place here that sleeps.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);

/// Asks until the answer is yes. False if it never was.
pub(crate) fn wait_until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if start.elapsed() >= limit {
            return false;
        }
        // tidy: allow(banned-calls) another program's start cannot be waited for in any other way
        std::thread::sleep(PAUSE);
    }
}
