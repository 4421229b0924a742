package main
var x = 1
