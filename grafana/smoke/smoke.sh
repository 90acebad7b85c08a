#!/usr/bin/env bash
# Does a real Grafana load the dashboards as they are? ./smoke.sh [GRAFANA_VERSION], for example ./smoke.sh 10.4.19
# Needs docker with compose, curl and jq. It was not run where this project is tested: no Grafana could be had there.
set -euo pipefail
cd "$(dirname "$0")"
export GRAFANA_VERSION=${1:-latest}
base=http://127.0.0.1:3000

docker compose up --detach
trap 'docker compose down --volumes' EXIT
curl --silent --fail --retry 60 --retry-delay 1 --retry-all-errors --output /dev/null "$base/api/health"
# Provisioned dashboards come some seconds after the API.
curl --silent --fail --retry 30 --retry-delay 1 --retry-all-errors --output /dev/null "$base/api/dashboards/uid/llm-anatomy"

failed=0
for file in ../dashboards/*.json; do
  uid=$(basename "$file" .json)
  expected=$(jq '.panels | length' "$file")
  loaded=$(curl --silent --fail "$base/api/dashboards/uid/$uid" | jq '.dashboard.panels | length') || loaded=none
  echo "$uid: $loaded of $expected panels and rows"
  [ "$loaded" = "$expected" ] || failed=1
done
if docker compose logs grafana | grep -E 'level=error.*(dashboard|provisioning)'; then
  failed=1
fi
version=$(curl --silent "$base/api/health" | jq --raw-output .version)
echo "Grafana $version: $([ "$failed" = 0 ] && echo ok || echo FAILED). To look at it: $base/d/llm-anatomy (this script ends it: press Enter)"
if [ -t 0 ]; then read -r; fi
exit "$failed"
