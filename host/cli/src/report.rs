//! `cofferdam report`: summarizes the verification reports of agents.

use std::io::{self, Read as _};
use std::sync::Arc;

use cofferdam_report_format::Wave;
use cofferdam_report_format::place::ROOT;
use cofferdam_report_format::summary::{File, Filter, Overview};

use super::args::{Global, ReportCommand, ReportFormat, WaveName};
use super::output::Output;
use super::{CliError, exit, setup};
use cofferdam_workspace::{Listed, Overlay};

/// The largest report that is read, in bytes.
const MAX_REPORT_BYTES: u64 = 16 << 20;

/// How many directories deep the reports are: `reports/phase-3/wave-1/code-reviewer.json`.
const REPORT_DEPTH: usize = 2;

pub fn execute(global: &Global, command: &ReportCommand, output: &Output) -> Result<u8, CliError> {
    let ReportCommand::Summary { shown, phase, wave } = command;
    let workspace = setup::workspace(global)?;
    let wave = wave.map(|wave| match wave {
        WaveName::First => Wave::Wave1,
        WaveName::Second => Wave::Wave2,
    });
    let mut files = Vec::new();
    collect(workspace.plain(), ROOT, REPORT_DEPTH, &mut files)?;
    let overview = Overview::new(files, &Filter { phase: *phase, wave });
    output.report(shown, &overview, |format| match format {
        ReportFormat::Markdown => overview.to_markdown(),
        ReportFormat::Html => overview.to_html(),
        ReportFormat::Json | ReportFormat::Text => overview.to_text(),
    })?;
    Ok(exit::OK)
}

/// The JSON files below the folders of phases, sorted by name. Symbolic links are not followed.
fn collect(
    tree: &Arc<Overlay>,
    directory: &str,
    depth: usize,
    files: &mut Vec<File>,
) -> Result<(), CliError> {
    let mut entries = match tree.list(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && directory == ROOT => return Ok(()),
        entries => entries.map_err(|error| CliError::host(error).at(directory))?,
    };
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    for Listed { name, kind, .. } in entries {
        let Some(name) = name.to_str() else { continue };
        let path = format!("{directory}/{name}");
        let is_phase = directory != ROOT || name.starts_with("phase-");
        if kind.is_dir() && depth > 0 && is_phase {
            collect(tree, &path, depth - 1, files)?;
        } else if kind.is_file() && directory != ROOT && name.ends_with(".json") {
            let contents = read(tree, &path).map_err(|error| error.to_string());
            files.push(File { path, contents });
        }
    }
    Ok(())
}

fn read(tree: &Arc<Overlay>, path: &str) -> io::Result<Vec<u8>> {
    let (file, _) = tree.open_read(path)?;
    let mut contents = Vec::new();
    // Reading one byte more than allowed shows that the file is too large.
    file.take(MAX_REPORT_BYTES + 1).read_to_end(&mut contents)?;
    if contents.len() as u64 > MAX_REPORT_BYTES {
        return Err(io::Error::other(format!("larger than {} MiB", MAX_REPORT_BYTES >> 20)));
    }
    Ok(contents)
}
