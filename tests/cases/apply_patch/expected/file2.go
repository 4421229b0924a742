package main
var z = 1
