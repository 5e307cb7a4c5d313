#!/bin/sh
# Starts one node of a cluster, and makes it part of the cluster: the first three nodes are the primaries at the first start,
# the others their replicas. Each start meets the other nodes again, because a pod that is replaced has another address.
#
#   NODE     name or address of this node
#   ADDRESS  its IP address
#   NODES    all nodes, separated by spaces: six, in an order that does not change
#   BIND, DATA, MAXMEMORY
set -eu

PRIMARIES=3
SLOTS=16384

own=0
for node in $NODES; do
  if [ "$node" = "$NODE" ]; then break; fi
  own=$((own + 1))
done

ask() {
  timeout 2 valkey-cli -h "$@" 2>/dev/null
}

# A node that serves slots, or is a replica, is left as it is: after a failover each may be in the place of the other.
take_part() {
  if [ "$own" -lt "$PRIMARIES" ]; then
    first=$((own * SLOTS / PRIMARIES))
    last=$(((own + 1) * SLOTS / PRIMARIES - 1))
    # Refused if a node serves them already.
    ask "$NODE" CLUSTER SET-CONFIG-EPOCH $((own + 1)) || true
    ask "$NODE" CLUSTER ADDSLOTSRANGE "$first" "$last" || true
    return
  fi
  if [ "$(ask "$NODE" --raw ROLE | head -n 1)" != master ]; then return; fi
  # shellcheck disable=SC2086
  set -- $NODES
  shift $((own - PRIMARIES))
  id=$(ask "$1" --raw CLUSTER MYID) || return 0
  # Refused while the node does not know its primary, and if it serves slots.
  ask "$NODE" CLUSTER REPLICATE "$id" || true
}

meet_others() {
  for node in $NODES; do
    if [ "$node" = "$NODE" ]; then continue; fi
    address=$(getent ahosts "$node" | awk '{ print $1; exit }')
    if [ -n "$address" ]; then ask "$NODE" CLUSTER MEET "$address" 6379 || true; fi
  done
}

join() {
  until [ "$(ask "$NODE" PING)" = PONG ]; do sleep 1; done
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
    take_part
    meet_others
    sleep 5
  done
}

join >/dev/null &
# A primary that does not respond for five seconds is replaced. One part without a primary must not stop the others. Clients
# get names, which outlive a pod.
exec valkey-server --port 6379 --bind "${BIND:-*}" --protected-mode no --dir "${DATA:-/data}" \
  --appendonly yes --save '' --maxmemory "${MAXMEMORY:-192mb}" --maxmemory-policy noeviction \
  --repl-diskless-sync-delay 0 \
  --cluster-enabled yes --cluster-config-file nodes.conf --cluster-node-timeout 5000 \
  --cluster-require-full-coverage no --cluster-announce-ip "$ADDRESS" \
  --cluster-announce-hostname "$NODE" --cluster-preferred-endpoint-type hostname
