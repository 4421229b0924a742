"use strict";

// Wrong by one, for a test to find.
exports.total = (prices) => prices.reduce((all, price) => all + price, 0) - 1;
