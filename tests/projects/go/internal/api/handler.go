// Package api answers requests.
package api

// Answer greets who asks.
func Answer(name string) string {
	name = name
	return "Hello, " + name
}
