#!/usr/bin/env bash
# join.sh FROM TO lets the controller of one cluster read another: see usage. It needs kubectl only. The token goes through pipes and
# variables, never into an argument, which others on this machine could see, nor into a file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
namespace=multicluster-system account=multicluster-peer label=clusterset-dns.io/peer leaving=clusterset-dns.io/leaving

usage() {
  cat <<'EOF'
deploy/join.sh [OPTION]... FROM TO

Lets the cluster TO import what the cluster FROM exports. FROM and TO are contexts of the kubeconfig, and both have the controller
(kubectl apply -k deploy/controller). For both directions run it a second time, with the contexts swapped.

In FROM it applies deploy/peer, an account that may list and watch what peers read, unless the chart has brought that, and makes a
token of it for this reader: the Secret multicluster-peer-<id of TO>. In TO it makes the Secret <id of FROM> with a kubeconfig for that token. Both are in the
namespace multicluster-system. Run again, it mends what is missing and leaves the rest as it is.

  --leave             take all that back: TO reads FROM no longer. The account goes with its last token, unless it is the chart's
  --server URL        FROM's API server as the pods of TO reach it, where that is not what the kubeconfig says: 127.0.0.1, a bastion
  --ca FILE           the certificate authority of that server, in PEM, where it is not the kubeconfig's
  --id ID             FROM's cluster id, where the controller there does not announce one
  --to-id ID          the same for TO
  --timeout SECONDS   how long to wait for the token; 30 unless given
  --help              show this
EOF
}

fail() {
  printf 'join.sh: %s\n' "$*" >&2
  exit 1
}

from='' to='' leave='' server='' ca_file='' id='' to_id='' timeout=30

parse() {
  while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
      usage
      exit
      ;;
    --leave) leave=yes ;;
    --server | --ca | --id | --to-id | --timeout)
      [ -n "${2:-}" ] || fail "$1 needs a value; see --help"
      case $1 in
      --server) server=$2 ;;
      --ca) ca_file=$2 ;;
      --id) id=$2 ;;
      --to-id) to_id=$2 ;;
      --timeout) timeout=$2 ;;
      esac
      shift
      ;;
    -*) fail "no option $1; see --help" ;;
    *)
      [ -z "$to" ] || fail "two contexts are wanted, FROM and TO, and «$1» is a third; see --help"
      if [ -z "$from" ]; then from=$1; else to=$1; fi
      ;;
    esac
    shift
  done
  [ -n "$to" ] || fail "two contexts are wanted, FROM and TO; see --help"
  [[ $timeout =~ ^[0-9]+$ ]] || fail "--timeout is a number of seconds, not «$timeout»"
}

# at CONTEXT ARG...: kubectl there.
at() { kubectl --context "$@"; }

known_context() {
  local contexts
  contexts=$(kubectl config get-contexts -o name)
  grep -qFx -- "$1" <<<"$contexts" || fail "the kubeconfig has no context «$1»; it has: $(paste -sd' ' - <<<"$contexts")"
}

