"use strict";

module.exports = [
  {
    files: ["**/*.js"],
    languageOptions: { sourceType: "commonjs" },
    rules: {
      "no-unused-vars": "error",
      "prefer-const": "error",
      eqeqeq: "warn",
    },
  },
];
