//! Lists, a page at a time.

use rmcp::ErrorData;
use rmcp::model::{CacheScope, PaginatedRequestParams};

/// How many items a page has. Clients differ in whether they ask for a second one.
const PAGE: usize = 500;

/// Lists depend on who asks: on the role, and on what is granted here.
pub(super) const SCOPE: CacheScope = CacheScope::Private;

/// The page that begins after the item that the request's cursor names, and the next cursor.
///
/// # Errors
/// A cursor that names no item.
pub(super) fn page<T: Clone>(
    items: &[T],
    request: Option<PaginatedRequestParams>,
    name: impl Fn(&T) -> String,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let start = match request.and_then(|request| request.cursor) {
        None => 0,
        Some(cursor) => {
            let last = items.iter().position(|item| name(item) == cursor);
            last.ok_or_else(|| {
                let message = format!(
                    "the cursor {cursor:?} is not one of this list; begin without a cursor"
                );
                ErrorData::invalid_params(message, None)
            })? + 1
        }
    };
    let rest = &items[start..];
    let page = &rest[..rest.len().min(PAGE)];
    let next = page.last().filter(|_| page.len() < rest.len()).map(name);
    Ok((page.to_vec(), next))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn pages_hold_every_item_once() {
        for count in [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE] {
            let items: Vec<String> = (0..count).map(|number| format!("tool{number:04}")).collect();
            let mut found = Vec::new();
            let mut request = None;
            loop {
                let (page, next) = page(&items, request, String::clone).unwrap();
                assert!(page.len() <= PAGE);
                found.extend(page);
                if next.is_none() {
                    break;
                }
                request = Some(PaginatedRequestParams::default().with_cursor(next));
            }
            assert_eq!(found, items, "{count}");
        }
    }

    #[test]
    fn a_cursor_of_somebody_else_is_refused() {
        let request = PaginatedRequestParams::default().with_cursor(Some("elsewhere".to_owned()));
        let error = page::<String>(&[], Some(request), String::clone).unwrap_err();
        assert!(error.message.contains("elsewhere"), "{error:?}");
    }
}
