package main

// Moved.

import "fmt"

func init() {
	fmt.Println(1)
}

func main() {
	old code
	fmt.Println(2)
}
