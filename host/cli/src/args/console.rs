//! Arguments of `console`.

use clap::Args;

#[derive(Debug, Args)]
pub struct Console {
    /// Listen at this port of 127.0.0.1; without it, at a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Only print the address, and open no browser
    #[arg(long)]
    pub no_open: bool,
}
