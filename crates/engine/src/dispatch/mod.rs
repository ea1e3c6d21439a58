//! From the queue rows to the bus. A store that is its own bus needs none of this but the
//! sweeper's deadlines.

mod relay;
