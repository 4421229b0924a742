//! Lists, a page at a time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ErrorData;
use rmcp::model::{CacheScope, PaginatedRequestParams};
use uuid::Uuid;

/// The number of items of a page. Some clients never ask for a second one.
const PAGE_ITEMS: usize = 500;

/// Lists depend on the role, and on what is granted here.
pub(super) const SCOPE: CacheScope = CacheScope::Private;

/// Returns the page after the item that the request's cursor names, and the next cursor.
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
            last.ok_or_else(|| no_cursor(&cursor))? + 1
        }
    };
    let rest = &items[start..];
    let page = &rest[..rest.len().min(PAGE_ITEMS)];
    let next = page.last().filter(|_| page.len() < rest.len()).map(name);
    Ok((page.to_vec(), next))
}

/// Lists that are costly to make, kept for clients that read them by pages.
pub(super) struct Listings<T>(Mutex<VecDeque<Listing<T>>>);

struct Listing<T> {
    id: String,
    role: Option<String>,
    items: Arc<[T]>,
}

/// The maximum number of kept lists. Beyond it, the oldest one is removed.
const MAX_LISTINGS: usize = 8;

impl<T> Default for Listings<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Listings<T> {
    /// Returns the first page of a role's list, which is kept if there is another one.
    pub(super) fn first(&self, role: Option<&str>, items: Vec<T>) -> (Vec<T>, Option<String>) {
        if items.len() <= PAGE_ITEMS {
            return (items, None);
        }
        let listing = Listing {
            id: Uuid::new_v4().to_string(),
            role: role.map(str::to_owned),
            items: items.into(),
        };
        let first = listing.page(0);
        let mut listings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listings.push_back(listing);
        if listings.len() > MAX_LISTINGS {
            listings.pop_front();
        }
        first
    }

    /// Returns the page of a role's list that a cursor names.
    ///
    /// # Errors
    /// A cursor that names no item, or one of a list that is no longer kept.
    pub(super) fn next(
        &self,
        role: Option<&str>,
        cursor: &str,
    ) -> Result<(Vec<T>, Option<String>), ErrorData> {
        let listings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = cursor.split_once(':').and_then(|(id, start)| {
            let of_role =
                |listing: &&Listing<T>| listing.id == id && listing.role.as_deref() == role;
            let listing = listings.iter().find(of_role)?;
            let start = start.parse().ok().filter(|start| *start <= listing.items.len())?;
            Some(listing.page(start))
        });
        named.ok_or_else(|| no_cursor(cursor))
    }
}

impl<T: Clone> Listing<T> {
    fn page(&self, start: usize) -> (Vec<T>, Option<String>) {
        let rest = &self.items[start..];
        let end = rest.len().min(PAGE_ITEMS);
        let next = (end < rest.len()).then(|| format!("{}:{}", self.id, start + end));
        (rest[..end].to_vec(), next)
    }
}

fn no_cursor(cursor: &str) -> ErrorData {
    let message = format!("the cursor {cursor:?} is not one of this list; begin without a cursor");
    ErrorData::invalid_params(message, None)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn pages_hold_every_item_once() {
        for count in [0, 1, PAGE_ITEMS - 1, PAGE_ITEMS, PAGE_ITEMS + 1, 3 * PAGE_ITEMS] {
            let items: Vec<String> = (0..count).map(|number| format!("tool{number:04}")).collect();
            let mut found = Vec::new();
            let mut request = None;
            loop {
                let (page, next) = page(&items, request, String::clone).unwrap();
                assert!(page.len() <= PAGE_ITEMS);
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

    #[test]
    fn a_listing_is_made_once_for_all_of_its_pages() {
        let listings = Listings::default();
        for count in [0, 1, PAGE_ITEMS, PAGE_ITEMS + 1, 3 * PAGE_ITEMS] {
            let items: Vec<usize> = (0..count).collect();
            let (mut found, mut cursor) = listings.first(Some("a"), items.clone());
            while let Some(next) = cursor {
                assert!(listings.next(None, &next).is_err());
                assert!(listings.next(Some("b"), &next).is_err());
                let (page, more) = listings.next(Some("a"), &next).unwrap();
                assert!(!page.is_empty() && page.len() <= PAGE_ITEMS);
                found.extend(page);
                cursor = more;
            }
            assert_eq!(found, items);
        }
        let (_, cursor) = listings.first(None, vec![0; 2 * PAGE_ITEMS]);
        let cursor = cursor.unwrap();
        let id = cursor.split_once(':').unwrap().0;
        for wrong in ["", "a", ":", &format!("{id}:x"), &format!("{id}:-1"), &format!("{id}:1001")]
        {
            let error = listings.next(None, wrong).unwrap_err();
            assert!(error.message.contains(&format!("{wrong:?}")), "{error:?}");
        }
        for _ in 0..MAX_LISTINGS {
            assert!(listings.next(None, &cursor).is_ok());
            listings.first(None, vec![0; 2 * PAGE_ITEMS]);
        }
        assert!(listings.next(None, &cursor).is_err());
    }
}
