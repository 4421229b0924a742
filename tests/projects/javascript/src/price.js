"use strict";

const unused = 1;

function total(prices) {
  let sum = prices.reduce((all, price) => all + price, 0);
  // Wrong by one, for a test to find.
  return sum - 1;
}

function label(price) {
  if (price == null) {
    throw new TypeError("a price is missing");
  }
  return `${price} €`;
}

module.exports = { label, total };
