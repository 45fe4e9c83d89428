#!/bin/sh
# A session with a partition over REST: admit, deny, explain, end. It needs only curl.
# Start the server in another terminal: ugm serve limits.yaml --decide-token-file token
# Then: sh session.sh http://127.0.0.1:8080 token
set -eu
partition="$1/api/v1/partition/default" token_file=$2

# Call an operation. Curl reads the token from a pipe, so it is not in the list of processes.
call() {
  printf 'Authorization: Bearer %s' "$(cat "$token_file")" |
    curl --silent --show-error --fail-with-body --retry 3 --header @- --json "$2" "$partition/$1"
}

# Print a field of an answer; programs use a parser of JSON.
field() { printf '%s\n' "$2" | sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p"; }

# Start work if it is admitted, and otherwise tell its owner why not.
start() {
  answer=$(call admit "{\"application_id\": \"$1\", \"user\": \"ana\", \"groups\": [\"lab\"], \"queue\": \"root.batch\",
    \"allocations\": [{\"allocation_id\": \"$1\", \"usage\": {\"memory\": \"$2\"}}]}") || { echo "$answer" >&2; exit 1; }
  case $answer in
    *'"admitted":true'*) echo "$1 starts" ;;
    *) echo "$1 does not start. $(field for_people "$answer")" ;;
  esac
}

start job-1 12Gi
start job-2 8Gi
answer=$(call explain '{"user": "ana", "groups": ["lab"], "queue": "root.batch", "usage": {"memory": "8Gi"}}')
printf '%b\n' "$(field text "$answer")"
call end '{"application_id": "job-1"}' >/dev/null && echo "job-1 has ended"
start job-2 8Gi
call end '{"application_id": "job-2"}' >/dev/null && echo "job-2 has ended"
answer=$(call end '{"application_id": ""}' 2>/dev/null) || echo "error $(field code "$answer"): $(field detail "$answer")"
