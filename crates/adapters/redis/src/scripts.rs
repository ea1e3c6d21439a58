//! The scripts, by name.

use redis::Script;

macro_rules! script {
    ($($file:literal),+) => {
        Script::new(concat!(include_str!("../lua/prelude.lua"), $(include_str!(concat!("../lua/", $file))),+))
    };
}

pub(crate) struct Scripts {
    pub(crate) publish: Script,
    pub(crate) take: Script,
    pub(crate) ack: Script,
    pub(crate) nack: Script,
    pub(crate) extend: Script,
    pub(crate) leave: Script,
    pub(crate) depth: Script,
    pub(crate) tick: Script,
    pub(crate) lock_take: Script,
    pub(crate) lock_release: Script,
    pub(crate) rate_reserve: Script,
    pub(crate) rate_pause: Script,
    pub(crate) rate_resume: Script,
    pub(crate) quota_reserve: Script,
    pub(crate) quota_update: Script,
    pub(crate) age: Script,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            publish: script!("publish.lua"),
            take: script!("take.lua"),
            ack: script!("ack.lua"),
            nack: script!("nack.lua"),
            extend: script!("extend.lua"),
            leave: script!("leave.lua"),
            depth: script!("depth.lua"),
            tick: script!("tick.lua"),
            lock_take: script!("lock_take.lua"),
            lock_release: script!("lock_release.lua"),
            rate_reserve: script!("rate_reserve.lua"),
            rate_pause: script!("rate_pause.lua"),
            rate_resume: script!("rate_resume.lua"),
            quota_reserve: script!("quota.lua", "quota_reserve.lua"),
            quota_update: script!("quota.lua", "quota_update.lua"),
            age: script!("age.lua"),
        }
    }
}
