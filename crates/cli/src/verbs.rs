//! The verbs, one file each: arguments and what is done with them.

pub(crate) mod campaign_merge;
pub(crate) mod campaign_run;
pub(crate) mod campaign_show;
pub(crate) mod campaign_warnings;
pub(crate) mod demo;
pub(crate) mod policies;
pub(crate) mod report;
pub(crate) mod simulate;
pub(crate) mod trace_convert;
pub(crate) mod trace_generate;
pub(crate) mod trace_info;
