//! Chooses the fixes that are offered together.
//!
//! Ruff puts fixes into a group if they break the program when applied together, such as those that
//! remove all statements of a block. Callers that apply fixes do not know groups, so only one fix
//! of each group is offered; the others are offered when the file is linted again.

use std::collections::HashMap;

/// The properties of a fix that could be offered.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// Whether the fix keeps the meaning of the program.
    pub is_safe: bool,
    /// Its group in this file, if any.
    pub group: Option<u32>,
}

/// Whether each fix is offered: of a group, the first safe one, or else the first.
pub fn offered(candidates: &[Option<Candidate>]) -> Vec<bool> {
    let mut chosen: HashMap<u32, (usize, bool)> = HashMap::new();
    for (index, candidate) in candidates.iter().enumerate() {
        let Some(Candidate { is_safe, group: Some(group) }) = *candidate else { continue };
        let (chosen, chosen_is_safe) = chosen.entry(group).or_insert((index, is_safe));
        if is_safe && !*chosen_is_safe {
            (*chosen, *chosen_is_safe) = (index, true);
        }
    }
    let is_offered = |(index, candidate): (usize, &Option<Candidate>)| match candidate {
        Some(Candidate { group: Some(group), .. }) => chosen[group].0 == index,
        Some(Candidate { group: None, .. }) => true,
        None => false,
    };
    candidates.iter().enumerate().map(is_offered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_fix_of_a_group_is_offered_preferably_a_safe_one() {
        let fix = |is_safe, group| Some(Candidate { is_safe, group });
        for (candidates, wanted) in [
            (&[][..], &[][..]),
            (&[None, fix(true, None), fix(false, None)], &[false, true, true]),
            (&[fix(true, Some(1)), fix(true, Some(1)), fix(true, Some(2))], &[true, false, true]),
            (&[fix(false, Some(1)), fix(true, Some(1)), fix(true, Some(1))], &[false, true, false]),
            (&[fix(false, Some(1)), fix(false, Some(1))], &[true, false]),
        ] {
            assert_eq!(offered(candidates), wanted, "{candidates:?}");
        }
    }
}
