// Package calculator adds prices.
package calculator

// Calculate is the total of two prices. It is wrong by one, for a test to find.
func Calculate(first, second int) int {
	return first + second - 1
}
