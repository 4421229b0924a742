//! Arguments of `submit`, and those of the queue of a fleet.

use std::path::PathBuf;

use clap::Args;

/// How the queue of a fleet is reached.
#[derive(Debug, Args)]
pub struct QueueArgs {
    /// The NATS server with the queue of the fleet: nats://HOST:PORT or tls://HOST:PORT, several with commas
    /// between them. Credentials come from NATS_TOKEN, NATS_USER and NATS_PASSWORD, or NATS_CREDS (a file)
    #[arg(long, value_name = "ADDRESS", requires = "queue_secret")]
    pub queue: Option<String>,
    /// The file of the secret that all hosts and clients of the queue share: 32 bytes or more
    #[arg(long, value_name = "FILE", requires = "queue")]
    pub queue_secret: Option<PathBuf>,
    /// Allow an unencrypted connection to a queue on another machine
    #[arg(long, requires = "queue")]
    pub queue_unencrypted: bool,
}

#[derive(Debug, Args)]
pub struct Submit {
    /// The workspace, by its name in the store
    #[arg(value_name = "WORKSPACE")]
    pub name: String,
    /// The envelope; - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
    /// The address of a host, or of a balancer in front of several
    #[arg(long, value_name = "URL", conflicts_with = "queue", required_unless_present = "queue")]
    pub url: Option<String>,
    #[command(flatten)]
    pub queue: QueueArgs,
    /// What identifies the envelope: it is run once under its key, however often it is submitted; without
    /// this, a new key, which an error names
    #[arg(long)]
    pub key: Option<String>,
    /// The role of its calls
    #[arg(long)]
    pub role: Option<String>,
    /// The file of the token for --url
    #[arg(long, value_name = "FILE", requires = "url")]
    pub token_file: Option<PathBuf>,
    /// How long to wait for the result, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub wait: u64,
}
