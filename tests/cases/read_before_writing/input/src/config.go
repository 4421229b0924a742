package config

const Port = 8080
