//! What can be set.

use crate::{ApiUrl, Schedule, Token};

/// How the collector works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The API: GitHub, GitHub Enterprise or a test server.
    pub api_url: ApiUrl,
    /// Whose budgets are spent; without any, the small one of nobody.
    pub tokens: Vec<Token>,
    /// Items of one page, at most 100.
    pub page_size: u32,
    /// Requests at once.
    pub concurrency: usize,
    /// Users that are collected by the clock.
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
