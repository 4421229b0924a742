"use strict";

function total(prices) {
  return prices.reduce((all, price) => all + price, 0;
}

module.exports = { total };
