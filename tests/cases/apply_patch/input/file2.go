package main
var y = 1
var z = 1
