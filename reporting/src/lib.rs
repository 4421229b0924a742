//! Documents for people, and the verification reports of agents. Pure: text in, text out; shared
//! by the host and the plugin `report`.
//!
//! | module | what |
//! |---|---|
//! | [`inert`] | how characters are shown that could do more than be read |
//! | [`markdown`] | plain text and tables as Markdown |
//! | [`page`], [`chart`] | a web page that loads nothing and runs nothing; charts in it |
//! | [`verification`] | what an agent reports, how it is checked, shown and summed up |

pub mod chart;
pub mod inert;
pub mod markdown;
pub mod page;
pub mod verification;
