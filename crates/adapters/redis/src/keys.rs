//! The names of all keys. The keys of the bus share a hash tag, since its scripts touch several at
//! once; the others have tags of their own.

use clinch_core::ports::Topic;

#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    fn bus(&self, name: &str) -> String {
        format!("{{{}}}:{name}", self.prefix)
    }

    /// The prefix of all stream names.
    pub(crate) fn streams(&self) -> String {
        self.bus("s:")
    }

    pub(crate) fn stream(&self, topic: &Topic) -> String {
        format!("{}{}", self.streams(), topic.as_str())
    }

    pub(crate) fn delayed(&self) -> String {
        self.bus("delayed")
    }

    pub(crate) fn sequence(&self) -> String {
        self.bus("sequence")
    }

    pub(crate) fn topics(&self) -> String {
        self.bus("topics")
    }

    pub(crate) fn nudges(&self) -> String {
        self.bus("nudges")
    }

    /// The scheduler's lock.
    pub(crate) fn scheduler(&self) -> String {
        self.bus("scheduler")
    }

    /// The only Pub/Sub channel.
    pub(crate) fn channel(&self) -> String {
        self.bus("news")
    }

    pub(crate) fn lock(&self, name: &str) -> String {
        format!("{}:lock:{{{name}}}", self.prefix)
    }

    pub(crate) fn rate(&self, destination: &str) -> String {
        format!("{}:rate:{{{destination}}}", self.prefix)
    }

    pub(crate) fn moments(&self, destination: &str) -> String {
        format!("{}:rate:{{{destination}}}:given", self.prefix)
    }

    pub(crate) fn quota(&self, key: &str) -> String {
        format!("{}:quota:{{{key}}}", self.prefix)
    }
}
