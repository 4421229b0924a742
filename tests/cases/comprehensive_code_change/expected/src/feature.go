package feature
