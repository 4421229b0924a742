"use strict";

const { label, total } = require("../src/price");

describe("price", () => {
  test("has a label", () => {
    expect(label(3)).toBe("3 €");
  });

  test("should handle errors", () => {
    expect(() => label(null)).toThrow("missing");
  });

  test("adds up", () => {
    expect(total([60, 40])).toBe(100);
  });

  test.skip("is stored", () => {
    throw new Error("there is no database here");
  });
});
