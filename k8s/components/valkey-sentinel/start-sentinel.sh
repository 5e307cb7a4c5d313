#!/bin/sh
# Starts one Sentinel. It keeps what it knows in its configuration file.
#
#   NODE   name or address of this Sentinel, by which the others reach it
#   NODES  the servers, separated by spaces; the first one is the primary at the first start
#   NAME   name of the primary
#   BIND, DATA
set -eu

file="${DATA:-/data}/sentinel.conf"
if [ ! -e "$file" ]; then
  # A primary that does not respond for three seconds is replaced; with a longer time a failover takes more than ten.
  cat >"$file.new" <<END
port 26379
bind ${BIND:-*}
protected-mode no
dir ${DATA:-/data}
sentinel resolve-hostnames yes
sentinel announce-hostnames yes
sentinel announce-ip $NODE
sentinel monitor $NAME ${NODES%% *} 6379 2
sentinel down-after-milliseconds $NAME 3000
sentinel failover-timeout $NAME 10000
sentinel parallel-syncs $NAME 1
END
  mv "$file.new" "$file"
fi
exec valkey-server "$file" --sentinel
