#!/bin/sh
# Puts together what the images hold of each service: below OUT/<service>/dependencies the manifests and node_modules,
# below OUT/<service>/sources the code. Both become the folder /app.
#
#   assemble.sh dependencies|sources ARCHITECTURE WORKSPACE OUT
set -eu

readonly part=$1 architecture=$2 workspace=$3 out=$4
readonly services='api delivery-worker scheduler device-gateway dashboard cli sandbox'

install_dependencies() {
  app="$out/$1/dependencies"
  mkdir -p "$out/$1"
  cp -R "$workspace" "$app"
  cd "$app"
  # Offline: `pnpm fetch` has put every package of the lockfile into the store.
  CI=true /pnpm/pnpm install --prod --offline --frozen-lockfile --filter "@carillon/$1..." \
    --os=linux --cpu="$cpu" --libc=glibc --config.package-import-method=copy --reporter=append-only
  # Times and paths of this installation, and programs that only a shell could run.
  rm -rf node_modules/.modules.yaml node_modules/.pnpm-workspace-state*.json node_modules/.pnpm/lock.yaml
  find . -type d -name .bin -prune -exec rm -rf {} +
  # Packages that the service does not import got no dependencies.
  for package in packages/* services/*; do
    if [ ! -d "$package/node_modules" ]; then rm -rf "$package"; fi
  done
  # The console's pages are built in a stage of their own and need no dependencies then.
  rm -rf services/dashboard/web
  rm -f pnpm-lock.yaml pnpm-workspace.yaml
  chmod -R a+rX "$app"
  find "$app" -exec touch --no-dereference --date=@0 {} +
}

copy_sources() {
  app="$out/$1/sources"
  mkdir -p "$app"
  cd "$out/$1/dependencies"
  for package in packages/* services/*; do
    mkdir -p "$app/$package"
    cp -R "$workspace/$package/src" "$workspace/$package/package.json" "$app/$package/"
  done
  # The sandbox serves the files of browsers.
  if [ "$1" = sandbox ]; then cp -R "$workspace/packages/web-client" "$app/packages/"; fi
  # The console serves the runbooks of the alerts.
  if [ "$1" = dashboard ]; then
    mkdir -p "$app/docs/run"
    cp -R "$workspace/docs/run/runbooks" "$app/docs/run/"
  fi
  mkdir -p "$app/deploy/image"
  cp "$workspace/deploy/image/healthcheck.mjs" "$app/deploy/image/"
  if [ "$1" = cli ]; then cp "$workspace"/deploy/image/*.mjs "$app/deploy/image/"; fi
  NODE_NO_WARNINGS=1 node "$workspace/deploy/image/build/strip-types.mjs" "$app"
  chmod -R a+rX "$app"
  find "$app" -exec touch --no-dereference --date=@0 {} +
}

case "$architecture" in
  amd64) cpu=x64 ;;
  *) cpu=$architecture ;;
esac
for service in $services; do
  case "$part" in
    dependencies) install_dependencies "$service" ;;
    sources) copy_sources "$service" ;;
  esac
done
