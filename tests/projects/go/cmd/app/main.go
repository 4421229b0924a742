// Command app prints a total.
package main

import (
	"fmt"

	"example.com/shop/internal"
	"example.com/shop/pkg/calculator"
)

func main() {
	fmt.Println(internal.Describe(calculator.Calculate(60, 40)))
}
