package main

// Moved.

import "fmt"

func init() {
	fmt.Println(1)
}

func main() {
	new code
	fmt.Println(2)
}
