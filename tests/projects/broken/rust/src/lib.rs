//! A shop.

/// The sum of all prices.
pub fn total(prices: &[u32]) -> u32 {
    let unused = prices.len();
    some_function(prices);
    "nothing"
}
