//! Finds tools by words, for clients that don't read the whole list.

use super::manifest::Tool;
use super::registry::ToolEntry;
use cofferdam_core::name::ToolName;

/// Returns the tools that match any word of `query`, the best first: those that match more words
/// come first, then matches in the name count more than in the title, and those more than in the
/// description. Equal matches are in the order of names.
pub fn search<'a>(tools: impl Iterator<Item = &'a ToolEntry>, query: &str) -> Vec<&'a ToolEntry> {
    let query = Words::of(query);
    let mut found: Vec<((usize, u32), ToolName, &ToolEntry)> = tools
        .filter_map(|entry| {
            let rank = rank(&entry.plugin.manifest.name, entry.tool(), &query)?;
            Some((rank, entry.qualified_name(), entry))
        })
        .collect();
    found.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    found.into_iter().map(|(_, _, entry)| entry).collect()
}

fn rank<S>(plugin: &str, tool: &Tool<S>, query: &Words) -> Option<(usize, u32)> {
    let (name, title) = (tool.name.as_str(), tool.title.as_str());
    query.rank(name, [(16, name), (8, plugin), (4, title), (1, &tool.description)])
}

/// The words that are searched for.
pub struct Words(Vec<String>);

impl Words {
    /// The words of a query.
    pub fn of(query: &str) -> Self {
        Self(words(query))
    }

    /// Whether the query has no words.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many words match something called `name`, and the weight of the matches in its texts, each
    /// with the weight of a match in it; `None` without a match.
    pub fn rank<const N: usize>(
        &self,
        name: &str,
        texts: [(u32, &str); N],
    ) -> Option<(usize, u32)> {
        let places = texts.map(|(weight, text)| (weight, words(text)));
        let name = name.to_lowercase();
        let fit = |word: &String| -> u32 {
            let in_places = places.iter().map(|(weight, words)| {
                let best = words.iter().map(|other| u32::from(alike(other, word))).max();
                weight * best.unwrap_or(0)
            });
            in_places.sum::<u32>() + if name == *word { 64 } else { 0 }
        };
        let fits: Vec<u32> = self.0.iter().map(fit).filter(|fit| *fit > 0).collect();
        (!fits.is_empty()).then(|| (fits.len(), fits.iter().sum()))
    }
}

/// Returns 2 for the word itself, 1 for a word that begins with it.
fn alike(other: &str, word: &str) -> u8 {
    if other == word { 2 } else { u8::from(other.starts_with(word)) }
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        // Single letters, such as the word `a`, are too common.
        .filter(|word| word.chars().nth(1).is_some())
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn tool(name: &str, title: &str, description: &str) -> Tool<()> {
        Tool {
            name: name.to_owned(),
            title: title.to_owned(),
            description: description.to_owned(),
            effects: cofferdam_core::policy::Files::None,
            agents: false,
            done: String::new(),
            dialect: cofferdam_core::envelope::Dialect::Tool,
            input: (),
            output: (),
            failure: None,
            fallbacks: std::collections::BTreeMap::new(),
            repeats: None,
            examples: Vec::new(),
        }
    }

    #[test]
    fn a_name_counts_more_than_a_title_and_that_more_than_a_description() {
        let query = Words::of("Read");
        let ranks = [
            rank("files", &tool("read", "Lines", "Numbers"), &query),
            rank("files", &tool("read_file", "A file", "Text"), &query),
            rank("read", &tool("glob", "Names", "Finds"), &query),
            rank("files", &tool("glob", "Read names", "Finds"), &query),
            rank("files", &tool("glob", "Names", "To read"), &query),
            rank("files", &tool("glob", "Names", "Reads"), &query),
            rank("files", &tool("glob", "Names", "Bread"), &query),
        ];
        assert!(ranks.iter().rev().is_sorted(), "{ranks:?}");
        assert!(ranks[5].is_some() && ranks[6].is_none(), "{ranks:?}");
    }

    #[test]
    fn more_words_come_before_better_ones() {
        let query = Words::of("apply patch");
        let both = rank("edit", &tool("other", "x", "applies: apply a patch"), &query).unwrap();
        let one = rank("edit", &tool("patch", "Patch", "patch"), &query).unwrap();
        assert!(both > one, "{both:?} {one:?}");
        assert_eq!(rank("edit", &tool("patch", "Patch", "patch"), &Words::of("")), None);
    }
}
