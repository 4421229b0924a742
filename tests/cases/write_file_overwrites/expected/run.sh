#!/bin/sh
echo ü