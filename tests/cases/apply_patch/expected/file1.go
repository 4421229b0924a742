package main
var x = 2
