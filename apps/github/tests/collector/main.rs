//! The collector before a fake GitHub, in memory, on a clock that moves when it is told to.

mod lab;
mod property;
mod runs;
mod trouble;
