//! `cofferdam script`: runs a Python script by one call of `python.run_python`.

use serde_json::{Map, Value, json};

use super::args::{Call, Global, Script};
use super::output::Output;
use super::{CliError, call, setup};

pub fn execute(global: &Global, args: &Script, output: &Output) -> Result<u8, CliError> {
    let Script { file, input, check, role, dry_run, narrowed, printed } = args;
    let code = setup::read_input(file)?;
    let inputs = input.iter().map(|text| variable(text)).collect::<Result<Map<_, _>, _>>()?;
    let check = if *check { "only" } else { "before" };
    let arguments = json!({ "code": code, "inputs": inputs, "check": check });
    let call = Call {
        printed: printed.clone(),
        tool: "python.run_python".to_owned(),
        args: arguments.to_string(),
        role: role.clone(),
        dry_run: *dry_run,
        narrowed: narrowed.clone(),
    };
    call::make(global, &call, true, output)
}

/// The variable that `NAME=VALUE` stands for.
fn variable(text: &str) -> Result<(String, Value), CliError> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| CliError::usage(format!("--input {text}: it has the form NAME=VALUE")))?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_input_is_json_or_else_a_text() {
        for (text, name, value) in [
            ("a=1", "a", json!(1)),
            ("a=[1, null]", "a", json!([1, null])),
            ("a=src/x.py", "a", json!("src/x.py")),
            ("a=", "a", json!("")),
            ("a=b=c", "a", json!("b=c")),
        ] {
            assert_eq!(variable(text).unwrap(), (name.to_owned(), value));
        }
        assert!(variable("a").is_err());
    }
}
