//! Settings of the collector.

use crate::{ApiUrl, Schedule, Token};

/// Settings of the collector.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The API: GitHub, GitHub Enterprise or a test server.
    pub api_url: ApiUrl,
    /// Tokens whose budgets are used; without any, the small anonymous budget.
    pub tokens: Vec<Token>,
    /// Items per page, at most 100.
    pub page_size: u32,
    /// Maximum concurrent requests.
    pub concurrency: usize,
    /// Users that are collected on a schedule.
    pub schedule: Vec<Schedule>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            api_url: ApiUrl::default(),
            tokens: Vec::new(),
            page_size: 100,
            concurrency: 8,
            schedule: Vec::new(),
        }
    }
}
