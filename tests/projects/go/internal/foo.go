// Package internal describes totals.
package internal

import (
	"strconv"
)

var (
	currency = "EUR"
	x        = 1
)

// Describe is a total as a customer reads it.
func Describe(total int) string {
	return strconv.Itoa(total) + " " + currency
}
