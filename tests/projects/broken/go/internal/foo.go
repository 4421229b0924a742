// Package internal describes totals.
package internal

import (
	"strconv"
)

// Describe is a total as a customer reads it.
func Describe(total int) string {
	someFunc()
	return strconv.Itoa(total) + unit
}
