package config

const Port = 9090
