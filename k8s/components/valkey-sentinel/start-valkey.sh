#!/bin/sh
# Starts one server of a set that Sentinels watch.
#
#   NODE       name or address of this server, by which the others reach it
#   NODES      all servers, separated by spaces; the first one is the primary when no Sentinel knows another
#   SENTINELS  the Sentinels
#   NAME       name of the primary at the Sentinels
#   BIND, DATA, MAXMEMORY
set -eu

# Prints the host of the primary, as a Sentinel knows it.
find_primary() {
  for sentinel in $SENTINELS; do
    primary=$(timeout 2 valkey-cli -h "$sentinel" -p 26379 --raw \
      SENTINEL get-master-addr-by-name "$NAME" 2>/dev/null | head -n 1) || true
    if [ -n "$primary" ]; then
      echo "$primary"
      return
    fi
  done
}

primary=$(find_primary)
primary=${primary:-${NODES%% *}}
if [ "$primary" = "$NODE" ]; then replicaof=; else replicaof="--replicaof $primary 6379"; fi
# Jobs must never be evicted; a restart keeps those of the last second. Without a password the server would serve only its
# own pod: the network policy protects it instead.
# shellcheck disable=SC2086
exec valkey-server --port 6379 --bind ${BIND:-*} --protected-mode no --dir "${DATA:-/data}" \
  --appendonly yes --save '' --maxmemory "${MAXMEMORY:-192mb}" --maxmemory-policy noeviction \
  --replica-announce-ip "$NODE" --repl-diskless-sync-delay 0 --repl-ping-replica-period 1 $replicaof
