package main
var y = 3