# cluster_id CONTEXT GIVEN OPTION: the id that the controller there announces on its namespace, or else the one that was given.
cluster_id() {
  local found announced
  found=$(at "$1" get namespace "$namespace" --ignore-not-found \
    -o jsonpath='{.metadata.name} {.metadata.annotations.clusterset-dns\.io/cluster-id}') || fail "cannot ask the cluster of context $1"
  [ -n "$found" ] || fail "there is no controller in $1, as there is no namespace $namespace: kubectl --context $1 apply -k deploy/controller${leave:+, or give its id with $3}"
  announced=${found#"$namespace "}
  [ -n "$announced$2" ] || fail "the controller in $1 does not announce its cluster's id: see that it runs (kubectl --context $1 get pods -n $namespace), and that it has one (--cluster-id, or the ClusterProperty), or give the id with $3"
  [ -z "$2" ] || [ -z "$announced" ] || [ "$2" = "$announced" ] || fail "the controller in $1 announces the id $announced, and $3 says $2: leave it out, or change --cluster-id there"
  valid_id "${announced:-$2}" "$1"
  printf %s "${announced:-$2}"
}

# valid_id ID CONTEXT: an id is a DNS name, and the value of a label.
valid_id() {
  local part='[a-z0-9]([-a-z0-9]*[a-z0-9])?'
  [[ $1 =~ ^$part(\.$part)*$ ]] || fail "«$1» in $2 is no cluster id: that is lower case letters, digits, - and ., and begins and ends with a letter or digit"
  [ ${#1} -le 63 ] || fail "the cluster id «$1» in $2 has ${#1} characters, and the value of a label has 63 at most: give that cluster a shorter one"
}

unlike() {
  [ "$id" = "$to_id" ] || return 0
  local uids
  uids=$(for context in "$from" "$to"; do at "$context" get namespace kube-system -o jsonpath='{.metadata.uid}{"\n"}'; done | sort -u)
  [[ $uids == *$'\n'* ]] || fail "$from and $to are one cluster, $id: no cluster is its own peer"
  fail "$from and $to are two clusters, and both have the id $id: give one of them another with --cluster-id"
}

# field NAME: of the cluster of context FROM in the kubeconfig; files that it names are read.
field() { kubectl config view --raw --minify --flatten --context "$from" -o "jsonpath={.clusters[0].cluster.$1}"; }

server_name='' ca=''

find_server() {
  if [ -z "$server" ]; then
    server=$(field server)
    server_name=$(field tls-server-name)
  fi
  [[ $server =~ ^https://[^[:space:]\"\\]+$ ]] || fail "the API server «$server» of $from is no https:// URL: give one with --server"
  if [ -n "$ca_file" ]; then
    grep -q '^-----BEGIN CERTIFICATE-----' "$ca_file" || fail "$ca_file is no certificate in PEM"
    ca=$(base64 <"$ca_file" | tr -d '\n')
  else
    ca=$(field certificate-authority-data)
  fi
  [ -n "$ca" ] || fail "the kubeconfig has no certificate authority for $from: give its file with --ca"
  case ${server#https://} in
  127.* | localhost | localhost[:/]* | \[::1\]* | 0.0.0.0*)
    echo "join.sh: warning: $server is this machine's own address. Where $to does not run on it as well, pods there reach another machine, or nothing: give --server" >&2
    ;;
  esac
}

# make CONTEXT: applies the text that comes in. Server-side: otherwise an annotation would repeat the token, for describe to show.
make() { at "$1" apply --server-side --force-conflicts --field-manager=join.sh -f - >/dev/null; }

token_secret() { printf %s "$account-$to_id"; }

# called ID CONTEXT: a cluster for a reader, who may know it by either.
called() { if [ "$1" = "$2" ]; then printf %s "$1"; else printf '%s (%s)' "$1" "$2"; fi; }

# managers: a word for each object of deploy/peer that is there and that a tool has labelled as its own: Helm, where a release has brought
# it. It stays the release's: to apply it as well would warn, each time, that it was not made that way, and make Helm and kubectl contend
# for its fields.
managers() { at "$from" get -k "$here/peer" --ignore-not-found -o jsonpath='{..metadata.labels.app\.kubernetes\.io/managed-by}'; }

make_account() {
  local uid brought_by
  brought_by=$(managers) || fail "cannot ask the cluster of context $from for the account $account"
  [ "$brought_by" = 'Helm Helm Helm' ] || at "$from" apply -k "$here/peer" >/dev/null
  echo "$(called "$id" "$from"): the account $account may list and watch what peers read"
  uid=$(at "$from" get serviceaccount "$account" -n "$namespace" -o jsonpath='{.metadata.uid}')
  drop_stale_token "$uid"
  make "$from" <<EOF
apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata:
  name: $(token_secret)
  namespace: $namespace
  annotations: {kubernetes.io/service-account.name: $account}
EOF
}

# drop_stale_token UID: a token of an account that was deleted since does not work for the account of today.
drop_stale_token() {
  local of
  of=$(at "$from" get secret "$(token_secret)" -n "$namespace" --ignore-not-found -o jsonpath='{.metadata.annotations.kubernetes\.io/service-account\.uid}')
  [ -z "$of" ] || [ "$of" = "$1" ] || at "$from" delete secret "$(token_secret)" -n "$namespace" --ignore-not-found >/dev/null
}

token=''

await_token() {
  local until=$((SECONDS + timeout))
  while true; do
    token=$(at "$from" get secret "$(token_secret)" -n "$namespace" -o go-template='{{with .data}}{{with .token}}{{base64decode .}}{{end}}{{end}}')
    [ -z "$token" ] || break
    [ $SECONDS -lt $until ] || fail "the Secret $namespace/$(token_secret) in $from got no token in $timeout s. kube-controller-manager fills it, with its serviceaccount-token-controller: see that it runs in $from"
    sleep 0.5
  done
  echo "$(called "$id" "$from"): the Secret $(token_secret) holds the token for $to_id; to delete it takes access back"
}

# kubeconfig is written by printf, not by cat: bash may put such a text into a file for a moment.
kubeconfig() {
  printf '%s\n' "apiVersion: v1
kind: Config
clusters:
  - name: \"$id\"
    cluster:
      server: \"$server\"
      certificate-authority-data: \"$ca\"${server_name:+
      tls-server-name: \"$server_name\"}
users:
  - name: $account
    user: {token: \"$token\"}
contexts:
  - name: \"$id\"
    context: {cluster: \"$id\", user: $account}
current-context: \"$id\""
}

# not_foreign: a Secret that has FROM's id for a name by chance is not overwritten.
not_foreign() {
  local found
  # shellcheck disable=SC2016 # a template's variables
  found=$(at "$to" get secret "$id" -n "$namespace" --ignore-not-found -o go-template='{{.metadata.name}}{{range $key, $value := .metadata.labels}} {{$key}}{{end}}')
  [ -z "$found" ] || [[ " $found " == *" $label "* ]] ||
    fail "$to has a Secret $namespace/$id without the label $label: it is not a peer's, and stays as it is. Delete it, or give $from another id"
}

make_peer() {
  printf '%s\n' "apiVersion: v1
kind: Secret
metadata:
  name: \"$id\"
  namespace: $namespace
  labels: {$label: \"\"}
data:
  kubeconfig: $(kubeconfig | base64 | tr -d '\n')" | make "$to"
  mark "$leaving-" # of a --leave that did not finish
  echo "$(called "$to_id" "$to"): the Secret $id leads to $server"
  cat <<EOF
$to_id reads $id. How that goes, and what is wrong where it does not:
  kubectl --context $to get leases -n $namespace -l $label -L clusterset-dns.io/connected -L clusterset-dns.io/reason
EOF
}

# mark ANNOTATION: on the peer's Secret and Lease in TO, where they are. Without the mark, a Secret that is deleted counts as an accident: the
# controller keeps everything from the peer for a minute, or for ten where it did not run. The Lease tells it that it was none.
mark() { at "$to" annotate secrets,leases -n "$namespace" -l "$label" --field-selector "metadata.name=$id" --overwrite "$1" >/dev/null; }

join() {
  known_context "$from"
  known_context "$to"
  id=$(cluster_id "$from" "$id" --id)
  to_id=$(cluster_id "$to" "$to_id" --to-id)
  unlike
  find_server
  not_foreign
  make_account
  await_token
  make_peer
}

# leave: each side is cleaned also where the other does not answer, or is no more; then its id has to be given.
leave() {
  local undone=''
  if [ -z "$id" ]; then
    known_context "$from"
    id=$(cluster_id "$from" '' --id)
  fi
  if [ -z "$to_id" ]; then
    known_context "$to"
    to_id=$(cluster_id "$to" '' --to-id)
  fi
  valid_id "$id" "$from"
  valid_id "$to_id" "$to"
  # The reader first: without its token it would report an error.
  if mark "$leaving=true" && at "$to" delete secrets -n "$namespace" -l "$label" --field-selector "metadata.name=$id" >/dev/null; then
    echo "$(called "$to_id" "$to"): no Secret $id: it reads $id no longer"
  else
    undone+=" kubectl --context $to annotate secrets,leases -n $namespace -l $label --field-selector metadata.name=$id $leaving=true; kubectl --context $to delete secret -n $namespace $id;"
  fi
  if at "$from" delete secret -n "$namespace" --ignore-not-found "$(token_secret)" >/dev/null; then
    echo "$(called "$id" "$from"): no Secret $(token_secret): the token of $to_id is void"
    drop_account || undone+=" deploy/join.sh --leave once more, for the account $account in $from;"
  else
    undone+=" kubectl --context $from delete secret -n $namespace $(token_secret);"
  fi
  [ -z "$undone" ] || fail "one side did not answer. What is left to do there:$undone"
}

# drop_account removes the account where no token is left, not even one that somebody made by hand. Where any of it is a Helm release's,
# all of it stays: a part that kubectl brought back is that account's, too.
drop_account() {
  local left brought_by
  left=$(at "$from" get secrets -n "$namespace" --field-selector type=kubernetes.io/service-account-token \
    -o go-template='{{range .items}}{{if eq (index .metadata.annotations "kubernetes.io/service-account.name") "'"$account"'"}}{{.metadata.name}} {{end}}{{end}}') || return
  [ -z "$left" ] || return 0
  brought_by=$(managers) || return
  [[ " $brought_by " != *' Helm '* ]] || return 0
  at "$from" delete -k "$here/peer" --ignore-not-found >/dev/null || return
  echo "$(called "$id" "$from"): no account $account: nobody has a token of it"
}

parse "$@"
command -v kubectl >/dev/null || fail "there is no kubectl in PATH"
if [ -n "$leave" ]; then leave; else join; fi
