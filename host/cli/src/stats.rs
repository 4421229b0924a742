//! `cofferdam stats`: metrics of the recorded calls.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use super::args::{self, Global, ReportFormat};
use super::output::Output;
use super::{CliError, exit, setup};
use cofferdam_engine::journal::{Journal, Lines, rotated};
use cofferdam_engine::stats::{Filter, Stats};

/// The first bytes of a gzip file.
const GZIP_MAGIC: &[u8] = b"\x1f\x8b";

pub fn execute(global: &Global, args: &args::Stats, output: &Output) -> Result<u8, CliError> {
    let since =
        args.since.as_deref().map(|since| since_when(since, Timestamp::now())).transpose()?;
    let mut stats = Stats::new(Filter { since, tool: args.tool.clone() });
    if args.log_file.is_empty() {
        let journal = Journal::new(Arc::new(setup::workspace(global)?));
        for (name, lines) in journal.files()? {
            stats.read(&name, lines)?;
        }
    }
    for file in &args.log_file {
        read(&mut stats, file).map_err(|error| CliError::usage(error).at(file.display()))?;
    }
    let summary = stats.summary();
    let title = match &args.tool {
        None => "Tool calls".to_owned(),
        Some(tool) => format!("Tool calls: {tool}"),
    };
    output.report(&args.shown, &summary, |format| match format {
        ReportFormat::Markdown => summary.to_markdown(&title),
        ReportFormat::Html => summary.to_html(&title),
        ReportFormat::Json | ReportFormat::Text => summary.to_text(),
    })?;
    Ok(if args.check && !summary.alerts.is_empty() { exit::ALERT } else { exit::OK })
}

/// Reads a log and its rotated files, or standard input for `-`.
fn read(stats: &mut Stats, file: &Path) -> io::Result<()> {
    if file == Path::new("-") {
        return stats.read("standard input", Lines::new(io::stdin().lock()));
    }
    let text = |path: &Path| path.to_str().map(str::to_owned);
    let name = file.file_name().and_then(|name| text(Path::new(name)));
    let name = name.ok_or_else(|| io::Error::other("no file"))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let names: Vec<String> = folder
        .read_dir()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        // The file itself is always read: if it is missing, that is an error.
        .filter(|other| *other != name)
        .collect();
    let names = names.iter().map(String::as_str).chain([name.as_str()]);
    for name in rotated(&name, names) {
        let path = folder.join(name);
        let mut source = BufReader::new(File::open(&path)?);
        if io::BufRead::fill_buf(&mut source)?.starts_with(GZIP_MAGIC) {
            let hint = "compressed; unpack it: `zcat FILE | cofferdam stats --log-file -`";
            return Err(io::Error::other(format!("{}: {hint}", path.display())));
        }
        stats.read(&path.display().to_string(), Lines::new(source))?;
    }
    Ok(())
}

/// Parses a point in time, a day (its start in UTC), or a duration before `now`.
fn since_when(text: &str, now: Timestamp) -> Result<Timestamp, CliError> {
    let ago = |span: Span| now.to_zoned(TimeZone::UTC).checked_sub(span).ok();
    let time = text.parse::<Timestamp>().ok();
    let day = || Some(text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let span = || Some(ago(text.parse::<Span>().ok()?.abs())?.timestamp());
    time.or_else(day).or_else(span).ok_or_else(|| {
        CliError::usage(format!(
            "--since '{text}': write a time (2026-02-08T10:30:00Z), a day (2026-02-08) or how long ago (24h, 7 days)"
        ))
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn since_is_a_time_a_day_or_a_span() {
        let now: Timestamp = "2026-02-08T10:30:00Z".parse().unwrap();
        for (text, wanted) in [
            ("2026-02-01T00:00:00+01:00", Some("2026-01-31T23:00:00Z")),
            ("2026-02-01", Some("2026-02-01T00:00:00Z")),
            ("24h", Some("2026-02-07T10:30:00Z")),
            ("90 min", Some("2026-02-08T09:00:00Z")),
            ("7 days", Some("2026-02-01T10:30:00Z")),
            ("7d", Some("2026-02-01T10:30:00Z")),
            ("PT1H", Some("2026-02-08T09:30:00Z")),
            ("yesterday", None),
            ("", None),
            ("2026-02-30", None),
            ("24", None),
        ] {
            let found = since_when(text, now).map(|time| time.to_string());
            assert_eq!(found.ok().as_deref(), wanted, "{text}");
        }
    }
}
