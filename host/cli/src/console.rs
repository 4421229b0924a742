//! `cofferdam console`: serves the local web page, and opens it in the user's browser.

use std::env;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use tempfile::NamedTempFile;

use super::args::{Console, Global};
use super::output::Output;
use super::{CliError, exit, policy, setup};
use cofferdam_console::Settings;

/// What opens a file as the user's desktop does. On others than macOS only where there is a desktop: in a
/// terminal, it could start a browser there.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// The variables that say that there is a desktop.
const DESKTOP: [&str; 2] = ["WAYLAND_DISPLAY", "DISPLAY"];

pub fn execute(global: &Global, args: &Console, output: &Output) -> Result<u8, CliError> {
    let runtime = setup::current_thread_runtime()?;
    let mut interruption = setup::interruption(&runtime)?;
    let of_permissions = global.clone();
    let settings = Settings {
        workspace: Arc::new(setup::workspace(global)?),
        permissions: Box::new(move || {
            policy::permissions(&of_permissions).map_err(|error| error.to_string())
        }),
        port: args.port,
    };
    let opens = !args.no_open && has_desktop();
    // It is removed when the command ends.
    let page = Arc::new(Mutex::new(None));
    let (printing, opened) = (*output, Arc::clone(&page));
    let ready = Box::new(move |address: String| {
        if let Err(error) = printing.text(&format!("{address}\n")) {
            tracing::warn!("the address can't be printed: {error}");
        }
        if opens {
            match open(&address) {
                Ok(file) => {
                    if let Ok(mut page) = opened.lock() {
                        *page = Some(file);
                    }
                }
                Err(error) => tracing::warn!("no browser was opened: {error}"),
            }
        }
    });
    runtime.block_on(async {
        tokio::select! {
            served = cofferdam_console::serve(settings, ready) => {
                served.map(|()| exit::OK).map_err(|error| {
                    CliError::usage(error).at(format!("127.0.0.1:{}", args.port))
                })
            }
            _ = interruption.wait_for(|interrupted| *interrupted) => Ok(exit::OK),
        }
    })
}

fn has_desktop() -> bool {
    cfg!(target_os = "macos")
        || DESKTOP.iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Opens a page that leads to the address: other users of the machine see the arguments of programs, and
/// the address has the token.
fn open(address: &str) -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("cofferdam-").suffix(".html").tempfile()?;
    // The address has only digits, letters and `:/?=`.
    writeln!(
        file,
        "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0; url={address}\">\
         <title>Cofferdam</title><a href=\"{address}\">Open the console</a>"
    )?;
    let mut command = Command::new(OPENER);
    command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn()?;
    Ok(file)
}
