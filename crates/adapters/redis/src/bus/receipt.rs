//! The receipt of a delivery: the entry, its delivery count at the server, and its loan.

use std::time::Duration;

use clinch_core::ports::{Receipt, Topic};

use crate::millis;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loan {
    pub(crate) id: String,
    pub(crate) deliveries: u32,
    pub(crate) visibility_ms: u64,
    pub(crate) topic: Topic,
}

impl Loan {
    pub(crate) fn receipt(&self) -> Receipt {
        let Self {
            id,
            deliveries,
            visibility_ms,
            topic,
        } = self;
        let topic = topic.as_str();
        Receipt(format!("{id}/{deliveries}/{visibility_ms}/{topic}"))
    }

    /// `None` for a receipt that this bus never issued.
    pub(crate) fn parse(receipt: &Receipt) -> Option<Self> {
        let mut parts = receipt.0.splitn(4, '/');
        let id = parts.next().filter(|id| is_id(id))?.to_owned();
        Some(Self {
            id,
            deliveries: parts.next()?.parse().ok()?,
            visibility_ms: parts.next()?.parse().ok()?,
            topic: Topic::parse(parts.next()?)?,
        })
    }

    /// The idle time to set so that the loan ends after `visibility`. A loan cannot become longer
    /// than it was at first.
    pub(crate) fn idle_ms(&self, visibility: Duration) -> u64 {
        self.visibility_ms.saturating_sub(millis(visibility))
    }
}

fn is_id(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts = text.split_once('-');
    parts.is_some_and(|(time, number)| digits(time) && digits(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_comes_back_as_it_was_given() {
        let loan = Loan {
            id: "1700000000000-3".into(),
            deliveries: 2,
            visibility_ms: 30_000,
            topic: Topic::parse("pay:ments/bank").expect("a topic"),
        };
        assert_eq!(Loan::parse(&loan.receipt()), Some(loan.clone()));
        assert_eq!(loan.idle_ms(Duration::from_secs(30)), 0);
        assert_eq!(loan.idle_ms(Duration::from_secs(90)), 0);
        assert_eq!(loan.idle_ms(Duration::from_secs(10)), 20_000);
        for bad in [
            "",
            "1-1",
            "1-1/1/1/",
            "x-1/1/1/a",
            "1-1/x/1/a",
            "1-1 2/1/1/a",
        ] {
            assert_eq!(Loan::parse(&Receipt(bad.into())), None, "{bad}");
        }
    }
}
