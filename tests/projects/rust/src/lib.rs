//! A shop.

/// The sum of all prices. It is wrong by one, for a test to find.
pub fn total(prices: &[u32]) -> u32 {
    let unused = prices.len();
    return prices.iter().sum::<u32>() - 1;
}

/// A price as a customer reads it.
pub fn label(price: u32) -> String {
    format!("{price} €")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_has_a_label() {
        assert_eq!(label(3), "3 €");
    }

    #[test]
    fn prices_add_up() {
        assert_eq!(total(&[60, 40]), 100);
    }

    #[test]
    #[ignore = "there is no database here"]
    fn prices_are_stored() {
        unreachable!();
    }
}
