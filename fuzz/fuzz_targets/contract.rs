//! Any text is read by a contract: a record that is called complete has every required field,
//! and a broken one has a reminder and is run again.
#![no_main]

use cofferdam_core::contract::{Action, Contract, Contracts, Turn};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let contracts = Contracts::built_in().expect("the built-in contracts");
    for contract in contracts.iter() {
        let parsed = contract.parse(text);
        let is_there = |name: &String| parsed.record.contains_key(name);
        let has_all = contract.fields.iter().all(|field| !field.required || is_there(&field.name));
        assert!(!parsed.is_complete() || has_all, "{parsed:?}");
        assert_eq!(contract.reminder(&parsed).is_none(), parsed.problems.is_empty());
        let next = contract.next(&parsed, Turn::default());
        assert_eq!(next.action == Action::Retry, !parsed.is_complete());
    }
    if let Ok(contract) = Contract::from_toml(text) {
        let _ = contract.check();
    }
});
