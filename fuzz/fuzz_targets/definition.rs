//! Any text is an agent definition or is refused, in little time and memory; one that was read makes
//! a role.
#![no_main]

use cofferdam_core::definition::CheckedDefinition;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(agent) = CheckedDefinition::parse(text) {
        assert!(agent.role(None).is_ok());
        let _ = agent.role(Some("a/b.py"));
        let _ = agent.needs_target();
    }
});
