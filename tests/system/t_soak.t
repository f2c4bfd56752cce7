#!/bin/bash
# Twenty minutes with a fault chosen by chance each minute.
# long: twenty minutes
exec bash "$(dirname "$0")/../bench/soak.sh"
