#!/usr/bin/env bash
# Predicted against measured step times on this machine (which should be quiet). Usage: local.sh [BUILD_FOLDER]
build=$(realpath "${1:-build/release}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 "$(dirname "$0")/local.py" "$build/ptc" "$folder"
