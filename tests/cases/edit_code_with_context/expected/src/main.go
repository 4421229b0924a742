package main

import "fmt"

func init() {
	fmt.Println(1)
}

func main() {
	new code
	more code
	fmt.Println(2)
}
