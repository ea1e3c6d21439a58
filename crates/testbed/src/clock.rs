//! Waiting for something outside this process: the only place here that sleeps.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);

/// Asks until the answer is yes. False if it never was.
pub fn wait_until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let start = Stopwatch::start();
    loop {
        if is_so() {
            return true;
        }
        if start.elapsed() >= limit {
            return false;
        }
        pause(PAUSE);
    }
}

/// Lets time pass for a proof whose length is its point, such as an outage of a minute.
pub fn let_pass(lasting: Duration) {
    pause(lasting);
}

/// Lets time pass for other programs.
pub(crate) fn pause(lasting: Duration) {
    // tidy: allow(banned-calls) another program cannot be waited for in any other way
    std::thread::sleep(lasting);
}

/// Time since it was started.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
